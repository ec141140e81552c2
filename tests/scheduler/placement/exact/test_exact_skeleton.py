"""Skeletons: that there is none must be true, and at R = 2 every one that is found can be realised."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.cpsat import Slice
from scheduler.placement.exact.bounds import CoverageBound, regrets_refute
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.skeletons import Skeleton, SkeletonModel, realise
from scheduler.placement.types import Pair
from tests.case_counts import cases, every_fourth, examples
from tests.scheduler.placement.exact.tiny import (
    Planted,
    all_problems,
    can_be_realised,
    feasible,
    pairs,
    planted,
    problems,
    shapes_of,
    sorted_alike,
    spare_rows,
)
from topology.cluster import BoolArray

LIMIT = Slice(effort=10.0, wall=60.0)


def refuted(problem: GridProblem, pair: Pair) -> bool:
    """Whether rectangles cannot cover the cells."""
    return regrets_refute(problem, pair, CoverageBound(problem).least(*pair)[1], entries=10**7)


def check_skeleton(problem: GridProblem, pair: Pair, *, spare_rows: int) -> None:
    """Found or not as it must be: a feasible pair has a skeleton; at R = 2 only a feasible one has."""
    answer, skeleton = SkeletonModel(problem, pair, spare_rows=spare_rows).find(LIMIT)
    if feasible(problem, pair):
        assert answer == "yes"
    elif pair[1] == 2:
        assert answer == "no"
    if skeleton is not None:
        assert skeleton.serves.any(axis=0).all()
        assert skeleton.serves.sum(axis=0).max() <= pair[0]
        if pair[1] == 2:
            check_placement(problem, pair, skeleton)


def check_placement(problem: GridProblem, pair: Pair, skeleton: Skeleton) -> None:
    """The cells of a skeleton at R = 2: on the domains that serve their columns, within the capacities, S and R."""
    assert skeleton.cells is not None
    assert problem.fits(skeleton.cells)
    assert skeleton.serves[skeleton.cells, np.arange(problem.columns)].all()
    dp, pp = problem.pair_of(skeleton.cells)
    assert dp <= pair[0]
    assert pp <= pair[1]


@pytest.mark.many_cases
def test_skeletons_of_all_tight_tiny_problems() -> None:
    """Grids of up to 3 x 3 cells on up to 4 domains of up to 5 with at most three cells to spare, at the pairs that
    counting does not settle: S and R of 2 or more, not refuted by rectangles.
    """
    tried = 0
    for problem in every_fourth(all_problems(rows=3, columns=3, domains=4, largest=5)):
        if sum(problem.capacities) <= problem.cells + 3:
            for pair in pairs(problem):
                if min(pair) >= 2 and not refuted(problem, pair):
                    check_skeleton(problem, pair, spare_rows=spare_rows(problem, pair))
                    tried += 1
    assert tried > cases(300)


@given(problems(), st.data())
@examples(300)
def test_skeletons_of_drawn_problems(problem: GridProblem, data: st.DataObject) -> None:
    """Any pair, with the slack that the search allows and with all rows; rows and columns exchanged or not."""
    view = data.draw(st.sampled_from([problem, problem.transposed]))
    pair = data.draw(st.sampled_from(pairs(view)))
    check_skeleton(view, pair, spare_rows=data.draw(st.sampled_from([spare_rows(view, pair), view.rows])))


@st.composite
def crowded(draw: st.DrawFn) -> GridProblem:
    """Few long rows on up to six small domains with hardly a cell to spare, where rows have little choice."""
    rows, columns, domains = draw(st.integers(2, 4)), draw(st.integers(3, 6)), draw(st.integers(3, 6))
    weights = draw(st.lists(st.integers(1, 9), min_size=domains, max_size=domains))
    total = rows * columns + draw(st.integers(0, 2))
    capacities = sorted((max(1, weight * total // sum(weights)) for weight in weights), reverse=True)
    capacities[0] += max(0, rows * columns - sum(capacities))
    return GridProblem(rows, columns, tuple(capacities))


@given(crowded(), st.integers(2, 4))
@examples(300)
def test_every_skeleton_of_two_domains_a_row_can_be_realised(problem: GridProblem, dp: int) -> None:
    """At R = 2 the model is exact: each row lies on two domains that serve all columns between them, and the rows of a
    solution are the placement.
    """
    answer, skeleton = SkeletonModel(problem, (dp, 2), spare_rows=problem.rows).find(LIMIT)
    assert answer in ("yes", "no")
    if skeleton is not None:
        assert can_be_realised(problem, skeleton.serves, 2)
        check_placement(problem, (dp, 2), skeleton)


SHARED = st.one_of(planted(served_by=2), planted(served_by=3), planted(served_by=2, transposed=True))
"""Placements of every part of the model: pairs of domains on columns, domains free, pairs of domains on rows."""


def cheapest_row(serves: BoolArray, prices: list[int], pp: int) -> float:
    """Least price of a row on at most ``pp`` domains, by trying all sets of them; infinite where there is no row."""
    cost = np.where(serves, np.array(prices)[:, None], np.inf)
    teams = combinations(range(len(serves)), min(pp, len(serves)))
    return min(float(cost[list(team)].min(axis=0).sum()) for team in teams)


@given(SHARED, st.data())
@examples(120)
def test_a_row_at_the_average_price_cuts_off_no_placement(plant: Planted, data: st.DataObject) -> None:
    """Whatever the prices: a placement keeps its skeleton, also with equal domains in order and several rows asked for;
    and the skeleton that is found has all the rows.  With one price for all no row is cheaper than the average.
    """
    problem, domains = plant.problem, len(plant.widths)
    model = SkeletonModel(problem, plant.pair, spare_rows=spare_rows(problem, plant.pair))
    some = st.lists(st.sampled_from([0, 1, 3, 700, 999]), min_size=domains, max_size=domains)
    asked = [[data.draw(st.integers(0, 1000))] * domains, *data.draw(st.lists(some, max_size=2))]
    for prices in asked:
        model.ask_for_row(np.array(prices, dtype=np.int32))
    answer, skeleton = model.find(LIMIT, sorted_alike(problem, shapes_of(plant)))
    assert answer == "yes"
    assert skeleton is not None
    assert sorted(skeleton.serves.sum(axis=1)) == sorted(plant.widths)
    assert skeleton.serves.sum(axis=0).max() <= plant.pair[0]
    for prices in asked:
        average = sum(p * c for p, c in zip(prices, problem.capacities, strict=False)) / problem.rows
        assert cheapest_row(skeleton.serves, prices, plant.pair[1]) <= average
    if plant.pair[1] == 2:
        check_placement(problem, plant.pair, skeleton)
    assert model.find(LIMIT)[0] == "yes"


@pytest.mark.parametrize(
    ("problem", "pair", "shapes"),
    [
        (GridProblem(4, 4, (5, 3, 3, 3, 2)), (2, 3), ((2, 3), (3, 1), (1, 3), (1, 3), (1, 2))),
        (GridProblem(3, 4, (3, 3, 2, 2, 2, 1)), (3, 3), ((3, 1), (2, 2), (1, 2), (1, 2), (1, 2), (0, 0))),
    ],
)
def test_a_skeleton_that_lacks_rows_is_not_found_again(
    problem: GridProblem, pair: Pair, shapes: tuple[tuple[int, int], ...]
) -> None:
    """At the prices that realising it leaves, all rows of the skeleton are dearer than the average row has to be."""
    model = SkeletonModel(problem, pair, spare_rows=problem.rows)
    skeleton = model.find(LIMIT, shapes)[1]
    assert skeleton is not None
    prices = realise(problem, skeleton.serves, pp=pair[1], limit=LIMIT)[1]
    assert prices is not None
    assert not can_be_realised(problem, skeleton.serves, pair[1])
    average = np.dot(prices, problem.capacities[: len(prices)]) / problem.rows
    assert cheapest_row(skeleton.serves, prices.tolist(), pair[1]) > average
    model.ask_for_row(prices)
    assert model.find(LIMIT, shapes) == ("no", None)


@pytest.mark.parametrize("pair", [(2, 2), (2, 3), (3, 2), (3, 3)])
def test_given_shapes_are_kept(pair: Pair) -> None:
    """4 x 4 cells on four domains of 4: 2 x 2 boxes serve two columns each; as 1 x 4 rows they serve all four."""
    model = SkeletonModel(GridProblem(4, 4, (4,) * 4), pair, spare_rows=4)
    answer, skeleton = model.find(LIMIT, [(2, 2)] * 4)
    assert answer == "yes"
    assert skeleton is not None
    assert skeleton.serves.sum(axis=1).tolist() == [2, 2, 2, 2]
    assert model.find(LIMIT, [(4, 1)] * 4)[0] == "no"


def test_too_little_room_in_the_domains_that_can_be_used() -> None:
    """S = R = 1 is one domain, which holds 3 of 4 cells."""
    assert SkeletonModel(GridProblem(2, 2, (3, 3)), (1, 1), spare_rows=2).find(LIMIT) == ("no", None)


def test_out_of_time_is_no_verdict() -> None:
    """Without effort the answer is neither yes nor no, on a pair that needs a search."""
    problem = GridProblem(12, 12, (23, 19, 17, 17, 13, 13, 11, 11, 7, 7, 6))
    assert SkeletonModel(problem, (3, 4), spare_rows=12).find(Slice(effort=0.0, wall=60.0)) == ("unknown", None)
