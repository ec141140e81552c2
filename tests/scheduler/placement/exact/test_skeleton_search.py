"""One pair, searched to the end: built when it is feasible, refuted only when it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.cpsat import Answer, Slice
from scheduler.placement.exact import skeletons
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.skeletons import SkeletonModel, decide_pair
from scheduler.placement.types import Limits, Pair
from tests.case_counts import every_fourth, examples
from tests.scheduler.placement.exact.tiny import (
    Planted,
    alike,
    all_problems,
    feasible,
    pairs,
    planted,
    problems,
    spare_rows,
)


class Asked:
    """One pair of a grid, decided slice by slice on the same model."""

    def __init__(self, problem: GridProblem, pair: Pair) -> None:
        self.search = PairSearch(Lattice(problem, 0.5, 0.5), Limits(workers=1))
        self.model = SkeletonModel(problem, pair, spare_rows=spare_rows(problem, pair))

    def answer(self, effort: float, seed: int = 0) -> Answer:
        """The answer after one more slice; what is built is checked by the lattice."""
        decide_pair(self.search, self.search.views[0], self.model, Slice(effort, 60.0, seed))
        if self.search.lattice.is_built(self.model.pair):
            return "yes"
        return "no" if self.search.lattice.is_refuted(self.model.pair) else "unknown"


def searched(problem: GridProblem, pair: Pair) -> Answer:
    """The answer after a few slices."""
    asked = Asked(problem, pair)
    return next((answer for turn in range(3) if (answer := asked.answer(2.0, turn)) != "unknown"), "unknown")


@pytest.mark.many_cases
def test_all_tight_tiny_problems() -> None:
    """Grids of up to 3 x 3 cells on up to 4 domains of up to 5 with no cell to spare, at all S and R of 2 or more."""
    for problem in every_fourth(all_problems(rows=3, columns=3, domains=4, largest=5)):
        if sum(problem.capacities) == problem.cells:
            for pair in pairs(problem):
                if min(pair) >= 2:
                    assert searched(problem, pair) == ("yes" if feasible(problem, pair) else "no")


@given(problems(), st.data())
@examples(100)
def test_no_verdict_is_false(problem: GridProblem, data: st.DataObject) -> None:
    """Drawn problems, any pair; that it is left open is allowed, and no proof of anything."""
    view = data.draw(st.sampled_from([problem, problem.transposed]))
    pair = data.draw(st.sampled_from(pairs(view)))
    assert searched(view, pair) in (("yes", "unknown") if feasible(view, pair) else ("no", "unknown"))


@given(alike(most_cells=10), st.data())
@examples(60)
def test_no_verdict_on_equal_domains_is_false(problem: GridProblem, data: st.DataObject) -> None:
    """Hardly a cell to spare, most domains interchangeable, S or R of 2 or 3: by brute force."""
    view = data.draw(st.sampled_from([problem, problem.transposed]))
    dp, pp = view.largest_pair
    for pair in [(2, 2), (2, 3), (3, 2), (3, 3)]:
        if pair[0] <= dp and pair[1] <= pp:
            assert searched(view, pair) in (("yes", "unknown") if feasible(view, pair) else ("no", "unknown"))


@given(st.one_of(planted(served_by=2), planted(served_by=3), planted(served_by=2, transposed=True)), st.integers(0, 9))
@examples(100)
def test_no_pair_of_a_placement_is_refuted(plant: Planted, seed: int) -> None:
    """On problems made for a placement, larger than can be tried by brute force, as tight as its domains are."""
    asked = Asked(plant.problem, plant.pair)
    assert all(asked.answer(0.25, seed + turn) != "no" for turn in range(2))


def test_columns_apart_have_no_rows_on_two_domains() -> None:
    """2 x 3 cells on 2 + 2 + 2 with S = 1 need R = 3: a column on each domain."""
    assert Asked(GridProblem(2, 3, (2, 2, 2)), (1, 2)).answer(1.0) == "no"


COLUMNS = GridProblem(3, 3, (3, 3, 3)), (1, 3)
"""A column for each domain; with R = 3 rows are made of the skeleton, at R = 2 they come with it."""

FEASIBLE = GridProblem(3, 3, (7, 1, 1)), (2, 2)
"""The two small domains lie on different rows and columns."""


def test_a_skeleton_that_is_not_realised_refutes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """When rows cannot be made of the only skeleton in time, the pair stays open, however long the search goes on."""
    asked = Asked(*COLUMNS)
    monkeypatch.setattr(skeletons, "realise", lambda *_, **__: (None, None))
    assert [asked.answer(2.0, turn) for turn in range(3)] == ["unknown"] * 3
    monkeypatch.undo()
    assert asked.answer(2.0, 3) == "yes"


def test_one_false_verdict_refutes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that says "no" to every skeleton one way, wrongly, is not believed without the other way."""
    truly = SkeletonModel.find

    def find(self: SkeletonModel, limit: Slice) -> tuple[Answer, object]:
        return ("no", None) if limit.light else ("unknown", None) if limit.effort < 1.0 else truly(self, limit)

    monkeypatch.setattr(SkeletonModel, "find", find)
    asked = Asked(*FEASIBLE)
    assert asked.answer(0.5) == "unknown"
    assert asked.answer(2.0) == "yes"
