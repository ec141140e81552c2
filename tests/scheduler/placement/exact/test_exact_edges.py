"""S = 1 and R = 1 are settled by counting, both ways; the contiguous fill always is a placement."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given

from scheduler.placement.exact.bounds import contiguous, whole_columns
from scheduler.placement.exact.problem import GridProblem
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import all_problems, corners, problems


def check_edge(problem: GridProblem) -> None:
    """Whole columns exist exactly when brute force finds S = 1, and then with the fewest domains in a row."""
    fewest = [pp for dp, pp in corners(problem) if dp == 1]
    cells = whole_columns(problem)
    assert (cells is None) == (not fewest)
    if cells is not None:
        assert problem.fits(cells)
        assert problem.pair_of(cells) == (1, min(fewest))


def test_whole_columns_of_all_tiny_problems() -> None:
    """1,032 grids of up to 3 x 3 cells, each also with rows and columns exchanged: S = 1, then R = 1."""
    for problem in all_problems(rows=3, columns=3, domains=4, largest=5):
        check_edge(problem)
        check_edge(problem.transposed)


@given(problems())
@examples(200)
def test_whole_columns_of_drawn_problems(problem: GridProblem) -> None:
    """Grids that are longer one way than the other."""
    check_edge(problem)
    check_edge(problem.transposed)


@given(problems())
@examples(200)
def test_the_contiguous_fill_is_a_placement_on_the_fewest_domains(problem: GridProblem) -> None:
    """Column by column, the largest domains first, each to the brim but the last."""
    cells = contiguous(problem)
    assert problem.fits(cells)
    in_order = cells.T.ravel()
    assert all(0 <= after - before <= 1 for before, after in pairwise(in_order.tolist()))
    used = np.bincount(in_order)
    assert used[:-1].tolist() == list(problem.capacities[: len(used) - 1])
