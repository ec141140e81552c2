"""Placements that need no search: segments of cells one after another, each on the fewest domains that hold it.

Where the objective has terms that the pairs (S, R) do not see, the best pair need not lead to the best placement.
These fills look at every level from the broadest on, each for one family of groups; they are placements to begin with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, product

import numpy as np

from scheduler.job import FAMILIES, Job
from scheduler.placement.exact.grid.problem import GridReduction
from topology.cluster import BoolArray, Cluster, IndexArray, IntArray, Level


def tight_fills(reduction: GridReduction) -> Iterator[IntArray]:
    """Yield nodes, shape [rows, columns] each: the cells as one segment, then a segment for each group of a family."""
    cluster, grid = reduction.cluster, reduction.job.grid
    along = cluster.along_the_tree
    admitted = reduction.admitted[along]
    tree = _Tree.of(cluster)
    for segments in _segmentations(reduction.job):
        filled = np.empty(grid.cells, dtype=np.int32)
        room = _Room.of(tree, admitted)
        for cells in segments:
            filled[cells] = along[np.sort(room.take_tightest(len(cells)))]
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


def _segmentations(job: Job) -> Iterator[Sequence[IndexArray]]:
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
    cluster: Cluster, places: IndexArray, shape: tuple[int, ...], depth: int, *, last_come: bool
) -> list[IndexArray]:
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
    found: list[IndexArray] = []
    while wanted:
        fits = order[slices[order] >= wanted]
        k = int(fits[slices[fits].argmin()]) if len(fits) else int(order[0])
        some = min(wanted, int(slices[k]))
        found.append(_roomiest(cluster, places[domain == k], some * size, depth + 1, last_come=last_come))
        order = order[order != k]
        wanted -= some
    return found


def _roomiest(cluster: Cluster, places: IndexArray, wanted: int, first: int, *, last_come: bool) -> IndexArray:
    """Return so many of the places, ascending: level by level of the roomiest domains, as few as hold them.

    Closer domains of all that were chosen compete together, so that small ones are left out wherever they lie.

    :param first: depth to begin at; ``last_come``: of equal domains the last ones are taken.
    """
    along = cluster.along_the_tree
    for level in cluster.levels[first:]:
        # few places may lie in few of very many domains
        numbers, domain = np.unique(level.domain_of[along[places]], return_inverse=True)
        counts = np.bincount(domain)
        order = np.lexsort((-numbers if last_come else numbers, -counts))
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


@dataclass(frozen=True, slots=True)
class _Tree:
    """Where the domains of each level lie along the tree, numbered in that order from the broadest level on."""

    starts: list[IndexArray]  # for each level, shape [domains + 1], the first place of each, and where the last ends
    # for each level, shape [domains + 1], the first child of each; of the closest, the places
    children: list[IndexArray]

    @classmethod
    def of(cls, cluster: Cluster) -> _Tree:
        """Return the domains along the tree."""
        along = cluster.along_the_tree
        inside = [level.domain_of[along] for level in cluster.levels]
        starts = [np.append(np.flatnonzero(np.diff(domain, prepend=-1)), len(along)) for domain in inside]
        children = [np.searchsorted(closer, first) for first, closer in pairwise(starts)]
        return cls(starts, [*children, starts[-1]])


@dataclass(frozen=True, slots=True)
class _Room:
    """The places that are left, and how many of them each domain has."""

    tree: _Tree
    free: BoolArray  # shape [nodes], by place along the tree
    counts: list[IndexArray]  # for each level, shape [domains]

    @classmethod
    def of(cls, tree: _Tree, free: BoolArray) -> _Room:
        """Return room on all places that are free."""
        before = np.concatenate([[0], np.cumsum(free)])
        return cls(tree, free.copy(), [np.diff(before[starts]) for starts in tree.starts])

    def take_tightest(self, wanted: int) -> IndexArray:
        """Take so many places, of the fewest domains level by level, and return them."""
        taken: list[IndexArray] = []
        self._take(0, 0, len(self.counts[0]), wanted, taken)
        return np.concatenate(taken)

    def _take(self, depth: int, first: int, last: int, wanted: int, taken: list[IndexArray]) -> None:
        """Take places of some domains of a level, numbered from first to before last."""
        counts = self.counts[depth][first:last]
        while wanted:
            fits = np.flatnonzero(counts >= wanted)
            # the tightest that has room for the rest, or the roomiest
            k = int(fits[counts[fits].argmin()]) if len(fits) else int(counts.argmax())
            some = min(wanted, int(counts[k]))
            start, end = (int(one) for one in self.tree.children[depth][first + k : first + k + 2])
            if depth + 1 < len(self.counts):
                self._take(depth + 1, start, end, some, taken)
            else:
                places = start + np.flatnonzero(self.free[start:end])[:some]
                self.free[places] = False
                taken.append(places)
            counts[k] -= some
            wanted -= some
