"""From a job to its pairs (S, R), and from a pair that is built to nodes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from threading import Lock

from scheduler.placement.exact.closed_forms import closed_form
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.params import DEFAULTS, ExactParams
from scheduler.placement.exact.problem import GridProblem, GridReduction
from scheduler.placement.exact.search import search_pairs
from scheduler.placement.seating import seat
from scheduler.placement.types import Limits
from topology.cluster import IntArray


def search_reduction(reduction: GridReduction, limits: Limits, seconds: float, params: ExactParams) -> PairSearch:
    """Search the pairs of one job on nodes up to some slowdown."""
    job = reduction.job
    search = PairSearch(Lattice(reduction.problem, job.alpha, job.beta), replace(limits, seconds=seconds), params)
    search_pairs(search)
    return search


def seat_cells(reduction: GridReduction, domain_of_cell: IntArray, seconds: float, params: ExactParams) -> IntArray:
    """Return nodes for cells on the domains of the job's level, shape [rows, columns] both.

    :param seconds: limit of the searches one level down, and further.
    """
    return seat(
        reduction.cluster,
        reduction.job,
        level=reduction.level,
        domain_of_cell=domain_of_cell,
        admitted=reduction.admitted,
        solve_grid=partial(solve_grid, params=params),
        seconds=seconds,
    )


def seating_seconds(limits: Limits, params: ExactParams) -> float:
    """Return how long the searches below the job's level may take: none are made where closer levels need be good
    alone.
    """
    return params.seating_share * limits.seconds if limits.told == "everything" else 0.0


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

    Only what a placement can use of the domains is looked at, so many grids are the same one: the best of those last
    searched are kept (:data:`GRIDS`).

    :param capacities: in descending order, positive, at least ``rows * columns`` together; the answer has indices.
    """
    cells = rows * columns
    problem = GridProblem(rows, columns, tuple(min(one, cells) for one in capacities[:cells]))
    form = closed_form(problem, alpha)
    if form.proved:
        return form.cells
    key = problem, alpha, params
    if (known := GRIDS.get(key)) is not None:
        return known
    lattice = Lattice(problem, alpha, 1.0 - alpha)
    search_pairs(PairSearch(lattice, Limits(seconds=seconds, workers=1), params))
    found = lattice.built[lattice.best]
    # what time cut off might be better another time
    if lattice.proved:
        GRIDS.keep(key, found)
    return found


class GridCache:
    """The best assignments of the grids asked for last, for any number of threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[Hashable, IntArray] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Hashable) -> IntArray | None:
        """Return what was found for a grid, read only; ``None`` = it is not kept."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def keep(self, key: Hashable, found: IntArray) -> None:
        """Keep what was found for a grid; what was asked for least lately gives way."""
        found.setflags(write=False)
        with self._lock:
            self._known[key] = found
            if len(self._known) > self._most:
                self._known.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._known.clear()


GRIDS = GridCache(2048)  # of the domains of one job mostly, some kilobytes each
