"""The clock of limits: the wall's, or counted work."""

from __future__ import annotations

from itertools import pairwise
from time import perf_counter

import pytest
from ortools.sat.python import cp_model

from scheduler.placement.solver_clock import limit_time, work_of
from scheduler.work_clock import ClockKind, clock, counts_work, on_clock, spend


def test_work_is_what_was_spent() -> None:
    """The seconds spent, and less than a millisecond for some looks; the wall clock outside goes on as ever."""
    with on_clock("work"):
        begun = clock()
        assert counts_work()
        spend(3.5)
        with on_clock("work"):
            spend(0.5)
        assert clock() - begun == pytest.approx(4.0, abs=1e-3)
    assert not counts_work()
    assert perf_counter() <= clock() <= perf_counter()


def test_every_look_counts() -> None:
    """So a loop that only looks ends, after as many looks each time."""
    looks = []
    for _ in range(2):
        with on_clock("work"):
            end, count = clock() + 0.01, 0
            while clock() < end:
                count += 1
            looks.append(count)
    assert looks[0] == looks[1] > 0


@pytest.mark.parametrize(("kind", "wall", "effort"), [("wall", 2.0, 9.0), ("work", None, 2.0)])
def test_solvers_are_limited_by_the_clock(kind: ClockKind, wall: float | None, effort: float) -> None:
    """Two seconds left and an effort of nine: on the wall clock both, of counted work the lesser."""
    solver = cp_model.CpSolver()
    unlimited = solver.parameters.max_time_in_seconds
    with on_clock(kind):
        limit_time(solver, 2.0, effort=9.0)
    assert solver.parameters.max_time_in_seconds == (unlimited if wall is None else wall)
    assert solver.parameters.max_deterministic_time == effort


def test_models_count() -> None:
    """A model that presolve settles still took its constraints to make."""
    model = cp_model.CpModel()
    chosen = [model.new_bool_var("") for _ in range(9)]
    for one, other in pairwise(chosen):
        model.add_implication(one, other)
    solver = cp_model.CpSolver()
    solver.solve(model)
    assert work_of(solver, model) > 0
