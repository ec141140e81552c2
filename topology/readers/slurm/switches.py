"""Trees of named switches, as Slurm describes them: from lines "this switch holds those" to a cluster.

A node's switch at a level is its ancestor there.  Slurm does not name levels: they are called ``level-0`` (broadest)
onwards.  Leaf switches may hang at different depths.

Switches with none above them are trunks that nothing joins: "jobs can only span nodes connected by the same switch
fabric" (topology.conf(5)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from topology.build import build_cluster
from topology.cluster import DEFAULT_GPUS, Cluster, Node, SlurmBlocks
from topology.errors import InvalidTopology, did_you_mean, some
from topology.hostlist import expand_hostlist
from topology.readers.fabric import Hierarchy, read_fabric
from topology.readers.types import Reading

WITHOUT_LEVELS = "describe a tree or blocks, or take all nodes as one level: give what `scontrol show nodes` prints"
"""What to do about a topology of Slurm that is neither."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch and what hangs on it directly."""

    name: str
    children: tuple[str, ...]
    nodes: tuple[str, ...]
    place: str = ""  # where it is described, "topology.conf:12"; empty when it comes from no file


def expand_switch(name: str, children: str | None, nodes: str | None, *, place: str, limit: int) -> Switch:
    """Return a switch or block by the hostlists of what hangs on it, at most ``limit`` names; an empty hostlist is
    none.
    """
    below, held = (tuple(expand_hostlist(text, where=place, limit=limit)) if text else () for text in (children, nodes))
    return Switch(name, below, held, place)


def read_switches(switches: Sequence[Switch]) -> Reading:
    """Return the cluster of switches, and what a user should know of it.

    Where switches lie below several, as when all links of a fat tree are written down, levels are what switches join.
    """
    named = _check_unique(switches, "switch")
    for switch in switches:
        if (unknown := next((child for child in switch.children if child not in named), None)) is not None:
            stray = f"switch {unknown!r} below {switch.name!r} is not described"
            fix = f"{did_you_mean(unknown, named)}describe it, or remove it here"
            raise InvalidTopology(stray, where=switch.place, fix=fix)
    hierarchy = Hierarchy({switch.name: switch.children for switch in switches}, lambda name: named[name].place)
    several = [name for name, above in hierarchy.graph.in_degree if above > 1]
    if several:
        reading = _read_meshed(switches, hierarchy)
        joined = f"switches below several others: {some(several)}; levels are what switches join, up to each tier"
        cluster, notes = reading.cluster, (joined, *reading.notes)
    else:
        above = hierarchy.paths()
        depth = max((len(above[switch.name]) for switch in switches if switch.nodes), default=0)
        paths = [(above[switch.name] + ("",) * depth)[:depth] for switch in switches]
        cluster = _built([f"level-{i}" for i in range(depth)], switches, paths)
        cluster, notes = cluster.replace(joined=len(cluster.levels[0]) == 1), ()
    return Reading(cluster, (*notes, *empty_notes(switches, "switches"), *_trunk_notes(cluster)))


def _built(levels: Sequence[str], switches: Sequence[Switch], paths: Sequence[tuple[str, ...]]) -> Cluster:
    """Return the cluster of the nodes on the switches; the path of a switch has their domains."""
    _check_nodes(switches)
    hung = [(switch.place, path, name) for switch, path in zip(switches, paths, strict=True) for name in switch.nodes]
    rows = [Node(name, path, DEFAULT_GPUS, DEFAULT_GPUS) for _, path, name in hung]
    return build_cluster(levels, rows, where=lambda i: hung[i][0]).replace(gpus_assumed=True)


def _read_meshed(switches: Sequence[Switch], hierarchy: Hierarchy) -> Reading:
    """Return the cluster of switches of which some lie below several."""
    _check_nodes(switches)
    places: dict[str, str] = {}
    for switch in switches:
        for node in switch.nodes:
            if (first := places.setdefault(node, switch.place)) != switch.place:
                twice = f"node {node!r} appears twice (first at {first})"
                raise InvalidTopology(twice, where=switch.place, fix="list it below one switch")
            hierarchy.leaves[node].add(switch.name)
    reading = read_fabric(hierarchy, where=lambda node: places.get(node, ""))
    return replace(reading, cluster=reading.cluster.replace(joined=hierarchy.connected(), gpus_assumed=True))


def empty_notes(switches: Sequence[Switch], what: str) -> tuple[str, ...]:
    """Return what a user should know of switches or blocks with nothing below them, as nodes may come by themselves."""
    empty = [switch.name for switch in switches if not switch.nodes and not switch.children]
    kept = "which only keep their place among the others" if what == "blocks" else "left out"
    return (f"{what} without nodes, {kept}: {some(empty)}",) if empty else ()


def _trunk_notes(cluster: Cluster) -> tuple[str, ...]:
    """Return what a user should know of a cluster that falls into several trunks."""
    if (trunks := cluster.trunks) is None:
        return ()
    return (
        f"switches with none above them: {some(trunks.domains)}; a job lies below one of them, as Slurm runs none "
        "across (to let jobs span them, describe a switch above them, or convert the file to csv)",
    )


def block_cluster(blocks: Sequence[Switch], sizes: Sequence[int], *, place: str) -> Cluster:
    """Return the cluster of Slurm's block topology.

    The base block is the level ``block``.  Each further block size (the base size times a power of two) joins
    contiguous base blocks, in the order of the file, as many as that size is a multiple of the first: the level
    ``block-120`` for a size of 120.  An aggregated block is called by its first and last base block.

    :param sizes: BlockSizes, the planning base block size first; may be empty.  They stand at ``place``.
    """
    _check_unique(blocks, "block")
    for size in sizes:
        joined, rest = divmod(size, sizes[0]) if sizes[0] > 0 else (0, 1)
        if rest or joined.bit_count() != 1:
            odd = f"block size {size} is not the base size {sizes[0]} times a power of two"
            raise InvalidTopology(odd, where=place, fix="write sizes such as 30,60,120")
    widths = sorted({size // sizes[0]: size for size in sizes}.items(), reverse=True)
    aggregates = [(width, size) for width, size in widths if width > 1]
    paths = []
    for number, block in enumerate(blocks):
        firsts = [(number - number % width, width) for width, _ in aggregates]
        ends = [(first, min(first + width, len(blocks)) - 1) for first, width in firsts]
        paths.append((*(f"{blocks[first].name}..{blocks[last].name}" for first, last in ends), block.name))
    cluster = _built([*(f"block-{size}" for _, size in aggregates), "block"], blocks, paths)
    return cluster.replace(blocks=SlurmBlocks(tuple(block.name for block in blocks), tuple(sizes)))


def _check_unique(switches: Sequence[Switch], what: str) -> dict[str, Switch]:
    named: dict[str, Switch] = {}
    for switch in switches:
        if not switch.name:
            raise InvalidTopology(f"a {what} has no name", where=switch.place, fix=f"name every {what}")
        if (first := named.setdefault(switch.name, switch)) is not switch:
            twice = f"{what} {switch.name!r} appears twice (first at {first.place})"
            raise InvalidTopology(twice, where=switch.place, fix=f"describe every {what} once")
    return named


def _check_nodes(switches: Sequence[Switch]) -> None:
    if not any(switch.nodes for switch in switches):
        none = "no switch or block lists a node, as where nodes say by Topology= where they are"
        fix = (
            "give what `scontrol show topology` prints, which has such nodes too, or what `scontrol show nodes` prints"
        )
        raise InvalidTopology(none, where=switches[0].place, fix=fix)
