"""Rows cut in two: valid placements of the pair; found where bands or whole rows do, and where only they do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.bands import _lay_out, column_bands, cut_rows
from scheduler.placement.exact.bounds import fewest_domains
from scheduler.placement.exact.cpsat import Slice
from scheduler.placement.exact.problem import GridProblem
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import Planted, alike, feasible, planted, problems
from topology.cluster import IntArray


def cut(problem: GridProblem, dp: int, *, seed: int = 0) -> IntArray | None:
    """Searched to the end; what is found fits and keeps S, and R = 2."""
    cells = cut_rows(problem, dp=dp, seconds=60, nodes=100_000, seed=seed)
    if cells is not None:
        assert problem.fits(cells)
        s, r = problem.pair_of(cells)
        assert s <= dp
        assert r <= 2
    return cells


@given(st.one_of(problems(), alike()), st.integers(1, 4), st.integers(0, 2))
@examples(300)
def test_they_keep_the_pair(problem: GridProblem, dp: int, seed: int) -> None:
    """Nothing is found where brute force finds nothing; domains in one of two bands, and whole rows, are found."""
    cells = cut(problem, dp, seed=seed)
    if cells is not None:
        assert feasible(problem, (dp, 2))
        return
    whole = fewest_domains(problem.rows, [capacity // problem.columns for capacity in problem.capacities])
    assert whole is None or whole > dp
    for left in range(1, problem.columns):
        widths, limit = (left, problem.columns - left), Slice(effort=10.0, wall=60.0)
        assert column_bands(problem, dp=dp, widths=widths, limit=limit, whole=True) is None


@given(planted(served_by=2, transposed=True), st.integers(0, 2))
@examples(100)
def test_they_keep_the_pair_on_larger_problems(plant: Planted, seed: int) -> None:
    """Problems made for a placement with R = 2; that none of cut rows is found is allowed."""
    cut(plant.problem, plant.pair[0], seed=seed)


def test_a_domain_hosts_rows_of_two_cuts() -> None:
    """2 x 4 cells on 5 + 3: the rows whole on the first or cut at its first column, the rest on the second."""
    cells = cut(GridProblem(2, 4, (5, 3)), 2)
    assert cells is not None
    assert np.bincount(cells.ravel()).tolist() == [5, 3]


def test_whole_rows_on_both_sides() -> None:
    """A column of 12 on twelve domains of a cell: a row each, on whichever side."""
    cells = cut(GridProblem(12, 1, (1,) * 12), 12)
    assert cells is not None
    assert sorted(cells.ravel()) == list(range(12))


def test_whole_rows_are_laid_out_one_after_another() -> None:
    """Below the rows that are cut: one on the left domain 0, two on the right domain 1."""
    cells = _lay_out(GridProblem(4, 2, (4, 5)), {(0, 1): 1, (0, 2): 1}, {(1, 1): 1, (1, 2): 2})
    assert cells.tolist() == [[0, 1], [0, 0], [1, 1], [1, 1]]


@pytest.mark.parametrize("problem", [GridProblem(3, 1, (2, 1)), GridProblem(1, 3, (2, 2)), GridProblem(1, 1, (1,))])
def test_a_single_column_or_row(problem: GridProblem) -> None:
    """A column is a whole row cut nowhere; a row of 3 is cut into 2 and 1."""
    assert cut(problem, 2) is not None


def test_rows_on_three_domains_are_not_cut_in_two() -> None:
    """Six domains of one cell for 2 x 3."""
    assert cut(GridProblem(2, 3, (1,) * 6), 2) is None


def test_same_seed_same_cut() -> None:
    """The same cells, however often."""
    problem = GridProblem(9, 6, (14, 13, 11, 9, 8))
    first, again = (cut(problem, 4, seed=5) for _ in range(2))
    assert first is not None
    assert np.array_equal(first, again)
