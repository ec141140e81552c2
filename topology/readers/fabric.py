"""Fabrics of any shape as trees of domains: switches, the links between them, and the switches of each node.

The switches are a graph of networkx, and what is asked of it are its layers, components, generations and circles.
Where the file says which of two linked switches is above, an edge leads down, and a fabric in which each switch has one
above it is a tree as it stands.  Else levels are what switches join:

A node may hang on several leaf switches, one for each of its network cards (a rail-optimised fabric): its closest
domain is the set of them.  A node on some of the leaves of one such set, whose other links are down or have no name,
belongs there.  Broader domains are what is joined by switches up to a tier, 1 that of the leaves: leaves below the same
spines are one domain of tier 2, pods below the same cores one of tier 3.  So parallel spines, planes and links do no
harm, and every level is a partition of the nodes.

Where the file does not say which switch is above, tiers are counted from the leaves.  A switch with at most a quarter
of the nodes of the largest leaf is a leaf only where its links lead to one part of the fabric, and to no leaf: else
somebody attached a machine to a spine or a core.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from ground.errors import InvalidTopology, some
from ground.groups import grouped
from topology.build import NodePath, unique
from topology.cluster import MAX_LEVELS
from topology.readers.reading import PlacedNode, Reading, place_nodes

if TYPE_CHECKING:
    import networkx as nx

_Group = frozenset[str]
MANAGEMENT_SHARE = 4  # a switch with so many times fewer nodes than the largest leaf may be none
LONGEST_CIRCLE = 12  # Switches of a circle that an error names


class Fabric:
    """Switches, links and nodes of a file that does not say which of two linked switches is above."""

    graph: nx.Graph[str]  # of switches by id, links as edges

    def __init__(self, names: Mapping[str, str]) -> None:
        """:param names: of the switches: id -> name."""
        import networkx as nx

        self.names = names
        self.graph = nx.Graph()
        self.graph.add_nodes_from(names)
        self.leaves: dict[str, set[str]] = defaultdict(set)  # node -> ids of the switches that it hangs on

    def link(self, switch: str, other: str) -> None:
        """Add a link between two switches; one from a switch to itself leads nowhere."""
        if switch != other:
            self.graph.add_edge(switch, other)

    def parts(self, switches: Iterable[str] | None = None) -> Iterator[set[str]]:
        """Yield the switches that links among these join, part by part; ``None`` = all switches."""
        import networkx as nx

        yield from nx.connected_components(self.graph if switches is None else self.graph.subgraph(switches))

    def tiers(self) -> dict[str, int]:
        """Return the tier of each switch that leads to a node: how far it is from the closest leaf, a leaf itself 1."""
        import networkx as nx

        nodes = Counter(leaf for leaves in self.leaves.values() for leaf in leaves)
        fewest = max(nodes.values(), default=0) / MANAGEMENT_SHARE
        layers = nx.bfs_layers(self.graph, [switch for switch, count in nodes.items() if count > fewest])
        tiers = {switch: tier for tier, layer in enumerate(layers, 1) for switch in layer}
        for switch in (switch for switch, count in nodes.items() if count <= fewest):
            above = set(self.graph[switch])
            if any(tiers.get(other) == 1 for other in above):
                continue  # a spine
            closer = [other for other, tier in tiers.items() if tier < tiers.get(switch, 1)]
            if sum(not above.isdisjoint(part) for part in self.parts(closer)) <= 1:
                tiers[switch] = 1
        return tiers

    def connected(self) -> bool:
        """Return whether links lead from every switch with nodes to every other."""
        leaves = set().union(*self.leaves.values())
        return sum(not leaves.isdisjoint(part) for part in self.parts()) <= 1


class Hierarchy(Fabric):
    """A fabric of which the file says which switch is below which: edges lead down."""

    graph: nx.DiGraph[str]

    def __init__(self, below: Mapping[str, Iterable[str]], where: Callable[[str], str]) -> None:
        """:param below: switch -> switches that hang on it directly, which need no entry of their own.
        :param where: from a switch to the place it is described at; asked for errors only.
        """
        import networkx as nx

        super().__init__({name: name for name in below})
        self.graph = nx.DiGraph()
        self.graph.add_nodes_from(below)
        self.graph.add_edges_from((switch, child) for switch, children in below.items() for child in children)
        self._where = where

    def parts(self, switches: Iterable[str] | None = None) -> Iterator[set[str]]:
        """Yield the switches that links among these join, whichever is above; ``None`` = all switches."""
        import networkx as nx

        yield from nx.weakly_connected_components(self.graph if switches is None else self.graph.subgraph(switches))

    def generations(self, *, upwards: bool = False) -> list[list[str]]:
        """Return switches in generations: those below none, then those that lie below switches of the last generation
        and of earlier ones alone; upwards, beginning with those above none.

        :raises InvalidTopology: switches lie below each other in a circle, or deeper than :data:`MAX_LEVELS`.
        """
        import networkx as nx

        try:
            generations = list(nx.topological_generations(self.graph.reverse(copy=False) if upwards else self.graph))
        except nx.NetworkXUnfeasible:
            circle = [switch for switch, *_ in nx.find_cycle(self.graph)]
            order = {switch: number for number, switch in enumerate(self.graph)}
            start = circle.index(min(circle, key=order.__getitem__))
            circle = [*circle[start:], *circle[: start + 1]]
            listed = circle if len(circle) <= LONGEST_CIRCLE else [*circle[: LONGEST_CIRCLE - 2], "...", circle[-1]]
            around = f"switch {circle[0]!r} lies below itself: {' > '.join(listed)}"
            fix = "break the circle: take one of these switches from below the one before it"
            raise InvalidTopology(around, where=self._where(circle[0]), fix=fix) from None
        if len(generations) > MAX_LEVELS:
            deep = f"switches lie deeper than {MAX_LEVELS} levels"
            lowest = generations[0 if upwards else MAX_LEVELS][0]
            raise InvalidTopology(deep, where=self._where(lowest), fix="describe them with fewer levels")
        return generations

    def paths(self) -> dict[str, tuple[str, ...]]:
        """Return the way from the broadest switch down to each switch, itself the last, where none lies below several.

        :raises InvalidTopology: as :meth:`generations`.
        """
        paths: dict[str, tuple[str, ...]] = {}
        for switch in chain.from_iterable(self.generations()):
            above = next(self.graph.predecessors(switch), None)
            paths[switch] = (switch,) if above is None else (*paths[above], switch)
        return paths

    def tiers(self) -> dict[str, int]:
        """Return the tier of each switch: how many switches its longest way down has, itself among them.

        :raises InvalidTopology: as :meth:`generations`.
        """
        generations = enumerate(self.generations(upwards=True), 1)
        return {switch: tier for tier, generation in generations for switch in generation}


def read_fabric(fabric: Fabric, *, where: Callable[[str], str], notes: Sequence[str] = ()) -> Reading:
    """Return the cluster of a fabric; its levels are called ``tier-0``, the closest, onwards.

    :param where: from a node to the place it was read from; asked for errors only.
    """
    nodes = list(fabric.leaves)
    groups, partial = _whole_groups({node: frozenset(fabric.leaves[node]) for node in nodes})
    notes = [*notes]
    if most := max((len(group) for group in groups.values()), default=0):
        several = sum(len(group) > 1 for group in groups.values())
        if several:
            notes.append(
                f"on several leaf switches, which together are their domain (rails): {several:,} of {len(nodes):,} "
                f"nodes, at most {most} switches each"
            )
    if partial:
        notes.append(f"not linked, or not by name, to all leaf switches of their domain: {some(partial)}")
    # of the levels those count that tell something that the next closer one does not; the closest stays
    columns: list[dict[str, str]] = []
    for level in reversed(_levels(fabric, groups)):
        column = _names(fabric, level)
        domains = len({column[node] for node in nodes})
        if not columns or 1 < domains < len({columns[0][node] for node in nodes}):
            columns.insert(0, column)
    paths: list[NodePath] = [tuple(column[node] for column in columns) for node in nodes]
    levels = [f"tier-{i}" for i in reversed(range(len(columns)))]
    placed = [PlacedNode(node, path) for node, path in zip(nodes, paths, strict=True)]
    return place_nodes(levels, placed, where=lambda row: where(nodes[row] if row < len(nodes) else ""), notes=notes)


def _whole_groups(leaves: Mapping[str, _Group]) -> tuple[dict[str, _Group], list[str]]:
    """Return the leaf switches of the domain of each node, and the nodes that are linked to some of them only."""
    of_leaf = grouped((leaf, group) for group in set(leaves.values()) for leaf in group)
    whole: dict[_Group, _Group] = {}
    for group in set(leaves.values()):
        above = [other for other in of_leaf[min(group)] if group < other] if group else []
        largest = [candidate for candidate in above if not any(candidate < other for other in above)]
        whole[group] = largest[0] if len(largest) == 1 else group
    partial = [node for node, group in leaves.items() if whole[group] != group]
    return {node: whole[group] for node, group in leaves.items()}, partial


def _levels(fabric: Fabric, groups: Mapping[str, _Group]) -> list[dict[str, _Group]]:
    """Return for each level, from broad to close, the switches of each node's domain."""
    tiers = fabric.tiers()
    levels: list[dict[str, _Group]] = [dict(groups)]
    for highest in range(1, min(max(tiers.values(), default=0), MAX_LEVELS) + 1):
        tops: dict[str, _Group] = {}  # those of the broadest tier among all that links up to this tier lead to
        for part in fabric.parts(switch for switch, tier in tiers.items() if tier <= highest):
            broadest = max(tiers[switch] for switch in part)
            tops |= dict.fromkeys(part, frozenset(switch for switch in part if tiers[switch] == broadest))
        joined = {
            group: frozenset(top for leaf in group for top in tops.get(leaf, {leaf})) for group in set(groups.values())
        }
        levels.append({node: joined[group] for node, group in groups.items()})
    return levels[::-1]


def _names(fabric: Fabric, level: Mapping[str, _Group]) -> dict[str, str]:
    """Return the name of each node's domain: of its first and its last switch."""
    names: dict[_Group, str] = {}
    taken: set[str] = set()
    for group in sorted(set(level.values()), key=sorted):
        called = sorted(fabric.names.get(switch, switch) for switch in group)
        names[group] = unique(called[0] if len(called) == 1 else f"{called[0]}..{called[-1]}", taken)
    return {node: names[group] for node, group in level.items()}
