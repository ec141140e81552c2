"""The rectangle bound by regrets: whatever the prices, the same verdict as all heights and widths tried."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.placement.exact.bounds import CoverageBound, OutOfEntries, regrets_refute
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Limits
from scheduler.witnesses import Multipliers
from tests.case_counts import every_fourth, examples
from tests.scheduler.placement.exact.tiny import all_problems, corners, pairs, problems

Touches = tuple[int, int]


@cache
def most_covered(problem: GridProblem) -> dict[Touches, int]:
    """For each (sum of rows, sum of columns) exactly, the most cells of rectangles, all heights and widths tried."""
    shapes = list(product(range(1, problem.rows + 1), range(1, problem.columns + 1)))
    most = {(0, 0): 0}
    for capacity in problem.capacities:
        before = dict(most)
        for (rows, columns), cells in before.items():
            for r, q in shapes:
                touches = rows + r, columns + q
                most[touches] = max(most.get(touches, 0), cells + min(capacity, r * q))
    return most


def best(problem: GridProblem, rows: int, columns: int) -> int:
    """The most cells within these sums."""
    return max(cells for (r, q), cells in most_covered(problem).items() if r <= rows and q <= columns)


@st.composite
def larger_problems(draw: st.DrawFn) -> GridProblem:
    """Up to 7 x 7 cells on up to 4 domains: too large for brute force over placements, not over rectangles."""
    rows, columns = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    sizes = st.integers(1, draw(st.sampled_from([6, 12, 49])))
    capacities = sorted(draw(st.lists(sizes, min_size=1, max_size=4)), reverse=True)
    capacities[0] += max(0, rows * columns - sum(capacities))
    return GridProblem(rows, columns, tuple(capacities))


MANY = 10_000_000  # Entries: more than any grid here takes


@given(st.one_of(problems(), larger_problems()), st.data())
@examples(300)
def test_prices_never_change_the_verdict(problem: GridProblem, data: st.DataObject) -> None:
    """Good or bad, it is the verdict of all choices of rectangles, for every pair and on both views."""
    charge = st.integers(0, 12)
    prices = Multipliers(data.draw(charge), data.draw(charge), data.draw(st.integers(1, 6)))
    for view in (problem, problem.transposed):
        for dp, pp in pairs(view):
            refuted = best(view, pp * view.rows, dp * view.columns) < view.cells
            assert regrets_refute(view, (dp, pp), prices, entries=MANY) == refuted


@pytest.mark.many_cases
def test_no_tiny_placement_is_refuted() -> None:
    """All 1,032 grids of up to 3 x 3 cells on up to 4 domains of up to 5, with the prices of the coverage bound."""
    for problem in every_fourth(all_problems(rows=3, columns=3, domains=4, largest=5)):
        coverage = CoverageBound(problem)
        for pair in corners(problem):
            assert not regrets_refute(problem, pair, coverage.least(*pair)[1], entries=MANY)


def test_it_refutes_what_the_coverage_bound_leaves_open() -> None:
    """3 x 6 cells on 7 + 5 + 5 + 3, S = R = 2: shapes cover 17 of 18."""
    problem = GridProblem(3, 6, (7, 5, 5, 3))
    coverage = CoverageBound(problem)
    assert not coverage.refutes(2, 2)
    assert best(problem, 6, 12) == 17
    assert regrets_refute(problem, (2, 2), coverage.least(2, 2)[1], entries=MANY)


@given(problems(), st.data())
@examples(100)
def test_too_few_entries_decide_nothing_else(problem: GridProblem, data: st.DataObject) -> None:
    """A verdict within few entries is that within many."""
    pair = data.draw(st.sampled_from(pairs(problem)))
    prices = CoverageBound(problem).least(*pair)[1]
    try:
        refuted = regrets_refute(problem, pair, prices, entries=data.draw(st.integers(0, 50)))
    except OutOfEntries:
        assume(False)
    assert refuted == regrets_refute(problem, pair, prices, entries=MANY)


@given(problems())
@examples(200)
def test_spare_rows_are_enough(problem: GridProblem) -> None:
    """No pair needs fewer rows than it has less those to spare: with one fewer rectangles do not cover all cells."""
    search = PairSearch(Lattice(problem, 0.5, 0.5), Limits())
    for pair in pairs(problem):
        for view in search.views:
            (dp, pp), grid = view.turn(pair), view.problem
            needed = pp * grid.rows - search.spare_rows(view, pair)
            if search.spare_rows(view, pair) < grid.rows and not search.coverage.refutes(*pair):
                assert best(grid, needed - 1, dp * grid.columns) < grid.cells
