"""One way to run CP-SAT: repeatable, within the time that is left, and never trusted blindly.

One worker and a limit in deterministic time make a run repeatable; the clock is a second limit.  The import of
OR-Tools takes a third of a second and happens on first use only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from scheduler.placement.solver_clock import limit_time, work_of
from scheduler.work_clock import spend

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

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


def solve(model: cp_model.CpModel, limit: Slice) -> tuple[Answer, cp_model.CpSolver]:
    """Search for any solution (or the best, when the model has an objective)."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    # several workers race each other: the answer would depend on the machine
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = limit.seed
    limit_time(solver, limit.wall, effort=limit.effort)
    solver.parameters.linearization_level = limit.linearization
    solver.parameters.optimize_with_lb_tree_search = limit.bounding
    solver.parameters.randomize_search = solver.parameters.stop_after_first_solution = limit.random
    if limit.light:
        # these steps take longer than the search they shorten when a model is small
        solver.parameters.cp_model_probing_level = 0
        solver.parameters.symmetry_level = 0
        solver.parameters.max_presolve_iterations = 1
    status = solver.solve(model)
    spend(work_of(solver, model))
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return "yes", solver
    return ("no" if status == cp_model.INFEASIBLE else "unknown"), solver
