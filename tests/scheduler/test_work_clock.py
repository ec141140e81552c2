"""The clock of limits: counted work, and an end by the wall's clock for whoever waits."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from time import perf_counter, sleep

import pytest
from ortools.sat.python import cp_model

from scheduler.placement.cpsat import Slice, limit_time, solve, work_of
from scheduler.work_clock import (
    ClockKind,
    begin_again,
    clock,
    counts_work,
    end_all,
    ended_at,
    on_clock,
    side_by_side,
    spend,
    stoppable,
)


def test_work_is_what_was_spent() -> None:
    """The seconds spent, and less than a millisecond for some looks; the wall clock outside goes on as ever."""
    with on_clock("work", inf):
        begun = clock()
        assert counts_work()
        spend(3.5)
        with on_clock("work", inf):
            spend(0.5)
        assert clock() - begun == pytest.approx(4.0, abs=1e-3)
    assert not counts_work()
    assert perf_counter() <= clock() <= perf_counter()


def test_every_look_counts() -> None:
    """So a loop that only looks ends, after as many looks each time, on either clock while its end is far."""
    looks = []
    kinds: tuple[ClockKind, ...] = ("work", "wall")
    for kind in kinds:
        with on_clock(kind, 600.0) as timer:
            end, count = clock() + 0.01, 0
            while clock() < end:
                count += 1
            looks.append(count)
        assert not timer.late
    assert looks[0] == looks[1] > 0


def test_the_wall_ends_what_counts_too_little() -> None:
    """A search that takes long and counts next to nothing is over when the wall's clock says so, and it is told.

    Past the end the count goes on as the wall does: whatever gets a little time more comes to its end as well.
    """
    with on_clock("wall", 0.05) as timer:
        end, begun = clock() + 0.05, perf_counter()
        while clock() < end:
            sleep(0.01)
        assert perf_counter() - begun >= 0.05
        assert timer.late
        more = clock() + 0.02
        while clock() < more:
            sleep(0.001)
    with on_clock("work", 0.05) as timer:
        sleep(0.06)
        assert clock() < 0.05
    assert not timer.late


def test_what_counts_goes_on_inside() -> None:
    """A part of a question has no end of its own by the wall's clock, and cannot take the other's away."""
    with on_clock("wall", 600.0) as outer:
        with on_clock("wall", 0.0) as inner:
            assert inner is outer
        assert not outer.late
    with on_clock("work", inf) as outer, on_clock("wall", 0.0):
        clock()
        assert not outer.late


@pytest.mark.parametrize("kind", ["wall", "work"])
def test_whoever_waits_ends_all_clocks(kind: ClockKind) -> None:
    """The end of a search has come at once, on either clock; a solver that runs is stopped; and it is told apart from a
    limit.  A limit that is given afterwards passes in half a second, and new clocks run as ever once they may.
    """
    stopped = []
    try:
        with on_clock(kind, 600.0) as timer, stoppable(lambda: stopped.append("solver")):
            end = clock() + 600.0
            assert (clock() < end, ended_at(600.0)) == (True, 600.0)
            end_all()
            assert (clock() >= end, timer.late, stopped, ended_at(600.0)) == (True, True, ["solver"], "interrupted")
            again, begun = clock() + 600.0, perf_counter()
            while clock() < again:
                sleep(0.01)
            assert perf_counter() - begun >= 0.4
        end_all()
        assert stopped == ["solver"]
    finally:
        begin_again()
    with on_clock(kind, 600.0) as timer:
        assert clock() < 1.0
    assert (timer.late, ended_at(600.0)) == (False, 600.0)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_threads_change_no_count(workers: int) -> None:
    """Each search counts from the same moment, whoever runs beside it; afterwards all of it counts.

    0.5 before, then 1 and 2 side by side: both begin at 0.5, and 3.5 are counted in the end.
    """

    def search(seconds: float) -> float:
        begun = clock()
        spend(seconds)
        return begun

    with on_clock("work", inf):
        spend(0.5)
        begun = side_by_side([lambda: search(1.0), lambda: search(2.0)], workers=workers)
        assert begun == pytest.approx([0.5, 0.5], abs=1e-3)
        assert clock() == pytest.approx(3.5, abs=1e-3)
    assert side_by_side([counts_work], workers=workers) == [False]


@pytest.mark.parametrize(("kind", "wall"), [("wall", 7.0), ("work", None)])
def test_solvers_are_limited_by_the_clock(kind: ClockKind, wall: float | None) -> None:
    """Two seconds left of seven by the wall, and an effort of nine: the lesser counts, and the seven end it too."""
    solver = cp_model.CpSolver()
    unlimited = solver.parameters.max_time_in_seconds
    with on_clock(kind, 7.0):
        limit_time(solver, 2.0, effort=9.0)
    if wall is None:
        assert solver.parameters.max_time_in_seconds == unlimited
    else:
        # some milliseconds have gone by
        assert wall - 1.0 < solver.parameters.max_time_in_seconds <= wall
    assert solver.parameters.max_deterministic_time == 2.0


@pytest.mark.parametrize("kind", ["wall", "work"])
def test_a_search_whose_time_has_gone_ends_at_once(kind: ClockKind) -> None:
    """It has a thousandth of a second, enough for one variable."""
    model = cp_model.CpModel()
    model.minimize(model.new_bool_var(""))
    with on_clock(kind, 7.0):
        assert solve(model, Slice(-1.0, -1.0))[0] == "yes"


def test_models_count() -> None:
    """A model that presolve settles still took its constraints to make."""
    model = cp_model.CpModel()
    chosen = [model.new_bool_var("") for _ in range(9)]
    for one, other in pairwise(chosen):
        model.add_implication(one, other)
    solver = cp_model.CpSolver()
    solver.solve(model)
    assert work_of(solver, model) > 0
