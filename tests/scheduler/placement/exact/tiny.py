"""Grid problems small enough for brute force: all of a size, and drawn ones that are a little larger."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from tests.scheduler.placement.exact import brute_force

ALPHAS = (0.0, 0.1, 0.3, 0.5, 0.8, 1.0)

SHAPES = [(3, 3, 4), (4, 3, 3), (3, 4, 3), (5, 2, 4), (2, 6, 3), (6, 2, 4), (2, 4, 5), (9, 1, 4), (1, 9, 4)]
"""Rows, columns and domains of the largest problems drawn, so that brute force takes less than a tenth of a second."""


def all_problems(*, rows: int, columns: int, domains: int, largest: int) -> list[GridProblem]:
    """Every problem up to that size with room for its cells."""
    some = brute_force.instances(rows=rows, columns=columns, domains=domains, largest=largest)
    return [GridProblem(d, p, capacities) for d, p, capacities in some]


@st.composite
def problems(draw: st.DrawFn) -> GridProblem:
    """A problem with room for its cells, often just enough: where there is too little the largest domain grows."""
    most_rows, most_columns, most_domains = draw(st.sampled_from(SHAPES))
    rows, columns = draw(st.integers(1, most_rows)), draw(st.integers(1, most_columns))
    largest = draw(st.sampled_from([2, 4, 7, 12]))
    capacities = sorted(draw(st.lists(st.integers(1, largest), min_size=1, max_size=most_domains)), reverse=True)
    capacities[0] += max(0, rows * columns - sum(capacities))
    return GridProblem(rows, columns, tuple(capacities))


def pairs(problem: GridProblem) -> list[Pair]:
    """All pairs (S, R) that a placement may have."""
    dp, pp = problem.largest_pair
    return list(product(range(1, dp + 1), range(1, pp + 1)))


def feasible(problem: GridProblem, pair: Pair) -> bool:
    """Whether some placement keeps both, by brute force."""
    return brute_force.feasible(problem.rows, problem.columns, problem.capacities, pair)


def corners(problem: GridProblem) -> frozenset[Pair]:
    """The Pareto front of (S, R), by brute force."""
    return brute_force.corners(problem.rows, problem.columns, problem.capacities)


def can_be_realised(problem: GridProblem, serves: npt.NDArray[np.bool_], pp: int) -> bool:
    """Whether rows on at most ``pp`` domains exist that use in each column only domains that serve it.

    Tries all rows one after another; what is remembered is the cells taken of each domain.

    :param serves: shape [domains, columns].
    """
    domains = len(serves)
    options = [np.flatnonzero(column) for column in serves.T]
    loads = {tuple(np.bincount(row, minlength=domains)) for row in product(*options) if len(set(row)) <= pp}
    taken = {(0,) * domains}
    for _ in range(problem.rows):
        more = {tuple(a + b for a, b in zip(one, load, strict=True)) for one in taken for load in loads}
        taken = {one for one in more if all(a <= c for a, c in zip(one, problem.capacities, strict=False))}
    return bool(taken)
