"""From nodes and the names of their places to a cluster, for the formats that say no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from topology.build import NodePath, build_cluster, qualified
from topology.cluster import DEFAULT_GPUS, Node
from topology.readers.types import Reading

ONE_LEVEL = "cluster"  # The level, and its only domain, of nodes of which nothing says where they are


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node and where it is."""

    name: str
    path: NodePath  # from broad to close, empty = nowhere at that level
    gpus: int | None = None  # None = not said
    gpu_type: str = ""  # empty = not said


def place_nodes(
    levels: Sequence[str], nodes: Sequence[PlacedNode], *, where: Callable[[int], str], notes: Sequence[str] = ()
) -> Reading:
    """Return the cluster of nodes, their GPUs assumed where any does not say them.

    Levels at which no node is anywhere are left out, all nodes are one level where none is left, and names that stand
    below several broader domains are made different, with a note.

    :param where: from the number of a node to the place it was read from; asked for errors only.
    :raises InvalidTopology: there are no nodes, too many levels, or two nodes of one name.
    """
    paths, repeated = qualified([node.path for node in nodes])
    kept = [i for i in range(len(levels)) if any(path[i] for path in paths)]
    said = [
        f"names of {levels[i]} below several broader domains, each place a domain of its own: {repeated[i]}"
        for i in kept
        if repeated[i]
    ]
    assumed = any(node.gpus is None for node in nodes)
    rows = []
    for node, path in zip(nodes, paths, strict=True):
        gpus = DEFAULT_GPUS if assumed or node.gpus is None else node.gpus
        here = tuple(path[i] for i in kept) if kept else (ONE_LEVEL,)
        rows.append(Node(node.name, here, gpus, gpus, gpu_type=node.gpu_type))
    if not kept:
        said.append("nothing says where the nodes are, so all are one level")
    cluster = build_cluster([levels[i] for i in kept] or [ONE_LEVEL], rows, where=where)
    return Reading(cluster.replace(gpus_assumed=assumed), (*notes, *said))
