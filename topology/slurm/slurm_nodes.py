"""What Slurm says of its nodes: the output of ``sinfo`` and of ``scontrol show nodes``, as text and as JSON.

Generic resources give GPUs.  A node that stands in several partitions comes several times.  Slices of MIG are GPUs to
Slurm, told by their type alone (``gpu:1g.10gb:56``).  Shards (``shard:32``) and shares of MPS are nothing beside the
GPUs: each GPU is given away whole or in shards, so that a node of which nothing is in use has whole ones.
Source: the manual pages sinfo(1), scontrol(1) and gres.conf(5).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator

from topology.cluster import MAX_GPUS, MAX_NODES
from topology.errors import InvalidInput
from topology.files import Source
from topology.hostlist import expand_hostlist
from topology.node_gpus import NodeGpus, mig_gpus, mig_profile, mig_sharing, without_profile
from topology.parsing.documents import Document
from topology.slurm.slurm_table import table_rows

_RECORD = re.compile(r"^[ \t]*NodeName=", re.MULTILINE)
_REASON = re.compile(r"(?:^|\s)Reason=(?P<why>[^\n]*?)\s+\[(?P<who>[^\s\[\]@]+)@(?P<time>[^\s\[\]]+)\](?=\s|$)")
_MOST_DIGITS = 18  # Of a number of GPUs; any number of so many is read at once
_SHARDS = re.compile(r"(?:^|,)(?:gres/)?shard(?:[:=][^:=,()]+)*?[:=]([0-9]{1,9})(?=[(,]|$)")
_GRES = re.compile(r"(?:^|,)(?:gres/)?gpu((?:[:=][^:=,()]+)*)(?:\([^()]*\))?(?=,|$)")


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
    reason: str = ""  # why it is drained or down, and who says so
    topology: str = ""  # where it is, default:spine-1:leaf-2, of several topologies with commas between them
    newest: float | None = None  # the newest time, in seconds since 1970, that was past when Slurm said this


def slurm_nodes(source: Source, known: Container[str]) -> list[SlurmNode] | None:
    """Return the nodes of a text that is an output of Slurm; ``None`` = it is none.  Known nodes tell a column of nodes
    from one of partitions.
    """
    if _RECORD.search(source.text):
        return list(_from_records(source))
    return _from_table(source, known)


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
    if not gres.isprintable():
        fix = "give the output of Slurm as it is"
        raise InvalidInput(f"the generic resources have control characters: {gres[:60]!r}", where=where, fix=fix)
    total = typed = cut = 0
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
    whole = max(0, (total or typed) - slices.total())
    gpus = whole + (cut := mig_gpus(slices, gpu_type_of(gres)))
    if gpus > MAX_GPUS:
        text = gres if len(gres) <= 60 else f"{gres[:60]}..."
        many = f"more than {MAX_GPUS} GPUs a node: {text!r}"
        raise InvalidInput(many, where=where, fix=f"a node has at most {MAX_GPUS} GPUs")
    shards = sum(int(digits) for digits in _SHARDS.findall(gres))
    sharing = mig_sharing(slices, cut=cut, physical=gpus) if slices else ""
    return NodeGpus(gpus, gpus, sharing, max(1, shards // gpus) if gpus else 1)


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


def _gpus_said(gres: str | None, tres: str | None, *, where: str) -> NodeGpus | None:
    """Return the GPUs of a node by its generic and its trackable resources; ``None`` = neither says it."""
    gpus = None if gres is None else gpus_of(gres, where=where)
    # without a gres.conf in sight of the node, Gres is (null) and the trackable resources may still say it
    return gpus_of(tres, where=where) if not (gpus and gpus.physical) and tres and "gres/gpu" in tres else gpus


def slurm_time(text: str) -> float | None:
    """Return a time of Slurm's, which is local unless it is a number, in seconds since 1970; ``None`` = it is none."""
    if text.isdecimal() and len(text) < 13:
        return float(text)
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _number(value: Any) -> Any:
    """Return a number of Slurm's JSON, which until 23.02 was a plain one; ``None`` where it is not set, or infinite."""
    if isinstance(value, dict) and "number" in value:
        return value["number"] if value.get("set", True) and not value.get("infinite") else None
    return value


SlurmNumber = Annotated[float | None, BeforeValidator(_number)]


def _features(text: str | list[str] | None) -> tuple[str, ...] | None:
    words = text.split(",") if isinstance(text, str) else text
    return None if words is None else tuple(word for word in words if word not in ("", "(null)"))


class _Node(BaseModel):
    """A node of ``scontrol show nodes --json``, and of ``sinfo --json`` until 22.05."""

    name: str
    state: list[str] | str
    state_flags: list[str] | None = None
    gres: str | None = None
    tres: str | None = None
    partitions: list[str] | None = None
    features: list[str] | str | None = None
    active_features: list[str] | str | None = None
    reason: str = ""
    reason_set_by_user: str | None = None
    topology: str = ""

    def words(self) -> tuple[str, ...]:
        return (*((self.state,) if isinstance(self.state, str) else self.state), *(self.state_flags or ()))


class _NodeState(BaseModel):
    state: list[str]


class _NodeNames(BaseModel):
    nodes: list[str]


class _Total(BaseModel):
    total: str | None = None


class _Named(BaseModel):
    name: str = ""
    flags: list[str] = []


class _Row(BaseModel):
    """A row of ``sinfo --json``: nodes alike."""

    node: _NodeState
    nodes: _NodeNames
    gres: _Total = _Total()
    features: _Total = _Total()
    partition: _Named | None = None


class _Error(BaseModel):
    description: str | None = None
    error: str | None = None


class _Nodes(BaseModel):
    nodes: list[_Node] | None = None
    sinfo: list[_Row] | None = None
    errors: list[_Error | str] | None = None


def nodes_of_json(document: Document) -> Iterator[SlurmNode]:
    """Yield the nodes of ``scontrol show nodes --json`` or ``sinfo --json``; raise InvalidInput where it is neither."""
    found = document.parse(_Nodes)
    if found.errors:
        first = found.errors[0]
        said = first if isinstance(first, str) else first.description or first.error or "no description"
        failed, place = f"Slurm could not list its nodes: {said}", document.where("errors", 0)
        raise InvalidInput(failed, where=place, fix="ask Slurm again when it answers without errors")
    if found.nodes is None and found.sinfo is None:
        fix = "give the output of `scontrol show nodes --json` or `sinfo -N --json`, or a node or hostlist a line"
        raise InvalidInput("is JSON without a list of nodes", where=document.source.name, fix=fix)
    # the line of each of many nodes would take longer to find than the nodes themselves
    place = document.source.name
    for i, node in enumerate(found.nodes or []):
        try:
            gpus = _gpus_said(node.gres, node.tres, where=place)
        except InvalidInput as error:
            error.where = document.where("nodes", i)
            raise
        partitions = None if node.partitions is None else tuple(node.partitions)
        features = _features(node.features if node.active_features is None else node.active_features)
        by = f" [{node.reason_set_by_user}]" if node.reason and node.reason_set_by_user else ""
        gpu_type, reason = gpu_type_of(node.gres, node.tres), node.reason + by
        yield SlurmNode(node.name, node.words(), gpus, gpu_type, place, partitions, "", features, reason, node.topology)
    for i, row in enumerate(found.sinfo or []):
        try:
            gpus = None if row.gres.total is None else gpus_of(row.gres.total, where=place)
        except InvalidInput as error:
            error.where = document.where("sinfo", i)
            raise
        named, features = row.partition, _features(row.features.total)
        partitions = None if named is None else (named.name,)
        default = named.name if named is not None and "DEFAULT" in named.flags else ""
        gpu_type, state = gpu_type_of(row.gres.total), tuple(row.node.state)
        for hostlist in row.nodes.nodes:
            for name in expand_hostlist(hostlist, where=place):
                yield SlurmNode(name, state, gpus, gpu_type, place, partitions, default, features)


def _from_records(source: Source) -> Iterator[SlurmNode]:
    starts = [match.start() for match in _RECORD.finditer(source.text)]
    line = 1
    before = 0
    for start, end in zip(starts, [*starts[1:], len(source.text)], strict=True):
        line, before = line + source.text.count("\n", before, start), start
        place, record = source.at(line), source.text[start:end]
        # why a node is out of work is free text, in which anything may stand
        reason = _REASON.search(record)
        if reason is not None:
            record = record[: reason.start()] + record[reason.end() :]
        fields = fields_of(record)
        name, state = fields.get("NodeName"), fields.get("State")
        if not name or not state:
            stateless = f"the node {name or ''!r} has no state"
            raise InvalidInput(stateless, where=place, fix="give all that `scontrol show nodes` prints")
        resources = fields.get("Gres"), fields.get("CfgTRES")
        gpus = _gpus_said(*resources, where=place)
        partitions = fields.get("Partitions")
        features = fields.get("ActiveFeatures") or fields.get("AvailableFeatures")
        times = [fields.get(key) or "" for key in ("BootTime", "SlurmdStartTime", "LastBusyTime")]
        times += [reason["time"]] if reason is not None else []
        yield SlurmNode(
            name,
            (state,),
            gpus,
            gpu_type_of(*resources),
            place,
            None if partitions is None else tuple(partitions.split(",")),
            "",
            _features(features),
            "" if reason is None else f"{reason['why']} [{reason['who']}]",
            fields.get("Topology") or "",
            max((time for text in times if (time := slurm_time(text)) is not None), default=None),
        )


def fields_of(record: str) -> dict[str, str]:
    """Return the keys of a record of ``scontrol`` and their values, each to the next blank; of equal keys the first."""
    fields: dict[str, str] = {}
    for word in record.split():
        key, sign, value = word.partition("=")
        if sign:
            fields.setdefault(key, value)
    return fields


def _from_table(source: Source, known: Container[str]) -> list[SlurmNode] | None:
    rows = table_rows(source, known)
    if rows is None:
        return None
    found: list[SlurmNode] = []
    budget = 4 * MAX_NODES
    for row in rows:
        gpus = None if row.gres is None else gpus_of(row.gres, where=row.place)
        limit = min(MAX_NODES, budget)
        names = [row.nodes] if row.nodes in known else expand_hostlist(row.nodes, where=row.place, limit=limit)
        budget -= len(names)
        gpu_type, partition = gpu_type_of(row.gres), (row.partition or "").rstrip("*")
        partitions = None if row.partition is None else (partition,) if partition else ()
        default = partition if (row.partition or "").endswith("*") else ""
        found += [SlurmNode(name, (row.state,), gpus, gpu_type, row.place, partitions, default) for name in names]
    return found
