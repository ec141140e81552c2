"""State laid over a topology: which nodes are in use, which are flagged.

Busy file: one node or Slurm hostlist a line, ``#`` begins a comment.  Flag file: YAML or JSON, a list of flags (or an
object with the key ``flags``, as ``arnold stragglers --json`` prints it) with the fields of
:class:`~topology.flags.NodeFlag`; of a faulty node the slowdown may be left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from topology.cluster import MAX_NODES, Cluster
from topology.documents import Document, load_document
from topology.errors import InvalidTopology, did_you_mean
from topology.files import Source
from topology.flags import FAULTY, HEALTHY, FlagKind, NodeFlag
from topology.hostlist import expand_hostlist


def with_busy_file(cluster: Cluster, source: Source) -> Cluster:
    """The cluster with all GPUs in use on the nodes that a file lists.  A node may be listed more than once.

    :raises InvalidInput: a line is not a node name or hostlist.
    :raises InvalidTopology: the cluster has no such node.
    """
    busy: set[int] = set()
    budget = 4 * MAX_NODES
    for number, line in enumerate(source.text.splitlines(), 1):
        text = line.split("#", 1)[0].strip()
        if not text:
            continue
        if text in cluster.index_of:
            busy.add(cluster.index_of[text])
            continue
        place = source.at(number)
        names = expand_hostlist(text, where=place, limit=min(MAX_NODES, budget))
        budget -= len(names)
        busy.update(_indices(cluster, names, place))
    return cluster.with_busy(busy)


def with_flag_file(cluster: Cluster, source: Source, *, now: datetime) -> tuple[Cluster, int]:
    """The cluster with the flags of a file that are active now, and the number of those that are not.

    :param now: timezone-aware.
    :raises InvalidInput: not a list of flags.
    :raises InvalidTopology: the cluster has no such node.
    """
    document = load_document(source)
    flags = _flags(document)
    for i, flag in enumerate(flags):
        if flag.node not in cluster.index_of:
            wrapper = ["flags"] if isinstance(document.data, dict) else []
            raise _no_node(cluster, flag.node, document.where(*wrapper, i, "node"))
    active = [flag for flag in flags if flag.active(now)]
    return cluster.with_flags(active), len(flags) - len(active)


def read_flags(source: Source) -> list[NodeFlag]:
    """The flags of a file, of whichever nodes and whenever they hold.

    :raises InvalidInput: not a list of flags.
    """
    return _flags(load_document(source))


def _flags(document: Document) -> list[NodeFlag]:
    wrapped = isinstance(document.data, dict)
    rows = document.parse(_FlagFile).flags if wrapped else document.parse(list[_FlagRow])
    return [row.flag() for row in rows]


class _FlagRow(BaseModel):
    """A flag as it stands in a file."""

    model_config = ConfigDict(extra="forbid")

    node: str
    kind: FlagKind
    slowdown: float | None = Field(None, ge=HEALTHY)
    score: float | None = Field(None, allow_inf_nan=False)
    source: str = ""
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    evidence: str = ""

    @model_validator(mode="after")
    def _slowdown_fits_the_kind(self) -> _FlagRow:
        factor = self.slowdown
        if self.kind == "faulty":
            if factor is not None and not math.isinf(factor):
                raise ValueError(f"a faulty node has no slowdown, and this one has {factor}")
        elif factor is None or not math.isfinite(factor):
            raise ValueError(f"a node that is {self.kind} needs a slowdown, a factor such as 1.3")
        return self

    def flag(self) -> NodeFlag:
        """The flag itself."""
        fields = self.model_dump()
        fields["slowdown"] = FAULTY if self.kind == "faulty" else self.slowdown
        return NodeFlag(**fields)


class _FlagFile(BaseModel):
    """A document with flags in it; what else it says is not ours."""

    flags: list[_FlagRow]


def _indices(cluster: Cluster, names: Iterable[str], place: str) -> Iterable[int]:
    for name in names:
        if name not in cluster.index_of:
            raise _no_node(cluster, name, place)
        yield cluster.index_of[name]


def _no_node(cluster: Cluster, name: str, place: str) -> InvalidTopology:
    return InvalidTopology(
        f"the cluster has no node {name[:80]!r}",
        where=place,
        fix=f"{did_you_mean(name, cluster.names)}use names of the cluster file",
    )
