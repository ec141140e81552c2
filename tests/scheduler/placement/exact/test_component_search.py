"""S = 2 by components: nothing that exists is refuted, what is built is valid, and each bound keeps to its word."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact import schedule
from scheduler.placement.exact.components import (
    ComponentHeights,
    Components,
    Packings,
    Prices,
    TreeShares,
    UsedDomains,
    list_components,
    master_prices,
    pack_components,
    share_columns,
)
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Limits
from tests.case_counts import cases, every_fourth, examples
from tests.facts import says
from tests.scheduler.placement.exact.tiny import Planted, alike, feasible, planted, problems
from tests.scheduler.placement.exact.two_domain_columns import fits_in_two, least_spread
from topology.cluster import IndexArray

GRIDS = [(3, 4, 4), (3, 3, 4), (4, 3, 4), (2, 5, 5), (4, 4, 4), (4, 5, 4), (4, 4, 5)]
"""Rows, columns, domains; 4 x 5 on five domains takes its judge a quarter of a minute, and is checked by hand."""


def verdict(problem: GridProblem, pp: int) -> str:
    """What components say of (2, R): every number of domains, every turn; what is built is counted."""
    answers = set()
    for domains in range(1, min(len(problem.capacities), problem.columns + pp) + 1):
        if sum(problem.capacities[:domains]) < problem.cells:
            continue
        used = UsedDomains(problem, domains)
        for states in (50_000, 250_000, 1_250_000):
            answer, cells = used.decide(pp, states=states, wall=60.0, seed=0)
            if cells is not None:
                assert problem.fits(cells)
                assert problem.pair_of(cells)[0] <= 2
                assert problem.pair_of(cells)[1] <= pp
                return "yes"
            if answer == "no":
                break
        answers.add(answer)
    return "no" if answers <= {"no"} else "unknown"


@pytest.mark.many_cases
@pytest.mark.parametrize(("rows", "columns", "domains"), every_fourth(GRIDS))
def test_no_tiny_placement_is_refuted(rows: int, columns: int, domains: int) -> None:
    """Capacities with up to two columns to spare, 150 drawn of each grid: waste of all sizes, columns in parallel,
    columns on one domain.  A "no" is a "no" for every placement there is, and hardly a question is left open.
    """
    cells = rows * columns
    every = [
        capacities
        for k in range(2, domains + 1)
        for capacities in combinations_with_replacement(range(cells, 0, -1), k)
        if cells <= sum(capacities) <= cells + 2 * rows
    ]
    unknown = 0
    drawn = random.Random(rows * columns).sample(every, min(len(every), cases(150)))
    for capacities in drawn:
        for pp in range(1, min(len(capacities), columns) + 1):
            answer = verdict(GridProblem(rows, columns, capacities), pp)
            real = fits_in_two(rows, columns, capacities, pp)
            assert answer != "no" or not real
            assert answer != "yes" or real
            unknown += answer == "unknown"
    assert unknown <= len(drawn) / 10 + 1


def test_the_judge_agrees_with_the_other() -> None:
    """The brute force over all assignments, on 3 x 3 cells and up to three domains."""
    for capacities in combinations_with_replacement(range(9, 0, -1), 3):
        if sum(capacities) >= 9:
            for pp in (1, 2, 3):
                assert fits_in_two(3, 3, capacities, pp) == feasible(GridProblem(3, 3, capacities), (2, pp))


@given(planted(served_by=2))
@examples(200)
def test_a_planted_placement_is_not_refuted(plant: Planted) -> None:
    """Up to 7 x 6 cells on up to seven domains, made for a placement with S = 2."""
    if plant.pair[0] <= 2:
        assert verdict(plant.problem, plant.pair[1]) != "no"


@given(st.one_of(problems(), alike(most_cells=10)), st.sampled_from([0.1, 0.5, 0.9]))
@examples(150)
def test_the_stage_is_right_both_ways(problem: GridProblem, alpha: float) -> None:
    """From the edges on nothing but components: refutations and placements of S = 2 and, transposed, of R = 2."""
    lattice = Lattice(problem, alpha, 1 - alpha)
    made = PairSearch(lattice, Limits(seconds=60, workers=1))
    schedule.count_edges(made)
    pack_components(made)
    for refutation in lattice.refutations:
        assert not feasible(problem, refutation.pair)
        assert refutation.by != "components" or 2 in refutation.pair
    for pair, cells in lattice.built.items():
        assert problem.fits(cells)
        assert problem.pair_of(cells) == pair


def candidates(problem: GridProblem, pp: int) -> Components:
    """All components, none too many to list."""
    listed = list_components(problem, pp, most=10_000)
    assert listed is not None
    return listed


def test_components_by_hand() -> None:
    """Columns of 5 on 7 + 6 + 2, three of them, nothing to spare, R = 2.

    A component with waste 0 has a multiple of 5 cells: only all three together, 15.  Rectangles with 6 widths: 7 / 3 +
    6 / 2 + 2 / 1 = 7.33, or 7 / 2 + 6 / 3 + 2 = 7.5, so 8 row touches at least.
    """
    listed = candidates(GridProblem(5, 3, (7, 6, 2)), 2)
    assert [(listed.capacities(i), listed.columns[i], listed.rows[i]) for i in range(len(listed))] == [
        ((7, 6, 2), 3, 8)
    ]


def test_sets_that_are_too_many_are_not_listed() -> None:
    """Ten different domains have more than a hundred subsets."""
    assert list_components(GridProblem(10, 5, tuple(range(14, 4, -1))), 4, most=100) is None


def test_equal_domains_are_one_class() -> None:
    """Twenty domains of 29: a component says how many, so there are hardly any."""
    assert len(candidates(GridProblem(33, 16, (29,) * 20), 13)) < 20


def test_a_path_by_hand() -> None:
    """Two columns of 10 on 8 + 7 + 5: the ends of the path share 20 less the middle, and hold all they have.

    With 8 in the middle the ends hold 7 and 5, the middle 3 and 5: 7 + 5 + 5 = 17 rows.  With 7: 8 + 5 + 5; with 5: 8 +
    7 + 3 = 18.
    """
    assert TreeShares(GridProblem(10, 2, (8, 7, 5))).least((8, 7, 5)).rows == 17


@given(
    st.integers(3, 12),
    st.lists(st.integers(1, 11), min_size=2, max_size=5),
)
@examples(150)
def test_trees_and_heights_agree(height: int, capacities: list[int]) -> None:
    """Where nothing is wasted the tree with the fewest rows is what widths and heights of its domains come to."""
    room = tuple(sorted(capacities, reverse=True))
    columns = len(room) - 1
    if sum(room) != columns * height:
        return
    tree = TreeShares(GridProblem(height, columns, room)).least(room).rows
    heights = ComponentHeights(height, 0)
    found = heights.touches(room, columns, at_least=1, at_most=columns * height + height, states=10**6, graphs=10**4)
    if found.columns is not None:
        assert found.rows == tree
        assert heights.rectangles(room, columns) <= tree
        assert share_columns(room, [1] * columns, [height] * columns, columns, height) is None


def test_low_domains_share_no_column() -> None:
    """Three columns of 10 on 10 + 10 + 10, two for each domain: heights of 5 are enough, as two of them reach 10.  On
    14 + 8 + 8 rectangles of 7 + 4 + 4 rows would be, but the two low ones would share four columns with others.
    """
    heights = ComponentHeights(10, 0)
    assert heights.touches((10, 10, 10), 3, at_least=1, at_most=30, states=10**5, graphs=100).rows == 15
    assert heights.rectangles((14, 8, 8), 3) > 15


def test_heights_ask_the_clock() -> None:
    """Of the widths and heights with 22 rows the first have no columns, and later ones do; when time is up the search
    ends with the 22 that it knows of, and refutes nothing.
    """
    heights = ComponentHeights(11, 1)
    search = partial(heights.touches, (17, 14, 11, 3), 4, at_least=1, at_most=44, states=10**6, graphs=10**4)
    found, cut = search(), search(end=0.0)
    assert (found.rows, cut.rows) == (22, 22)
    assert found.columns is not None
    assert cut.columns is None


def test_prices_hold_whatever_they_are() -> None:
    """Drawn prices refute nothing that the packings without prices have, and find the same packings."""
    problem = GridProblem(6, 4, (9, 8, 5, 4))
    listed = candidates(problem, 3)
    random_prices = np.random.default_rng(1)

    def found(prices: Prices) -> set[tuple[tuple[tuple[int, ...], int], ...]]:
        packings = Packings(problem, 3, listed, prices, most=10_000)
        every = packings.components
        return {tuple(sorted((every.capacities(i), int(every.columns[i])) for i in packing)) for packing in packings}

    usual = found(master_prices(problem, listed))
    assert usual
    for _ in range(20):
        drawn = Prices(random_prices.integers(0, 3000, size=4), int(random_prices.integers(0, 3000)))
        assert found(drawn) == usual


def every_packing(problem: GridProblem, listed: Components) -> Iterator[tuple[int, ...]]:
    """Each multiset of components with all domains and columns, by trying the components one after another."""
    many = np.array(list(Counter(problem.capacities).values()), dtype=np.int64)

    def extend(chosen: tuple[int, ...], left: IndexArray, columns: int, first: int) -> Iterator[tuple[int, ...]]:
        if not left.any() and not columns:
            yield chosen
        for i in range(first, len(listed)):
            if (listed.members[i] <= left).all() and listed.columns[i] <= columns:
                yield from extend((*chosen, i), left - listed.members[i], columns - int(listed.columns[i]), i)

    return extend((), many, problem.columns, 0)


@given(st.one_of(problems(), alike(most_cells=12)), st.integers(0, 1000))
@examples(300)
def test_row_touches_raised_meanwhile_lose_no_packing(problem: GridProblem, seed: int) -> None:
    """Components touch up to a column more rows than listed, which is found out of those in a packing as it is looked
    at.  Each packing within R D rows by that is seen, none is seen twice, and what a component was raised to is kept.
    """
    draw = np.random.default_rng(seed)
    for pp in range(1, min(len(problem.capacities), problem.columns) + 1):
        listed = candidates(problem, pp)
        packings = Packings(problem, pp, listed, master_prices(problem, listed), most=10_000)
        kept = packings.components
        truth = {
            (kept.capacities(i), int(kept.columns[i])): int(kept.rows[i] + draw.integers(0, problem.rows + 1))
            for i in range(len(kept))
        }
        seen = []
        for packing in packings:
            for i in packing:
                packings.raise_rows(i, truth[kept.capacities(i), int(kept.columns[i])])
            seen.append(Counter((kept.capacities(i), int(kept.columns[i])) for i in packing))
        keys = [(listed.capacities(i), int(listed.columns[i])) for i in range(len(listed))]
        within = [
            Counter(keys[i] for i in packing)
            for packing in every_packing(problem, listed)
            if sum(truth.get(keys[i], 10**6) for i in packing) <= pp * problem.rows
        ]
        assert all(packing in seen for packing in within)
        assert len({frozenset(packing.items()) for packing in seen}) == len(seen)


def test_what_refutes_one_packing_rules_out_others() -> None:
    """6 x 6 cells on seven domains have 17 packings with R = 4, five of them with one component in common: where that
    alone touches more than all rows one look is enough for the five.
    """
    problem = GridProblem(6, 6, (8, 7, 6, 5, 4, 3, 3))
    listed = candidates(problem, 4)

    def packings() -> Packings:
        return Packings(problem, 4, listed, master_prices(problem, listed), most=10_000)

    place, often = Counter(i for packing in packings() for i in packing).most_common(1)[0]
    assert often == 5
    raised, seen = packings(), 0
    for packing in raised:
        if place in packing:
            raised.raise_rows(place, 4 * problem.rows + 1)
            seen += 1
    assert seen == 1


def test_a_limit_of_nodes_is_said() -> None:
    """One node is not enough: no packing found then is no "no"."""
    problem = GridProblem(6, 4, (9, 8, 5, 4))
    listed = candidates(problem, 3)
    packings = Packings(problem, 3, listed, master_prices(problem, listed), most=0)
    assert list(packings) == []
    assert packings.stopped


def test_what_was_left_open_before() -> None:
    """52 x 8 cells on ten domains with six nodes to spare, of the seeded benchmark: (2, 5) is refuted, (2, 6) built."""
    problem = GridProblem(52, 8, (77, 73, 69, 46, 31, 30, 29, 26, 25, 16))
    assert verdict(problem, 5) == "no"
    assert verdict(problem, 6) == "yes"


def test_the_sentence() -> None:
    """What cannot be had, of the family whose groups are on two domains."""
    problem = GridProblem(10, 5, (17, 15, 12, 7))
    for one, family in ((problem, "DP"), (problem.transposed, "PP")):
        lattice = Lattice(one, 0.5, 0.5)
        made = PairSearch(lattice, Limits(seconds=60, workers=1))
        schedule.count_edges(made)
        pack_components(made)
        sentences = [refutation.sentence for refutation in lattice.refutations if refutation.by == "components"]
        assert says(sentences, family, "2 domains")


def test_the_judge_by_hand() -> None:
    """2 x 2 cells on two domains of two: a column or a row on each."""
    assert least_spread(2, 2, 2)[2, 2] == 1
