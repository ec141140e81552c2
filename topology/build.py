"""From rows to a cluster: every way in which a list of nodes is no tree is found here, with its place.

Readers and generators make rows of :class:`~topology.cluster.Node`; nothing else builds the arrays of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from topology.cluster import MAX_GPUS, MAX_LEVELS, MAX_NODES, ROOT, Cluster, Level, Node
from topology.errors import InvalidTopology, TooLarge
from topology.flags import FAULTY, HEALTHY, NodeFlag


def build_cluster(
    level_names: Sequence[str],
    nodes: Iterable[Node],
    *,
    flags: Iterable[NodeFlag] = (),
    where: Sequence[str] = (),
) -> Cluster:
    """Make a cluster from rows, checking all that can be wrong with a tree.

    :param level_names: from the broadest to the closest, unique.
    :param nodes: rows with one path entry a level; an empty entry means the node has no domain there.  A row with a
        slowdown above 1 becomes a flag.
    :param flags: further flags.
    :param where: for each row the place it was read from ("cluster.csv:12"), for error messages.
    :raises InvalidTopology: no nodes, a node twice, a domain under two parents, impossible GPU counts, names that
        cannot be printed.
    :raises TooLarge: more than :data:`MAX_NODES` nodes.
    """
    rows = list(islice(nodes, MAX_NODES + 1))
    if len(rows) > MAX_NODES:
        raise TooLarge(f"the cluster has more than {MAX_NODES:,} nodes", fix="describe a part of it")
    _check_level_names(level_names)
    if not rows:
        raise InvalidTopology("the cluster has no nodes", where=where[0] if where else "", fix="list at least one node")
    seen: dict[str, int] = {}
    for i, row in enumerate(rows):
        _check_row(row, len(level_names), where, i)
        if (first := seen.setdefault(row.name, i)) != i:
            earlier = f" (first at {where[first]})" if where else ""
            raise InvalidTopology(
                f"node {row.name!r} appears twice{earlier}", where=_place(where, i), fix="keep one row for each node"
            )
    own_flags = [
        NodeFlag(
            row.name, "faulty" if row.slowdown == FAULTY else "straggler", slowdown=row.slowdown, source="cluster file"
        )
        for row in rows
        if row.slowdown > HEALTHY
    ]
    cluster = Cluster(
        names=tuple(row.name for row in rows),
        gpus=np.array([row.gpus for row in rows], dtype=np.int32),
        free_gpus=np.array([row.free_gpus for row in rows], dtype=np.int32),
        levels=_build_levels(level_names, rows, where),
        flags={},
    )
    return cluster.with_flags([*own_flags, *flags])


def _place(where: Sequence[str], i: int) -> str:
    return where[i] if i < len(where) else ""


def _check_level_names(names: Sequence[str]) -> None:
    if len(names) > MAX_LEVELS:
        raise InvalidTopology(f"the tree has {len(names)} levels", fix=f"describe it with at most {MAX_LEVELS} levels")
    for i, name in enumerate(names):
        _check_printable("level", name, (), i)
        if not name:
            raise InvalidTopology("a level has no name", fix="name every level column")
        if name in names[:i]:
            raise InvalidTopology(f"two levels are called {name!r}", fix="give every level its own name")


def _check_printable(what: str, name: str, where: Sequence[str], i: int) -> None:
    if not name.isprintable():
        raise InvalidTopology(
            f"the name of a {what} has control characters: {name[:60]!r}",
            where=_place(where, i),
            fix="use a printable name",
        )


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**12 else "an absurd number of"


def _check_row(row: Node, depth: int, where: Sequence[str], i: int) -> None:
    """Check one row; its place is looked up only when there is something to say, as that may take long."""
    if not row.name:
        raise InvalidTopology("a node has no name", where=_place(where, i), fix="name every node")
    _check_printable("node", row.name, where, i)
    if len(row.path) != depth:
        raise InvalidTopology(
            f"node {row.name!r} has {len(row.path)} levels instead of {depth}",
            where=_place(where, i),
            fix="fill every level",
        )
    if row.gpus < 1:
        raise InvalidTopology(
            f"node {row.name!r} has {row.gpus} GPUs", where=_place(where, i), fix="give every node at least one GPU"
        )
    if row.gpus > MAX_GPUS:
        raise InvalidTopology(
            f"node {row.name!r} has {_short(row.gpus)} GPUs",
            where=_place(where, i),
            fix=f"a node has at most {MAX_GPUS} GPUs",
        )
    if not 0 <= row.free_gpus <= row.gpus:
        raise InvalidTopology(
            f"node {row.name!r} has {_short(row.free_gpus)} free GPUs of {row.gpus}",
            where=_place(where, i),
            fix="free GPUs lie between 0 and the node's GPUs",
        )


def _build_levels(level_names: Sequence[str], rows: Sequence[Node], where: Sequence[str]) -> tuple[Level, ...]:
    levels: list[Level] = []
    broader: list[int] = [0] * len(rows)
    broader_names: list[str] = [ROOT]
    for depth, level_name in enumerate(level_names):
        numbers: dict[tuple[str, int], int] = {}
        names: list[str] = []
        parents: list[int] = []
        implicit: list[bool] = []
        parent_of_name: dict[str, int] = {}
        domain_of = [0] * len(rows)
        for i, row in enumerate(rows):
            name, parent = row.path[depth], broader[i]
            if name and parent_of_name.setdefault(name, parent) != parent:
                first = broader_names[parent_of_name[name]]
                raise InvalidTopology(
                    f"{level_name} {name!r} lies in two domains of {level_names[depth - 1]}: "
                    f"{first!r} and {broader_names[parent]!r}",
                    where=_place(where, i),
                    fix=f"a {level_name} belongs to one {level_names[depth - 1]}; rename one of the two",
                )
            key = (name, parent)
            if key not in numbers:
                _check_printable(level_name, name, where, i)
                numbers[key] = len(names)
                names.append(name or broader_names[parent])
                parents.append(parent)
                implicit.append(not name)
            domain_of[i] = numbers[key]
        levels.append(
            Level(
                name=level_name,
                domains=tuple(names),
                domain_of=np.array(domain_of, dtype=np.int32),
                parent_of=np.array(parents, dtype=np.int32),
                implicit=np.array(implicit, dtype=np.bool_),
            )
        )
        broader, broader_names = domain_of, names
    return tuple(levels)
