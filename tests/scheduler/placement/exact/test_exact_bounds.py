"""The closed-form bounds never refute a pair that some placement has."""

from __future__ import annotations

import pytest
from hypothesis import given

from scheduler.placement.exact.bounds import CoverageBound, fewest_for_lines, product_bound
from scheduler.placement.exact.problem import GridProblem
from tests.case_counts import every_fourth, examples
from tests.scheduler.placement.exact.brute_force import width_profiles
from tests.scheduler.placement.exact.tiny import all_problems, corners, feasible, pairs, problems

TINY = all_problems(rows=3, columns=3, domains=4, largest=5)
"""1,032 problems."""


def refuted_by_product(problem: GridProblem) -> set[tuple[int, int]]:
    """Corners whose S * R is below the bound."""
    return {(s, r) for s, r in corners(problem) if s * r < product_bound(problem)}


def refuted_by_coverage(problem: GridProblem) -> set[tuple[int, int]]:
    """Corners that cannot cover all cells, the bound says."""
    bound = CoverageBound(problem)
    return {pair for pair in corners(problem) if bound.refutes(*pair)}


def test_no_tiny_placement_is_below_the_product_bound() -> None:
    """All grids of up to 3 x 3 cells on up to 4 domains of up to 5."""
    assert [problem for problem in TINY if refuted_by_product(problem)] == []


@pytest.mark.many_cases
def test_every_tiny_placement_covers_its_cells() -> None:
    """The same problems for the coverage bound."""
    assert [problem for problem in every_fourth(TINY) if refuted_by_coverage(problem)] == []


@given(problems())
@examples(400)
def test_no_placement_is_below_the_bounds(problem: GridProblem) -> None:
    """Drawn problems of up to 12 cells, also seen with rows and columns exchanged."""
    for view in (problem, problem.transposed):
        assert not refuted_by_product(view)
        assert not refuted_by_coverage(view)


@pytest.mark.many_cases
def test_no_width_of_a_tiny_placement_is_struck_out() -> None:
    """All grids of up to 3 x 3 cells on up to 3 domains of up to 5: every width that a domain has in some placement of
    a pair is one that the multipliers allow.
    """
    for problem in every_fourth(all_problems(rows=3, columns=3, domains=3, largest=5)):
        bound = CoverageBound(problem)
        for pair in pairs(problem):
            allowed = bound.widths_worth(pair)
            for widths in width_profiles(problem.rows, problem.columns, problem.capacities, pair):
                assert all(allowed[capacity][width] for capacity, width in widths)


def test_widths_that_lose_too_much_are_struck_out() -> None:
    """4 x 4 cells on four domains of four, S = R = 2: only squares cover all cells, so only two columns are left."""
    allowed = CoverageBound(GridProblem(4, 4, (4,) * 4)).widths_worth((2, 2))
    assert allowed[4].tolist() == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("problem", "least"),
    [
        (GridProblem(150, 8, (93,) * 22), 12.998),  # 12 domains full, 84 cells in one: (12 sqrt 93 + sqrt 84)^2 / 1200
        (GridProblem(4, 4, (4,) * 4), 4.0),  # equal domains: as many as are needed
        (GridProblem(4, 4, (16, 1, 1)), 1.0),  # one domain holds everything
        (GridProblem(3, 3, (4, 4, 4)), 25 / 9),  # 4 + 4 + 1 cells: (2 + 2 + 1)^2 / 9
    ],
)
def test_product_bound_in_numbers(problem: GridProblem, least: float) -> None:
    """By hand from the formula of the docstring."""
    assert product_bound(problem) == pytest.approx(least, abs=0.005)


@given(problems())
@examples(100)
def test_more_spread_covers_more(problem: GridProblem) -> None:
    """The coverage bound grows with S and with R, and with both at most every cell can be covered."""
    bound = CoverageBound(problem)
    most = {pair: bound.coverable(*pair) for pair in pairs(problem)}
    assert all(
        most[s, r] <= most[larger] + 1e-6 or most[larger] >= problem.cells - 1e-6
        for s, r in most
        for larger in ((s + 1, r), (s, r + 1))
        if larger in most
    )
    assert most[problem.largest_pair] >= problem.cells - 1e-6


def test_coverage_refutes_what_the_product_bound_leaves_open() -> None:
    """3 x 3 cells on 3 + 2 + 2 + 2, S = R = 2.  (sqrt 3 + 3 sqrt 2)^2 / 9 = 3.97, so S * R = 4 passes.  But with 6 row
    and 6 column touches: 3 cells take 4 touches (2 x 2), 2 cells take 3 (1 x 2), and every cell is needed: 13 touches.
    """
    problem = GridProblem(3, 3, (3, 2, 2, 2))
    assert 3.9 < product_bound(problem) < 4
    assert CoverageBound(problem).refutes(2, 2)
    assert not feasible(problem, (2, 2))


@pytest.mark.parametrize(
    ("wanted", "capacities", "fewest"),
    [(5, [3, 1, 2], 2), (6, [3, 1, 2], 3), (7, [3, 1, 2], None), (1, [0, 4], 1), (1, [], None), (3, [0, 0], None)],
)
def test_fewest_domains(wanted: int, capacities: list[int], fewest: int | None) -> None:
    """The largest first, with lines of one cell."""
    assert fewest_for_lines(1, wanted, sorted(capacities, reverse=True)) == fewest
