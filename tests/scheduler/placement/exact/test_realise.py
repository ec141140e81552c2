"""From a skeleton to a placement."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.placement.exact.cpsat import Slice
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.realise import BoolArray, realise

LIMIT = Slice(effort=2.0, wall=30.0)


def can_be_realised(problem: GridProblem, serves: BoolArray, pp: int) -> bool:
    """By trying all rows after one another; what is remembered is the cells taken of each domain."""
    domains = len(serves)
    options = [np.flatnonzero(column) for column in serves.T]
    loads = {tuple(np.bincount(row, minlength=domains)) for row in product(*options) if len(set(row)) <= pp}
    taken = {(0,) * domains}
    for _ in range(problem.rows):
        larger = {tuple(a + b for a, b in zip(one, load, strict=True)) for one in taken for load in loads}
        taken = {one for one in larger if all(a <= c for a, c in zip(one, problem.capacities, strict=True))}
    return bool(taken)


def test_rows_on_more_domains_than_they_need() -> None:
    """The first domain serves all columns, yet holds 7 of 9 cells: two rows have to take a cell elsewhere."""
    problem = GridProblem(3, 3, (7, 1, 1))
    serves = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0]], dtype=np.bool_)
    cells = realise(problem, serves, pp=2, limit=LIMIT)
    assert cells is not None
    assert problem.pair_of(cells) == (2, 2)


def test_domains_that_serve_nothing_do_not_join() -> None:
    """The second domain has more room than the others and serves no column: the third has to help the first out."""
    problem = GridProblem(2, 4, (7, 3, 2))
    serves = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]], dtype=np.bool_)
    cells = realise(problem, serves, pp=2, limit=LIMIT)
    assert cells is not None
    assert problem.pair_of(cells) == (2, 2)


def test_half_rows_become_a_row_between_two_domains() -> None:
    """Two domains of 3 cells, 3 rows of 2: in fractions each hosts one and a half rows, in whole rows one lies across."""
    cells = realise(GridProblem(3, 2, (3, 3)), np.ones((2, 2), dtype=np.bool_), pp=2, limit=LIMIT)
    assert cells is not None
    assert sorted(np.bincount(row, minlength=2).tolist() for row in cells) == [[0, 2], [1, 1], [2, 0]]
