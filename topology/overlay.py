"""Flags laid over a topology.

Flag file: YAML or JSON, a list of flags (or an object with the key ``flags``, as ``arnold stragglers --json`` prints
it) with the fields of :class:`~topology.flags.NodeFlag`; of a faulty node the slowdown may be left out.  A flag store
(:mod:`topology.flag_log`), recognised by its first bytes, stands for the flags that it holds now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from topology.cluster import Cluster
from topology.documents import Document, load_document
from topology.errors import InvalidInput, InvalidTopology, did_you_mean, some
from topology.files import Source, read_source
from topology.flag_log import is_store, open_log, refuse_lines
from topology.flags import NodeFlag, merge_by_node
from topology.json_record import JsonRecord


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
    every = list(flags)
    strangers = list(dict.fromkeys(flag.node for flag in every if flag.node not in nodes))
    words = f"flagged in {path} and no nodes of the cluster, left out: {some(strangers)}"
    return [flag for flag in every if flag.node in nodes], (words,) if strangers else ()


def _flags_of(source: Source, nodes: Collection[str]) -> list[NodeFlag]:
    """Return the flags of a file, all of some nodes."""
    document, flags = _flags(source)
    for i, flag in enumerate(flags):
        if flag.node not in nodes:
            where = document.where(*(["flags"] if isinstance(document.data, dict) else []), i, "node")
            fix = f"{did_you_mean(flag.node, list(nodes))}use names of the cluster file"
            fix = "give each node a flag of its own" if "[" in flag.node else fix
            raise InvalidTopology(f"the cluster has no node {flag.node[:80]!r}", where=where, fix=fix)
    return flags


def read_flags(path: str | Path, *, now: datetime | None = None) -> list[NodeFlag]:
    """Read the flags of a file, of whichever nodes and whenever they hold; of a flag store what holds now, or at
    another time (timezone-aware).
    """
    if is_store(path):
        with open_log(path) as log:
            return log.standing(datetime.now(UTC) if now is None else now)
    return _flags(read_source(path))[1]


def _flags(source: Source) -> tuple[Document, list[NodeFlag]]:
    refuse_lines(source.name, source.text[:100].encode())
    document = load_document(source)
    if not isinstance(document.data, dict | list):
        fix = "write for each node a line such as - {node: n0001, slowdown: 1.3}"
        raise InvalidInput("is no list of flags", where=document.where(), fix=fix)
    inside = isinstance(document.data, dict)
    flags = list(document.parse(FlagFile).flags) if inside else document.parse(list[NodeFlag])
    for i, flag in enumerate(flags):
        if flag.since is not None and flag.until is not None and flag.until <= flag.since:
            begin, end = (f"{one.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for one in (flag.since, flag.until))
            wrong = f"the flag of {flag.node[:80]} ends at {end}, not after it begins, at {begin}"
            where = document.where(*["flags"][:inside], i, "until")
            raise InvalidInput(wrong, where=where, fix="correct until, or since")
    return document, flags
