"""Bands with credits: what they build keeps S and R, and uses up clusters on which whole rows waste too much."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.bands import Double, Plan, credit_bands, lay_ragged, tabu_bands
from scheduler.placement.exact.params import DEFAULTS
from scheduler.placement.exact.problem import GridProblem
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import (
    FULL,
    Planted,
    alike,
    check_pair,
    check_placement,
    pairs,
    planted,
    problems,
)


@given(st.one_of(problems(), alike(most_cells=10)), st.data(), st.integers(0, 5))
@examples(300)
def test_what_is_found_keeps_the_pair(problem: GridProblem, data: st.DataObject, seed: int) -> None:
    """On either view, and brute force finds the pair too."""
    for view in (problem, problem.transposed):
        pair = data.draw(st.sampled_from(pairs(view)))
        cells = credit_bands(view, pair, seed=seed)
        if cells is not None:
            check_placement(view, cells, pair)


@pytest.mark.parametrize("pair", [(8, 4), (6, 5)])
def test_a_cluster_is_used_up(pair: tuple[int, int]) -> None:
    """18 nodes to spare, where whole rows of 24 domains waste more: bands with credits keep the pair."""
    assert sum(FULL.capacities) - FULL.cells == 18
    cells = credit_bands(FULL, pair, seed=0)
    assert cells is not None
    check_pair(FULL, cells, pair)


def test_shared_rows_lie_on_rows_with_a_credit() -> None:
    """Four bands of one or two columns, five rows.  Domain 0 serves bands 0 and 1 in two rows, domain 1 bands 2 and 3
    in two; the others share a row of band 0 and one of band 1.  No row touches more than four domains.
    """
    problem = GridProblem(5, 6, (8, 4, 3, 3, 3, 3, 3, 3))
    plan = Plan((2, 2, 1, 1), (Double(0, (0, 1), 2), Double(1, (2, 3), 2)))
    capacities = np.array([0, 0, 3, 3, 3, 3, 3, 3], dtype=np.int32)
    slots = np.array([[2, 3], [4, 5], [6, 0], [7, 0]], dtype=np.int32)
    assert plan.rows_left(5) == [3, 3, 3, 3]
    cells = lay_ragged(problem, plan, capacities, slots)
    assert problem.fits(cells)
    assert problem.pair_of(cells) == (3, 4)


@pytest.mark.parametrize(
    ("plan", "ragged"),
    [
        (Plan((2, 2, 2, 2), (Double(0, (0, 1), 3), Double(1, (2, 3), 3))), [True, True, True, True]),
        (Plan((2, 2, 2, 2), (Double(0, (0, 1), 3),)), [False, False, True, True]),
        (Plan((3, 3, 2), (Double(0, (0, 1), 2), Double(1, (0, 2), 2))), [False, True, True]),
        (Plan((3, 3, 2), (Double(0, (0, 1), 1), Double(1, (0, 2), 1), Double(2, (1, 2), 1))), [True, True, True]),
    ],
)
def test_bands_that_may_be_ragged(plan: Plan, ragged: list[bool]) -> None:
    """Those that some double does not serve: its rows pay for theirs."""
    assert [plan.ragged(band) for band in range(len(plan.widths))] == ragged


def test_doubles_pay_for_all_rows_that_can_be_shared() -> None:
    """Two doubles of three rows each: eight other domains in four bands share up to four rows, twelve up to eight."""
    plan = Plan((2, 2, 2, 2), (Double(0, (0, 1), 3), Double(1, (2, 3), 3)))
    assert plan.pays(10, 5, 10)
    assert not plan.pays(10, 5, 14)
    # six rows of credit do not fit into five
    assert not plan.pays(5, 5, 10)


@given(planted(served_by=3), st.integers(0, 3))
@examples(100)
def test_they_keep_the_pair_on_larger_problems(plant: Planted, seed: int) -> None:
    """Problems made for a placement; that none with credits is found is allowed."""
    problem, pair = plant.problem, plant.pair
    cells = credit_bands(problem, pair, seed=seed)
    if cells is not None:
        check_pair(problem, cells, pair)


def test_two_bands_have_no_credits_and_roomy_clusters_need_none() -> None:
    """A double of two bands out of two leaves no other band; with nodes to spare whole rows of bands do."""
    assert credit_bands(FULL, (12, 2), seed=0) is None
    roomy = GridProblem(8, 8, (20,) * 8)
    assert credit_bands(roomy, (3, 3), seed=0) is None
    assert tabu_bands(roomy, (3, 3), effort=DEFAULTS.quick_tabu, seed=0) is not None


def test_same_seed_same_cells() -> None:
    """However often."""
    first, again = (credit_bands(FULL, (8, 4), seed=3) for _ in range(2))
    assert first is not None
    assert np.array_equal(first, again)
