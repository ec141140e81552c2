"""Interval flow: valid placements of the pair; found where bands or whole rows do, and where only cut rows do."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.bands import partitions
from scheduler.placement.exact.bounds import CoverageBound, fewest_for_lines
from scheduler.placement.exact.flows import FlowLimit, count_intervals, interval_flow, rows_on_intervals
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import Planted, alike, check_pair, check_placement, planted, problems
from topology.cluster import IntArray


def flow(problem: GridProblem, pair: Pair, *, seed: int = 0) -> IntArray | None:
    """Search to the end: every choice of intervals has its turn."""
    limit = FlowLimit(60.0, programs=100_000, seed=seed)
    return interval_flow(problem, pair, limit=limit, coverage=CoverageBound(problem))


def bands_exist(problem: GridProblem, pair: Pair) -> bool:
    """Whether bands exist with each domain in one of them, by trying all ways."""
    dp, pp = pair
    for widths in partitions(problem.columns, min(pp, problem.columns)):
        for band_of in product(range(len(widths)), repeat=len(problem.capacities)):
            domains = list(zip(problem.capacities, band_of, strict=True))
            hosted = [
                sorted((c // width for c, b in domains if b == band), reverse=True)[:dp]
                for band, width in enumerate(widths)
            ]
            if all(sum(rows) >= problem.rows for rows in hosted):
                return True
    return False


@given(st.one_of(problems(), alike()), st.integers(2, 3), st.integers(1, 4), st.integers(0, 2))
@examples(200)
def test_flows_keep_the_pair(problem: GridProblem, pp: int, dp: int, seed: int) -> None:
    """Nothing is found where brute force finds nothing; domains in one band each, and whole rows, are found."""
    cells = flow(problem, (dp, pp), seed=seed)
    if cells is not None:
        check_placement(problem, cells, (dp, pp))
        return
    whole = fewest_for_lines(problem.columns, problem.rows, problem.capacities)
    assert whole is None or whole > dp
    assert not bands_exist(problem, (dp, pp))


@given(planted(served_by=2, transposed=True), st.integers(0, 2))
@examples(100)
def test_flows_keep_the_pair_on_larger_problems(plant: Planted, seed: int) -> None:
    """Problems made for a placement with R = 2; that none of intervals is found is allowed."""
    cells = flow(plant.problem, plant.pair, seed=seed)
    if cells is not None:
        check_pair(plant.problem, cells, plant.pair)


def test_a_domain_hosts_rows_of_two_cuts() -> None:
    """2 x 4 cells on 5 + 3: the rows whole on the first or cut at its first column, the rest on the second."""
    cells = flow(GridProblem(2, 4, (5, 3)), (2, 2))
    assert cells is not None
    assert np.bincount(cells.ravel()).tolist() == [5, 3]


def test_whole_rows() -> None:
    """A column of 12 on twelve domains of a cell: a row each."""
    cells = flow(GridProblem(12, 1, (1,) * 12), (12, 2))
    assert cells is not None
    assert sorted(cells.ravel()) == list(range(12))


def test_rows_of_three_segments() -> None:
    """3 x 3 cells on 4 + 3 + 2 with two domains to a column.  A row of three segments may cut out the middle column."""
    problem = GridProblem(3, 3, (4, 3, 2))
    cells = flow(problem, (2, 3))
    assert cells is not None
    check_placement(problem, cells, (2, 3))


@pytest.mark.parametrize("problem", [GridProblem(3, 1, (2, 1)), GridProblem(1, 3, (2, 2)), GridProblem(1, 1, (1,))])
def test_a_single_column_or_row(problem: GridProblem) -> None:
    """A column is a whole row cut nowhere; a row of 3 is cut into 2 and 1."""
    assert flow(problem, (2, 2)) is not None


def test_rows_on_three_domains_are_not_cut_in_two() -> None:
    """Six domains of one cell for 2 x 3."""
    assert flow(GridProblem(2, 3, (1,) * 6), (2, 2)) is None


def test_intervals_that_no_whole_rows_fill() -> None:
    """Two rows of two columns; domains of three cells that serve one column each leave cells without room."""
    problem, limit = GridProblem(2, 2, (3, 1)), FlowLimit(60.0, 1000, 0)
    serves = np.array([[True, False], [False, True]])
    assert rows_on_intervals(problem, serves, pp=2, limit=limit) is None
    cells = rows_on_intervals(problem, np.array([[True, True], [False, True]]), pp=2, limit=limit)
    assert cells is not None
    assert problem.fits(cells)


@pytest.mark.parametrize(("columns", "pp", "intervals"), [(4, 2, 7), (4, 3, 10), (1, 2, 1)])
def test_the_size_of_the_model(columns: int, pp: int, intervals: int) -> None:
    """With two segments to a row intervals begin or end it: 2 P - 1 of P (P + 1) / 2; for each different capacity."""
    problem = GridProblem(10, columns, (30, 30, 20, 10))
    assert count_intervals(problem, (3, pp)) == 3 * intervals


def test_same_seed_same_flow() -> None:
    """The same cells, however often."""
    problem = GridProblem(9, 6, (14, 13, 11, 9, 8))
    first, again = (flow(problem, (4, 2), seed=5) for _ in range(2))
    assert first is not None
    assert np.array_equal(first, again)
