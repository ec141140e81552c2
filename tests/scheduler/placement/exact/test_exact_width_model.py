"""The counting arguments behind the skeleton model, each against all choices that it speaks of."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.bounds import usable_domains
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.skeletons import cover_weights, minimal_patterns
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import all_problems, corners, feasible, pairs, problems


def check_that_few_domains_do(problem: GridProblem) -> None:
    """Every feasible pair stays so on the largest domains it can use."""
    for dp, pp in pairs(problem):
        if any(s <= dp and r <= pp for s, r in corners(problem)):
            count = usable_domains(problem, (dp, pp))
            assert feasible(GridProblem(problem.rows, problem.columns, problem.capacities[:count]), (dp, pp))


def test_few_domains_do_for_all_tiny_problems() -> None:
    """1,032 grids of up to 3 x 3 cells on up to 4 domains of up to 5."""
    for problem in all_problems(rows=3, columns=3, domains=4, largest=5):
        check_that_few_domains_do(problem)


@given(problems())
@examples(200)
def test_few_domains_do_for_drawn_problems(problem: GridProblem) -> None:
    """Grids of up to 12 cells."""
    check_that_few_domains_do(problem)


@pytest.mark.parametrize(
    ("pair", "count"),
    [
        ((1, 1), 1),  # one domain for everything
        ((1, 3), 3),  # columns whole: a row touches every domain
        ((2, 2), 5),  # by rows 4 * 1 + 2 = 6, by columns 3 * 1 + 2 = 5
        ((3, 1), 3),  # rows whole
        ((4, 4), 9),  # there are no more
    ],
)
def test_usable_domains_in_numbers(pair: tuple[int, int], count: int) -> None:
    """4 x 3 cells on nine domains, from the formula of the docstring."""
    assert usable_domains(GridProblem(4, 3, (2,) * 9), pair) == count


@pytest.mark.parametrize("total", range(1, 9))
@pytest.mark.parametrize("parts", range(1, 5))
def test_minimal_patterns_are_all_multisets_with_that_sum(total: int, parts: int) -> None:
    """Each once, in descending order."""
    expected = {
        tuple(sorted(choice, reverse=True))
        for count in range(1, parts + 1)
        for choice in combinations_with_replacement(range(1, total + 1), count)
        if sum(choice) == total
    }
    patterns = list(minimal_patterns(total, parts))
    assert len(patterns) == len(set(patterns))
    assert set(patterns) == expected


@given(st.integers(1, 12), st.integers(1, 4), st.lists(st.integers(1, 12), min_size=1, max_size=5, unique=True))
@examples(300)
def test_every_cover_reaches_the_weights(total: int, parts: int, heights: list[int]) -> None:
    """Of all choices of at most that many heights, those that add up to the total have the least weight or more."""
    choices = [c for count in range(1, parts + 1) for c in combinations_with_replacement(heights, count)]
    for weight, least in cover_weights(total, parts, heights):
        assert all(sum(weight[h] for h in choice) >= least for choice in choices if sum(choice) >= total)
