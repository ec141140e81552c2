"""The pattern bound: never a pair refuted that brute force finds, whatever the prices are."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.bounds import (
    UNIT,
    CoverageBound,
    PatternBound,
    least_pattern_bound,
    lightest,
    regrets_refute,
)
from scheduler.placement.exact.problem import GridProblem
from scheduler.witnesses import PatternPrices
from scheduler.work_clock import on_clock
from tests.case_counts import every_fourth, examples
from tests.scheduler.placement.exact.tiny import alike, all_problems, corners, pairs, problems

EVEN = GridProblem(69, 16, (56,) * 30)
"""Of (3, 7) rectangles leave three rows to spare.  Only 20 domains of 56 in widths 2 and 3 cover all cells: 12 x 2 of
28 rows and 8 x 3 of 18.  A column of 69 rows on three of them needs two of 28, or rows more than there are: 24 columns
of 28 rows are too few for 16 columns."""


@given(problems(), st.integers(0, 9999))
@examples(300)
def test_any_prices_hold(problem: GridProblem, seed: int) -> None:
    """With whatever prices no pair of a placement is refuted."""
    random = np.random.default_rng(seed)
    for pair in corners(problem):
        widths, heights = (tuple(random.integers(0, UNIT, n).tolist()) for n in (problem.columns, problem.rows))
        row, column = random.integers(0, 2 * UNIT, 2).tolist()
        assert PatternBound(problem, pair, PatternPrices(row, column, widths, heights, UNIT)).slack >= 0


@given(st.one_of(problems(), alike()))
@examples(120)
def test_no_pair_of_a_placement_is_refuted(problem: GridProblem) -> None:
    """By the best prices, for every corner that brute force finds."""
    for pair in corners(problem):
        assert least_pattern_bound(problem, pair).slack >= 0


@pytest.mark.many_cases
@pytest.mark.parametrize("problem", every_fourth(all_problems(rows=4, columns=3, domains=4, largest=4)[::9]))
def test_tiny_problems(problem: GridProblem) -> None:
    """All pairs of tiny problems: what is refuted has no placement."""
    had = corners(problem)
    for dp, pp in pairs(problem):
        if least_pattern_bound(problem, (dp, pp)).slack < 0:
            assert not any(dp >= s and pp >= r for s, r in had)


@given(st.integers(1, 4), st.integers(1, 7), st.integers(0, 9999))
@examples(150)
def test_the_lightest_pattern(parts: int, total: int, seed: int) -> None:
    """As light as the lightest of all multisets of sizes that reach the total."""
    weights = np.concatenate([[0], np.random.default_rng(seed).integers(0, 9, total)])
    pattern, weight = lightest(weights, parts, total)
    every = [some for some in combinations_with_replacement(range(total + 1), parts) if sum(some) >= total]
    assert weight == min(sum(int(weights[size]) for size in some) for some in every)
    assert len(pattern) <= parts
    assert sum(pattern) >= total
    assert sum(int(weights[size]) for size in pattern) == weight


def test_refuted_by_prices() -> None:
    """Rectangles cover the cells of (3, 7); patterns do not."""
    assert not CoverageBound(EVEN).refutes(3, 7)
    assert not regrets_refute(EVEN, (3, 7), CoverageBound(EVEN).least(3, 7)[1], entries=10**9)
    assert least_pattern_bound(EVEN, (3, 7)).slack < 0


def test_a_program_counts_as_what_it_takes() -> None:
    """69 x 12 cells on domains of 26 sizes: making 58,000 entries of shapes and solving the program some twenty times
    takes 0.15 s on one core, of which a fifth was counted once.
    """
    sizes = (80, 78, 76, 73, 70, 66, 63, 59, 57, 52, 50, 46, 44, 41, 38, 33, 31, 28, 25, 22, 19, 16, 13, 10, 7, 4)
    with on_clock("work", inf) as timer:
        least_pattern_bound(GridProblem(69, 12, sizes), (4, 4))
    assert 0.1 < timer.seconds < 0.2
