"""Placements that need no search: segments of cells one after another, each on the fewest domains that hold it.

Where the objective has terms that the pairs (S, R) do not see, the best pair need not lead to the best placement.
These fills look at every level from the broadest on, each for one family of groups; they are placements to begin with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product

import numpy as np
import numpy.typing as npt

from scheduler.job import FAMILIES, Job
from scheduler.placement.exact.problem import GridReduction
from topology.cluster import Cluster, IntArray, Level

Indices = npt.NDArray[np.int64]


def tight_fills(reduction: GridReduction) -> Iterator[IntArray]:
    """Yield nodes, shape [rows, columns] each: the cells as one segment, then a segment for each group of a family."""
    cluster, grid = reduction.cluster, reduction.job.grid
    along = cluster.along_the_tree
    admitted = reduction.admitted[along]
    for segments in _segmentations(reduction.job):
        filled = np.empty(grid.cells, dtype=np.int32)
        free = admitted.copy()
        for cells in segments:
            left = np.flatnonzero(free)
            taken = _tightest(cluster, along[left], left, len(cells), 0)
            free[taken] = False
            filled[cells] = along[np.sort(taken)]
        yield filled.reshape(grid.rows, grid.columns)
    depth = cluster.level_index(reduction.job.level)
    for first, last_come in product(dict.fromkeys((0, depth)), (False, True)):
        roomy = along[_roomiest(cluster, np.flatnonzero(admitted), grid.cells, first, last_come=last_come)]
        if last_come:
            roomy = _alternating(cluster, roomy, reduction.level)
        for (cells,) in islice(_segmentations(reduction.job), 3):
            nodes = np.empty(grid.cells, dtype=np.int32)
            nodes[cells] = roomy
            yield nodes.reshape(grid.rows, grid.columns)
    cell = np.arange(grid.cells).reshape(grid.rows, grid.columns)
    for lines, last_come in product((cell, cell.T), (False, True)):
        slices = _in_slices(cluster, np.flatnonzero(admitted), lines.shape, depth, last_come=last_come)
        for mixed in (False, True) if slices else ():
            ordered = [along[one] for one in slices]
            if mixed:
                ordered = [_alternating(cluster, one, cluster.levels[-1]) for one in ordered]
            nodes = np.empty(grid.cells, dtype=np.int32)
            nodes[lines.ravel()] = np.concatenate(ordered)
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


def _in_slices(
    cluster: Cluster, places: Indices, shape: tuple[int, ...], depth: int, *, last_come: bool
) -> list[Indices]:
    """Return places for as many slices of one size, domain by domain of a level, each slice whole in one; or none.

    Domains that hold most slices come first, the last is the tightest; inside, the roomiest closer domains.

    :param shape: number of slices, and their size; ``last_come``: of equal domains the last ones are taken.
    """
    wanted, size = shape
    domain = cluster.levels[depth].domain_of[cluster.along_the_tree[places]]
    free = np.bincount(domain, minlength=len(cluster.levels[depth]))
    slices = free // size
    if int(slices.sum()) < wanted:
        return []
    # of domains with as many slices the one with fewer nodes over
    turn = -1 if last_come else 1
    order = np.lexsort((turn * np.arange(len(free)), free, -slices))
    found: list[Indices] = []
    while wanted:
        fits = order[slices[order] >= wanted]
        k = int(fits[slices[fits].argmin()]) if len(fits) else int(order[0])
        some = min(wanted, int(slices[k]))
        found.append(_roomiest(cluster, places[domain == k], some * size, depth + 1, last_come=last_come))
        order = order[order != k]
        wanted -= some
    return found


def _roomiest(cluster: Cluster, places: Indices, wanted: int, first: int, *, last_come: bool) -> Indices:
    """Return so many of the places, ascending: level by level of the roomiest domains, as few as hold them.

    Closer domains of all that were chosen compete together, so that small ones are left out wherever they lie.

    :param first: depth to begin at; ``last_come``: of equal domains the last ones are taken.
    """
    along = cluster.along_the_tree
    for level in cluster.levels[first:]:
        domain = level.domain_of[along[places]]
        counts = np.bincount(domain, minlength=len(level))
        order = np.lexsort((-np.arange(len(level)) if last_come else np.arange(len(level)), -counts))
        needed = int(np.searchsorted(np.cumsum(counts[order]), wanted))
        rest = wanted - int(counts[order[:needed]].sum())
        others = order[needed:]
        # the last is the tightest that has room for the rest
        last = others[counts[others] >= rest]
        last = last[counts[last].argmin()]
        chosen = np.isin(domain, order[:needed])
        places = np.concatenate([places[chosen], places[domain == last]])
    return np.sort(places[:wanted])


def _alternating(cluster: Cluster, nodes: IntArray, level: Level) -> IntArray:
    """Return the nodes with the domains of a level in another order: most nodes for each closest domain, then fewest.

    Segments one after another so touch about as many closest domains each.
    """
    domain, closest = level.domain_of[nodes], cluster.levels[-1].domain_of[nodes]
    kinds, of_node = np.unique(domain, return_inverse=True)
    pairs = np.unique(np.stack([of_node, closest]), axis=1)
    by_ratio = np.argsort(-np.bincount(of_node) / np.bincount(pairs[0]), kind="stable")
    half = -(-len(kinds) // 2)
    rank = np.empty(len(kinds), dtype=np.int64)
    rank[by_ratio[:half]] = 2 * np.arange(half)
    rank[by_ratio[half:][::-1]] = 2 * np.arange(len(kinds) - half) + 1
    order = np.argsort(rank[of_node], kind="stable")
    ordered: IntArray = nodes[order]
    return ordered


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
