"""From a skeleton to a placement."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.cpsat import Slice
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.skeletons import realise
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import can_be_realised
from topology.cluster import BoolArray

LIMIT = Slice(effort=2.0, wall=30.0)


def realised(problem: GridProblem, serves: BoolArray, pp: int) -> bool:
    """Whether it is realised; what is found keeps to the skeleton, to R and to the capacities."""
    cells = realise(problem, serves, pp=pp, limit=LIMIT)[0]
    if cells is None:
        return False
    assert problem.fits(cells)
    assert serves[cells, np.arange(problem.columns)].all()
    assert max(len(set(row)) for row in cells.tolist()) <= pp
    return True


@st.composite
def skeletons(draw: st.DrawFn) -> tuple[GridProblem, BoolArray, int]:
    """Up to 4 x 4 cells on up to 4 domains; every column is served; what no domain serves has room all the same."""
    rows, columns, domains = draw(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)))
    capacities = draw(st.lists(st.integers(1, rows * columns), min_size=domains, max_size=domains))
    of_column = draw(st.lists(st.integers(1, 2**domains - 1), min_size=columns, max_size=columns))
    serves = np.array([[mask >> k & 1 for mask in of_column] for k in range(domains)], dtype=np.bool_)
    problem = GridProblem(rows, columns, tuple(sorted(capacities, reverse=True)))
    return problem, serves, draw(st.integers(1, domains))


@given(skeletons())
@examples(300)
def test_what_is_realised_is_valid(skeleton: tuple[GridProblem, BoolArray, int]) -> None:
    """Of any skeleton; and nothing is realised that cannot be."""
    if realised(*skeleton):
        assert can_be_realised(*skeleton)


@pytest.mark.parametrize(
    ("problem", "serves", "pp"),
    [
        # The first domain serves all columns, yet holds 7 of 9 cells: two rows take a cell elsewhere.
        (GridProblem(3, 3, (7, 1, 1)), ["111", "100", "010"], 2),
        # The second domain has more room than the third, but serves no column: the third helps the first out.
        (GridProblem(2, 4, (7, 3, 2)), ["1111", "0000", "1000"], 2),
        # In fractions each domain hosts one and a half of the three rows; in whole ones some row lies on both.
        (GridProblem(3, 2, (3, 3)), ["11", "11"], 2),
        # No domain serves two columns, so every row lies on three.
        (GridProblem(2, 3, (2, 2, 2)), ["100", "010", "001"], 3),
    ],
)
def test_a_skeleton_that_can_be_realised_is(problem: GridProblem, serves: list[str], pp: int) -> None:
    """Where rows have to touch more domains than it takes to serve all columns, and where not."""
    assert realised(problem, np.array([[mark == "1" for mark in row] for row in serves]), pp)


@pytest.mark.parametrize(
    ("problem", "serves", "pp"),
    [
        # Three domains of one column each, rows on two of them.
        (GridProblem(2, 3, (2, 2, 2)), ["100", "010", "001"], 2),
        # Column 1 has two cells and is served by a domain of one.
        (GridProblem(2, 2, (3, 1)), ["10", "01"], 2),
    ],
)
def test_a_skeleton_that_cannot_be_realised_is_not(problem: GridProblem, serves: list[str], pp: int) -> None:
    """Whether for want of a team or of room."""
    assert not realised(problem, np.array([[mark == "1" for mark in row] for row in serves]), pp)
