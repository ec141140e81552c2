"""The abstract problem, and how it reads an assignment."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.problem import GridProblem
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import problems

PROBLEM = GridProblem(2, 3, (4, 2, 1))


def test_spread_is_counted_by_rows_and_columns() -> None:
    """Columns touch 1, 2 and 2 domains; rows 1 and 3."""
    assert PROBLEM.pair_of(np.array([[0, 0, 0], [0, 1, 2]], dtype=np.int32)) == (2, 3)


@pytest.mark.parametrize(
    ("cells", "fits"),
    [
        ([[0, 0, 0], [0, 1, 2]], True),
        ([[0, 0, 0], [0, 0, 2]], False),  # five cells in a domain of four
        ([[0, 0, 0], [0, 1, 3]], False),  # there is no fourth domain
        ([[0, 0, 0], [0, 1, -1]], False),
        ([[0, 0], [0, 1], [1, 2]], False),  # rows and columns exchanged
    ],
)
def test_what_fits(cells: list[list[int]], fits: bool) -> None:
    """The shape, the names of the domains and their capacities."""
    assert PROBLEM.fits(np.array(cells, dtype=np.int32)) == fits


@given(problems(), st.randoms(use_true_random=False))
@examples(100)
def test_the_transpose_exchanges_both(problem: GridProblem, chance: Random) -> None:
    """(S, R) of an assignment is (R, S) of its transpose; no assignment exceeds the largest pair."""
    cells = np.array([chance.randrange(len(problem.capacities)) for _ in range(problem.cells)], dtype=np.int32)
    cells = cells.reshape(problem.rows, problem.columns)
    dp, pp = problem.pair_of(cells)
    assert problem.transposed.pair_of(cells.T) == (pp, dp)
    assert problem.transposed.transposed == problem
    most_dp, most_pp = problem.largest_pair
    assert dp <= most_dp
    assert pp <= most_pp
