"""Quick seating: the nodes of a gang, given the domain of each cell, by closed forms and fills to the brim alone.

For gangs that are held together by nothing, on nodes that are all alike: then of a domain only its number of free nodes
counts.  A parcel that fits one closer domain goes to the tightest of these; any other to the fewest, filled to the
brim: a domain takes as many cells, one after another in some order, as it has room for, and the cells are tried in
every order that counts, on one sequence of domains, all counted at once.  The orders are those of shelves
(:mod:`scheduler.placement.seating`); they depend on the shape of a parcel alone and are kept.  No search, no solver:
what comes of it is good, and nothing is proved.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from scheduler.job import Job
from scheduler.objective import objective_of, spread
from scheduler.placement.seating import pieces_of, shelves
from scheduler.placement.types import Pair
from topology.cluster import BoolArray, Cluster, IntArray, Level

Indices = npt.NDArray[np.integer[Any]]


_MOST_PADDED = 8  # places for each child in a table with as many for each domain as the largest has children
_LEVELS_KEPT = 32  # levels of which it is kept what does not depend on which nodes are free


@dataclass(frozen=True, slots=True)
class FreeNodes:
    """The nodes that a gang may use, and how many of them each domain has, from one level of the tree down."""

    cluster: Cluster
    admitted: BoolArray  # shape [nodes]
    total: int
    levels: tuple[Level, ...]  # from that level to the closest
    counts: tuple[Indices, ...]  # for each of the levels shape [domains]

    @classmethod
    def of(cls, cluster: Cluster, admitted: BoolArray, depth: int) -> Self:
        """Count nodes of a cluster, shape [nodes], from the level of that depth down."""
        levels = cluster.levels[depth:]
        nodes = admitted.nonzero()[0]
        counts: list[Indices] = [np.bincount(levels[-1].domain_of[nodes], minlength=len(levels[-1]))]
        for level, closer in zip(levels[-2::-1], levels[:0:-1], strict=True):
            counts.append(np.bincount(closer.parent_of, counts[-1], len(level)).astype(np.int64))
        return cls(cluster, admitted, len(nodes), levels, tuple(counts[::-1]))

    def fewest_children(self, cells: int, domains: Indices) -> Indices:
        """Return for domains of the first level the fewest of their children that have so many free nodes; any number
        where one has not as many; shape [domains].
        """
        table = table_of(self.levels[1])
        # a number beyond the last child stands for none
        full = np.append(-self.counts[1], 0)
        if table.padded is not None:
            return _fewest(full[table.padded[domains]], cells)
        return np.concatenate([_fewest(full[table.children[domain]][None], cells) for domain in domains.tolist()])


def _fewest(full: Indices, cells: int) -> Indices:
    """Return how many of the fullest places hold so many cells, shape [rows].

    :param full: shape [rows, places], free nodes of each, negative.
    """
    full.sort(axis=1)
    fewest: Indices = (full.cumsum(axis=1) > -cells).sum(axis=1) + 1
    return fewest


@dataclass(frozen=True, slots=True, eq=False)
class LevelTable:
    """What does not depend on which nodes are free."""

    children: tuple[IntArray, ...]  # for each domain of the level above those inside it
    sizes: tuple[tuple[int, ...], ...]  # and the nodes of each of these
    largest: int  # nodes of its largest domain
    # shape [domains above, children], filled up with the number of all children; None = they have too unequally many
    padded: Indices | None


@lru_cache(_LEVELS_KEPT)
def table_of(level: Level) -> LevelTable:
    """Return what is kept of a level."""
    order = np.argsort(level.parent_of, kind="stable").astype(np.int32)
    ends = np.cumsum(np.bincount(level.parent_of))
    sizes = np.bincount(level.domain_of, minlength=len(level))
    children = tuple(np.split(order, ends[:-1]))
    width, padded = max(map(len, children)), None
    if len(children) * width <= _MOST_PADDED * len(level):
        padded = np.full((len(children), width), len(level))
        for inside, row in zip(children, padded, strict=True):
            row[: len(inside)] = inside
    of_children = tuple(tuple(sizes[inside].tolist()) for inside in children)
    return LevelTable(children, of_children, int(sizes.max()), padded)


@dataclass(frozen=True, slots=True)
class SeatedGang:
    """Where the cells are, and what that is worth."""

    closest: IntArray  # shape [rows, columns], the closest domain of each
    costs: tuple[float, ...]  # Eq. 2 at each closer level


def seat_together(free: FreeNodes, job: Job, domain: int) -> SeatedGang:
    """Seat all cells in one domain of the first level."""
    grid = job.grid
    if len(free.levels) == 1:
        return SeatedGang(np.full((grid.rows, grid.columns), domain, dtype=np.int32), ())
    every = np.arange(grid.cells, dtype=np.int32)
    child, pair = seat_parcel(free, 1, domain, every, columns=grid.columns, weights=(job.alpha, job.beta))
    seated = seat_apart(free, job, child.reshape(grid.rows, grid.columns), pair, step=1)
    return SeatedGang(seated.closest, (objective_of(job, *pair), *seated.costs))


def seat_apart(free: FreeNodes, job: Job, domain_of_cell: IntArray, pair: Pair, *, step: int = 0) -> SeatedGang:
    """Seat cells whose domains at a level are chosen, level by level.

    :param domain_of_cell: shape [rows, columns]; no domain is given more than it has free.
    :param pair: (S, R) at that level; ``step``: its place among the levels.
    """
    costs = []
    for closer in range(step + 1, len(free.levels)):
        # the child of its domain that each cell goes to, parcel by parcel
        flat = domain_of_cell.ravel()
        child_of_cell = np.empty(len(flat), dtype=np.int32)
        # a column touches S domains, so a child more in each of them costs S times
        weights = job.alpha * pair[0], job.beta * pair[1]
        for cells in _parcels(flat):
            child, _ = seat_parcel(free, closer, int(flat[cells[0]]), cells, columns=job.grid.columns, weights=weights)
            child_of_cell[cells] = child
        domain_of_cell = child_of_cell.reshape(domain_of_cell.shape)
        pair = pair_of(job, domain_of_cell)
        costs.append(objective_of(job, *pair))
    return SeatedGang(domain_of_cell, tuple(costs))


def listed(free: FreeNodes, job: Job, domains: Sequence[int]) -> IntArray:
    """Return the closest domain of each cell, shape [rows, columns], where the cells, row by row, take the free nodes
    of some domains of the first level one after another, as they lie in the tree.
    """
    broader = np.arange(len(free.levels[-1]), dtype=np.int32)
    for level in free.levels[:0:-1]:
        broader = level.parent_of[broader]
    inside = np.concatenate([(broader == domain).nonzero()[0] for domain in domains]).astype(np.int32)
    return inside.repeat(free.counts[-1][inside])[: job.grid.cells].reshape(job.grid.rows, job.grid.columns)


def fill_tightest(free: FreeNodes, domain_of_cell: IntArray) -> IntArray:
    """Return the closest domain of each cell, shape [rows, columns], where cells fill the fewest domains inside that of
    each, level by level, in order of their numbers.

    :param domain_of_cell: of the first level, shape [rows, columns]; no domain is given more than it has free.
    """
    flat = domain_of_cell.ravel()
    for level, counts in zip(free.levels[1:], free.counts[1:], strict=True):
        table, child_of_cell = table_of(level), np.empty_like(flat)
        for cells in _parcels(flat):
            domain = int(flat[cells[0]])
            children = table.children[domain]
            wanted = len(cells)
            inside = counts[children].tolist()
            used = _tightest(inside, table.sizes[domain], wanted)
            child_of_cell[cells] = children[used].repeat([inside[child] for child in used])[:wanted]
        flat = child_of_cell
    return flat.reshape(domain_of_cell.shape)


def _parcels(domain_of_cell: IntArray) -> list[Indices]:
    """Return the numbers of the cells of each domain, ascending; the domain of each cell has shape [cells]."""
    order = np.argsort(domain_of_cell, kind="stable")
    in_order = domain_of_cell[order]
    ends = [0, *((in_order[1:] != in_order[:-1]).nonzero()[0] + 1).tolist(), len(order)]
    return [order[start:end] for start, end in pairwise(ends)]


def pair_of(job: Job, domain_of_cell: IntArray) -> Pair:
    """Return (S, R) of cells on domains of a level, shape [rows, columns]."""
    groups = job.grid.groups
    return spread(groups["dp"].group, domain_of_cell), spread(groups["pp"].group, domain_of_cell)


def seat_parcel(
    free: FreeNodes, step: int, domain: int, cells: Indices, *, columns: int, weights: tuple[float, float]
) -> tuple[IntArray, Pair]:
    """Return the child of a domain that each of some cells goes to, and the largest spreads of its columns and rows.

    :param cells: their numbers in the grid, row by row, ascending; ``weights``: of the spread of columns, and of rows.
    """
    table, wanted = table_of(free.levels[step]), len(cells)
    children = table.children[domain]
    counts = free.counts[step][children].tolist()
    used = _tightest(counts, table.sizes[domain], wanted)
    if len(used) == 1:
        return np.full(wanted, children[used[0]], dtype=np.int32), (1, 1)
    row, column = np.divmod(cells.astype(np.int32), np.int32(columns))
    if row[0] == row[-1] or columns == 1:
        # any order is as good: the line touches all of them, what crosses it one
        tight = children[used].repeat([counts[child] for child in used])[:wanted]
        return tight, (len(used), 1) if columns == 1 else (1, len(used))
    tight = np.array(used, dtype=np.int32).repeat([counts[child] for child in used])[:wanted]
    as_they_lie = np.arange(len(counts), dtype=np.int32).repeat(counts)[:wanted]
    shape = orders_of(row.tobytes(), column.tobytes())
    fill, pair = best_fill(shape, tight, as_they_lie, dp_weight=weights[0], pp_weight=weights[1])
    return children[fill], pair


def _tightest(counts: Sequence[int], sizes: Sequence[int], wanted: int) -> list[int]:
    """Return the fewest domains with so many free nodes, the roomiest first; the last is the tightest that has room for
    the rest, of equal ones the first that is not all free.
    """
    roomiest = sorted(range(len(counts)), key=counts.__getitem__, reverse=True)
    used = 0
    while counts[roomiest[used]] < wanted:
        wanted -= counts[roomiest[used]]
        used += 1
    fits = (k for k in roomiest[used:] if counts[k] >= wanted)
    last = min(fits, key=lambda k: (counts[k] == sizes[k] and counts[k] > wanted, counts[k]))
    return [*roomiest[:used], last]


_KEPT = 512  # shapes of parcels whose orders are kept: about a megabyte at a hundred cells each
_WORD = 64  # bits of a word
_BITS = np.uint64(1) << np.arange(_WORD, dtype=np.uint64)
_MOST_ORDERS = 12  # orders tried of a shape, evenly spread over the numbers of shelves


@dataclass(frozen=True, slots=True)
class ShapeOrders:
    """Orders in which the cells of a parcel are filled; every cell is in two lines, its column and its row.

    Places are those of two sequences, one after the other.  The last order is the first, row by row, on the second.
    """

    place: Indices  # shape [orders, cells], the place of each cell
    columns: int  # lines are numbered: the columns, then the rows
    starts: Indices  # shape [lines], where the places of each line begin in `by_line`
    by_line: Indices  # shape [orders, 2 x cells], the places of the cells of one line after another


@lru_cache(_KEPT)
def orders_of(row: bytes, column: bytes) -> ShapeOrders:
    """Return the orders of a parcel.

    :param row: shape [cells] of int32, the row of each cell; ``column``: its column; rows and columns without a cell
        count for nothing.
    """
    rows, row_of = np.unique(np.frombuffer(row, dtype=np.int32), return_inverse=True)
    columns, column_of = np.unique(np.frombuffer(column, dtype=np.int32), return_inverse=True)
    of_row, of_column = row_of.astype(np.int32), column_of.astype(np.int32)
    orders = [np.lexsort((of_column, of_row)), *(order for *_, order in shelves(pieces_of(of_row, of_column)))]
    places: dict[bytes, IntArray] = {}
    for order in orders:
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        places.setdefault(place.tobytes(), place)
    kept = list(places.values())
    if len(kept) > _MOST_ORDERS:
        kept = [kept[i] for i in np.linspace(0, len(kept) - 1, _MOST_ORDERS).astype(int)]
    place = np.stack([*kept, kept[0] + len(of_row)]).astype(np.intp)
    line = np.concatenate([of_column, len(columns) + of_row])
    alike = np.argsort(line, kind="stable")
    starts = np.searchsorted(line[alike], np.arange(len(columns) + len(rows)))
    return ShapeOrders(place, len(columns), starts, np.tile(place, 2)[:, alike])


def best_fill(
    shape: ShapeOrders, sequence: IntArray, row_by_row: IntArray, *, dp_weight: float, pp_weight: float
) -> tuple[IntArray, Pair]:
    """Return the fill with the least of the weighted spreads, of equal ones that with the fewest touches in all.

    :param sequence: shape [cells], the domain of each place, numbered from 0; ``row_by_row``: another, tried in the
        first order alone.
    :returns: shape [cells], the domain of each cell; and the most domains that a column touches, and a row.
    """
    domain = np.concatenate([sequence, row_by_row])
    # the domains that a line touches are bits of words
    touched = np.zeros((len(shape.place), len(shape.starts)), dtype=np.int32)
    for bits in _words(domain):
        touched += np.bitwise_count(np.bitwise_or.reduceat(bits[shape.by_line], shape.starts, axis=1))
    dp, pp = touched[:, : shape.columns].max(axis=1), touched[:, shape.columns :].max(axis=1)
    # the cost decides: sums of touches are whole numbers, smaller than what they are divided by
    cost = dp_weight * dp + pp_weight * pp + touched.sum(axis=1) / (1e6 * shape.by_line.size)
    best = int(cost.argmin())
    return domain[shape.place[best]], (int(dp[best]), int(pp[best]))


def _words(domain: IntArray) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield for each word the bit that each domain has in it, if any; of the shape of the domains, numbered from 0."""
    if (last := int(domain.max())) < _WORD:
        yield _BITS[domain]
        return
    for word in range(last // _WORD + 1):
        yield np.where(domain // _WORD == word, _BITS[domain % _WORD], np.uint64(0))
