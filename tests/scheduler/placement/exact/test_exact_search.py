"""The search from end to end: on tiny problems it finds and proves the optimum, and all it says on the way is true."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact import schedule
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.schedule import count_edges, decide_skeletons, search_pairs
from scheduler.placement.types import Limits
from tests.case_counts import every_fourth, examples
from tests.scheduler.placement.exact.brute_force import least_cost
from tests.scheduler.placement.exact.tiny import (
    ALPHAS,
    Planted,
    alike,
    all_problems,
    corners,
    feasible,
    planted,
    problems,
)


def searched(problem: GridProblem, alpha: float, **limits: float) -> Lattice:
    """Return what a search found, with time enough unless said otherwise."""
    options: dict[str, float] = {"seconds": 60, "workers": 1, **limits}
    lattice = Lattice(problem, alpha, 1 - alpha)
    search_pairs(PairSearch(lattice, Limits(**options)))  # type: ignore[arg-type]
    return lattice


def check_claims(problem: GridProblem, lattice: Lattice) -> None:
    """The bound, the refutations, the placements and the proved corners, each by brute force."""
    optimum = least_cost(problem.rows, problem.columns, problem.capacities, lattice.alpha)
    assert lattice.bound() <= optimum + 1e-9
    assert lattice.cost(lattice.best) >= optimum - 1e-9
    assert [r for r in lattice.refutations if feasible(problem, r.pair)] == []
    assert all(r.sentence for r in lattice.refutations)
    for pair, cells in lattice.built.items():
        assert problem.fits(cells)
        assert problem.pair_of(cells) == pair
    assert {(point.dp, point.pp) for point in lattice.pareto() if point.proved} <= corners(problem)


def check_optimum(problem: GridProblem, lattice: Lattice) -> None:
    """Besides, the best is optimal and said to be."""
    check_claims(problem, lattice)
    assert lattice.proved
    optimum = least_cost(problem.rows, problem.columns, problem.capacities, lattice.alpha)
    assert lattice.cost(lattice.best) == pytest.approx(optimum)


@pytest.mark.many_cases
@pytest.mark.parametrize("alpha", ALPHAS)
def test_all_tiny_problems_are_solved(alpha: float) -> None:
    """1,032 grids of up to 3 x 3 cells on up to 4 domains of up to 5, at every affinity."""
    for problem in every_fourth(all_problems(rows=3, columns=3, domains=4, largest=5)):
        check_optimum(problem, searched(problem, alpha))


@given(problems(), st.sampled_from(ALPHAS), st.integers(0, 9), st.integers(1, 2))
@examples(200)
def test_drawn_problems_are_solved(problem: GridProblem, alpha: float, seed: int, workers: int) -> None:
    """Up to 12 cells on up to 5 domains, with any seed, one search at a time or two."""
    check_optimum(problem, searched(problem, alpha, seed=seed, workers=workers))


@given(alike(most_cells=10), st.sampled_from([0.3, 0.5, 0.8]), st.integers(0, 9), st.booleans())
@examples(100)
def test_equal_domains_are_solved(problem: GridProblem, alpha: float, seed: int, by_skeletons: bool) -> None:
    """Hardly a cell to spare, most domains interchangeable; also when nothing but counting on the edges comes before
    the skeletons, so that they decide what else bounds and constructions would have.
    """
    with pytest.MonkeyPatch.context() as patch:
        if by_skeletons:
            patch.setattr(schedule, "STAGES", (count_edges, decide_skeletons))
        check_optimum(problem, searched(problem, alpha, seed=seed))


@given(st.one_of(planted(served_by=2), planted(served_by=3)), st.sampled_from([0.3, 0.5, 0.8]), st.booleans())
@examples(60)
def test_no_placement_is_better_than_the_bound(plant: Planted, alpha: float, by_skeletons: bool) -> None:
    """On problems made for a placement, larger than can be tried by brute force: its pair is not refuted."""
    with pytest.MonkeyPatch.context() as patch:
        if by_skeletons:
            patch.setattr(schedule, "STAGES", (count_edges, decide_skeletons))
        lattice = searched(plant.problem, alpha, seconds=1.0)
    assert not lattice.is_refuted(plant.pair)
    assert lattice.bound() <= lattice.cost(plant.pair) + 1e-9


@given(problems(), st.sampled_from([0.1, 0.3, 0.5, 0.8]))
@examples(60)
def test_rows_and_columns_may_change_places(problem: GridProblem, alpha: float) -> None:
    """The transpose with the affinities exchanged costs the same."""
    one, other = searched(problem, alpha), searched(problem.transposed, 1 - alpha)
    assert one.cost(one.best) == pytest.approx(other.cost(other.best))


@given(problems(), st.sampled_from(ALPHAS), st.sampled_from([0.0, 1e-3, 5e-3]))
@examples(60)
def test_without_time_there_is_a_placement_and_an_honest_bound(
    problem: GridProblem, alpha: float, seconds: float
) -> None:
    """Nothing that is claimed early has to be taken back."""
    check_claims(problem, searched(problem, alpha, seconds=seconds))


SEARCHED = [
    GridProblem(10, 5, (17, 15, 12, 7)),
    GridProblem(8, 8, (33, 27, 5)),
    GridProblem(4, 3, (3, 3, 2, 2, 2, 1)),
    GridProblem(7, 8, (14, 11, 9, 9, 8, 6)),
]
"""Problems with a cell or two to spare that the closed forms do not settle."""


@pytest.mark.many_cases
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("problem", every_fourth(SEARCHED))
def test_same_seed_same_search(problem: GridProblem, workers: int) -> None:
    """The same cells, the same refutations in the same order, whatever the threads do."""
    first, again = (searched(problem, 0.4, seed=3, workers=workers) for _ in range(2))
    assert first.proved
    assert first.refutations == again.refutations
    assert first.builders == again.builders
    assert all(np.array_equal(cells, again.built[pair]) for pair, cells in first.built.items())


@pytest.mark.many_cases
@pytest.mark.parametrize("problem", every_fourth(SEARCHED))
def test_the_optimum_does_not_depend_on_the_seed(problem: GridProblem) -> None:
    """Seeds may lead to other cells, never to another cost or bound."""
    found = [searched(problem, 0.4, seed=seed) for seed in range(3)]
    assert len({round(lattice.cost(lattice.best), 9) for lattice in found}) == 1
    assert len({round(lattice.bound(), 9) for lattice in found}) == 1


@pytest.mark.parametrize("problem", [*SEARCHED, GridProblem(60, 12, (40,) * 20), GridProblem(500, 16, (97,) * 90)])
def test_no_time_is_enough_for_some_placement(problem: GridProblem) -> None:
    """With the limit long past there is a placement all the same, and a bound below it."""
    lattice = searched(problem, 0.5, seconds=0.0)
    assert problem.fits(lattice.built[lattice.best])
    assert lattice.bound() <= lattice.cost(lattice.best)


@pytest.mark.parametrize(("seconds", "complete"), [(60.0, True), (0.0, False)])
def test_a_search_that_has_nothing_left_to_try_was_not_stopped(
    monkeypatch: pytest.MonkeyPatch, seconds: float, complete: bool
) -> None:
    """Grids wider than skeletons are of use for (40 columns) leave the last rounds nothing to do: the search ends by
    itself, unproved.  The same with its time used up was stopped.  The stages that could prove it are left out.
    """
    monkeypatch.setattr(schedule, "STAGES", (count_edges, schedule.build_quick_tabu, decide_skeletons))
    lattice = Lattice(GridProblem(41, 41, (57,) * 40), 0.5, 0.5)
    made = PairSearch(lattice, Limits(seconds=seconds, workers=1))
    search_pairs(made)
    assert not lattice.proved
    assert made.complete is complete


def test_whoever_waits_is_told() -> None:
    """Each search says what it is about, after what is known: the best is never dearer than before, the bound is never
    less, and what is open is what lies between.
    """
    told: list[str] = []
    limits = Limits(seconds=60, workers=1, progress=told.append)
    search_pairs(PairSearch(Lattice(SEARCHED[0], 0.4, 0.6), limits))
    assert any("DP spread" in message and "PP spread" in message for message in told)
    said = [re.fullmatch(r"best \((\d+), (\d+)\) at (.*), bound (.*), (\d+) open pairs?: (.*)", one) for one in told]
    known = [(float(one[3]), float(one[4]), int(one[5])) for one in said if one is not None]
    assert len(known) == len(told) > 1
    for one in said:
        assert one is not None
        assert float(one[3]) == pytest.approx(0.4 * int(one[1]) + 0.6 * int(one[2]))
    assert all(bound <= best and (still > 0) == (bound < best) for best, bound, still in known)
    for (best, bound, _), (later, higher, _) in pairwise(known):
        assert later <= best
        assert higher >= bound


def test_more_cells_than_room_is_a_fault_of_the_caller() -> None:
    """The caller counts first, and has the reason."""
    too_small = PairSearch(Lattice(GridProblem(2, 2, (3,)), 0.5, 0.5), Limits())
    with pytest.raises(ValueError, match="does not fit"):
        search_pairs(too_small)
