"""From nodes and the names of their places to a cluster, for the formats that say no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from topology.build import NodePath, build_cluster, with_second_levels
from topology.cluster import DEFAULT_GPUS, SECOND, Node
from topology.nesting import Partition, named_apart, nest, paths_of
from topology.quantities import plural
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
    levels: Sequence[str],
    nodes: Sequence[PlacedNode],
    *,
    where: Callable[[int], str],
    others: Sequence[Partition] = (),
    notes: Sequence[str] = (),
) -> Reading:
    """Return the cluster of nodes, their GPUs assumed where any does not say them.

    Levels at which no node is anywhere are left out, all nodes are one level where none is left, and names that stand
    below several broader domains are made different, with a note.

    :param where: from the number of a node to the place it was read from; asked for errors only.
    :param others: domains that are levels where they nest among the others, and second hierarchies where they do not.
    :raises InvalidTopology: there are no nodes, too many levels, or two nodes of one name.
    """
    columns = zip(*(node.path for node in nodes), strict=True)
    tree, repeated = named_apart([Partition(*named) for named in zip(levels, map(list, columns), strict=False)])
    cut = {
        level: f"{plural(count, 'name')} of {level} below several broader domains, each place a domain of its own"
        for level, count in repeated.items()
    }
    nesting = nest([one for one in tree if any(one.domains)], [one for one in others if any(one.domains)])
    kept = nesting.levels or (Partition(ONE_LEVEL, [ONE_LEVEL] * len(nodes)),)
    said = [*notes, *cut.values()]
    for one in nesting.beside:
        across = ", ".join(level.name for level in kept if nest([level], [one]).beside) or "the levels"
        said.append(f"{one.name} and {across} cut across each other: {SECOND}{one.name} is a second hierarchy")
    if not nesting.levels:
        said.append("nothing says where the nodes are, so all are one level")
    assumed = any(node.gpus is None for node in nodes)
    rows = []
    for node, path in zip(nodes, paths_of(kept), strict=True):
        gpus = DEFAULT_GPUS if assumed or node.gpus is None else node.gpus
        rows.append(Node(node.name, path, gpus, gpus, gpu_type=node.gpu_type))
    cluster = build_cluster([level.name for level in kept], rows, where=where)
    cluster = with_second_levels(cluster, {f"{SECOND}{one.name}": one.domains for one in nesting.beside})
    return Reading(cluster.replace(gpus_assumed=assumed, cut=cut), tuple(said))
