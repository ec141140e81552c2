"""CP-SAT on the clock: its limit, and the work that it has done."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from scheduler.work_clock import counts_work, wall_left

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_CONSTRAINT_SECONDS = 2e-5  # Of work to make a constraint of a model


def load_solver() -> None:
    """Import the solver, which takes half a second, before a clock starts or a gang waits."""
    import ortools.sat.python.cp_model  # noqa: F401  (the import is what is wanted)


def limit_time(solver: cp_model.CpSolver, seconds: float, *, effort: float = inf) -> None:
    """Let a solver run for so many seconds of the clock, and so much deterministic time."""
    # CP-SAT refuses a limit that is not positive
    seconds = max(0.001, seconds)
    if (wall := wall_left(seconds)) < inf:
        solver.parameters.max_time_in_seconds = max(0.001, wall)
    solver.parameters.max_deterministic_time = min(effort, seconds) if counts_work() else effort


def work_of(solver: cp_model.CpSolver, model: cp_model.CpModel) -> float:
    """Return the seconds of work that making a model and solving it count as."""
    return float(solver.response_proto.deterministic_time) + _CONSTRAINT_SECONDS * len(model.proto.constraints)
