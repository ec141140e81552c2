"""Flags laid over a topology.

Flag file: YAML or JSON, a list of flags (or an object with the key ``flags``, as ``arnold stragglers --json`` prints
it) with the fields of :class:`~topology.flags.NodeFlag`; of a faulty node the slowdown may be left out.  A flag store
(:mod:`topology.flag_log`), recognised by its first line, stands for the flags that it holds now.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import BaseModel

from topology.cluster import Cluster
from topology.documents import Document, load_document
from topology.errors import InvalidTopology, did_you_mean, some
from topology.files import Source
from topology.flag_log import is_log, read_log
from topology.flag_rows import FlagRow
from topology.flags import NodeFlag


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


def with_flag_store(cluster: Cluster, source: Source, *, now: datetime) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster with the flags that a store holds now, merged over its sources, and what a user should know of them.

    A store outlives nodes: those that the cluster does not have are left out and named.

    :param now: timezone-aware.
    :raises InvalidInput: not a flag store, or a broken one.
    """
    log = read_log(source)
    flags = log.holding(now)
    known = [flag for flag in flags if flag.node in cluster.index_of]
    notes = []
    if log.torn:
        notes.append(f"{source.name} ends in an unfinished line of {log.torn} bytes, left out")
    if strangers := [flag.node for flag in flags if flag.node not in cluster.index_of]:
        notes.append(f"flagged in {source.name} and no nodes of the cluster, left out: {some(strangers)}")
    return cluster.with_flags(known), tuple(notes)


def read_flags(source: Source, *, now: datetime | None = None) -> list[NodeFlag]:
    """The flags of a file, of whichever nodes and whenever they hold; of a flag store those of its sources at one time.

    :param now: timezone-aware, for a store; ``None`` = the present.
    :raises InvalidInput: neither a list of flags nor a flag store.
    """
    if is_log(source):
        return read_log(source).standing(datetime.now(UTC) if now is None else now)
    return _flags(load_document(source))


def _flags(document: Document) -> list[NodeFlag]:
    wrapped = isinstance(document.data, dict)
    rows = document.parse(_FlagFile).flags if wrapped else document.parse(list[FlagRow])
    return [row.flag() for row in rows]


class _FlagFile(BaseModel):
    """A document with flags in it; what else it says is not ours."""

    flags: list[FlagRow]


def _no_node(cluster: Cluster, name: str, place: str) -> InvalidTopology:
    return InvalidTopology(
        f"the cluster has no node {name[:80]!r}",
        where=place,
        fix=f"{did_you_mean(name, cluster.names)}use names of the cluster file",
    )
