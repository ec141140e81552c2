"""The network between the nodes: domains as objects, paths, link capacity, and a networkx view of all of it.

A node is known by its name, a switch by its level and name, the switch above the broadest level by :data:`CORE`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from topology.cluster import ROOT, Cluster, FloatArray, IntArray
from topology.errors import InvalidInput

if TYPE_CHECKING:
    import networkx as nx

Switch = tuple[str, str]  # Level and name
CORE: Switch = ("", ROOT)

GPU_BANDWIDTH = 50.0
"""GB/s from a GPU into the network: one port of 400 Gb/s a GPU, 400 GB/s for a node of eight (arXiv 2509.15940)."""


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """A switch and what is below it."""

    level: str  # name of its level; empty for the root
    name: str  # unique in its level
    nodes: IntArray  # indices of all nodes below it, those of one child next to each other
    children: tuple[Domain, ...]  # domains that hang on it
    own: IntArray  # indices of the nodes that hang on it without a switch between

    @property
    def key(self) -> tuple[str, str]:
        """Level and name: unique in the cluster."""
        return self.level, self.name

    def walk(self) -> Iterator[Domain]:
        """Yield the domain itself and all below it, parents first, siblings in order."""
        yield self
        for child in self.children:
            yield from child.walk()


def domain_tree(cluster: Cluster) -> Domain:
    """Return the cluster as one domain, the root, with everything below it in the order of the levels.  Implicit
    domains are left out: what hangs on them hangs on the closest broader switch, as in the real network.
    """
    order = cluster.along_the_tree
    children, own = _split(cluster, order, 0)
    return Domain("", ROOT, order, tuple(children), own)


def _split(cluster: Cluster, nodes: IntArray, depth: int) -> tuple[list[Domain], IntArray]:
    """Return domains below a broader one that holds ``nodes``, and the nodes that hang on that one itself."""
    if depth == len(cluster.levels):
        return [], nodes
    level = cluster.levels[depth]
    domain_of = level.domain_of[nodes]
    cuts = np.flatnonzero(np.diff(domain_of)) + 1
    children: list[Domain] = []
    own = [nodes[:0]]
    for part in np.split(nodes, cuts):
        number = level.domain_of[part[0]]
        below, direct = _split(cluster, part, depth + 1)
        if level.implicit[number]:
            children.extend(below)
            own.append(direct)
        else:
            children.append(Domain(level.name, level.domains[number], part, tuple(below), direct))
    return children, np.concatenate(own)


def lowest_common_domain(cluster: Cluster, nodes: Sequence[int] | IntArray) -> Switch:
    """Return the closest switch that all the given nodes, at least one index, lie below."""
    indices = np.asarray(nodes)
    for level in reversed(cluster.levels):
        domains = level.domain_of[indices]
        first = int(domains[0])
        if (domains == first).all() and not level.implicit[first]:
            return level.name, level.domains[first]
    return CORE


def path(cluster: Cluster, source: int, target: int) -> list[str | Switch]:
    """Return the way from a node to another over switches, up and down again; one node when both are the same."""
    if source == target:
        return [cluster.names[source]]
    top = lowest_common_domain(cluster, [source, target])
    ways = []
    for node in (source, target):
        own = [(level, level.domain_of[node]) for level in reversed(cluster.levels)]
        above = [(level.name, level.domains[domain]) for level, domain in own if not level.implicit[domain]]
        ways.append(above[: above.index(top)] if top in above else above)
    up, down = ways
    return [cluster.names[source], *up, top, *reversed(down), cluster.names[target]]


def uplinks(cluster: Cluster, *, oversubscription: Mapping[str, float] | None = None) -> dict[str, FloatArray]:
    """Return what the links from each switch upwards carry together, in one direction.

    A switch has as much upwards as the links below it, divided by the oversubscription of its level.

    :param oversubscription: level -> ratio, above 0, of bandwidth below to bandwidth upwards; levels left out have 1.
    :returns: level -> shape [domains], GB/s.  An implicit domain has no links of its own: its entry is the sum of what
        hangs on it.
    """
    ratios = dict(oversubscription or {})
    for name, ratio in ratios.items():
        if not ratio > 0.0:
            raise InvalidInput(f"{name} is {ratio}", where=name, fix="ratios are above 0")
        cluster.level_index(name)
    capacity: dict[str, FloatArray] = {}
    below = cluster.gpus.astype(np.float64) * GPU_BANDWIDTH
    hangs_on = cluster.levels[-1].domain_of if cluster.levels else np.zeros(0, dtype=np.int32)
    for level in reversed(cluster.levels):
        below = np.bincount(hangs_on, weights=below, minlength=len(level)).astype(np.float64)
        below /= np.where(level.implicit, 1.0, ratios.get(level.name, 1.0))
        capacity[level.name] = below
        hangs_on = level.parent_of
    return {level.name: capacity[level.name] for level in cluster.levels}


def network(cluster: Cluster, *, oversubscription: Mapping[str, float] | None = None) -> nx.DiGraph[str | Switch]:
    """Return the tree as a networkx graph, edges pointing from a switch to what hangs on it.

    Vertices carry ``kind`` (``switch`` or ``node``) and ``nodes`` (nodes below, 1 for a node); edges carry ``capacity``
    (GB/s), as :func:`uplinks` says.
    """
    import networkx as nx

    capacity = uplinks(cluster, oversubscription=oversubscription)
    upwards = {
        (level.name, name): float(capacity[level.name][i])
        for level in cluster.levels
        for i, name in enumerate(level.domains)
        if not level.implicit[i]
    }
    graph: nx.DiGraph[str | Switch] = nx.DiGraph()
    for domain in domain_tree(cluster).walk():
        graph.add_node(domain.key, kind="switch", nodes=len(domain.nodes))
        for child in domain.children:
            graph.add_edge(domain.key, child.key, capacity=upwards[child.key])
        for i in domain.own:
            name = cluster.names[i]
            graph.add_node(name, kind="node", nodes=1)
            graph.add_edge(domain.key, name, capacity=float(cluster.gpus[i]) * GPU_BANDWIDTH)
    return graph
