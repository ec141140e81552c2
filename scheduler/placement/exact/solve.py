"""Asking the search: of a bare grid, whose answers are kept; of a job; and seating what it builds, pair to nodes."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from math import inf
from operator import neg
from threading import Lock

import numpy as np

from scheduler.placement.exact.closed_forms import closed_form
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.params import DEFAULTS, ExactParams
from scheduler.placement.exact.problem import GridProblem, GridReduction
from scheduler.placement.exact.schedule import search_pairs
from scheduler.placement.seating import seat
from scheduler.placement.types import Limits, Pair
from scheduler.work_clock import LEAST_SECONDS, clock, counts_work
from topology.cluster import IndexArray, IntArray

# Bare grids, without a job: by a closed form, or by the search, whose answers are kept.
#
# Seating asks for one in each domain, replays for the same ones again and again.


def solve_grid(
    rows: int,
    columns: int,
    capacities: tuple[int, ...],
    alpha: float,
    seconds: float,
    *,
    params: ExactParams = DEFAULTS,
) -> IntArray | None:
    """Return the best assignment of a bare grid: by a closed form, or the search alone, as seating asks for it.

    :param capacities: in descending order, positive, at least ``rows * columns`` together; the answer has indices.
    """
    form = closed_form(usable_part(rows, columns, capacities), alpha)
    if form.proved:
        return form.cells
    return search_grid(form.problem, alpha, Limits(seconds=seconds, workers=1), params).cells


def usable_part(rows: int, columns: int, capacities: Sequence[int]) -> GridProblem:
    """Return a grid on what a placement can use of the domains: as many as there are cells, none beyond all cells."""
    cells = rows * columns
    larger = bisect_left(capacities, -cells, hi=min(cells, len(capacities)), key=neg)
    return GridProblem(rows, columns, (*repeat(cells, larger), *capacities[larger:cells]))


@dataclass(frozen=True, slots=True)
class GridAnswer:
    """What a search of pairs says of a grid."""

    pair: Pair  # (S, R), the best found
    cells: IntArray  # shape [rows, columns], the domain of each cell; read only
    bound: float  # no pair has less of Eq. 2
    proved: bool
    complete: bool  # whether the search ended by itself


def search_grid(problem: GridProblem, alpha: float, limits: Limits, params: ExactParams) -> GridAnswer:
    """Search the pairs of a grid that no closed form settles; what was proved of those asked for last is kept.

    :param problem: of its domains what is usable alone, so that many grids are the same one.
    """
    # where work is counted, less of it may end before a proof, whatever was asked before
    seconds = limits.seconds if counts_work() else None
    key = problem, alpha, limits.seed, limits.workers, seconds, params
    if (known := GRIDS.get(key)) is not None:
        return known
    lattice = Lattice(problem, alpha, 1.0 - alpha)
    search = PairSearch(lattice, limits, params)
    search_pairs(search)
    cells = lattice.built[lattice.best]
    cells.setflags(write=False)
    answer = GridAnswer(lattice.best, cells, lattice.bound(), lattice.proved, search.complete)
    # what time cut off might be better another time
    if answer.proved and problem.cells <= params.many_cells:
        GRIDS.keep(key, answer)
    return answer


class GridCache:
    """What was found of the grids asked for last, for any number of threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[Hashable, GridAnswer] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Hashable) -> GridAnswer | None:
        """Return what was found of a grid; ``None`` = it is not kept."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def keep(self, key: Hashable, found: GridAnswer) -> None:
        """Keep what was found of a grid; what was asked for least lately gives way."""
        with self._lock:
            self._known[key] = found
            if len(self._known) > self._most:
                self._known.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._known.clear()


GRIDS = GridCache(2048)  # of few cells each, so that all of them are some tens of megabytes at most


# From a job to its pairs (S, R), and from a pair that is built to nodes.


def search_reduction(reduction: GridReduction, limits: Limits, seconds: float, params: ExactParams) -> PairSearch:
    """Search the pairs of one job on nodes up to some slowdown."""
    job = reduction.job
    search = PairSearch(Lattice(reduction.problem, job.alpha, job.beta), replace(limits, seconds=seconds), params)
    search_pairs(search)
    return search


def seat_cells(
    reduction: GridReduction, domain_of_cell: IntArray, seconds: float, params: ExactParams, *, end: float = inf
) -> IntArray:
    """Return nodes for cells on the domains of the job's level, shape [rows, columns] both.

    :param seconds: limit of the searches one level down, and further; ``end``: of the time, beyond which seating may go
        on for so many seconds.
    """
    return seat(
        reduction.cluster,
        reduction.job,
        level=reduction.level,
        domain_of_cell=domain_of_cell,
        admitted=reduction.admitted,
        solve_grid=partial(solve_grid, params=params),
        seconds=seconds,
        most_seconds=max(0.0, end - clock()) + max(seconds, LEAST_SECONDS),
    )


def seat_pair(
    reduction: GridReduction, lattice: Lattice, pair: Pair, seconds: float, params: ExactParams, *, end: float = inf
) -> IntArray:
    """Return nodes for a pair that is built, as :func:`seat_cells`."""
    return seat_cells(reduction, reduction.domain_of_cell(lattice.built[pair]), seconds, params, end=end)


def alike_together(rows_tied: IntArray, *domains: IntArray | IndexArray) -> IntArray:
    """Return an order of the rows in which those alike are in the same parts: shape [rows], the row at each place.

    :param rows_tied: shape [rows], the part that each place is in.
    :param domains: shape [rows, columns] each, where the cells of a row lie: by the first rows come first, of those
        alike by the next.
    """
    order = np.empty_like(rows_tied)
    order[np.argsort(rows_tied, kind="stable")] = np.lexsort(np.concatenate([of_level.T for of_level in domains[::-1]]))
    return order


def seating_seconds(limits: Limits, params: ExactParams) -> float:
    """Return how long the searches below the job's level may take: none are made where closer levels need be good
    alone.
    """
    return params.short_share * limits.seconds if limits.told == "everything" else 0.0
