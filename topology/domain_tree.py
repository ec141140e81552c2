"""The cluster as nested domains: each with what hangs on it, as trees of text and drawings show it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from topology.cluster import ROOT, Cluster, IntArray


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
