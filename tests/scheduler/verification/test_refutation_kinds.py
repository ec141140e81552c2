"""Each kind of refutation, recounted: what holds is so by trying every assignment; what the search refutes holds."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objective import Spread
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.schedule import apply_product, count_coverage, count_edges, count_rectangles
from scheduler.placement.types import Limits
from scheduler.verification.cell_program import solver_check
from scheduler.verification.question import CountedGrid
from scheduler.verification.refutations import (
    KINDS,
    Effort,
    TooMuch,
    can_be_covered,
    fewest_tree_rows,
    recount,
    recount_groups,
)
from scheduler.witnesses import Multipliers
from tests.case_counts import cases, every_fourth, examples
from tests.facts import says
from tests.scheduler.placement.exact.brute_force import feasible, instances
from tests.scheduler.placement.exact.tiny import problems
from tests.scheduler.verification.forgery import random_charges, random_prices, random_refutation

SOLVER = solver_check(seconds=60.0, seed=0, workers=1)


def pairs(grid: CountedGrid) -> list[Spread]:
    """Every pair of spreads that a placement may have."""
    most = grid.largest
    return [Spread(s, r) for s, r in product(range(1, most.dp + 1), range(1, most.pp + 1))]


@pytest.mark.many_cases
def test_what_holds_of_every_tiny_grid_is_so() -> None:
    """All grids to 3 x 3 on 3 domains of up to 6 cells, all pairs, all kinds, with charges by chance."""
    chance = random.Random(1)
    held = 0
    for rows, columns, capacities in every_fourth(list(instances(rows=3, columns=3, domains=3, largest=6))):
        grid = CountedGrid(rows, columns, capacities)
        for pair, by in product(pairs(grid), KINDS):
            charges = random_prices(rows, columns, chance) if by == "patterns" else random_charges(chance)
            found = recount(grid, pair, by, charges)
            assert found.told in ("holds", "fails") or KINDS[by] is recount_groups
            if found.told == "holds":
                assert not feasible(rows, columns, capacities, (pair.dp, pair.pp)), (grid, pair, by)
                held += 1
    assert held > 100


@given(problems(), st.integers(0, 10**9))
@examples(400)
def test_what_holds_of_drawn_grids_is_so(problem: GridProblem, seed: int) -> None:
    """Refutations by chance of grids up to nine lines long: brute force is the judge."""
    chance = random.Random(seed)
    grid = CountedGrid(problem.rows, problem.columns, problem.capacities)
    for _ in range(20):
        one = random_refutation(grid.rows, grid.columns, chance)
        if recount(grid, Spread(one.dp, one.pp), one.by, one.witness).told == "holds":
            assert not feasible(grid.rows, grid.columns, grid.capacities, (one.dp, one.pp)), one


@given(problems())
@examples(200)
def test_a_solver_settles_tiny_pairs_as_brute_force_does(problem: GridProblem) -> None:
    """The program, cell by cell, is feasible exactly for the pairs that some assignment has."""
    grid = CountedGrid(problem.rows, problem.columns, problem.capacities)
    for pair in pairs(grid):
        had = feasible(grid.rows, grid.columns, grid.capacities, (pair.dp, pair.pp))
        assert SOLVER(grid, pair).told == ("fails" if had else "holds")


@pytest.mark.many_cases
def test_groups_of_domains_to_4_by_5_are_so() -> None:
    """2,000 grids to 4 x 5 on 5 domains: where the domains fall into no groups, a solver finds no placement either; and
    of the pairs with a spread of 2 that it refutes groups show nearly all.
    """
    chance = random.Random(3)
    shown = refuted = 0
    for _ in range(cases(2000)):
        rows, columns = chance.randint(2, 4), chance.randint(2, 5)
        grid = CountedGrid(rows, columns, _nearly_full(rows * columns, chance))
        most = chance.randint(1, grid.largest.pp)
        if grid.largest.dp < 2 or SOLVER(grid, Spread(2, most)).told == "fails":
            assert can_be_covered(rows, columns, grid.capacities, most, Effort()) is not False
            continue
        refuted += 1
        shown += can_be_covered(rows, columns, grid.capacities, most, Effort()) is False
    assert shown >= 0.9 * refuted > 10


def test_equal_domains_are_counted_not_told_apart() -> None:
    """26 domains of 22 nodes have 67 million sets, and 27 that differ: of 43 x 12 cells (2, 12) is had, (2, 11) not."""
    equal = (22,) * 26
    assert can_be_covered(43, 12, equal, 11, Effort()) is False
    assert can_be_covered(43, 12, equal, 12, Effort()) is True


def test_groups_beyond_the_limits_are_left_open() -> None:
    """Too many domains, or steps: nothing is said; and no later refutation gets what an earlier one has used up."""
    with pytest.raises(TooMuch):
        can_be_covered(7, 33, tuple(range(21, 0, -1)), 8, Effort())
    with pytest.raises(TooMuch):
        can_be_covered(4, 3, (5, 4, 3), 2, Effort(of_one=1))
    assert can_be_covered(4, 3, (5, 4, 3), 2, Effort()) is True
    full = CountedGrid(4, 2, (4, 2, 1, 1))
    effort = Effort(of_all=10_000_000)
    told = [recount(full, Spread(2, 2), "components", None, effort).told for _ in range(1_000)]
    assert (told[0], told[-1]) == ("holds", "not told")
    assert told == sorted(told)


@pytest.mark.many_cases
def test_what_counting_refutes_of_grids_to_4_by_5_holds_and_is_so() -> None:
    """2,000 grids to 4 x 5 on 5 domains, full or nearly so: every refutation is recounted, and the dearest of them
    settled by the program of the cells, which the test above compares with brute force.
    """
    chance = random.Random(2)
    for _ in range(cases(2000)):
        rows, columns = chance.randint(2, 4), chance.randint(2, 5)
        capacities = _nearly_full(rows * columns, chance)
        problem, grid = GridProblem(rows, columns, capacities), CountedGrid(rows, columns, capacities)
        search = PairSearch(Lattice(problem, 0.5, 0.5), Limits(seconds=10.0))
        for stage in (count_edges, apply_product, count_coverage, count_rectangles):
            stage(search)
        known = search.lattice.refutations
        for one in known:
            assert recount(grid, Spread(*one.pair), one.by, one.witness).told == "holds", (grid, one)
        if known:
            dearest = max(known, key=lambda one: one.pair[0] * one.pair[1])
            assert SOLVER(grid, Spread(*dearest.pair)).told == "holds", (grid, dearest)


def _nearly_full(cells: int, chance: random.Random) -> tuple[int, ...]:
    """Up to five domains with room for the cells and at most two more."""
    domains = chance.randint(2, 5)
    capacities = [1] * domains
    for _ in range(cells - domains + chance.randint(0, 2)):
        capacities[chance.randrange(domains)] += 1
    return tuple(sorted(capacities, reverse=True))


def test_edges_in_words() -> None:
    """Three columns of 4 on domains of 9 and 5: the first takes two whole, the second one, so R = 1 is impossible with
    S = 1 and R = 2 is not; rows of 3 are 3 and 1 of 4, so they do not all fit.
    """
    grid = CountedGrid(4, 3, (9, 5))
    assert says(recount(grid, Spread(1, 1), "edges", None).sentence, "3 whole DP groups", "2 domains", "1")
    found = recount(grid, Spread(1, 2), "edges", None)
    assert found.told == "fails"
    assert says(found.sentence, "3 whole DP groups", "2 domains")
    tight = CountedGrid(4, 3, (8, 4))
    assert says(recount(tight, Spread(2, 1), "edges", None).sentence, "3 whole PP groups", "4")
    assert recount(grid, Spread(2, 2), "edges", None).sentence == "neither spread is 1"


def test_a_product_that_is_met_exactly_is_not_refuted() -> None:
    """Four domains of one cell for a grid of 2 x 2: the roots come to 4, and 4 * 4 = 4 S R, so S R = 4 stays open.
    Each cell in a domain of its own has it: a bound in floating point may fall on either side, whole numbers do not.
    """
    grid = CountedGrid(2, 2, (1, 1, 1, 1))
    assert recount(grid, Spread(2, 2), "product", None).told == "fails"
    assert recount(grid, Spread(1, 2), "product", None).told == "holds"
    # the same with roots that are no whole numbers: 3 domains of 3 cells, and S R = 3
    three = CountedGrid(3, 3, (3, 3, 3))
    assert recount(three, Spread(1, 3), "product", None).told == "fails"
    assert recount(three, Spread(1, 2), "product", None).told == "holds"


def test_witnesses_are_asked_for() -> None:
    """Coverage, rectangles and patterns without their numbers are refused, as nothing could be recounted."""
    grid = CountedGrid(2, 2, (1, 1, 1, 1))
    assert recount(grid, Spread(1, 1), "patterns", Multipliers(0, 0, 1)).sentence == "its prices are missing"
    for by in ("coverage", "rectangles"):
        assert recount(grid, Spread(1, 1), by, None).sentence == "its multipliers are missing"
    assert recount(grid, Spread(1, 1), "skeleton", None).told == "not told"


def test_a_search_is_recounted_where_a_spread_is_two() -> None:
    """Domains of 4, 2, 1 and 1 for 4 x 2 cells are full, so sets without a common column have 4 or 8 cells: 4 alone is
    one, and 2, 1 and 1 fill one column, which three domains cannot share; nor four domains two.  Rectangles do not see
    that.  With rows and columns exchanged it is the other spread.
    """
    for grid, pair in (
        (CountedGrid(4, 2, (4, 2, 1, 1)), Spread(2, 2)),
        (CountedGrid(2, 4, (4, 2, 1, 1)), Spread(2, 2)),
    ):
        for by in ("components", "shapes", "pieces", "skeleton"):
            assert recount(grid, pair, by, None).told == "holds"
        assert recount(grid, pair, "rectangles", Multipliers(0, 0, 1)).told == "fails"
        assert not feasible(grid.rows, grid.columns, grid.capacities, (2, 2))
    # what groups do not show is left open, whether it can be had or not
    assert recount(CountedGrid(4, 2, (4, 2, 2)), Spread(2, 2), "skeleton", None).told == "not told"
    assert recount(CountedGrid(4, 2, (4, 2, 1, 1)), Spread(3, 2), "components", None).told == "not told"


def test_trees_by_hand() -> None:
    """Two columns of 4 on 4, 3 and 1 cells: with 4 in the middle the ends hold 3 and 1 of a column each, the middle 1
    and 3, so 3 + 1 + 3 rows; with 3 or 1 in the middle 8.  Two domains and a column: all their cells.
    """
    assert fewest_tree_rows((4, 3, 1), 4) == 7
    assert fewest_tree_rows((3, 1), 4) == 4
    # a cell of waste may be missing on either side
    assert fewest_tree_rows((4, 1), 4) <= 4


def test_trees_refute_where_shapes_do_not() -> None:
    """Full domains for 85 x 8 cells but for 17 that stay free, S = 2, R = 7: groups by their shapes would do, and trees
    among them touch more rows than that.
    """
    capacities = (77, 71, 71, 68, 67, 56, 52, 50, 47, 39, 38, 30, 20, 11)
    assert can_be_covered(85, 8, capacities, 7, Effort()) is False
    assert can_be_covered(85, 8, capacities, 8, Effort()) is True
