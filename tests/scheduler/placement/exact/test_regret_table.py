"""The rectangle bound by regrets: whatever the prices, the same verdict as all heights and widths tried."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.placement.exact.bounds import CoverageBound, OutOfEntries, RectangleBound, regrets_refute
from scheduler.placement.exact.problem import GridProblem
from scheduler.witnesses import Multipliers
from tests.case_counts import every_fourth, examples
from tests.scheduler.placement.exact.tiny import all_problems, corners, pairs, problems

MANY = 10_000_000  # Entries: more than any grid here takes


@given(problems(), st.data())
@examples(300)
def test_prices_never_change_the_verdict(problem: GridProblem, data: st.DataObject) -> None:
    """Good or bad, it is the verdict of the whole table, for every pair and on both views."""
    charge = st.integers(0, 12)
    prices = Multipliers(data.draw(charge), data.draw(charge), data.draw(st.integers(1, 6)))
    for view in (problem, problem.transposed):
        table = RectangleBound(view, pairs(view))
        for pair in pairs(view):
            assert regrets_refute(view, pair, prices, entries=MANY) == table.refutes(pair)


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
