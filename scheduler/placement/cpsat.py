"""One way to run CP-SAT: repeatable, within the time that is left, and never trusted blindly.

One worker and a limit in deterministic time make a run repeatable; the clock is a second limit, and what the solver has
done counts as work on it.  OR-Tools is imported when a model is first made: most jobs are placed without.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Literal

from scheduler.work_clock import counts_work, spend, wall_left

if TYPE_CHECKING:
    from scheduler.placement import cp_model

_CONSTRAINT_SECONDS = 2e-5  # Of work to make a constraint of a model


def load_solver() -> None:
    """Import the solvers, which takes a tenth of a second, before a gang waits."""
    import ortools.graph.python.linear_sum_assignment
    import ortools.linear_solver.pywraplp  # noqa: F401  (the imports are what is wanted)

    import scheduler.placement.cp_model  # noqa: F401


def limit_time(solver: cp_model.CpSolver, seconds: float, *, effort: float = inf) -> None:
    """Let a solver run for so many seconds of the clock, and so much deterministic time."""
    # CP-SAT refuses a limit that is not positive, and a search may begin when all of its time has gone
    seconds, effort = max(0.001, seconds), max(0.001, effort)
    if (wall := wall_left(seconds)) < inf:
        solver.parameters.max_time_in_seconds = max(0.001, wall)
    solver.parameters.max_deterministic_time = min(effort, seconds) if counts_work() else effort


def work_of(solver: cp_model.CpSolver, model: cp_model.CpModel) -> float:
    """Return the seconds of work that making a model and solving it count as."""
    return float(solver.response_proto.deterministic_time) + _CONSTRAINT_SECONDS * len(model.proto.constraints)


Answer = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class Slice:
    """How long one search may run and how it goes about it."""

    effort: float  # limit in CP-SAT's deterministic time, about seconds
    wall: float  # limit in seconds of the clock (``scheduler.work_clock``)
    seed: int = 0
    linearization: int = 1  # CP-SAT's linearization level, 0 (no LP) to 2 (all of it)
    light: bool = False  # little presolve, for models that are solved in hundredths of a second
    random: bool = False  # branch at random, and stop at the first solution
    bounding: bool = False  # branch where the bound is least: a bound is raised sooner, a solution found later
    symmetry: bool = True  # look for symmetries
    workers: int | None = None  # threads that take turns, so that their number changes nothing; None = one by itself


def solve(model: cp_model.CpModel, limit: Slice) -> tuple[Answer, cp_model.CpSolver]:
    """Search for any solution, or the best where the model has an objective; raise ValueError: the model is none."""
    from scheduler.placement import cp_model

    solver = cp_model.CpSolver()
    # several workers that do not take turns race each other: the answer would depend on the machine
    solver.parameters.num_workers = limit.workers or 1
    solver.parameters.interleave_search = limit.workers is not None
    solver.parameters.random_seed = limit.seed
    limit_time(solver, limit.wall, effort=limit.effort)
    solver.parameters.linearization_level = limit.linearization
    solver.parameters.optimize_with_lb_tree_search = limit.bounding
    solver.parameters.randomize_search = solver.parameters.stop_after_first_solution = limit.random
    if limit.light or not limit.symmetry:
        solver.parameters.symmetry_level = 0
    if limit.light:
        # these steps take longer than the search they shorten when a model is small
        solver.parameters.cp_model_probing_level = 0
        solver.parameters.max_presolve_iterations = 1
    status = solver.solve(model)
    if status == cp_model.MODEL_INVALID:
        raise ValueError("CP-SAT refuses a model; its search would be taken for one that found nothing")
    spend(work_of(solver, model))
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return "yes", solver
    return ("no" if status == cp_model.INFEASIBLE else "unknown"), solver
