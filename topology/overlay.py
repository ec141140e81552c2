"""Flags laid over a topology.

Flag file: YAML or JSON, a list of flags (or an object with the key ``flags``, as ``arnold stragglers --json`` prints
it) with the fields of :class:`~topology.flags.NodeFlag`; of a faulty node the slowdown may be left out, and the node
may be a hostlist of nodes that are flagged alike, in another spelling than the cluster's
(:mod:`topology.node_names`).  A flag store (:mod:`topology.flag_log`), recognised by its first
bytes, stands for the flags that it holds now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from topology.cluster import Cluster
from topology.errors import InvalidInput, InvalidTopology, did_you_mean, some
from topology.files import Source, read_source
from topology.flag_log import is_store, open_log, refuse_lines
from topology.flags import NodeFlag, merge_by_node
from topology.hostlist import expand_hostlist
from topology.json_record import JsonRecord
from topology.node_names import NodeNames
from topology.parsing.documents import Document, load_document


@dataclass(frozen=True, slots=True)
class FlagFile(JsonRecord):
    """A document with flags in it; what else it says is not read."""

    __pydantic_config__: ClassVar = JsonRecord.__pydantic_config__ | {"extra": "ignore"}

    flags: tuple[NodeFlag, ...]
    """Flags, as ``--flags`` of ``arnold place`` reads them."""


def with_flags(cluster: Cluster, path: str | Path, *, now: datetime) -> tuple[Cluster, tuple[str, ...]]:
    """Return the cluster with the flags of a flag file or a flag store that hold now, and notes about the others; raise
    InvalidTopology where it has no node that a flag file names.
    """
    if is_store(path):
        known, notes = _of_nodes(merge_by_node(read_flags(path, now=now)), cluster.index_of, path)
        return cluster.with_flags(known), notes
    source = read_source(path)
    cluster, expired = with_flag_file(cluster, source, now=now)
    return cluster, (f"flags of {source.name} not active now, left out: {expired}",) if expired else ()


def with_flag_file(cluster: Cluster, source: Source, *, now: datetime) -> tuple[Cluster, int]:
    """Return the cluster with the flags of a file that are active now, and the number of those that are not."""
    flags = _flags_of(source, cluster.index_of)
    active = [flag for flag in flags if flag.active(now)]
    return cluster.with_flags(active), len(flags) - len(active)


def flags_over_time(path: str | Path, nodes: Collection[str]) -> tuple[list[NodeFlag], tuple[str, ...]]:
    """Return all flags of a flag file, or all that a flag store ever held, with their times, and notes; raise
    InvalidTopology where a flag file names none of the nodes.
    """
    if not is_store(path):
        return _flags_of(read_source(path), nodes), ()
    with open_log(path) as log:
        return _of_nodes(log.over_time(), nodes, path)


def _of_nodes(
    flags: Iterable[NodeFlag], nodes: Collection[str], path: str | Path
) -> tuple[list[NodeFlag], tuple[str, ...]]:
    """Return the flags of some nodes: a store outlives nodes, and a note names those that are none."""
    names = NodeNames(nodes)
    every = [replace(flag, node=names.any(flag.node)) for flag in flags]
    strangers = list(dict.fromkeys(flag.node for flag in every if flag.node not in nodes))
    words = f"flagged in {path} and no nodes of the cluster, left out: {some(strangers)}"
    return [flag for flag in every if flag.node in nodes], (words,) if strangers else ()


def _flags_of(source: Source, nodes: Collection[str]) -> list[NodeFlag]:
    """Return the flags of a file, all of some nodes."""
    document, flags = _flags(source)
    names = NodeNames(nodes)
    found: list[NodeFlag] = []
    for i, flag in enumerate(flags):
        for one in [flag] if flag.node in nodes else _each(flag, document, i):
            own = names.find(one.node, where=_where(document, i, "node")) if one.node not in nodes else one.node
            if own is None:
                fix = f"{did_you_mean(one.node, list(nodes))}use names of the cluster file"
                where = _where(document, i, "node")
                raise InvalidTopology(f"the cluster has no node {one.node[:80]!r}", where=where, fix=fix)
            found.append(replace(one, node=own))
    return found


def _each(flag: NodeFlag, document: Document, i: int) -> list[NodeFlag]:
    """Return a flag for each node of a hostlist such as ``n[01-04]``; any other name is that of one node.

    :raises InvalidInput: the hostlist is broken.
    """
    if "[" not in flag.node:
        return [flag]
    return [replace(flag, node=name) for name in expand_hostlist(flag.node, where=_where(document, i, "node"))]


def _where(document: Document, i: int, key: str) -> str:
    """Return the file and line of a key of the i-th flag."""
    return document.where("flags", i, key) if isinstance(document.data, dict) else document.where(i, key)


def read_flags(path: str | Path, *, now: datetime | None = None) -> list[NodeFlag]:
    """Read the flags of a file, of whichever nodes and whenever they hold; of a flag store what holds now, or at
    another time (timezone-aware).
    """
    if is_store(path):
        with open_log(path) as log:
            return log.standing(datetime.now(UTC) if now is None else now)
    document, flags = _flags(read_source(path))
    return [one for i, flag in enumerate(flags) for one in _each(flag, document, i)]


def _flags(source: Source) -> tuple[Document, list[NodeFlag]]:
    refuse_lines(source.name, source.text[:100].encode())
    document = load_document(source)
    if not isinstance(document.data, dict | list):
        fix = "write lines such as - {node: 'n[01-04]', slowdown: 1.3}; --busy keeps off the nodes of a plain list"
        raise InvalidInput("is no list of flags", where=document.where(), fix=fix)
    listed = isinstance(document.data, list)
    flags = document.parse(list[NodeFlag]) if listed else list(document.parse(FlagFile).flags)
    for i, flag in enumerate(flags):
        if flag.since is not None and flag.until is not None and flag.until <= flag.since:
            begin, end = (f"{one.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for one in (flag.since, flag.until))
            wrong = f"the flag of {flag.node[:80]} ends at {end}, not after it begins, at {begin}"
            raise InvalidInput(wrong, where=_where(document, i, "until"), fix="correct until, or since")
    return document, flags
