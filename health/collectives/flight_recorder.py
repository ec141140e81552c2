"""The Flight Recorder dumps of a job's ranks, one JSON file for each, as one snapshot of the job.

A dump says what a rank enqueued, started and completed, and its groups.  Read as
``torch/csrc/distributed/c10d/FlightRecorderDetail.hpp`` and ``FlightRecorderHook`` write them, versions 2.0 to 2.x of
the dump (2.10 in PyTorch of 2025-26), and as the recorder of TorchComms does.  These differ:

- a backend names its operations ``nccl:``, ``nccl2:``, ``ncclx:``, ``gloo:``;
- TorchComms describes a group by its backend, says of no operation that it is point-to-point, names no ranks of
  transfers, and retires what is over, whether or not it saw the event of its end;
- gloo keeps one group in ``pg_config``, without a name and of the ranks of whichever was made last, and retires what is
  over; its threads end operations in any order, so its ``pg_status`` does not say which;
- groups that were split from one have its name, each with its own ranks.

All members of a group must call the same collectives in the same order, and most of them with equally many elements of
the same type.  Where they do not, the job hangs, fails or computes nonsense: the program's mistake.

A dump is a moment.  That a collective stands still, and was not merely under way then, is known where the recorder
retired it without completion: it has timed out.  That holds where the recorder saw events of the device.  Of a backend
of which it saw none (``FlightRecorderHook`` over one that tells no completion, work on the CPU) it says ``scheduled``
and ``retired`` of operations that are long over.  Of these the ranks are compared by how far each has come.  Whether
the last operation is over cannot be told, nor whether a rank that is behind will come, so nothing is certain.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import takewhile
from math import inf, prod
from operator import itemgetter
from pathlib import PurePath
from typing import Any, NamedTuple

from ground.errors import InvalidInput, few
from ground.files import Source
from ground.formats import FileFormat, Marked
from ground.groups import grouped
from ground.quantities import plural
from ground.rows import BadRow, parse_object
from health.collectives.diagnosis import Diagnosis, diagnose_snapshot
from health.collectives.json_fields import Row, integer, listed, nested, text
from health.collectives.recording import Member, RankGroup
from health.collectives.stalls import Disagreement, Mismatch, Snapshot, Stall
from health.collectives.trigger_settings import TriggerSettings

GLOO = "gloo"  # The backend whose own recorder is meant: FlightRecorderHook leaves it alone

STATES = ("scheduled", "started", "completed")

_OP = re.compile(r"(?:([A-Za-z0-9_-]+):)?(.*)", re.DOTALL)
_TRANSFER = re.compile(r"(send|recv)(?:_?[aA]ny_?[sS]ource)?(?: (\d+)(?:->|<-)(\d+))?\b.*", re.DOTALL)
_RANK = re.compile(r"(\d+)(?:\.json)?$")
# Operations that are given the same number of elements by every member, whole or in parts; of the others each member
# may be given its own
_SAME_INPUT = re.compile(r"_?(?:all_?)?reduce.*|gather", re.IGNORECASE)
_SAME_OUTPUT = re.compile(r"_?all_?gather.*|_?broadcast.*|scatter", re.IGNORECASE)

# Operations that are over nowhere before every member has taken part
_OF_ALL = re.compile(r".*?(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier).*", re.IGNORECASE)


class GroupKey(NamedTuple):
    """What tells a process group from all others."""

    name: str
    ranks: tuple[int, ...]  # global ranks; empty = the recorder does not say


Pair = tuple[GroupKey, int, int]  # Group, the rank that sends, the rank that receives; global ranks
NOBODY = -1  # In place of the rank at the other end, where a transfer does not name it


class Entry(NamedTuple):
    """One operation that a rank enqueued."""

    seq: int
    op: str  # as the recorder calls it, with the backend
    backend: str
    completed: bool  # it is over, by its state or by the status of its group
    seen: bool  # an event of the device has shown that it is over
    retired: bool  # the recorder has done with it
    since: float  # when it was enqueued, seconds since 1970
    number: int  # counts collectives and transfers of the group; -1 = unknown
    size: str  # what all members must give alike: "16 Float"; empty = nothing, or unknown
    order: int  # place among all that its rank enqueued


@dataclass
class Dump:
    """What one rank recorded."""

    rank: int
    host: str | None
    groups: dict[GroupKey, str]  # group -> description, also of groups whose ranks are not recorded
    collectives: dict[GroupKey, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    transfers: dict[Pair, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    unnamed: Counter[str] = field(default_factory=Counter)  # transfers that do not name both their ranks -> how many
    # backends of which it was seen here that operations begin or end: what has not ended is under way
    timed: set[str] = field(default_factory=set)
    mixed: set[GroupKey] = field(default_factory=set)  # groups with transfers
    lost: bool = False  # whether older entries have been overwritten, or left out when they were over
    empty: bool = False  # whether nothing at all is recorded, not even what pg_status counts: the recorder was off
    # the recorder is that of TorchComms, which numbers the operations of all groups in one series
    one_series: bool = False
    # what pg_status says of a group: the last operation completed and the last enqueued, as the recorder counts
    progress: dict[GroupKey, tuple[int, int]] = field(default_factory=dict)


def read_dump(source: Source) -> Dump:
    """Return the dump in a file; its rank stands in it, or is the last digits of the file's name."""
    try:
        document = parse_object(source.text)
        version = text(document, "version")
        if not version.startswith("2."):
            raise BadRow(f"the dump has version {version!r:.20}; known are 2.x")
        host = document.get("host")
        if host is not None and not isinstance(host, str):
            raise BadRow("'host' is not a text")
        if "rank" in document:
            rank = integer(document, "rank")
        elif digits := _RANK.search(source.name):
            rank = int(digits.group(1)[-18:])
        else:
            raise BadRow("the rank is unknown: there is no 'rank' in it, and the file's name does not end in digits")
        dump = Dump(rank, host or None, _groups(nested(document, "pg_config")))
        entries = listed(document, "entries") if "entries" in document else []
        reader = _Entries(dump, document.get("pg_status"))
        for i, entry in enumerate(entries):
            try:
                reader.take(entry, i)
            except BadRow as bad:
                raise BadRow(f"entry {i}: {bad.reason}") from None
        reader.finish()
        first = entries[0].get("record_id") if entries else 0
        dump.lost = type(first) is int and first > 0
        dump.empty = not entries and not document.get("pg_status")
    except BadRow as bad:
        fix = "get the dump again: as JSON, or its pickle converted where it was written by flight_recorder_to_json.py"
        raise InvalidInput(bad.message, where=source.name, fix=fix) from None
    return dump


def _groups(config: Row) -> dict[GroupKey, str]:
    """Return groups and their descriptions; the recorder writes the ranks as the text ``"[0, 1]"`` or ``"0,1"``."""
    groups = {}
    for name, info in config.items():
        if not isinstance(info, dict):
            raise BadRow(f"the group {name!r:.60} is not an object")
        ranks = _ranks(str(info.get("ranks")))
        if not ranks:
            raise BadRow(f"the ranks of the group {name!r:.60} are not a list of numbers")
        groups[GroupKey(name, ranks)] = str(info.get("desc", ""))
    return groups


@lru_cache(maxsize=4096)
def _ranks(text: str) -> tuple[int, ...]:
    """Return the ranks in a text, the same ones for the dump of each rank of a large group; empty = it is no list."""
    try:
        ranks = ast.literal_eval(text if text.lstrip().startswith("[") else f"[{text}]") if len(text) < 2**22 else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        ranks = None
    whole = isinstance(ranks, list) and all(type(r) is int and 0 <= r < 2**31 for r in ranks)
    return tuple(ranks or ()) if whole else ()


class _Entries:
    """Takes the entries of a dump in their order.

    Whether the last operation that is over, as ``pg_status`` counts, is one of collectives or one of all operations
    differs: ProcessGroupNCCL counts collectives and transfers apart and tells the number of whichever came last, gloo
    and FlightRecorderHook count operations.  So the count is believed where the last one enqueued is, by the same
    count, the last that was recorded.
    """

    def __init__(self, dump: Dump, status: Any) -> None:
        self._dump = dump
        statuses = status if isinstance(status, dict) else {}
        self._status = {number: _progress(of_group) for number, of_group in statuses.items()}
        self._known = {key.name: key for key in dump.groups}
        self._complete = bool(dump.groups) and "" not in self._known  # whether every group must be recorded
        self._numbers: dict[GroupKey, str] = {}  # what pg_status calls a group
        self._of_comms = True  # whether all groups so far are described by their backend

    def take(self, entry: Any, order: int) -> None:
        """Add one entry; raise :class:`BadRow` where it cannot be used."""
        if not isinstance(entry, dict):
            raise BadRow("is not an object")
        names = listed(entry, "process_group")
        if not names or not isinstance(names[0], str):
            raise BadRow(f"'process_group' is {names!r:.60}, not the name and the description of a group")
        desc = str(names[1]) if len(names) > 1 else ""
        # a group that is not recorded is known by its name alone
        name = names[0]
        key = self._known.get(name)
        if key is None:
            if self._complete:
                raise BadRow(f"the group {name!r:.60} is not in pg_config")
            key = self._known[name] = GroupKey(name, ())
            self._dump.groups[key] = desc
        state = text(entry, "state")
        if state not in STATES:
            raise BadRow(f"'state' is {state!r:.40}, not one of {', '.join(STATES)}")
        op = text(entry, "profiling_name")
        backend, what = _OP.fullmatch(op).groups()  # type: ignore[union-attr]  # it matches every text
        self._of_comms &= backend == desc
        number = entry.get("op_id")
        made = Entry(
            seq=integer(entry, "collective_seq_id"),
            op=op,
            backend=backend or "",
            completed=state == "completed",
            seen=state == "completed",
            retired=bool(entry.get("retired")),
            since=integer(entry, "time_created_ns") * 1e-9,
            number=number if type(number) is int else -1,
            size=_size(entry, what),
            order=order,
        )
        number_of_group = str(entry.get("pg_id"))
        done, started, last = self._status.get(number_of_group, (-1, -1, -1))
        self._dump.progress[key] = (done, last)
        self._numbers[key] = number_of_group
        if state != "scheduled" or started >= 0:
            self._dump.timed.add(made.backend)
        transfer = _TRANSFER.fullmatch(what)
        if transfer is None and not entry.get("is_p2p"):
            self._dump.collectives[key].append(made)
            return
        self._dump.mixed.add(key)
        pair = None if transfer is None else _pair(key, transfer, self._dump.rank)
        if pair is None:
            self._dump.unnamed[op] += 1
        self._dump.transfers[pair or (key, self._dump.rank, NOBODY)].append(made)

    def finish(self) -> None:
        """Note of each operation whether it is over, by what is known when all have been taken."""
        dump = self._dump
        dump.one_series = self._of_comms and bool(dump.collectives or dump.transfers or dump.unnamed)
        lists = [*dump.collectives.items(), *((pair[0], mine) for pair, mine in dump.transfers.items())]
        last_number: dict[GroupKey, int] = defaultdict(lambda: -1)
        last_seq: dict[GroupKey, int] = defaultdict(lambda: -1)
        for key, mine in lists:
            last_number[key] = max(last_number[key], *(entry.number for entry in mine))
            last_seq[key] = max(last_seq[key], *(entry.seq for entry in mine))
        for key, mine in lists:
            done, last = dump.progress[key]
            by_number = last >= 0 and last == last_number[key]
            by_seq = key not in dump.mixed and last == last_seq[key]
            all_over = 0 <= done == last and (by_number or key not in dump.mixed)
            for i, entry in enumerate(mine):
                if dump.one_series or entry.backend == GLOO:
                    counted, over = not entry.retired, entry.completed or entry.retired
                else:
                    counted = done >= 0 and (by_number or by_seq)
                    over = (
                        entry.completed
                        or all_over
                        or (by_number and entry.number <= done)
                        or (by_seq and entry.seq <= done)
                    )
                mine[i] = entry._replace(completed=over, retired=entry.retired and not over)
                if counted:
                    dump.timed.add(entry.backend)
            if any(0 <= entry.seq < entry.number for entry in mine if entry.backend == GLOO):
                dump.mixed.add(key)  # transfers that gloo counts and does not record
        # pg_status counts groups in the order in which they were made, as their names do
        names = [key for key in dump.groups if key.name.isdecimal()]
        if len(names) == len(dump.groups) == len(self._status) and all(number.isdecimal() for number in self._status):
            in_order = dict(
                zip(sorted(names, key=lambda key: int(key.name)), sorted(self._status, key=int), strict=True)
            )
            if all(in_order[key] == number for key, number in self._numbers.items()):
                for key, number in in_order.items():
                    done, _, last = self._status[number]
                    dump.progress.setdefault(key, (done, last))


def _size(entry: Row, what: str) -> str:
    """Return how many elements of which types all members of a collective must give alike; empty = nothing."""
    side = "input" if _SAME_INPUT.fullmatch(what) else "output" if _SAME_OUTPUT.fullmatch(what) else ""
    sizes = entry.get(f"{side}_sizes") or entry.get("input_sizes")
    if not side or not isinstance(sizes, list) or not all(isinstance(size, list) for size in sizes):
        return ""
    dims = [size for shape in sizes for size in shape]
    if not dims or not all(type(size) is int and 0 <= size < 2**40 for size in dims) or len(dims) > 2**16:
        return ""
    types = entry.get(f"{side}_dtypes") or entry.get("input_dtypes")
    names = sorted({str(type_)[:20] for type_ in types}) if isinstance(types, list) else []
    return " ".join([f"{sum(prod(size) for size in sizes):,}", *names])


def _pair(key: GroupKey, transfer: re.Match[str], rank: int) -> Pair | None:
    """Return the pair of a transfer of a rank; ``None`` = it does not name both, or not this one as it should.

    The names are places in the group, which PyTorch sorts; groups that were split keep the order they were given.
    """
    way, first, second = transfer.groups()
    if first is None or not key.ranks:
        return None
    here, there = int(first[-18:]), int(second[-18:])
    if max(here, there) >= len(key.ranks):
        raise BadRow(f"{transfer[0]!r:.40} names a rank that the group does not have")
    for ranks in (key.ranks, sorted(key.ranks)):
        if ranks[here] == rank:
            return (key, rank, ranks[there]) if way == "send" else (key, ranks[there], rank)
    return None


def _progress(status: Any) -> tuple[int, int, int]:
    """Return the last operation of a group completed, started and enqueued, as the recorder counts; -1 = none."""
    counts = status if isinstance(status, dict) else {}
    values = (counts.get(f"last_{what}_collective") for what in ("completed", "started", "enqueued"))
    texts = (str(value)[:20] if isinstance(value, int | str) else "" for value in values)
    done, started, last = (int(text) if re.fullmatch(r"\d{1,18}", text) else -1 for text in texts)
    return done, started, last


Call = tuple[tuple[str, ...], tuple[str, ...]]  # Operations under one number, several where coalesced; their sizes


class Differing(NamedTuple):
    """A number under which ranks called different things."""

    seq: int
    kind: Disagreement
    op: str  # what most called
    others: dict[int, str]  # rank -> what it called instead; every rank where no call is that of most
    common: str  # what most called, with its size where that differs
    over: bool  # events of the device have shown that it is over on every rank


def differing(entries: Mapping[int, Sequence[Entry]]) -> Iterator[Differing]:
    """Yield the numbers under which the ranks (rank -> what it enqueued in one group) do not agree, in order."""
    under: dict[int, dict[int, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for rank, mine in entries.items():
        for entry in mine:
            under[entry.seq][rank].append(entry)
    for seq, by_rank in sorted(under.items()):
        # The beginning of what was coalesced may be overwritten on some ranks.
        kept = min(map(len, by_rank.values()))
        calls: dict[int, Call] = {
            rank: (tuple(entry.op for entry in mine[-kept:]), tuple(entry.size for entry in mine[-kept:]))
            for rank, mine in sorted(by_rank.items())
        }
        if len(set(calls.values())) == 1:
            continue
        ops = {rank: call[0] for rank, call in calls.items()}
        kind: Disagreement = "crossed-order"
        shown = {rank: ", ".join(call) for rank, call in ops.items()}
        if len(set(ops.values())) == 1:
            columns = [set(column) for column in zip(*(sizes for _, sizes in calls.values()), strict=True)]
            if all(len(column) == 1 or "" in column for column in columns):
                continue
            kind = "other-size"
            shown = {
                rank: ", ".join(f"{op} of {size}" if size else op for op, size in zip(*call, strict=True))
                for rank, call in calls.items()
            }
        votes = Counter(shown.values()).most_common()
        most = votes[0][0]
        tie = len(votes) > 1 and votes[0][1] == votes[1][1]
        others = {rank: what for rank, what in shown.items() if tie or what != most}
        over = all(entry.seen for mine in by_rank.values() for entry in mine)
        op = next(call[0][0] for rank, call in calls.items() if shown[rank] == most)
        yield Differing(seq, kind, op, others, most, over)


Entries = dict[int, list[Entry]]  # Rank -> what it enqueued in one group
DEFAULT = "default_pg"  # What PyTorch calls the group of all ranks
# Name of a dump that begins with its host: container-node02_5, node02_rank_5.json
_OF_HOST = re.compile(r"([A-Za-z][A-Za-z0-9.-]*)_(?:rank[_-]?)?\d+(?:\.json)?$")


class FlightRecorder(Marked):
    """Reads dumps of the Flight Recorder."""

    format = FileFormat(
        "flight-recorder",
        source="PyTorch Flight Recorder dumps, 2.x (2.10 in 2026), also of gloo and TorchComms: one JSON file a rank",
        export="TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1; python3 flight_recorder_to_json.py FILE...",
        read="groups, operations with number, state, sizes and types, transfers between two ranks, pg_status",
        left_out="call stacks, durations, transfers that do not name both ranks (counted)",
        marks=('"pg_config"', '"entries"', '"version"'),
    )
    # the groups may stand behind the entries
    mark = re.compile(r'(?s)\A\s*\{(?=.*"pg_config"|(?=.*"entries").*"profiling_name")')

    def read(self, sources: Sequence[Source], *, settings: TriggerSettings, lenient: bool) -> Diagnosis:  # noqa: ARG002
        """Judge the moment of the dumps."""
        return diagnose_snapshot(*read_flight_recorder(sources, lenient=lenient))


def read_flight_recorder(sources: Sequence[Source], *, lenient: bool = False) -> tuple[Snapshot, tuple[str, ...]]:
    """Return the snapshot that the dumps of a job's ranks make, and notes.

    :param lenient: leave out dumps that cannot be used, and say which; of their ranks nothing is known then.
    :raises InvalidInput: a dump cannot be used (leniently: none can), two are of one rank, two disagree on a group.
    """
    dumps: dict[int, Dump] = {}
    place: dict[int, str] = {}
    # name and member of a group -> the group, and the first file that names it
    first_named: dict[tuple[str, int], tuple[GroupKey, str]] = {}
    refused: list[InvalidInput] = []
    for source in sources:
        try:
            dump = read_dump(source)
        except InvalidInput as error:
            if not lenient:
                raise
            refused.append(error)
            continue
        if dump.rank in dumps:
            problem = f"is the second dump of rank {dump.rank}: the first is {place[dump.rank]}"
            raise InvalidInput(problem, where=source.name, fix="give one dump of each rank, of one moment")
        for key in dump.groups:
            for rank in key.ranks if key.name else ():
                other, by = first_named.setdefault((key.name, rank), (key, source.name))
                if other != key:
                    problem = f"the group {key.name!r:.60} has other ranks than in {by}"
                    raise InvalidInput(problem, where=source.name, fix="give the dumps of one job only")
        dumps[dump.rank], place[dump.rank] = dump, source.name
    if not dumps:
        raise refused[0]
    named: dict[int, str] = {}
    if all(dump.host is None for dump in dumps.values()):
        # the hosts that the names of all files begin with; what all begin with alike is what somebody calls dumps
        names = {rank: _OF_HOST.fullmatch(PurePath(name).name) for rank, name in place.items()}
        hosts = {rank: name[1] for rank, name in names.items() if name is not None}
        if len(hosts) == len(place) and len({*hosts.values()}) > 1:
            named = hosts
    dumps = {rank: replace(dump, host=named.get(rank, dump.host)) for rank, dump in dumps.items()}
    snapshot, notes = _Job(dumps).snapshot()
    if named:
        notes.append(
            f"the hosts are those that the names of the files begin with: {', '.join(sorted({*named.values()})[:3])}"
        )
    return snapshot, (*(f"left out {error.where}: {error.message}" for error in refused), *notes)


class _Job:
    """The dumps of a job, by rank."""

    def __init__(self, dumps: Mapping[int, Dump]) -> None:
        self._dumps = dumps
        self._notes: list[str] = []
        self._of_users: dict[GroupKey, str] = {}  # groups of which it is not known who else is in them -> description
        # groups and their titles
        titles = {key: desc for dump in self._dumps.values() for key, desc in dump.groups.items()}
        ranks = {*self._dumps, *(rank for key in titles for rank in key.ranks)}
        if any(key.name and not key.ranks for key in titles):
            # ranks are counted from 0, and those beyond the last dump are seen by groups that had more members
            ranks = {*range(max(ranks) + 1)}
            silent = max(map(self._lacking, dumps.values())) - len(ranks - dumps.keys())
            ranks.update(range(len(ranks), len(ranks) + silent))
        groups: dict[GroupKey, str] = {}
        for key, desc in titles.items():
            if not key.name:
                continue
            title = f"{key.name} {desc}".strip() if desc != "undefined" else key.name
            group = key
            if not key.ranks:
                # which ranks are in it the recorder does not say: all in the group of all, else those that used it
                users = [dump for dump in self._dumps.values() if key in dump.collectives]
                members = ranks if desc == DEFAULT else None
                group = GroupKey(key.name, tuple(sorted(members or {dump.rank for dump in users})))
                for dump in users:
                    dump.collectives[group] = dump.collectives.pop(key)
                    dump.progress[group] = dump.progress.pop(key)
                    if key in dump.mixed:
                        dump.mixed.add(group)
                if members is None:
                    self._of_users[group] = desc
                    self._notes.append(
                        f"which ranks are in the group {key.name!r:.60} is not recorded: those that used it are taken"
                    )
            if key.ranks and sum(other.name == key.name for other in titles) > 1:
                title += f" of rank {key.ranks[0]}"
            groups[group] = title
        self._groups = groups
        self._index = {rank: i for i, rank in enumerate(sorted(ranks))}
        self._untimed: set[str] = set()
        self._overwritten = 0
        self._stalls: list[Stall] = []
        self._mismatches: list[Mismatch] = []
        self._timed_out = False
        self._mixed = {key for dump in dumps.values() for key in dump.mixed}
        for dump in dumps.values():
            for key, mine in dump.collectives.items() if dump.one_series else ():
                dump.collectives[key] = [entry._replace(seq=i) for i, entry in enumerate(mine)]
        self._fronts = {rank: self._front(rank, dump) for rank, dump in dumps.items()}
        # who took part in what others have completed, and does not know that it is over, stands there
        self._late = frozenset(rank for key in self._groups if (rank := self._left_behind(key)) is not None)
        for key in self._groups:
            reached = self._reached(key)
            over = max((done for done, _ in reached.values()), default=-1)
            for rank, (done, _) in reached.items():
                mine = dumps[rank].collectives.get(key, [])
                held = [e.order for e in mine if done < e.seq <= over and _OF_ALL.fullmatch(e.op)]
                if held and self._sees(rank, mine) and held[-1] >= min(self._fronts[rank]):
                    self._fronts[rank] = frozenset(held[-1:])

    def _left_behind(self, key: GroupKey) -> int | None:
        """Return the rank whose first open operation of all is one of a group that all others in it have completed."""
        reached = self._reached(key)
        done = {rank: reached[rank][0] if rank in reached else -1 for rank in key.ranks}
        if len(done) < 2 or (last := min(done, key=done.__getitem__)) not in reached:
            return None
        mine = _open(self._dumps[last].collectives.get(key, []))
        others = min(completed for rank, completed in done.items() if rank != last)
        return last if mine and mine[0].order in self._fronts[last] and others >= mine[0].seq else None

    def _lacking(self, dump: Dump) -> int:
        """Return how many members of the group that a rank made last have no dump, as the recorder of gloo keeps its
        size: of one in which something is over, as more came after it, so that all were there once.
        """
        size = max((len(key.ranks) for key in dump.groups if not key.name), default=0)
        newest = max((key for key in dump.collectives if key.name.isdecimal()), key=lambda k: int(k.name), default=None)
        if newest is None or len(dump.collectives[newest]) < 2:
            return 0
        return size - sum(newest in other.collectives for other in self._dumps.values())

    def _front(self, rank: int, dump: Dump) -> frozenset[int]:
        """Return where a rank stands: the first of all operations that it has not completed, of any group; and
        the transfers that follow it at once where it is one, as these run together.
        """
        waits = sorted(
            (entry.order, is_transfer)
            for is_transfer, lists in ((False, dump.collectives), (True, dump.transfers))
            for mine in lists.values()
            if self._sees(rank, mine)
            for entry in _open(mine)
        )
        if not waits or not waits[0][1]:
            return frozenset(order for order, _ in waits[:1])
        return frozenset(order for order, _ in takewhile(itemgetter(1), waits))

    def snapshot(self) -> tuple[Snapshot, list[str]]:
        """Return the job at the moment of the dumps, and what limits it."""
        members = tuple(Member(f"rank {r}", r, self._dumps[r].host if r in self._dumps else None) for r in self._index)
        groups: list[RankGroup] = []
        for number, (key, title) in enumerate(self._groups.items()):
            groups.append(RankGroup(title, "", tuple(self._index[rank] for rank in key.ranks)))
            self._look_at_group(number, title, key)
        pairs: dict[Pair, Entries] = defaultdict(dict)
        for rank, dump in self._dumps.items():
            for pair, mine in dump.transfers.items():
                pairs[pair][rank] = mine
        for (key, source, target), entries in sorted(pairs.items()):
            stall = self._of_pair(len(groups), (key, source, target), entries)
            if stall is not None:
                ends = [rank for rank in (source, target) if rank != NOBODY]
                name = f"{key.name} {'->'.join(map(str, ends))}"
                groups.append(RankGroup(name, "pp", tuple(self._index[rank] for rank in ends)))
                self._stalls.append(stall)
        unseen = frozenset(i for rank, i in self._index.items() if rank not in self._dumps)
        notes = self._notes
        if unseen:
            notes.append(f"there is no dump of {len(unseen)} of {len(self._index)} ranks: what they did is unknown")
        if not any(dump.collectives or dump.transfers or dump.unnamed for dump in self._dumps.values()):
            notes.append("nothing is recorded in any dump: TORCH_FR_BUFFER_SIZE=2000 turns the recorder on")
        if self._untimed:
            names = ", ".join(sorted(backend or "without a name" for backend in self._untimed))
            notes.append(
                f"the recorder saw no device events (backend {names}): it does not know what is over, so ranks are "
                "compared by the last operation that each has come to"
            )
        unnamed = sum((dump.unnamed for dump in self._dumps.values()), Counter[str]())
        if unnamed:
            kinds = few((f"{op:.40} {count:,}" for op, count in unnamed.most_common()), most=3)
            notes.append(f"left out {plural(unnamed.total(), 'transfer')} that do not name both ranks: {kinds}")
        if self._overwritten:
            notes.append(
                f"{plural(self._overwritten, 'comparison')} of ranks left out: older entries have been overwritten; a "
                "larger TORCH_FR_BUFFER_SIZE keeps more"
            )
        if len(self._stalls) > len(self._mismatches) and not self._timed_out:
            notes.append("no operation has timed out: the dumps may show a healthy job at work")
        # gloo records no transfers, and whoever lost a peer has given up and stands nowhere
        backends: dict[GroupKey, set[str]] = defaultdict(set)
        for dump in self._dumps.values():
            for key, mine in dump.collectives.items():
                backends[key] |= {entry.backend for entry in mine}
        of_gloo = [key for key in self._groups if backends[key] == {GLOO}]
        unrecorded = [frozenset(self._index[rank] for rank in key.ranks) for key in of_gloo if key in self._mixed]
        if unseen and of_gloo:
            unrecorded.append(frozenset(self._index.values()))
        return Snapshot(
            members,
            tuple(groups),
            tuple(self._stalls),
            tuple(self._mismatches),
            settled=self._timed_out,
            unseen=unseen,
            late=frozenset(self._index[rank] for rank in self._late),
            unrecorded=tuple(unrecorded),
        ), notes

    def _look_at_group(self, number: int, title: str, key: GroupKey) -> None:
        """Note the first collective of a group that a rank enqueued and that is not over, or that ranks differ in."""
        entries: Entries = {r: self._dumps[r].collectives.get(key, []) for r in key.ranks if r in self._dumps}
        gone = [rank for rank, mine in entries.items() if not mine and self._dumps[rank].lost]
        for rank in gone:
            del entries[rank]
        if not any(entries.values()):
            return
        self._overwritten += len(gone)
        if any(self._dumps[rank].one_series for rank in entries) and any(self._dumps[rank].lost for rank in entries):
            self._overwritten += len(entries) - 1
            return
        open_ = [(entry, rank) for rank, mine in entries.items() if self._sees(rank, mine) for entry in _open(mine)]
        standing: dict[int, set[int]] = defaultdict(set)  # number -> the ranks that stand in it
        for entry, rank in open_:
            if entry.order in self._fronts[rank]:
                standing[entry.seq].add(rank)
        first = min((entry.seq for entry, _ in open_), default=None)
        self._timed_out |= any(entry.retired for entry, _ in open_)
        if first is None:
            standing = self._ahead(entries)
            first = min(standing, default=None)
        for odd in differing(entries):
            if first is not None and odd.seq > first:
                break
            went_on = ", and it is over" if odd.over else ""
            ranks_of = grouped((what, rank) for rank, what in odd.others.items())
            calls = [
                f"{'rank' if len(ranks) == 1 else 'ranks'} {few(ranks)} called {what}"
                for what, ranks in list(ranks_of.items())[:3]
            ]
            if odd.common not in ranks_of:
                calls.append(f"most {odd.common}")
            self._notes.append(f"in {title}, number {odd.seq}: {', '.join(calls)}{went_on}")
            if not odd.over:
                at = {rank for rank, mine in entries.items() if any(e.seq == odd.seq and not e.seen for e in mine)}
                others = tuple((self._index[rank], what) for rank, what in odd.others.items())
                self._mismatches.append(Mismatch(number, odd.seq, odd.op, others, odd.kind))
                stall = self._stall(number, key, entries, odd.seq, at.union(*standing.values()))
                self._stalls.append(replace(stall, op=odd.op))
                return
        # nobody may stand in what some have enqueued behind other things: who stands nowhere has not come all the same
        reached = self._reached(key)
        if first is not None and any(not self._fronts[rank] and reached[rank][1] < first for rank in entries):
            standing.setdefault(first, set())
        self._stalls += [self._stall(number, key, entries, *there) for there in sorted(standing.items())]

    def _ahead(self, entries: Entries) -> dict[int, set[int]]:
        """Return the first number that some ranks have come to and others have not, where no recorder saw what is
        over, and the ranks that have.
        """
        blind = [entry for rank, mine in entries.items() if not self._sees(rank, mine) for entry in mine]
        if not blind:
            return {}
        self._untimed |= {entry.backend for entry in blind if not entry.completed}
        reached = {rank: mine[-1].seq if mine else -1 for rank, mine in entries.items() if not self._dumps[rank].empty}
        low = min(reached.values())
        later = [entry for mine in entries.values() for entry in mine if entry.seq > low]
        if not later or any(entry.seen for entry in later):
            return {}
        return {min(entry.seq for entry in later): {rank for rank, last in reached.items() if last > low}}

    def _sees(self, rank: int, mine: Sequence[Entry]) -> bool:
        """Return whether the recorder of a rank saw operations of a group begin or end."""
        return any(entry.backend in self._dumps[rank].timed for entry in mine)

    def _stall(self, number: int, key: GroupKey, entries: Entries, seq: int, there: set[int]) -> Stall:
        """Return a collective that stands still, by the ranks that stand there: who has not come, who is past it."""
        places: dict[str, set[int]] = defaultdict(set)
        for rank, (done, last) in self._reached(key).items():
            if rank not in there:
                front = min(self._fronts[rank], default=-1)
                past = done >= seq or any(entry.seq == seq and entry.order < front for entry in entries.get(rank, []))
                places["absent" if last < seq else "passed" if past else "behind"].add(self._index[rank])
        if key in self._of_users:
            # who else may be in it: nobody that used another group of this description
            alike = {
                rank for other, desc in self._of_users.items() if desc == self._of_users[key] for rank in other.ranks
            }
            places["behind"] |= {self._index[rank] for rank in self._dumps.keys() - alike}
        standing = frozenset(self._index[rank] for rank in there)
        absent, passed, behind = (frozenset(places[place]) for place in ("absent", "passed", "behind"))
        at = [entry for mine in entries.values() for entry in mine if entry.seq == seq]
        return Stall(number, seq, at[0].op, standing, absent, min(entry.since for entry in at), passed, behind)

    def _reached(self, key: GroupKey) -> dict[int, tuple[int, float]]:
        """Return rank -> the last collective of a group that it has completed, and the last that it has enqueued: -1 =
        none; infinite where it may have enqueued any.
        """
        lists = {rank: self._dumps[rank].collectives.get(key, []) for rank in key.ranks if rank in self._dumps}
        status = {rank: self._dumps[rank].progress.get(key, (-1, -1)) for rank in lists}
        # where the last number of each that has some is what pg_status says, it says so of those that have none
        counts = key not in self._mixed and all(status[rank][1] == mine[-1].seq for rank, mine in lists.items() if mine)
        reached: dict[int, tuple[int, float]] = {}
        for rank, mine in lists.items():
            left = _open(mine)
            if mine:
                done = -1 if not self._sees(rank, mine) else left[0].seq - 1 if left else mine[-1].seq
                reached[rank] = done, mine[-1].seq
            elif counts and status[rank][1] >= 0:
                reached[rank] = status[rank]
            else:
                reached[rank] = -1, inf if self._dumps[rank].lost else -1
        return reached

    def _of_pair(self, number: int, pair: Pair, entries: Entries) -> Stall | None:
        """Return a transfer between two ranks that has not ended."""
        key, source, target = pair
        ends = [rank for rank in (source, target) if rank in self._dumps]
        seen = {rank: _open(mine) for rank, mine in entries.items() if self._sees(rank, mine)}
        if seen:
            self._timed_out |= any(entry.retired for left in seen.values() for entry in left)
            open_ = {rank: left[0] for rank, left in seen.items() if left and left[0].order in self._fronts[rank]}
        elif target == NOBODY:
            return None
        else:
            self._untimed |= {entry.backend for mine in entries.values() for entry in mine if not entry.completed}
            # the rank that has enqueued more transfers, and the first that the other lacks
            open_ = {}
            ends = [rank for rank in ends if not self._dumps[rank].empty]
            if len(ends) == 2 and any(self._dumps[rank].lost for rank in ends):
                self._overwritten += 1
            elif len(ends) == 2:
                low, ahead = sorted(ends, key=lambda rank: len(entries.get(rank, [])))
                done = len(entries.get(low, []))
                if len(entries[ahead]) > done:
                    open_ = {ahead: entries[ahead][done]}
        if not open_:
            return None
        rank, first = next(iter(open_.items()))
        where: dict[str, frozenset[int]] = dict.fromkeys(("absent", "passed", "behind"), frozenset())
        for other in ends:
            if other not in open_:
                place = self._other_end(key, first, entries[rank], other, entries.get(other, []))
                where[place] = frozenset({self._index[other]})
        standing = frozenset(self._index[rank] for rank in open_)
        return Stall(
            number, first.seq, first.op, standing, where["absent"], first.since, where["passed"], where["behind"]
        )

    def _other_end(self, key: GroupKey, first: Entry, waits: Sequence[Entry], other: int, mine: Sequence[Entry]) -> str:
        """Return whether a rank is absent from a transfer that another waits in, has passed it, or neither is known.

        In a group of two both count all operations alike; else the transfers of the pair are counted, where all are
        recorded.
        """
        left = _open(mine) if self._sees(other, mine) else []
        over = len(mine) - len(left)
        if mine and len(key.ranks) == 2 and first.number >= 0 <= mine[0].number:
            reached, done = mine[-1].number >= first.number, over and mine[over - 1].number >= first.number
            done = done or (bool(left) and left[0].number > first.number)
        elif not self._dumps[other].lost:
            place = waits.index(first)
            reached, done = len(mine) > place, over > place
        else:
            return "behind" if left or self._fronts[other] else "absent"
        return "passed" if done else "behind" if reached else "absent"


def _open(mine: Sequence[Entry]) -> Sequence[Entry]:
    """Return what a rank has not completed; operations of a group or pair end in the order in which they began."""
    return mine[max((i for i, entry in enumerate(mine, 1) if entry.completed), default=0) :]
