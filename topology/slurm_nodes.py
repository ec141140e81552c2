"""What Slurm says of its nodes: ``sinfo`` and ``scontrol show nodes``, as text and as JSON.

States have short forms (``drng``, ``alloc*``), long ones (``DRAINING``), complete ones (``IDLE+CLOUD+POWERED_DOWN``)
and, in JSON, are lists of words.  A table has any columns that have a node (or hostlist) and a state, with a header or
without.  A column of free text (``%E``, the reason) holds any number of words.  Where ``|`` stands between the columns
that does no harm.  Where blanks do, the columns before it are counted from the left end of a row and those behind it
from the right.  A row in which that leads to no node and state is refused: a node that is down must not get lost.

Generic resources give GPUs.  A node that stands in several partitions comes several times.  Slices of MIG are GPUs to
Slurm, told by their type alone (``gpu:1g.10gb:56``).  Shards (``shard:32``) and shares of MPS are nothing beside the
GPUs: each GPU is given away whole or in shards, so that a node of which nothing is in use has whole ones.

Source: the manual pages sinfo(1), "OUTPUT FIELD DESCRIPTIONS" and "NODE STATE CODES", scontrol(1) and gres.conf(5), and
``slurm_protocol_defs.c``.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from enum import IntEnum
from itertools import zip_longest
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, AliasPath, BaseModel, BeforeValidator, Field

from ground.documents import Document
from ground.errors import InvalidInput
from ground.files import Source
from ground.records import json_data
from topology.cluster import MAX_GPUS, MAX_NODES
from topology.flags import NodeFlag
from topology.node_gpus import NodeGpus, mig_gpus, mig_profile, mig_sharing, without_profile
from topology.node_names import expand_hostlist

_NODE_HEADERS = ("NODELIST", "NODE", "NODENAME", "HOSTNAMES", "NODE_ADDR")
_STATE_HEADERS = ("STATE", "STATECOMPACT", "STATELONG", "STATECOMPLETE")
_GRES_HEADERS = ("GRES", "TRES")
_PARTITION_HEADERS = ("PARTITION",)
_LOOSE_HEADERS = ("REASON", "RESERVATION", "COMMENT", "EXTRA")  # Columns of no word, or of several
_HEADER_WITHIN = 3  # A few lines of notes may stand before the header
_BESIDE = re.compile(r"CLUSTER: \S+|[A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8} (?:\S+ )?[0-9]{4}")
"""Lines of no table: ``sinfo -M`` prints the name of each cluster, ``sinfo --long`` the date."""

_BARS = re.compile(r"\|")
_BLANKS = re.compile(r"[\s|]+")
_COMMENT = re.compile(r"(?:^|\s)#[^|]*$")
_GPUS = re.compile(r"(?:^|,)(?:gres/)?gpu[:=(]")  # A bare word is as well the name of a partition or a feature
_GPUS_IN_USE = re.compile(r"\(IDX:")  # GresUsed: gpu:h100:3(IDX:0,2-3)
_SOCKETS = re.compile(r"\([^()]*\)")  # of generic resources: gpu:8(S:0-1)
_RECIPE = 'give `sinfo -N -h -o "%N %t %G"`'


class Use(IntEnum):
    """What a node is to a new gang, from best to worst: of several opinions the largest counts."""

    FREE = 0
    IN_USE = 1
    """Held by a job, a reservation or a plan, or on its way: time makes it free."""
    UNUSABLE = 2
    """Down, drained, failing, in maintenance, not there: work of an operator makes it free."""


_UNUSABLE = frozenset({
    "DOWN", "DRAIN", "DRAINED", "DRAINING", "DRNG", "POWER_DRAIN", "FAIL", "FAILING", "FAILG", "ERROR", "ERR",
    "FUTURE", "FUTR", "DYNAMIC_FUTURE", "UNKNOWN", "UNK", "INVAL", "INVALID", "INVALID_REG", "MAINT",
    "MAINTENANCE", "NOT_RESPONDING", "NO_RESPOND",
})  # fmt: skip
_IN_USE = frozenset({
    "ALLOC", "ALLOCATED", "MIX", "MIXED", "COMP", "COMPLETING", "RESV", "RESERVED", "PLND", "PLANNED", "BLOCK",
    "BLOCKED", "BOOT", "REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED", "REBOOT_CANCELED", "CANCEL_REBOOT",
    "CANC_R", "POW_UP", "POWER_UP", "POWERING_UP", "POW_DN", "POWER_DOWN", "POWERING_DOWN", "POWRING_DN",
    "NPC", "PERFCTRS", "EXT", "EXTERNAL", "RESUME", "UNDRAIN",
})  # fmt: skip
_OFF = frozenset({"POWERED_DOWN", "POWERED_DN"})
_USES = (
    dict.fromkeys({"IDLE", "CLOUD", "DYNAMIC_NORM"} | _OFF, Use.FREE)
    | dict.fromkeys(_IN_USE, Use.IN_USE)
    | dict.fromkeys(_UNUSABLE, Use.UNUSABLE)
)
_WORD = re.compile(r"([A-Z_]+)([*~#!%$@^-]*)")

# what the character after a state means; ~ (powered off) alone leaves an idle node free: Slurm starts it for a job
_MARKS = {"*": Use.UNUSABLE, "$": Use.UNUSABLE, "~": Use.FREE}


def use_of(words: Iterable[str]) -> Use:
    """Return what a state says, in one text or several words; a word that is not known counts as unusable."""
    worst, idle = Use.FREE, False
    for word in _split(words):
        match = _WORD.fullmatch(word)
        if match is None:
            return Use.UNUSABLE
        name, marks = match.groups()
        idle = idle or name == "IDLE"
        worst = max(worst, _USES.get(name, Use.UNUSABLE), *(_MARKS.get(mark, Use.IN_USE) for mark in marks))
    return worst if idle else max(worst, Use.IN_USE)


def powered_off(words: Iterable[str]) -> bool:
    """Return whether a state says that the node is powered off."""
    return any(word.endswith("~") or word in _OFF for word in _split(words))


_PLANNED = ("PLND", "PLANNED", "IDLE-")  # Idle, and planned for a job that waits
_RESERVED = ("RESV", "RESERVED", "MAINT", "MAINTENANCE")
_OF_JOBS = ("ALLOC", "ALLOCATED", "MIX", "MIXED", "COMP", "COMPLETING")


def planned_alone(words: Iterable[str]) -> bool:
    """Return whether a node is idle, and planned for a job that waits: free for one that ends before that starts."""
    split = _split(words)
    others = [word for word in split if word not in _PLANNED]
    return len(others) < len(split) and use_of(others or ["IDLE"]) is Use.FREE


def without_reservation(words: Iterable[str]) -> tuple[str, ...]:
    """Return the state that a node has to the jobs of the reservation that it is in."""
    split = _split(words)
    others = tuple(word for word in split if word not in _RESERVED)
    return others or (("IDLE",) if split else ())


def without_jobs(words: Iterable[str]) -> tuple[str, ...]:
    """Return the state that a node has when the jobs that it is said to have are gone."""
    return ("IDLE", *(word for word in _split(words) if word not in _OF_JOBS))


def is_state(text: str) -> bool:
    """Return whether a text is a state, in a spelling that is known."""
    matches = [_WORD.fullmatch(word) for word in _split([text])]
    return bool(matches) and all(match is not None and match[1] in _USES for match in matches)


def _split(words: Iterable[str]) -> list[str]:
    """Yield single words in capitals; ``alloc+`` (some jobs are completing) is allocated."""
    return [part for word in words for part in word.strip().upper().split("+") if part]


class TableRow(NamedTuple):
    """A row of a table: a node or hostlist, and what its columns say, ``None`` = there is no such column."""

    nodes: str
    state: str
    gres: str | None
    partition: str | None  # the default one ends in *
    place: str


class _Line(NamedTuple):
    """A line cut into fields, none where it is a comment, and what stands behind ``#``."""

    place: str
    fields: tuple[str, ...]
    comment: str

    @property
    def words(self) -> list[str]:
        return [*self.fields, *self.comment.split()]


class _Columns(NamedTuple):
    """Where the fields of a row stand: from 0 at its left end, from -1 at its right end."""

    node: int
    state: int
    gres: int | None
    partition: int | None
    sure: bool  # whether no other reading is possible


def table_rows(source: Source, node_names: Container[str]) -> list[TableRow] | None:
    """Return the rows of a table of states; ``None`` = the text is no such table.  Known nodes tell their column from
    others.  Raise InvalidInput where a row has no node and state where the others have them.
    """
    for between in (_BARS, _BLANKS):
        cut: list[_Line] = []
        for number, raw in enumerate(source.text.splitlines(), 1):
            comment = _COMMENT.search(raw)
            text = _COMMENT.sub("", raw).strip()
            if _BESIDE.fullmatch(text):
                continue
            if between is _BLANKS or not text.strip("|"):
                text = text.strip("| \t")
            fields = [text] if text in node_names else [field.strip() for field in between.split(text)] if text else []
            if fields or comment:
                cut.append(_Line(source.at(number), tuple(fields), comment[0].strip() if comment else ""))
        lines = [line for line in cut if line.fields]
        # a bar or two in a reason separates no columns
        bars = between is _BARS
        if bars and 2 * sum(len(line.fields) > 1 for line in lines) <= len(lines):
            continue
        if (rows := _rows_of(lines, node_names, bars=bars)) is not None:
            for line in cut:
                if not line.fields and _may_be_row(line.words, node_names):
                    raise _unclear(line)
            return rows
    return None


def _rows_of(lines: Sequence[_Line], node_names: Container[str], *, bars: bool) -> list[TableRow] | None:
    """Return the rows of lines by their header, or else by where most have a node and a state; ``None`` = no table."""
    for i, line in enumerate(lines[:_HEADER_WITHIN]):
        names = [field.upper() for field in line.fields]
        if _first(names, _NODE_HEADERS) is not None and _first(names, _STATE_HEADERS) is not None:
            for before in lines[:i]:
                if _may_be_row(before.fields, node_names):
                    raise _unclear(before)
            # the header comes again for each cluster
            under = [row for row in lines[i + 1 :] if row.fields != line.fields and not _is_empty(row, node_names)]
            return [_row(row, _under_header(names, row, bars=bars), node_names, bars=bars) for row in under]
    filled = [line for line in lines if not _is_empty(line, node_names)]
    columns = _by_votes(filled, node_names)
    return None if columns is None else [_row(line, columns, node_names, bars=bars) for line in filled]


def _under_header(names: Sequence[str], line: _Line, *, bars: bool) -> _Columns:
    """Return the columns of a line, each counted from that end from which no free text parts it."""
    node, state = _first(names, _NODE_HEADERS) or 0, _first(names, _STATE_HEADERS) or 0
    gres, partition = _first(names, _GRES_HEADERS), _first(names, _PARTITION_HEADERS)
    loose = [at for at, name in enumerate(names) if name in _LOOSE_HEADERS]
    same = len(line.fields) == len(names)
    if same or not loose:
        return _Columns(node, state, gres, partition, sure=same and (bars or len(loose) < 2))
    if any(loose[0] < column < loose[-1] for column in (node, state)):
        raise _unclear(line)
    ends = [at if at < loose[0] else at - len(names) for at in range(len(names))]
    gres, partition = (
        None if column is None or loose[0] < column < loose[-1] else ends[column] for column in (gres, partition)
    )
    return _Columns(ends[node], ends[state], gres, partition, sure=True)


def _by_votes(rows: Sequence[_Line], node_names: Container[str]) -> _Columns | None:
    """Return the columns where most rows have a node and a state; ``None`` = most have no state."""
    widths = {len(line.fields) for line in rows}
    most = max(widths, default=0)
    if most < 2:
        return None
    states, nodes = Counter[int](), Counter[int]()
    for line in rows:
        size = len(line.fields)
        for at, field in enumerate(line.fields):
            ends = (at,) if len(widths) == 1 else (at, at - size)
            states.update(ends if is_state(field) else ())
            nodes.update(ends if _names_any(field, node_names) else ())
    # of equal columns the first from the left end
    columns = [*range(most), *(range(-most, 0) if len(widths) > 1 else ())]
    state = max(columns, key=states.__getitem__)
    if 2 * states[state] <= len(rows):
        return None
    node = max((at for at in columns if at != state), key=nodes.__getitem__)
    partition = None
    for at in columns:
        # a star stands behind the name of the default partition, and behind states
        fields = [_at(line, at) or "" for line in rows]
        if at != node and not any(map(is_state, fields)) and any(field.endswith("*") for field in fields):
            partition = at
            break
    return _Columns(node, state, _gpu_column(rows, columns), partition, sure=len(widths) == 1)


def _gpu_column(rows: Sequence[_Line], columns: Sequence[int]) -> int | None:
    """Return the column that says how many GPUs nodes have; ``None`` = none does.

    What says which GPUs are in use, ``(IDX:``, says nothing of how many there are.  Of several other columns, each
    counted from the same end of the rows, the first counts where all say the same.

    :raises InvalidInput: two columns say different things of the nodes of a row, so one of them may be what is in use.
    """
    fields = {at: [_at(line, at) or "" for line in rows] for at in columns}
    counts = {
        at: sum(bool(_GPUS.search(text)) for text in texts)
        for at, texts in fields.items()
        if not any(map(_GPUS_IN_USE.search, texts))
    }
    best = max(counts, key=counts.__getitem__, default=0)
    if not counts.get(best):
        return None
    for other, count in counts.items():
        # where a reason of several words stands before them, a few rows have their resources in other columns
        if other == best or (other < 0) != (best < 0) or 2 * count <= counts[best]:
            continue
        for line, text, rival in zip(rows, fields[best], fields[other], strict=True):
            if _SOCKETS.sub("", text) != _SOCKETS.sub("", rival):
                unclear = f"which of {text!r} and {rival!r} is the GPUs that the node has is not clear"
                raise InvalidInput(unclear, where=line.place, fix=_RECIPE)
    return best


def _row(line: _Line, columns: _Columns, node_names: Container[str], *, bars: bool) -> TableRow:
    """Return the row of a line; raise :class:`InvalidInput` where it may be read in another way."""
    nodes, state = _at(line, columns.node), _at(line, columns.state)
    if not nodes or not state:
        raise InvalidInput("the line has no state, as the others have", where=line.place, fix=_RECIPE)
    named = _names_any(nodes, node_names)
    # a later Slurm may have more states: such a word is one where nothing else can stand
    if not is_state(state) and not (columns.sure and (bars or named)):
        raise _unclear(line)
    # what looks like a comment may be a reason: "#3 fails"
    others = [*line.comment.split(), *(() if columns.sure else line.fields)]
    worse = any(is_state(word) and use_of([word]) > use_of([state]) for word in others)
    if worse or any(word != nodes and _names_any(word, node_names) for word in others):
        raise _unclear(line)
    gres, partition = (None if at is None else _at(line, at) for at in (columns.gres, columns.partition))
    return TableRow(nodes, state, gres, partition, line.place)


def _unclear(line: _Line) -> InvalidInput:
    text = " ".join([*line.fields, line.comment]).strip()[:80]
    unclear = f"which words are the node and its state is not clear: {text!r}"
    return InvalidInput(unclear, where=line.place, fix=_RECIPE)


def _may_be_row(words: Sequence[str], node_names: Container[str]) -> bool:
    """Return whether words of a line that is no row have a state and a node, as a row has."""
    return any(map(is_state, words)) and any(_names_any(word, node_names) for word in words)


def _is_empty(line: _Line, node_names: Container[str]) -> bool:
    """Return whether it is the row of a partition without nodes."""
    return "n/a" in map(str.lower, line.fields) and not any(_names_any(word, node_names) for word in line.words)


def _at(line: _Line, column: int) -> str | None:
    return line.fields[column] if -len(line.fields) <= column < len(line.fields) else None


def _first(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    return next((i for i, name in enumerate(names) if name in wanted), None)


def _names_any(field: str, node_names: Container[str]) -> bool:
    if field in node_names:
        return True
    if "[" not in field and "," not in field:
        return False
    try:
        return any(name in node_names for name in expand_hostlist(field))
    except InvalidInput:
        return False


_RECORD = re.compile(r"^[ \t]*NodeName=", re.MULTILINE)
_REASON = re.compile(r"(?:^|\s)Reason=(?P<why>[^\n]*?)\s+\[(?P<who>[^\s\[\]@]+)@(?P<time>[^\s\[\]]+)\](?=\s|$)")
_NODE_COMMENT = re.compile(r"\sComment=([^\n]*)")
_DIGITS = 12  # Of a time in seconds that is too late: from the year 5138 on
_MOST_DIGITS = 18  # Of a number of GPUs; any number of so many is read at once
_SHARDS = re.compile(r"(?:^|,)(?:gres/)?shard(?:[:=][^:=,()]+)*?[:=]([0-9]{1,9})(?=[(,]|$)")
_GRES = re.compile(r"(?:^|,)(?:gres/)?gpu((?:[:=][^:=,()]+)*)(?:\([^()]*\))?(?=,|$)")


OWN_REASON = "arnold: "
"""How reasons begin that we gave: they say what a store holds already, and would keep it alive for ever."""
SLURM = "slurm"  # source of a flag that Slurm says without naming anybody; else the user's name follows it


def by_slurm(flag: NodeFlag) -> bool:
    """Return whether Slurm, or a user of its, holds it against a node."""
    return flag.source.partition(":")[0] == SLURM


@dataclass(frozen=True, slots=True)
class SlurmReason:
    """Why a node is drained or down, who says so, and since when, in seconds since 1970; empty, ``None`` = not said."""

    text: str = ""
    user: str = ""
    since: float | None = None

    def flag(self, node: str, state: str) -> NodeFlag:
        """Return what is held against a node in a state."""
        since = None if self.since is None else datetime.fromtimestamp(self.since, UTC)
        by, why = f"{SLURM}:{self.user}" if self.user else SLURM, self.text or f"Slurm: {state}"
        return NodeFlag(node, "faulty", source=by, since=since, evidence=why)


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node in the words of Slurm."""

    name: str
    state: tuple[str, ...]  # words of its state, ("IDLE", "DRAIN") or ("drng*",)
    gpus: NodeGpus | None  # None = not said
    gpu_type: str  # empty = not said
    place: str  # where it stands
    partitions: tuple[str, ...] | None = None  # None = not said
    default_partition: str = ""  # the one of them that is marked as the default
    features: tuple[str, ...] | None = None  # None = not said
    reason: SlurmReason = SlurmReason()
    topology: str = ""  # where it is, default:spine-1:leaf-2, of several topologies with commas between them
    weight: int | None = None  # the larger, the later Slurm gives it away; None = not said
    comment: str = ""  # and what may follow it
    newest: float | None = None  # the newest time, in seconds since 1970, that was past when Slurm said this

    @property
    def in_words(self) -> str:
        """Its states as text: ``idle+drain``."""
        return "+".join(self.state).lower()


def slurm_nodes(source: Source, node_names: Container[str]) -> list[SlurmNode] | None:
    """Return the nodes of an output of Slurm; ``None`` = it is none.  Known names tell the column of nodes."""
    if _RECORD.search(source.text):
        return list(_from_records(source))
    if (rows := table_rows(source, node_names)) is None:
        return None
    nodes: list[SlurmNode] = []
    budget = 4 * MAX_NODES
    for row in rows:
        gpus = None if row.gres is None else gpus_of(row.gres, where=row.place)
        limit = min(MAX_NODES, budget)
        names = [row.nodes] if row.nodes in node_names else expand_hostlist(row.nodes, where=row.place, limit=limit)
        budget -= len(names)
        gpu_type, partition = gpu_type_of(row.gres), (row.partition or "").rstrip("*")
        partitions = None if row.partition is None else (partition,) if partition else ()
        default = partition if (row.partition or "").endswith("*") else ""
        nodes += [SlurmNode(name, (row.state,), gpus, gpu_type, row.place, partitions, default) for name in names]
    return nodes


def gpus_of(gres: str, *, where: str = "") -> NodeGpus:
    """Return the GPUs in a list of generic resources, none where there are none; refuse more than a node can have, what
    is no number of them, and control characters.

    >>> [gpus_of(text).physical for text in ("gpu:h100:8(S:0-1),nvme:1", "gpu:a:2,gpu:b:2", "(null)", "gres/gpu=8")]
    [8, 4, 0, 8]
    >>> gpus_of("gpu:a100:6,gpu:1g.10gb:14").physical, gpus_of("gpu:1g.10gb:56").sharing
    (8, 'MIG 1g.10gb')
    >>> gpus_of("gpu:8,shard:32").shares
    4
    """
    counted, slices = gpus_counted(gres, where=where)
    whole = max(0, counted - slices.total())
    gpus = whole + (cut := mig_gpus(slices, gpu_type_of(gres)))
    if gpus > MAX_GPUS:
        text = gres if len(gres) <= 60 else f"{gres[:60]}..."
        many = f"more than {MAX_GPUS} GPUs a node: {text!r}"
        raise InvalidInput(many, where=where, fix=f"a node has at most {MAX_GPUS} GPUs")
    shards = sum(int(digits) for digits in _SHARDS.findall(gres))
    sharing = mig_sharing(slices, cut=cut, physical=gpus) if slices else ""
    return NodeGpus(gpus, gpus, sharing, max(1, shards // gpus) if gpus else 1)


def gpus_counted(gres: str, *, where: str = "") -> tuple[int, Counter[str]]:
    """Return how many GPUs, slices of MIG among them, a list of generic or trackable resources has, of a node or of a
    job, and the slices by profile; refuse what is no number of them, and control characters.

    >>> gpus_counted("gres/gpu=9600,gres/gpu:h100=9600")[0], gpus_counted("gpu:a100:6,gpu:1g.10gb:14")[0]
    (9600, 20)
    """
    if not gres.isprintable():
        fix = "give the output of Slurm as it is"
        raise InvalidInput(f"the generic resources have control characters: {gres[:60]!r}", where=where, fix=fix)
    total = typed = 0
    slices: Counter[str] = Counter()
    for match in _GRES.finditer(gres):
        words = [word for word in re.split("[:=]", match[1]) if word not in ("", "no_consume")]
        if len(words) > 1 and not words[-1].isdecimal():
            fix = "write gpu:TYPE:NUMBER, such as gpu:h100:8"
            raise InvalidInput(f"{words[-1][:60]!r} is no number of GPUs: {gres[:60]!r}", where=where, fix=fix)
        digits = words[-1] if words and words[-1].isdecimal() else "1"
        # a number of thousands of digits is none that Python reads
        count = int(digits) if len(digits) <= _MOST_DIGITS else MAX_GPUS + 1
        # in TRES the sum over all types (gres/gpu=8) stands beside the types (gres/gpu:h100=8)
        if "gres/gpu:" in match[0]:
            typed += count
        else:
            total += count
        if profile := mig_profile(match[1]):
            slices[profile] += count
    return total or typed, slices


def gpu_type_of(*resources: str | None) -> str:
    """Return the type of GPU in lists of generic or trackable resources: in the first that says it; empty = none does.

    A node with GPUs of several types is of a type of its own.  A slice of MIG is of the type of its GPU, if it says it.

    >>> gpu_type_of("gpu:h100:8(S:0)"), gpu_type_of("gpu:8", "gres/gpu:4090=8"), gpu_type_of("gpu:b:2,gpu:a:2")
    ('h100', '4090', 'a+b')
    >>> gpu_type_of("gpu:a100:1,gpu:a100_3g.20gb:2"), gpu_type_of("gpu:1g.10gb:56")
    ('a100', '')
    """
    for text in resources:
        words = [[word for word in re.split("[:=]", match[1]) if word] for match in _GRES.finditer(text or "")]
        # a number alone is how many; before another it is a type such as 4090
        named = (of_gpu[0] for of_gpu in words if len(of_gpu) > 1 or (of_gpu and not of_gpu[0].isdecimal()))
        if types := {*map(without_profile, named)} - {""}:
            return "+".join(sorted(types))
    return ""


LOCAL: ContextVar[tzinfo | None] = ContextVar("LOCAL", default=None)
"""Of the machine whose Slurm printed what is being read; ``None`` = of this one."""


def slurm_time(text: str) -> float | None:
    """Return a time of Slurm's, which is local (:data:`LOCAL`) unless it is a number, in seconds since 1970; ``None`` =
    it is none, or of years for which nobody plans.
    """
    try:
        if text.isdecimal():
            seconds = float(text[:_DIGITS])
        else:
            time = datetime.fromisoformat(text)
            seconds = (time if time.tzinfo is not None else time.replace(tzinfo=LOCAL.get())).timestamp()
        return seconds if seconds < 10 ** (_DIGITS - 1) else None
    except (ValueError, OverflowError):
        return None


def _number(value: Any) -> Any:
    """Return a number of Slurm's JSON, which until 23.02 was a plain one; ``None`` where it is not set, or infinite."""
    if isinstance(value, dict) and "number" in value:
        return value["number"] if value.get("set", True) and not value.get("infinite") else None
    return value


def _joined(mark: str) -> AfterValidator:
    """Return what makes one text of words that the JSON has in a list, as it stands in a record."""
    return AfterValidator(lambda words: words if isinstance(words, str) else mark.join(words))


SlurmNumber = Annotated[float | None, BeforeValidator(_number)]
SlurmWords = Annotated[list[str] | str, _joined(",")]
SlurmState = Annotated[list[str] | str, _joined("+")]


def said(word: str, *path: str, default: Any = None) -> Any:
    """Return a field of Slurm's JSON under some keys, with the word that records of scontrol have for it."""
    return Field(default, validation_alias=AliasPath(*path), serialization_alias=word)


def record_of(answer: BaseModel) -> dict[str, str]:
    """Return the fields of an object of Slurm's JSON as a record of scontrol has them, without what it does not say."""
    values = answer.model_dump(by_alias=True, exclude_none=True)
    return {word: value if isinstance(value, str) else f"{value:.0f}" for word, value in values.items()}


class _Node(BaseModel):
    """A node of ``scontrol show nodes --json``, and of ``sinfo --json`` until 22.05."""

    name: str = said("NodeName", "name", default=...)
    state: SlurmState = said("State", "state", default=...)
    state_flags: SlurmState | None = said("StateFlags", "state_flags")
    gres: str | None = said("Gres", "gres")
    tres: str | None = said("CfgTRES", "tres")
    partitions: SlurmWords | None = said("Partitions", "partitions")
    features: SlurmWords | None = said("AvailableFeatures", "features")
    active_features: SlurmWords | None = said("ActiveFeatures", "active_features")
    reason: str = said("Reason", "reason", default="")
    reason_set_by_user: str | None = said("ReasonUser", "reason_set_by_user")
    reason_changed_at: SlurmNumber = said("ReasonTime", "reason_changed_at")
    topology: str = said("Topology", "topology", default="")


class _Row(BaseModel):
    """A row of ``sinfo --json``: nodes alike."""

    state: SlurmState = said("State", "node", "state", default=...)
    nodes: SlurmWords = said("NodeName", "nodes", "nodes", default=...)
    gres: str | None = said("Gres", "gres", "total")
    features: str | None = said("ActiveFeatures", "features", "total")
    partition: str | None = said("Partitions", "partition", "name")
    partition_flags: SlurmWords = said("PartitionFlags", "partition", "flags", default="")


class _Error(BaseModel):
    description: str | None = None
    error: str | None = None


class _Nodes(BaseModel):
    nodes: list[_Node] | None = None
    sinfo: list[_Row] | None = None
    errors: list[_Error | str] | None = None


def nodes_of_json(document: Document) -> Iterator[SlurmNode]:
    """Yield the nodes of ``scontrol show nodes --json`` or ``sinfo --json``; raise InvalidInput where it is neither."""
    answer = document.parse(_Nodes)
    if answer.errors:
        first = answer.errors[0]
        why = first if isinstance(first, str) else first.description or first.error or "no description"
        failed, place = f"Slurm could not list its nodes: {why}", document.where("errors", 0)
        raise InvalidInput(failed, where=place, fix="ask Slurm again when it answers without errors")
    if answer.nodes is None and answer.sinfo is None:
        fix = "give the output of `scontrol show nodes --json` or `sinfo -N --json`, or a node or hostlist a line"
        raise InvalidInput("is JSON without a list of nodes", where=document.source.name, fix=fix)
    # the line of each of many nodes would take longer to find than the nodes themselves
    place = document.source.name
    for key, listed in (("nodes", answer.nodes), ("sinfo", answer.sinfo)):
        for i, row in enumerate(listed or ()):
            record = record_of(row)
            reason = SlurmReason()
            if record.get("Reason"):
                since = slurm_time(record.get("ReasonTime", "")) or None
                reason = SlurmReason(record["Reason"], record.get("ReasonUser", ""), since)
            record["State"] += "".join(f"+{flags}" for flags in [record.get("StateFlags")] if flags)
            default = record["Partitions"] if "DEFAULT" in record.get("PartitionFlags", "").split(",") else ""
            try:
                node = _node_of(record, place, reason, default)
            except InvalidInput as error:
                error.where = document.where(key, i)
                raise
            if key == "nodes":
                yield node
            elif node.name:
                yield from (replace(node, name=name) for name in expand_hostlist(node.name, where=place))


def _from_records(source: Source) -> Iterator[SlurmNode]:
    for _, text, place in records_of(source, _RECORD):
        # why a node is out of work is free text, in which anything may stand
        reason = _REASON.search(text)
        rest = text if reason is None else text[: reason.start()] + text[reason.end() :]
        record = fields_of(rest)
        if not record.get("NodeName") or not record.get("State"):
            stateless = f"the node {record.get('NodeName', '')!r} has no state"
            raise InvalidInput(stateless, where=place, fix="give all that `scontrol show nodes` prints")
        comment = _NODE_COMMENT.search(rest)
        record["Comment"] = comment[1].strip() if comment else ""
        why = SlurmReason(reason["why"], reason["who"], slurm_time(reason["time"])) if reason else SlurmReason()
        yield _node_of(record, place, why)


def _node_of(record: Mapping[str, str], place: str, reason: SlurmReason, default_partition: str = "") -> SlurmNode:
    """Return the node of a record of scontrol; raise as :func:`gpus_of`."""
    gres, tres, partitions = (record.get(key) for key in ("Gres", "CfgTRES", "Partitions"))
    gpus = None if gres is None else gpus_of(gres, where=place)
    # without a gres.conf in sight of the node, Gres is (null) and the trackable resources may still say it
    if not (gpus and gpus.physical) and tres and "gres/gpu" in tres:
        gpus = gpus_of(tres, where=place)
    features = record.get("ActiveFeatures", record.get("AvailableFeatures"))
    times = [slurm_time(record.get(key, "")) for key in ("BootTime", "SlurmdStartTime", "LastBusyTime")]
    return SlurmNode(
        record["NodeName"],
        (record["State"],),
        gpus,
        gpu_type_of(gres, tres),
        place,
        None if partitions is None else tuple(filter(None, partitions.split(","))),
        default_partition,
        None if features is None else tuple(word for word in features.split(",") if word not in ("", "(null)")),
        reason,
        record.get("Topology", ""),
        int(weight) if (weight := record.get("Weight", "")).isdecimal() else None,
        record.get("Comment", ""),
        max((time for time in (*times, reason.since) if time is not None), default=None),
    )


_REASONS = re.compile(r"[ \t]*REASON[\s|]+USER[\s|]+TIMESTAMP\b.*\bNODELIST[ \t]*")


def drain_reasons(source: Source) -> Document | None:
    """Return the table of ``sinfo -R`` as a list of flags, of the nodes of each row; ``None`` = it is none.

    :raises InvalidInput: a row has other columns than the header.
    """
    header, _, body = source.text.lstrip("\n").partition("\n")
    if _REASONS.fullmatch(header) is None:
        return None
    columns, flags, lines = header.replace("|", " ").split(), list[dict[str, str]](), list[int]()
    first = source.text.count("\n") - body.count("\n") + 1
    for number, line in enumerate(body.splitlines(), first):
        # a reason has any words, so all others are counted from the right
        (*reason,) = re.split(r"[\s|]+", line.strip())
        row = dict(zip(reversed(columns), reversed(reason), strict=False))
        if (since := slurm_time(row.get("TIMESTAMP", ""))) is None:
            if line.strip() and line.strip() != header.strip():
                fix = "give what `sinfo -R` prints, as it is"
                raise InvalidInput(f"{line.strip()[:80]!r} is no row of reasons", where=source.at(number), fix=fix)
            continue
        text = " ".join(reason[: 1 - len(columns)])
        flag = SlurmReason(text, row["USER"], since).flag(row["NODELIST"], row.get("STATE", "").lower() or "drained")
        flags.append(json_data(NodeFlag, flag, without_defaults=True))
        lines.append(number)
    return Document(source, flags, lambda path: lines[int(path[0])] if path else first - 1)


def records_of(source: Source, beginning: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str, str]]:
    """Yield how each record of ``scontrol`` begins, its text up to the next one, and its place."""
    begun = [*beginning.finditer(source.text)]
    line, before = 1, 0
    for match, after in zip_longest(begun, begun[1:]):
        line, before = line + source.text.count("\n", before, match.start()), match.start()
        yield match, source.text[before : None if after is None else after.start()], source.at(line)


def fields_of(record: str) -> dict[str, str]:
    """Return the keys of a record of ``scontrol`` and their values, each to the next blank; of equal keys the first."""
    fields: dict[str, str] = {}
    for word in record.split():
        key, sign, value = word.partition("=")
        if sign:
            fields.setdefault(key, value)
    return fields
