"""Choices of shapes and the sets of domains that cross: no placement is lost, and pairs are built and refuted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.cpsat import Slice
from scheduler.placement.exact import shapes
from scheduler.placement.exact.bounds import least_pattern_bound
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.params import ExactParams
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.schedule import count_edges
from scheduler.placement.exact.shapes import CrossingSets, ShapeChoices, ShapeCounts, cuts, decide_shapes
from scheduler.placement.exact.skeletons import SkeletonModel, realise
from scheduler.placement.types import Limits, Pair
from scheduler.work_clock import clock
from tests.case_counts import every_fourth, examples
from tests.scheduler.placement.exact.tiny import (
    Planted,
    alike,
    all_problems,
    check_pair,
    corners,
    pairs,
    planted,
    problems,
    shapes_of,
    sorted_alike,
)

LIMIT = Slice(effort=1.0, wall=60.0)

FULL = GridProblem(27, 16, (73, 72, 65, 60, 44, 38, 35, 24, 22, 12, 8))
"""(3, 3): the best rectangles cover two cells more than there are, so that every choice of shapes is nearly full."""

SHAPES = [(7, 11), (8, 9), (7, 10), (6, 10), (4, 11), (5, 8), (5, 7), (3, 8), (3, 7), (0, 0), (0, 0)]
"""A choice for these: their rectangles are 436 cells for 432, so that four are holes."""


def decided(problem: GridProblem, pair: Pair) -> Lattice:
    """What choices of shapes say of one pair; nothing where prices of patterns refute it."""
    search = PairSearch(Lattice(problem, 0.5, 0.5), Limits(seconds=60.0))
    search.patterns[pair] = least_pattern_bound(problem, pair)
    if search.patterns[pair].slack >= 0:
        choices = ShapeChoices(search, pair)
        while not choices.over and not search.lattice.built:
            choices.decide(clock() + 60.0)
    return search.lattice


@given(st.one_of(planted(served_by=3), planted(served_by=2), planted(served_by=2, transposed=True)))
@examples(200)
def test_the_shapes_of_a_placement_are_not_refuted(plant: Planted) -> None:
    """Neither by sets of one side alone, nor by those that cross, nor, for R = 2, by the model of columns."""
    shapes = shapes_of(plant)
    sets = CrossingSets(plant.problem, plant.pair, shapes, most=100_000, alone=100_000)
    assert not sets.refuted_alone(LIMIT)
    if sets.few:
        assert sets.find(LIMIT)[0] != "no"
    if plant.pair[1] == 2 < plant.pair[0]:
        model = SkeletonModel(plant.problem, plant.pair, spare_rows=plant.problem.rows)
        answer, skeleton = model.find(LIMIT, sorted_alike(plant.problem, shapes))
        assert answer != "no"
        if skeleton is not None and skeleton.cells is not None:
            check_pair(plant.problem, skeleton.cells, plant.pair)


@given(st.one_of(problems(), alike()))
@examples(120)
def test_what_is_decided_is_true(problem: GridProblem) -> None:
    """Of every pair: built placements keep it, refuted ones are none of those of brute force."""
    had = corners(problem)
    for pair in pairs(problem):
        check_decided(problem, pair, had)


@pytest.mark.many_cases
@pytest.mark.parametrize("problem", every_fourth(all_problems(rows=4, columns=3, domains=4, largest=4)[::9]))
def test_tiny_problems(problem: GridProblem) -> None:
    """The same of tiny problems."""
    for pair in pairs(problem)[:4]:
        check_decided(problem, pair, corners(problem))


def check_decided(problem: GridProblem, pair: Pair, had: frozenset[Pair]) -> None:
    """Decide a pair; what is said of it agrees with brute force."""
    lattice = decided(problem, pair)
    for cells in lattice.built.values():
        check_pair(problem, cells, pair)
    if lattice.refutations:
        assert not any(pair[0] >= s and pair[1] >= r for s, r in had)


@pytest.mark.parametrize(
    ("rows", "columns", "capacities", "pair"),
    [(3, 3, (5, 2, 1, 1, 1), (2, 2)), (3, 3, (3, 3, 1, 1, 1), (2, 3)), (5, 2, (5, 2, 2, 2, 1), (2, 2))],
)
def test_refuted_choice_by_choice(rows: int, columns: int, capacities: tuple[int, ...], pair: Pair) -> None:
    """Brute force finds no placement, prices of patterns do not refute the pair, choices of shapes do."""
    problem = GridProblem(rows, columns, capacities)
    assert not any(pair[0] >= s and pair[1] >= r for s, r in corners(problem))
    assert least_pattern_bound(problem, pair).slack >= 0
    assert [(refutation.pair, refutation.by) for refutation in decided(problem, pair).refutations] == [(pair, "shapes")]


def test_sets_of_columns_alone_refute() -> None:
    """Domains of 2 x 2 cells: a column of three rows on two of them leaves a cell free, and there is none to spare.

    Rows of four columns fit. They are looked at where R is not above S; and nothing is where there are too many sets.
    """
    problem, squares = GridProblem(3, 4, (4, 4, 4)), [(2, 2)] * 3
    assert CrossingSets(problem, (2, 3), squares, most=100, alone=100).refuted_alone(LIMIT)
    other = [(7, 11), (6, 12), *SHAPES[2:]]  # 39 sets of a row
    assert CrossingSets(FULL, (3, 3), other, most=10_000, alone=100).refuted_alone(LIMIT)
    assert not CrossingSets(FULL, (3, 3), other, most=10_000, alone=10).refuted_alone(LIMIT)
    rows = CrossingSets(problem, (2, 2), squares, most=100, alone=100)
    assert not rows.refuted_alone(LIMIT)
    assert rows.find(LIMIT)[0] == "no"


def test_refuted_without_looking_at_one_side_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets that cross refute the pair all the same."""
    monkeypatch.setattr(CrossingSets, "refuted_alone", lambda *_: False)
    problem = GridProblem(3, 3, (5, 2, 1, 1, 1))
    assert [refutation.by for refutation in decided(problem, (2, 2)).refutations] == ["shapes"]


def test_built_without_looking_at_one_side_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets of one side alone only save time."""
    monkeypatch.setattr(CrossingSets, "refuted_alone", lambda *_: False)
    check_pair(FULL, next(iter(decided(FULL, (3, 3)).built.values())), (3, 3))


def test_built_from_sets_that_cross() -> None:
    """27 x 16 cells, instance 909 of seed 1, which no flow built in 10 s."""
    sets = CrossingSets(FULL, (3, 3), SHAPES, most=10_000)
    answer, serves = sets.find(LIMIT)
    assert answer == "yes"
    assert serves is not None
    assert serves.sum(axis=1).tolist() == [q for q, _ in SHAPES]
    cells = realise(FULL, serves, pp=3, limit=LIMIT)[0]
    assert cells is not None
    check_pair(FULL, cells, (3, 3))


def test_shapes_wider_than_a_domain_have_no_placement() -> None:
    """A domain of one cell that touches two columns: it has a cell in one of them at most."""
    model = SkeletonModel(GridProblem(3, 3, (4, 4, 1)), (3, 2), spare_rows=3)
    assert model.find(LIMIT, [(2, 3), (2, 3), (2, 1)]) == ("no", None)


def test_cuts() -> None:
    """7 of at most three sizes 2, 3 and 5: what is needed and no more; and none where they are too many."""
    assert sorted(cuts({2, 3, 5}, 3, 7, 10) or ()) == [(3, 2, 2), (3, 3, 2), (3, 3, 3), (5, 2), (5, 3), (5, 5)]
    assert cuts({2, 3, 5}, 3, 7, 5) is None


def test_choices_come_once() -> None:
    """Each choice of shapes is another one, with all domains and cells, until none is left."""
    problem = GridProblem(4, 3, (4, 3, 3, 3))
    counts = ShapeCounts(problem, (3, 2), least_pattern_bound(problem, (3, 2)), patterns=5000)
    seen = []
    while (shapes := counts.next(LIMIT)[1]) is not None:
        assert sum(min(c, q * r) for c, (q, r) in zip(problem.capacities, shapes, strict=True)) >= problem.cells
        seen.append(tuple(shapes))
    assert 1 < len(seen) == len(set(seen))
    assert counts.next(LIMIT)[0] == "no"


def test_too_many_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows and columns on three of nine domains hundreds cross: with room for ten nothing is looked for."""
    assert CrossingSets(FULL, (3, 3), SHAPES, most=10_000).few
    assert not CrossingSets(FULL, (3, 3), SHAPES, most=10).few
    monkeypatch.setattr(shapes, "_CROSSINGS", 10)
    lattice = decided(FULL, (3, 3))
    assert not lattice.built
    assert not lattice.refutations


@pytest.mark.parametrize(("share", "most"), [(0.0, 1000), (0.35, 0)])
def test_where_nothing_is_tried(monkeypatch: pytest.MonkeyPatch, share: float, most: int) -> None:
    """Without time, or with more shapes than are listed, a pair stays open."""
    monkeypatch.setattr(shapes, "_SHAPES", most)
    search = PairSearch(Lattice(FULL, 0.5, 0.5), Limits(seconds=60.0), ExactParams(long_share=share))
    count_edges(search)
    search.patterns[3, 3] = least_pattern_bound(FULL, (3, 3))
    decide_shapes(search)
    assert (3, 3) in search.lattice.open()
