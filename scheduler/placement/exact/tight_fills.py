"""Placements that need no search: segments of cells one after another, each on the fewest domains, the tightest first.

Where the objective has terms that the pairs (S, R) do not see, the best pair need not lead to the best placement.  These
fills look at every level from the broadest on, each for one family of groups: they are placements to begin with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from scheduler.job import FAMILIES, Job
from scheduler.placement.exact.problem import GridReduction
from topology.cluster import Cluster, IntArray

Indices = npt.NDArray[np.int64]


def tight_fills(reduction: GridReduction) -> Iterator[IntArray]:
    """Yield nodes, shape [rows, columns] each: the cells as one segment, then a segment for each group of a family."""
    grid = reduction.job.grid
    for segments in _segmentations(reduction.job):
        nodes = np.empty(grid.cells, dtype=np.int32)
        free = reduction.admitted[reduction.cluster.along_the_tree]
        for cells in segments:
            left = np.flatnonzero(free)
            taken = _tightest(reduction.cluster, reduction.cluster.along_the_tree[left], left, len(cells), 0)
            free[taken] = False
            nodes[cells] = reduction.cluster.along_the_tree[np.sort(taken)]
        yield nodes.reshape(grid.rows, grid.columns)


def _segmentations(job: Job) -> Iterator[Sequence[Indices]]:
    """Yield ways to cut the cells into segments: not at all, in three orders; and by the groups of each family."""
    grid = job.grid
    cell = np.arange(grid.cells).reshape(grid.rows, grid.columns)
    yield [cell.T.ravel()]
    yield [cell.ravel()]
    yield [np.argsort(grid.node_rank.ravel(), kind="stable")]
    for family in FAMILIES:
        groups = grid.groups[family]
        if groups.one_each and 1 < groups.largest < grid.cells:
            by_group = np.argsort(groups.group, kind="stable")
            yield np.split(by_group, np.cumsum(groups.sizes)[:-1])


def _tightest(cluster: Cluster, nodes: IntArray, places: Indices, wanted: int, depth: int) -> Indices:
    """Return so many of the places (those of free nodes along the tree), of the fewest domains level by level."""
    if wanted == len(places) or depth == len(cluster.levels):
        return places[:wanted]
    domain = cluster.levels[depth].domain_of[nodes]
    kinds, starts, counts = np.unique(domain, return_index=True, return_counts=True)
    taken: list[Indices] = []
    left = np.ones(len(kinds), dtype=np.bool_)
    while wanted:
        fits = np.flatnonzero(left & (counts >= wanted))
        # the tightest that has room for the rest, or the roomiest
        k = int(fits[counts[fits].argmin()]) if len(fits) else int(np.where(left, counts, -1).argmax())
        inside = slice(starts[k], starts[k] + counts[k])
        some = min(wanted, int(counts[k]))
        taken.append(_tightest(cluster, nodes[inside], places[inside], some, depth + 1))
        left[k] = False
        wanted -= some
    return np.concatenate(taken)
