"""What Slurm says of its nodes: the output of ``sinfo`` and of ``scontrol show nodes``, as text and as JSON.

Known by content.  Of ``sinfo`` any columns will do that have a node (or hostlist) and a state, with a header or
without; a column of generic resources (``%G``) gives GPUs.  A node that stands in several partitions comes several
times.

Source: the manual pages sinfo(1), scontrol(1) and gres.conf(5).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from topology.cluster import MAX_NODES
from topology.documents import load_document
from topology.errors import InvalidInput
from topology.files import Source
from topology.hostlist import expand_hostlist
from topology.slurm_states import is_state

_NODE_HEADERS = ("NODELIST", "NODE", "NODENAME", "HOSTNAMES", "NODE_ADDR")
_STATE_HEADERS = ("STATE", "STATECOMPACT", "STATELONG", "STATECOMPLETE")
_GRES_HEADERS = ("GRES", "TRES")
_HEADER_WITHIN = 3
"""``sinfo --long`` prints the date before its header, several clusters a line with their name."""

_RECORD = re.compile(r"^[ \t]*NodeName=", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s)#.*")
_BETWEEN = re.compile(r"[\s|]+")
_GRES = re.compile(r"(?:^|,)(?:gres/)?gpu((?:[:=][^:=,()]+)*)(?:\([^()]*\))?(?=,|$)")


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node in the words of Slurm.

    :param state: words of its state, ``("IDLE", "DRAIN")`` or ``("drng*",)``.
    :param gpus: ``None`` = not said.
    :param place: where it stands.
    """

    name: str
    state: tuple[str, ...]
    gpus: int | None
    place: str


def slurm_nodes(source: Source, known: Container[str]) -> list[SlurmNode] | None:
    """The nodes of a text that is an output of Slurm; ``None`` = it is none.

    :param known: names of nodes that exist, to tell a column of nodes from one of partitions.
    :raises InvalidInput: it is one, and damaged.
    """
    if source.text.lstrip().startswith("{"):
        return list(_from_json(source))
    if _RECORD.search(source.text):
        return list(_from_records(source))
    return _from_table(source, known)


def gpus_of(gres: str) -> int:
    """GPUs in a list of generic resources, 0 where there are none.

    >>> gpus_of("gpu:h100:8(S:0-1),nvme:1"), gpus_of("gpu:a:2,gpu:b:2"), gpus_of("(null)"), gpus_of("cpu=9,gres/gpu=8")
    (8, 4, 0, 8)
    """
    total = typed = 0
    for match in _GRES.finditer(gres):
        words = [word for word in re.split("[:=]", match[1]) if word]
        count = int(words[-1]) if words and words[-1].isdecimal() else 1
        # in TRES the sum over all types (gres/gpu=8) stands beside the types (gres/gpu:h100=8)
        if "gres/gpu:" in match[0]:
            typed += count
        else:
            total += count
    return total or typed


class _Node(BaseModel):
    """A node of ``scontrol show nodes --json``, and of ``sinfo --json`` until 22.05."""

    name: str
    state: list[str] | str
    state_flags: list[str] = []
    gres: str | None = None

    def words(self) -> tuple[str, ...]:
        return (*((self.state,) if isinstance(self.state, str) else self.state), *self.state_flags)


class _NodeState(BaseModel):
    state: list[str]


class _NodeNames(BaseModel):
    nodes: list[str]


class _Total(BaseModel):
    total: str | None = None


class _Row(BaseModel):
    """A row of ``sinfo --json``: nodes alike."""

    node: _NodeState
    nodes: _NodeNames
    gres: _Total = _Total()


class _Nodes(BaseModel):
    nodes: list[_Node] | None = None
    sinfo: list[_Row] | None = None


def _from_json(source: Source) -> Iterator[SlurmNode]:
    document = load_document(source)
    found = document.parse(_Nodes)
    if found.nodes is None and found.sinfo is None:
        raise InvalidInput(
            "is JSON without a list of nodes",
            where=source.name,
            fix="give the output of `scontrol show nodes --json` or `sinfo -N --json`, or a node or hostlist a line",
        )
    # the line of each of many nodes would take longer to find than the nodes themselves
    place = source.name
    for node in found.nodes or []:
        gpus = None if node.gres is None else gpus_of(node.gres)
        yield SlurmNode(node.name, node.words(), gpus, place)
    for row in found.sinfo or []:
        gpus = None if row.gres.total is None else gpus_of(row.gres.total)
        for hostlist in row.nodes.nodes:
            for name in expand_hostlist(hostlist, where=place):
                yield SlurmNode(name, tuple(row.node.state), gpus, place)


def _from_records(source: Source) -> Iterator[SlurmNode]:
    starts = [match.start() for match in _RECORD.finditer(source.text)]
    line = 1
    before = 0
    for start, end in zip(starts, [*starts[1:], len(source.text)], strict=True):
        line, before = line + source.text.count("\n", before, start), start
        place, record = source.at(line), source.text[start:end]
        name, state = _value("NodeName", record), _value("State", record)
        if not name or not state:
            raise InvalidInput(
                f"the node {name or ''!r} has no state", where=place, fix="give all that `scontrol show nodes` prints"
            )
        gres = _value("Gres", record)
        gpus = gpus_of(gres) if gres is not None else None
        # without a gres.conf in sight of the node, Gres is (null) and the trackable resources may still say it
        if not gpus and "gres/gpu" in (tres := _value("CfgTRES", record) or ""):
            gpus = gpus_of(tres)
        yield SlurmNode(name, (state,), gpus, place)


def _value(key: str, record: str) -> str | None:
    match = re.search(rf"(?:^|\s){key}=(\S*)", record)
    return None if match is None else match[1]


def _from_table(source: Source, known: Container[str]) -> list[SlurmNode] | None:
    lines: list[tuple[str, list[str]]] = []
    for number, line in enumerate(source.text.splitlines(), 1):
        text = _COMMENT.sub("", line).strip().strip("|").strip()
        if text:
            lines.append((source.at(number), [text] if text in known else _BETWEEN.split(text)))
    columns = _columns(lines, known)
    if columns is None:
        return None
    node_at, state_at, gres_at, rows = columns
    found: list[SlurmNode] = []
    budget = 4 * MAX_NODES
    for place, fields in rows:
        if len(fields) <= max(node_at, state_at):
            raise InvalidInput(
                "the line has no state, as the others have",
                where=place,
                fix='give all that `sinfo -N -h -o "%N %t %G"` prints',
            )
        gpus = gpus_of(fields[gres_at]) if gres_at is not None and gres_at < len(fields) else None
        names = expand_hostlist(fields[node_at], where=place, limit=min(MAX_NODES, budget))
        budget -= len(names)
        found += [SlurmNode(name, (fields[state_at],), gpus, place) for name in names]
    return found


_Rows = list[tuple[str, list[str]]]


def _columns(lines: _Rows, known: Container[str]) -> tuple[int, int, int | None, _Rows] | None:
    """Columns of node, state and generic resources, and the rows; ``None`` = this is no table of states."""
    for i, (_, fields) in enumerate(lines[:_HEADER_WITHIN]):
        names = [field.upper() for field in fields]
        node_at, state_at = _first(names, _NODE_HEADERS), _first(names, _STATE_HEADERS)
        if node_at is not None and state_at is not None:
            return node_at, state_at, _first(names, _GRES_HEADERS), [row for row in lines[i + 1 :] if row[1] != fields]
    rows = lines
    width = max((len(fields) for _, fields in rows), default=0)
    if width < 2:
        return None
    states, nodes, gres = [0] * width, [0] * width, [0] * width
    for _, fields in rows:
        for at, field in enumerate(fields):
            states[at] += is_state(field)
            nodes[at] += _names_any(field, known)
            gres[at] += gpus_of(field) > 0
    state_at = max(range(width), key=states.__getitem__)
    if 2 * states[state_at] <= len(rows):
        return None
    node_at = max((at for at in range(width) if at != state_at), key=nodes.__getitem__)
    return node_at, state_at, gres.index(max(gres)) if any(gres) else None, rows


def _first(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    return next((i for i, name in enumerate(names) if name in wanted), None)


def _names_any(field: str, known: Container[str]) -> bool:
    if field in known:
        return True
    if "[" not in field and "," not in field:
        return False
    try:
        return any(name in known for name in expand_hostlist(field))
    except InvalidInput:
        return False
