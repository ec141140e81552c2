"""What is free, promised and idle on the nodes of a cluster; and where jobs that share nodes do gangs least harm.

Kept up to date node by node: the extender's fleet and the simulator's pool of nodes both count and choose here.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from topology.cluster import BoolArray, IntArray, Level, count_nodes


class Occupancy:
    """The nodes of one tree, none promised at first.

    :param size: shape [nodes], units of each node, whatever the caller counts in.
    :param free: shape [nodes], units that no job holds; copied.
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


Rows = npt.NDArray[np.signedinteger[Any]]  # Numbers of nodes


def tightest(
    rows: Rows, *, free: IntArray, idle: BoolArray, idle_in_domain: Iterable[tuple[IntArray, IntArray]]
) -> Rows:
    """Return the nodes that fit a job inside one node best, all equally well.

    Best is a node in use, the fullest with room; an idle node is broken into last, and then one in the domains with the
    fewest idle nodes left, the broadest level first, so that large free domains stay whole.

    :param rows: shape [fitting], the nodes with room.
    :param idle_in_domain: for each level from broad to close: shape [nodes], the node's domain; and shape [domains],
        idle nodes in each.
    """
    if len(rows) < 2:
        return rows
    used: Rows = rows[~idle[rows]]
    left = used if len(used) else rows
    left = _least(left, free[left])
    for domain_of, count in idle_in_domain:
        if len(left) < 2:
            break
        left = _least(left, count[domain_of[left]])
    return left


def _least(rows: Rows, values: IntArray) -> Rows:
    least: Rows = rows[values == values.min()]
    return least


def fewest_domains(rows: Rows, count: int, *, free: IntArray, idle: BoolArray, domain_of: Sequence[IntArray]) -> Rows:
    """Choose nodes for a gang that takes a part of each in as few domains as a greedy rule finds, level by level.

    The domain with the least room that holds all of it, else the one with the most room, and the rest as if it were a
    gang of its own.

    :param rows: shape [fitting], the nodes with room; at least ``count``; ``free`` and ``idle`` as in :func:`tightest`.
    :param domain_of: for each level from broad to close: shape [nodes], the node's domain.
    :returns: shape [count], those in use before idle ones, the fullest first, then by number.
    """
    if not domain_of:
        first: Rows = rows[np.lexsort((rows, free[rows], idle[rows]))[:count]]
        return first
    chosen: list[Rows] = []
    domains = domain_of[0][rows]
    while count:
        numbers, room = np.unique(domains, return_counts=True)
        enough = room >= count
        best = int(numbers[enough][room[enough].argmin()]) if enough.any() else int(numbers[room.argmax()])
        inside = rows[domains == best]
        part = min(count, len(inside))
        chosen.append(fewest_domains(inside, part, free=free, idle=idle, domain_of=domain_of[1:]))
        count -= part
        rows, domains = rows[domains != best], domains[domains != best]
    return np.concatenate(chosen)
