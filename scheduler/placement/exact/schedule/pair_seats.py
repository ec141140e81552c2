"""From a job to its pairs (S, R), and from a pair that is built to nodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf

from scheduler.placement.exact.grid.params import ExactParams
from scheduler.placement.exact.grid.problem import GridReduction
from scheduler.placement.exact.pairs.lattice import Lattice
from scheduler.placement.exact.pairs.pair_search import PairSearch
from scheduler.placement.exact.schedule.bare_grids import solve_grid
from scheduler.placement.exact.schedule.search import search_pairs
from scheduler.placement.seating import seat
from scheduler.placement.types import Limits, Pair
from scheduler.work_clock import clock
from topology.cluster import IntArray


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
        most_seconds=max(0.0, end - clock()) + max(seconds, params.least_seconds),
    )


def seat_pair(
    reduction: GridReduction, lattice: Lattice, pair: Pair, seconds: float, params: ExactParams, *, end: float = inf
) -> IntArray:
    """Return nodes for a pair that is built, as :func:`seat_cells`."""
    return seat_cells(reduction, reduction.domain_of_cell(lattice.built[pair]), seconds, params, end=end)


def seating_seconds(limits: Limits, params: ExactParams) -> float:
    """Return how long the searches below the job's level may take: none are made where closer levels need be good
    alone.
    """
    return params.seating_share * limits.seconds if limits.told == "everything" else 0.0
