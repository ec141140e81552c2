"""Fabrics of any shape as trees of domains: switches, the links between them, and the switches of each node.

A node may hang on several leaf switches, one for each of its network cards (a rail-optimised fabric): its closest
domain is the set of them.  A node on some of the leaves of one such set, whose other links are down or have no name,
belongs there.  Broader domains are what is joined by switches up to a tier, 1 that of the leaves: leaves below the same
spines are one domain of tier 2, pods below the same cores one of tier 3.  So parallel spines, planes and links do no
harm, and every level is a partition of the nodes.

Tiers are counted from the leaves.  A switch with at most a quarter of the nodes of the largest leaf is a leaf only
where its links lead to one part of the fabric, and to no leaf: else somebody attached a machine to a spine or a core.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from topology.build import NodePath
from topology.cluster import MAX_LEVELS
from topology.errors import some
from topology.readers.placed_nodes import PlacedNode, place_nodes
from topology.readers.types import Reading

_Group = frozenset[str]
MANAGEMENT_SHARE = 4  # a switch with so many times fewer nodes than the largest leaf may be none


@dataclass(slots=True)
class Fabric:
    """Switches and nodes, as they are found in a file."""

    names: dict[str, str] = field(default_factory=dict)  # of switches: id -> name
    links: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # of switches: id -> ids, both ways
    leaves: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # node -> ids of its switches
    tiers: dict[str, int] = field(default_factory=dict)  # of switches, where they are known: 1 the closest

    def link(self, one: str, other: str) -> None:
        """Add a link between two switches."""
        if one != other:
            self.links[one].add(other)
            self.links[other].add(one)

    def connected(self) -> bool:
        """Return whether links lead from every switch with nodes to every other."""
        leaves = {leaf for of_node in self.leaves.values() for leaf in of_node}
        return len(set(_tops(self, _distances(self, leaves)).values())) <= 1


def read_fabric(fabric: Fabric, *, where: Callable[[str], str], notes: Sequence[str] = ()) -> Reading:
    """Return the cluster of a fabric; its levels are called ``tier-0``, the closest, onwards.

    :param where: from a node to the place it was read from; asked for errors only.
    """
    nodes = list(fabric.leaves)
    groups, partial = _whole_groups({node: frozenset(fabric.leaves[node]) for node in nodes})
    said = [*notes]
    if most := max((len(group) for group in groups.values()), default=0):
        several = sum(len(group) > 1 for group in groups.values())
        if several:
            said.append(
                f"on several leaf switches, which together are their domain (rails): {several:,} of {len(nodes):,} "
                f"nodes, at most {most} switches each"
            )
    if partial:
        said.append(f"not linked, or not by name, to all leaf switches of their domain: {some(partial)}")
    columns = _distinct([_names(fabric, level) for level in _levels(fabric, groups)], nodes)
    paths: list[NodePath] = [tuple(column[node] for column in columns) for node in nodes]
    levels = [f"tier-{i}" for i in reversed(range(len(columns)))]
    placed = [PlacedNode(node, path) for node, path in zip(nodes, paths, strict=True)]
    return place_nodes(levels, placed, where=lambda row: where(nodes[row] if row < len(nodes) else ""), notes=said)


def _whole_groups(leaves: Mapping[str, _Group]) -> tuple[dict[str, _Group], list[str]]:
    """Return the leaf switches of the domain of each node, and the nodes that are linked to some of them only."""
    known = set(leaves.values())
    of_leaf: dict[str, list[_Group]] = defaultdict(list)
    for group in known:
        for leaf in group:
            of_leaf[leaf].append(group)
    whole: dict[_Group, _Group] = {}
    for group in known:
        above = [other for other in of_leaf[min(group)] if group < other] if group else []
        largest = [one for one in above if not any(one < other for other in above)]
        whole[group] = largest[0] if len(largest) == 1 else group
    partial = [node for node, group in leaves.items() if whole[group] != group]
    return {node: whole[group] for node, group in leaves.items()}, partial


def _levels(fabric: Fabric, groups: Mapping[str, _Group]) -> list[dict[str, _Group]]:
    """Return for each level, from broad to close, the switches of each node's domain."""
    tiers = _tiers(fabric)
    found: list[dict[str, _Group]] = [dict(groups)]
    for tier in range(1, min(max(tiers.values(), default=0), MAX_LEVELS) + 1):
        tops = _tops(fabric, {switch: of for switch, of in tiers.items() if of <= tier})
        joined = {
            group: frozenset(top for leaf in group for top in tops.get(leaf, {leaf})) for group in groups.values()
        }
        found.append({node: joined[group] for node, group in groups.items()})
    return found[::-1]


def _tiers(fabric: Fabric) -> dict[str, int]:
    """Return the tier of each switch that leads to a node, 1 for leaves."""
    if fabric.tiers:
        return fabric.tiers
    nodes = Counter(leaf for leaves in fabric.leaves.values() for leaf in leaves)
    fewest = max(nodes.values(), default=0) / MANAGEMENT_SHARE
    tiers = _distances(fabric, {switch for switch, count in nodes.items() if count > fewest})
    for switch in (switch for switch, count in nodes.items() if count <= fewest):
        above = fabric.links.get(switch, set())
        if any(tiers.get(other) == 1 for other in above):
            continue  # a spine
        tops = _tops(fabric, {other: tier for other, tier in tiers.items() if tier < tiers.get(switch, 1)})
        if len({tops[other] for other in above if other in tops}) <= 1:
            tiers[switch] = 1
    return tiers


def _distances(fabric: Fabric, leaves: set[str]) -> dict[str, int]:
    """Return how far switches are from the closest leaf, a leaf itself 1; those that links lead to alone."""
    tiers: dict[str, int] = {}
    here = leaves
    while here:
        tiers |= dict.fromkeys(here, max(tiers.values(), default=0) + 1)
        here = {other for switch in here for other in fabric.links.get(switch, ()) if other not in tiers}
    return tiers


def _tops(fabric: Fabric, tiers: Mapping[str, int]) -> dict[str, _Group]:
    """Return for each of these switches those of the broadest tier among all that links among them lead to."""
    tops: dict[str, _Group] = {}
    for start in tiers:
        if start in tops:
            continue
        reached, edge = {start}, [start]
        while edge:
            found = {other for one in edge for other in fabric.links.get(one, ()) if other in tiers} - reached
            reached |= found
            edge = list(found)
        broadest = max(tiers[switch] for switch in reached)
        group = frozenset(switch for switch in reached if tiers[switch] == broadest)
        tops |= dict.fromkeys(reached, group)
    return tops


def _names(fabric: Fabric, level: Mapping[str, _Group]) -> dict[str, str]:
    """Return the name of each node's domain: of its first and its last switch."""
    names: dict[_Group, str] = {}
    taken: set[str] = set()
    for group in sorted(set(level.values()), key=sorted):
        called = sorted(fabric.names.get(switch, switch) for switch in group)
        name = base = called[0] if len(called) == 1 else f"{called[0]}..{called[-1]}"
        count = 1
        while name in taken:
            count += 1
            name = f"{base}({count})"
        taken.add(name)
        names[group] = name
    return {node: names[group] for node, group in level.items()}


def _distinct(columns: Iterable[dict[str, str]], nodes: Sequence[str]) -> list[dict[str, str]]:
    """Return levels that tell something that the next closer one does not; the closest stays."""
    kept: list[dict[str, str]] = []
    for column in list(columns)[::-1]:
        domains = len({column[node] for node in nodes})
        if not kept or 1 < domains < len({kept[-1][node] for node in nodes}):
            kept.append(column)
    return kept[::-1]
