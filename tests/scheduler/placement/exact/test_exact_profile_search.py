"""One pair, searched to the end: built when it is feasible, refuted only when it is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.cpsat import Answer, Slice
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.profiles import PairProfiles, Realised, SkeletonModel, WidthProfiles
from scheduler.placement.types import Pair
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
from topology.cluster import IntArray


def searched(problem: GridProblem, pair: Pair) -> Answer:
    """The answer after a few slices; a placement is checked."""
    profiles = PairProfiles(problem, pair, spare_rows=spare_rows(problem, pair))
    for turn in range(3):
        answer, cells = profiles.search(effort=2.0, wall=60.0, seed=turn)
        if cells is not None:
            assert problem.fits(cells)
            dp, pp = problem.pair_of(cells)
            assert dp <= pair[0]
            assert pp <= pair[1]
        if answer != "unknown":
            return answer
    return "unknown"


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
    spare = spare_rows(plant.problem, plant.pair)
    profiles = PairProfiles(plant.problem, plant.pair, spare_rows=spare)
    for turn in range(2):
        answer, cells = profiles.search(effort=0.25, wall=60.0, seed=seed + turn)
        assert answer != "no"
        if cells is not None:
            return


def test_what_a_slice_leaves_the_next_goes_on_with() -> None:
    """Too little effort for one profile is no verdict; more of it finds that no rows lie on two of three domains that
    serve a column each: 2 x 3 cells on 2 + 2 + 2 with S = 1 need R = 3.
    """
    profiles = PairProfiles(GridProblem(2, 3, (2, 2, 2)), (1, 2), spare_rows=2)
    assert profiles.search(effort=0.0, wall=60.0, seed=0) == ("unknown", None)
    assert profiles.search(effort=1.0, wall=60.0, seed=0) == ("no", None)


def test_a_profile_left_in_the_first_slice_is_built_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a search for its skeleton runs out of time excludes nothing."""
    profiles = PairProfiles(*FEASIBLE, spare_rows=3)
    monkeypatch.setattr(SkeletonModel, "find", lambda *_: ("unknown", None))
    assert profiles.search(effort=2.0, wall=60.0, seed=0) == ("unknown", None)
    monkeypatch.undo()
    assert profiles.search(effort=2.0, wall=60.0, seed=1)[0] == "yes"


@pytest.mark.parametrize(
    ("capacities", "widths", "excluded"),
    [
        ((4, 2, 1), (0, 1, 1), (0, 1, 1)),  # a column on each of the first two would do, so it says no more than this
        ((1, 1, 1, 1), (0, 0, 1, 1), (1, 1, 0, 0)),  # the first two hold no more than the last two
    ],
)
def test_what_is_excluded_has_no_skeleton(
    capacities: tuple[int, ...], widths: tuple[int, ...], excluded: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 x 2 cells on domains too small for them: the widths on the largest domains are excluded if they are too."""
    told: list[tuple[int, ...]] = []
    stream = iter([("yes", np.array(widths, dtype=np.int32)), ("no", None), ("no", None)])
    monkeypatch.setattr(WidthProfiles, "next", lambda *_: next(stream))
    monkeypatch.setattr(WidthProfiles, "exclude", lambda _, these: told.append(tuple(these.tolist())))
    PairProfiles(GridProblem(2, 2, capacities), (2, 2), spare_rows=2).search(effort=1.0, wall=60.0, seed=0)
    assert told == [excluded]


COLUMNS = GridProblem(3, 3, (3, 3, 3)), (1, 3)
"""A column for each domain; with R = 3 rows are made of the skeleton, at R = 2 they come with it."""

FEASIBLE = GridProblem(3, 3, (7, 1, 1)), (2, 2)
"""The two small domains lie on different rows and columns."""


def test_a_skeleton_that_is_not_realised_refutes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """When rows cannot be made of the only skeleton in time, the pair stays open, however long the search goes on."""
    profiles = PairProfiles(*COLUMNS, spare_rows=3)
    monkeypatch.setattr("scheduler.placement.exact.profiles.realise", lambda *_, **__: Realised(None))
    for turn in range(3):
        assert profiles.search(effort=2.0, wall=60.0, seed=turn) == ("unknown", None)
    monkeypatch.undo()
    assert profiles.search(effort=2.0, wall=60.0, seed=3)[0] == "yes"


def test_a_profile_missed_at_first_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that says at first, wrongly, that there are no profiles, is corrected by the second search."""
    truly = WidthProfiles.next

    def next_profile(self: WidthProfiles, limit: Slice) -> tuple[Answer, IntArray | None]:
        return ("no", None) if limit.light else truly(self, limit)

    monkeypatch.setattr(WidthProfiles, "next", next_profile)
    profiles = PairProfiles(*FEASIBLE, spare_rows=3)
    assert profiles.search(effort=2.0, wall=60.0, seed=0) == ("unknown", None)
    assert profiles.search(effort=2.0, wall=60.0, seed=1)[0] == "yes"


def test_one_false_verdict_refutes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that once says "no" to every skeleton, wrongly, is not believed before a second search agrees."""
    truly = SkeletonModel.find

    def find(self: SkeletonModel, limit: Slice, widths: IntArray) -> tuple[Answer, object]:
        return ("no", None) if limit.light else truly(self, limit, widths)

    monkeypatch.setattr(SkeletonModel, "find", find)
    profiles = PairProfiles(*FEASIBLE, spare_rows=3)
    assert profiles.search(effort=2.0, wall=60.0, seed=0) == ("unknown", None)
