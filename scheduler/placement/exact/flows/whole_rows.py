"""Whole rows on the intervals that domains serve: an integer program of hundredths of a second.

Every row is a path over the columns of segments within the intervals.  In fractions the rows are the same flow, which
:mod:`scheduler.placement.exact.flows.interval_flow` puts into its linear programs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.work_clock import spend, wall_left
from topology.cluster import BoolArray, IntArray

if TYPE_CHECKING:
    from ortools.linear_solver import pywraplp

Segment = tuple[int, ...]  # (l, r) for the columns l, ..., r - 1; in set flow the columns themselves

ITERATION_SECONDS = 2e-8  # Of work, that an iteration of a program takes for each variable
_ROUNDING_SECONDS = 1e-2  # Of work, that whole rows take besides
_ROUNDING_NODES = 200  # Nodes of SCIP's tree for whole rows: mostly the first has them, or none


@dataclass(frozen=True, slots=True)
class FlowLimit:
    """How long a search for intervals may go on."""

    seconds: float
    programs: int  # linear programs solved, the same whatever the clock says
    roundings: int  # times that whole rows are looked for
    seed: int


def limit_time(solver: pywraplp.Solver, seconds: float) -> None:
    """Let a solver run as long as the wall's clock allows; where work is counted, programs and nodes limit it too."""
    if (wall := wall_left(seconds)) < inf:
        solver.SetTimeLimit(max(1, int(1000 * wall)))  # milliseconds, at least one


def found_whole(solver: pywraplp.Solver, limit: FlowLimit) -> bool:
    """Return whether SCIP finds any solution in its few nodes."""
    from ortools.linear_solver import pywraplp

    limit_time(solver, limit.seconds)
    solver.SetSolverSpecificParametersAsString(
        f"limits/totalnodes = {_ROUNDING_NODES}\nrandomization/randomseedshift = {limit.seed}\nlimits/solutions = 1"
    )
    status = solver.Solve()
    spend(_ROUNDING_SECONDS + ITERATION_SECONDS * solver.iterations() * solver.NumVariables())
    return status in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE)


def add_rows(
    solver: pywraplp.Solver,
    problem: GridProblem,
    pp: int,
    hosted: dict[Segment, list[pywraplp.Variable]],
    *,
    whole: bool,
) -> tuple[pywraplp.Constraint, dict[tuple[int, Segment], pywraplp.Variable]]:
    """Add the rows as a flow over the columns, in layers: of each segment how many rows have it as their t-th.

    :param hosted: variables whose sum is the rows on a segment; ``whole``: in whole numbers.
    :returns: the constraint that there are D rows, and the rows of each layer and segment.
    """
    columns, inf = problem.columns, solver.infinity()
    # where segment t ends segment t + 1 begins
    joints = [[solver.Constraint(0, 0) for _ in range(columns)] for _ in range(pp + 1)]
    start = solver.Constraint(problem.rows, problem.rows)
    flow: dict[tuple[int, Segment], pywraplp.Variable] = {}
    for (i, j), rows in hosted.items():
        of_segment = solver.Constraint(0, 0)
        for y in rows:
            of_segment.SetCoefficient(y, -1)
        for t in range(1, pp + 1):
            # the first segment begins at the first column and no other one does; the last ends at the last
            if (i == 0) != (t == 1) or (t == pp and j < columns):
                continue
            f = flow[t, (i, j)] = solver.Var(0, inf, whole, "")
            of_segment.SetCoefficient(f, 1)
            if t == 1:
                start.SetCoefficient(f, 1)
            else:
                joints[t - 1][i].SetCoefficient(f, -1)
            if j < columns:
                joints[t][j].SetCoefficient(f, 1)
    return start, flow


def rows_on_intervals(problem: GridProblem, serves: BoolArray, *, pp: int, limit: FlowLimit) -> IntArray | None:
    """Return a placement in which each domain serves its interval of columns and each row has ``pp`` segments at most.

    :param serves: shape [domains, columns].
    :returns: shape [rows, columns], the domain of each cell; ``None`` when none was found.
    """
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("SCIP")
    inf, columns = solver.infinity(), problem.columns
    hosted: dict[tuple[int, Segment], pywraplp.Variable] = {}
    on_segment: dict[Segment, list[pywraplp.Variable]] = defaultdict(list)
    for k, capacity in enumerate(problem.capacities):
        if not serves[k].any():
            continue
        left, right = int(serves[k].argmax()), columns - int(serves[k][::-1].argmax())
        cells = solver.Constraint(-inf, capacity)
        for i in range(left, right):
            for j in range(i + 1, right + 1):
                if pp == 2 and i > 0 and j < columns:
                    continue
                y = hosted[k, (i, j)] = solver.IntVar(0, min(problem.rows, capacity // (j - i)), "")
                cells.SetCoefficient(y, j - i)
                on_segment[i, j].append(y)
    _, flow = add_rows(solver, problem, pp, on_segment, whole=True)
    if not found_whole(solver, limit):
        return None
    rows = {key: round(f.solution_value()) for key, f in flow.items()}
    return _lay_out(problem, pp, rows, {key: round(y.solution_value()) for key, y in hosted.items()})


def _lay_out(
    problem: GridProblem, pp: int, rows: dict[tuple[int, Segment], int], hosted: dict[tuple[int, Segment], int]
) -> IntArray:
    """Lay rows along the flow; segments of equal columns go to their domains in any order."""
    cells = np.empty((problem.rows, problem.columns), dtype=np.int32)
    domains: dict[Segment, list[int]] = defaultdict(list)
    for (k, segment), count in hosted.items():
        domains[segment] += [k] * count
    ends: dict[int, list[int]] = {0: list(range(problem.rows))}
    for t in range(1, pp + 1):
        following: dict[int, list[int]] = defaultdict(list)
        for (layer, (i, j)), count in rows.items():
            if layer == t:
                for _ in range(count):
                    row = ends[i].pop()
                    cells[row, i:j] = domains[i, j].pop()
                    following[j].append(row)
        ends = following
    return cells
