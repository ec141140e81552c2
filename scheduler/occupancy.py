"""What is free, promised and idle on the nodes of a cluster, and how many nodes are idle in each domain.

Kept up to date node by node: the extender's fleet and the simulator's pool of nodes both count here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from topology.capacity import count_nodes
from topology.cluster import IntArray, Level

BoolArray = npt.NDArray[np.bool_]


class Occupancy:
    """The nodes of one tree, none promised at first.

    :param size: shape [nodes], units of each node, whatever the caller counts in.
    :param free: shape [nodes], units that no job holds; copied.
    :param levels: of the tree, from broad to close.
    """

    def __init__(self, size: IntArray, free: IntArray, levels: Iterable[Level]) -> None:
        self.size = size
        self.free: IntArray = free.copy()  # Shape [nodes], units that no job holds
        self._most_free: int | None = None
        self.promised: BoolArray = np.zeros(len(size), dtype=np.bool_)
        """Shape [nodes], whether the node is promised to a job that is not there yet."""
        self.idle: BoolArray = self.free == size
        """Shape [nodes], whether no job holds anything of it and it is promised to none."""
        self.idle_in_domain: list[tuple[IntArray, IntArray]] = [
            (level.domain_of, count_nodes(level, self.idle)) for level in levels
        ]
        """For each level from broad to close: shape [nodes], the node's domain; shape [domains], idle nodes in each."""

    @property
    def most_free(self) -> int:
        """Units that no job holds on the node that has most of them; looked for anew only after a change."""
        if self._most_free is None:
            self._most_free = int(self.free.max())
        return self._most_free

    @property
    def available(self) -> IntArray:
        """Shape [nodes], units that no job holds and that are promised to none; a new array."""
        return np.where(self.promised, 0, self.free).astype(np.int32)

    def put(self, node: int, *, free: int, promised: bool = False) -> None:
        """Say anew what is free of a node, and whether it is promised."""
        self.promised[node] = promised
        self._add(node, free - int(self.free[node]))

    def add(self, nodes: Sequence[int], units: int) -> None:
        """Give units back on each of some nodes, all different; negative = take them."""
        if len(nodes) == 1:
            self._add(nodes[0], units)
            return
        rows = np.asarray(nodes)
        self._most_free = None
        self.free[rows] += units
        idle = (self.free[rows] == self.size[rows]) & ~self.promised[rows]
        turned = idle.astype(np.int32) - self.idle[rows]
        self.idle[rows] = idle
        for domain_of, count in self.idle_in_domain:
            np.add.at(count, domain_of[rows], turned)

    def _add(self, node: int, units: int) -> None:
        """Change one node, without making arrays: most jobs of a trace are on one."""
        self._most_free = None
        self.free[node] += units
        idle = bool(self.free[node] == self.size[node]) and not self.promised[node]
        if idle != self.idle[node]:
            turned = 1 if idle else -1
            self.idle[node] = idle
            for domain_of, count in self.idle_in_domain:
                count[domain_of[node]] += turned
