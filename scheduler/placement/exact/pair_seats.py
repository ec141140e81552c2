"""From a job to its pairs (S, R), and from a pair that is built to nodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

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


def solve_grid(
    rows: int,
    columns: int,
    capacities: tuple[int, ...],
    alpha: float,
    seconds: float,
    *,
    params: ExactParams = DEFAULTS,
) -> IntArray | None:
    """Return the best assignment of a bare grid: the search alone, as seating asks for it one level down.

    :param capacities: in descending order, positive, at least ``rows * columns`` together; the answer has indices.
    """
    lattice = Lattice(GridProblem(rows, columns, capacities), alpha, 1.0 - alpha)
    search_pairs(PairSearch(lattice, Limits(seconds=seconds, workers=1), params))
    return lattice.built[lattice.best]
