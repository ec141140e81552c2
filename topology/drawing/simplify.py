"""What of a tree is worth a box: the domain tree as it is drawn.

Three things are left out.  Below the broadest level, a domain of a single node says nothing that the node does not
say.  A domain that holds one other domain and no more shares that one's box.  And beyond :data:`DETAIL` nodes the
closest domains become bars: one rectangle a domain, cut by state, so that any cluster makes a picture of a few
megabytes at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from topology.cluster import Cluster, IntArray
from topology.domain_tree import Domain, domain_tree

DETAIL = 15_000  # Nodes up to which each has its own square
BARS = 3_000  # Most bars that a drawing may have


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A domain as it is drawn."""

    levels: tuple[str, ...]  # levels of the domains that share this box, from broad to close
    names: tuple[str, ...]  # their names
    nodes: IntArray  # nodes below
    children: tuple[Shape, ...]  # boxes inside
    own: IntArray  # nodes drawn right inside, as squares or as one bar

    @property
    def label(self) -> str:
        """Names as read from outside to inside."""
        return " / ".join(self.names)

    def walk(self) -> Iterator[Shape]:
        """Yield the shape itself and all inside, outer before inner."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True, eq=False)
class ShapeTree:
    """All that is drawn of a cluster."""

    root: Shape
    by_level: dict[str, list[Shape]]  # boxes of each level, from broad to close
    bars: bool  # whether nodes are merged into bars


def shapes(cluster: Cluster, *, detail: int = DETAIL) -> ShapeTree:
    """Return what to draw; more nodes than ``detail`` are bars."""
    bars = len(cluster) > detail
    fitting = [depth for depth, level in enumerate(cluster.levels, 1) if len(level) <= BARS]
    depth = max(fitting, default=0) if bars else len(cluster.levels)
    levels = {level.name for level in cluster.levels[:depth]}
    root = _shape(domain_tree(cluster), levels, keep_single=bars)
    boxes = [child for shape in root.walk() for child in shape.children]
    by_level = {level.name: [box for box in boxes if box.levels[0] == level.name] for level in cluster.levels}
    return ShapeTree(root, by_level, bars)


def _shape(domain: Domain, levels: set[str], *, keep_single: bool) -> Shape:
    own = [domain.own, *(child.nodes for child in domain.children if child.level not in levels)]
    children = []
    for child in domain.children:
        if child.level not in levels:
            continue
        shape = _shape(child, levels, keep_single=keep_single)
        if len(shape.nodes) == 1 and domain.level and not keep_single:
            own.append(shape.nodes)
        else:
            children.append(shape)
    levels_here, names = ((domain.level,), (domain.name,)) if domain.level else ((), ())
    nodes_here = np.concatenate(own)
    if domain.level and len(children) == 1 and not len(nodes_here):
        only = children[0]
        return Shape(levels_here + only.levels, names + only.names, only.nodes, only.children, only.own)
    return Shape(levels_here, names, domain.nodes, tuple(children), nodes_here)
