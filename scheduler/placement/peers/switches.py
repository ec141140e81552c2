"""The choice of the next leaf switch in Slurm's topology/tree.

Of two leaf switches, climbing from them to where their paths meet: the one whose switch holds what is left of the job
is better, of two that do the one with fewer free nodes, and where neither does the one with more.  A leaf replaces the
best one so far if it is as far from the leaves in use and better, or closer and under a switch that holds the rest.
Leaves are tried in the order of the cluster.

The rule is not a total order, and a job that no switch but the core holds meets its odd side: while no other switch
holds the rest, being closer counts nothing, and the job hops between pods.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from scheduler.placement.admission import BoolArray
from topology.capacity import count_nodes
from topology.cluster import IntArray, Level


class Switches:
    """Free nodes below every switch, and which leaf switches are in use.

    :param levels: from the broadest to the leaf switches; a core switch above all is understood.
    :param admitted: shape [nodes].
    """

    def __init__(self, levels: tuple[Level, ...], admitted: BoolArray) -> None:
        self._free = [count_nodes(level, admitted).tolist() for level in levels]
        self._used = [[0] * len(level) for level in levels]
        self._paths = _paths(levels)
        self._total_used = 0
        pods: dict[int, list[int]] = {}
        for leaf, path in enumerate(self._paths):
            if self._free[-1][leaf]:
                pods.setdefault(path[-2] if len(path) > 1 else 0, []).append(leaf)
        self._open = [sorted(pod, key=lambda leaf: (-self._free[-1][leaf], leaf)) for pod in pods.values()]

    def take_best(self, left: int) -> int:
        """The next leaf switch for a job that still needs so many nodes; its nodes count as used."""
        best, pod_of_best = -1, self._open[0]
        for pod in sorted((pod for pod in self._open if pod), key=min):
            leaf = self._best_of_pod(pod, left)
            if best < 0 or self._replaces(leaf, best, left):
                best, pod_of_best = leaf, pod
        pod_of_best.remove(best)
        gone = self._free[-1][best]
        for depth, switch in enumerate(self._paths[best]):
            self._free[depth][switch] -= gone
            self._used[depth][switch] += 1
        self._total_used += 1
        return best

    def _best_of_pod(self, pod: list[int], left: int) -> int:
        """Of leaves under one switch: the fewest free nodes that suffice, else the most; the first of equal ones."""
        free = self._free[-1]
        fitting = bisect_right(pod, -left, key=lambda leaf: -free[leaf])
        if not fitting:
            return pod[0]
        tightest = free[pod[fitting - 1]]
        return next(leaf for leaf in pod if free[leaf] == tightest)

    def _replaces(self, leaf: int, best: int, left: int) -> bool:
        better, fits = self._compare(leaf, best, left)
        distance, distance_of_best = self._distance(leaf), self._distance(best)
        return (distance < distance_of_best and fits) or (distance == distance_of_best and better)

    def _compare(self, leaf: int, best: int, left: int) -> tuple[bool, bool]:
        """Whether the leaf is better, and whether a switch above it, below where the paths meet, holds the rest."""
        path, path_of_best = self._paths[leaf], self._paths[best]
        depth = len(path) - 1
        while True:
            room, room_of_best = self._free[depth][path[depth]], self._free[depth][path_of_best[depth]]
            if room >= left or room_of_best >= left:
                return room >= left and not left <= room_of_best <= room, room >= left
            if depth == 0 or path[depth - 1] == path_of_best[depth - 1]:
                return room > room_of_best, False
            depth -= 1

    def _distance(self, leaf: int) -> int:
        """Sum of the hops from a leaf to all leaves in use, up to a factor of two."""
        path = self._paths[leaf]
        return len(path) * self._total_used - sum(self._used[depth][switch] for depth, switch in enumerate(path))


def _paths(levels: tuple[Level, ...]) -> list[tuple[int, ...]]:
    """For each leaf switch the switches above it and itself, from the broadest."""
    column: IntArray = np.arange(len(levels[-1]), dtype=np.int32)
    columns = [column]
    for level in reversed(levels[1:]):
        column = level.parent_of[column]
        columns.append(column)
    return list(zip(*(c.tolist() for c in reversed(columns)), strict=True))
