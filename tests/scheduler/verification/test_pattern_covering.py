"""Widths and heights that must add up, recounted: any prices hold, those of the search refute, forged ones do not."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objective import Spread
from scheduler.placement.exact.bounds import PatternBound, least_pattern_bound
from scheduler.placement.exact.problem import GridProblem
from scheduler.verification.question import CountedGrid
from scheduler.verification.refutations import Effort, TooMuch, least_weight, pattern_slack, recount
from scheduler.witnesses import PatternPrices
from tests.case_counts import examples
from tests.facts import says
from tests.scheduler.placement.exact.tiny import corners, pairs, problems
from tests.scheduler.verification.forgery import random_prices

EVEN = GridProblem(69, 16, (56,) * 30)
"""(3, 7) is refuted by patterns and not by rectangles: exact.md of the docs has it by hand."""


def grid_of(problem: GridProblem) -> CountedGrid:
    """The grid as the verifier knows it."""
    return CountedGrid(problem.rows, problem.columns, problem.capacities)


@given(problems(), st.integers(0, 9999))
@examples(200)
def test_any_prices_hold(problem: GridProblem, seed: int) -> None:
    """No pair of a placement is refuted, whatever the prices are; and the slack is that of the search, all pairs."""
    chance = random.Random(seed)
    grid, had = grid_of(problem), corners(problem)
    for pair in pairs(problem):
        prices = random_prices(grid.rows, grid.columns, chance)
        slack = pattern_slack(grid, Spread(*pair), prices, Effort())
        assert slack >= 0 or not any(pair[0] >= s and pair[1] >= r for s, r in had)
        if prices.unit == 1:
            # the search counts in parts of its own
            fine = replace(prices, **{name: times(getattr(prices, name)) for name in PRICES}, unit=PARTS)
            assert PatternBound(problem, pair, fine).slack == PARTS * slack


PARTS = 1 << 16
PRICES = ("row", "column", "widths", "heights")


def times(price: int | tuple[int, ...]) -> int | tuple[int, ...]:
    """A price in parts of a cell."""
    return PARTS * price if isinstance(price, int) else tuple(PARTS * one for one in price)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.integers(1, 4))
@examples(100)
def test_least_weight(weights: list[int], parts: int) -> None:
    """As light as the lightest of all multisets of sizes that reach the largest size."""
    total = len(weights)
    every = [some for some in combinations_with_replacement(range(total + 1), parts) if sum(some) >= total]
    assert least_weight(weights, parts, Effort()) == min(sum([0, *weights][one] for one in some) for some in every)


def test_a_refutation_of_the_search_holds_and_a_forged_one_does_not() -> None:
    """The prices of the search refute (3, 7); not (3, 8), which is had; nor with a weight or a charge changed."""
    prices, grid = least_pattern_bound(EVEN, (3, 7)).prices, grid_of(EVEN)
    found = recount(grid, Spread(3, 7), "patterns", prices)
    assert found.told == "holds"
    assert says(found.sentence, "of 1104 cells")
    assert recount(grid, Spread(3, 8), "patterns", prices).told == "fails"
    heaviest = max(prices.heights)
    for forged in (
        replace(prices, heights=(0,) * 69),
        replace(prices, heights=tuple(0 if one == heaviest else one for one in prices.heights)),
        replace(prices, row=prices.row * 2),
        replace(prices, unit=prices.unit * 2),
    ):
        assert recount(grid, Spread(3, 7), "patterns", forged).told == "fails"


def test_weights_of_another_grid_are_refused() -> None:
    """One width or height too few: nothing is recounted with them."""
    short = PatternPrices(0, 0, (1,), (1, 1), 1)
    found = recount(CountedGrid(2, 2, (2, 2)), Spread(1, 1), "patterns", short)
    assert found.told == "fails"
    assert says(found.sentence, "weights", "2 widths", "2 heights")


def test_what_is_too_large_is_not_told() -> None:
    """Numbers beyond 64 bits, and long knapsacks, are left open."""
    huge = PatternPrices(0, 0, (2**60,) * 2, (0,) * 9, 1)
    with pytest.raises(TooMuch):
        pattern_slack(CountedGrid(9, 2, (9, 9)), Spread(1, 1), huge, Effort())
    with pytest.raises(TooMuch):
        least_weight((1,) * 100, 9, Effort(of_one=10_000))
