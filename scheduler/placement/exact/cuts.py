"""Rows cut in two, each where it suits: for R = 2 on clusters so full that bands leave too many nodes over.

Every row is cut at a column of its own; what is left of the cut lies in a *left* domain, the rest in a *right* one.  A
left domain of width q hosts rows cut at q or at q - 1, so that it can use up its nodes whatever their number; it serves
columns 0 .. q - 1, a right one the last q.  Any rows of equal cut can be put together: what is left to choose is side
and width of each domain and its rows at either cut, a model of some hundred variables without symmetric columns.  SCIP
finds its solutions where CP-SAT does not: the linear relaxation is tight, and says which widths to try.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.exact.problem import GridProblem
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.linear_solver import pywraplp

Rows = dict[tuple[int, int], "pywraplp.Variable"]
"""Rows that a domain hosts on one side, by (domain, how many cells of each)."""


def cut_rows(problem: GridProblem, *, dp: int, seconds: float, nodes: int, seed: int) -> IntArray | None:
    """Return a placement in which every row touches at most two domains and every column at most ``dp``.

    :param seconds: limit of wall clock.
    :param nodes: limit in nodes of the branch-and-bound tree, the same whatever the clock says.
    :returns: shape [rows, columns], the domain of each cell; ``None`` when none was found, which proves nothing.
    """
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("SCIP")
    left, right = _sides(solver, problem, dp)
    columns = problem.columns
    # rows cut at each column, counted by their left parts: as many right parts have the rest of the width
    at_cut = [sum(rows for (_, width), rows in left.items() if width == cut) for cut in range(1, columns)]
    for cut, rows in enumerate(at_cut, start=1):
        solver.Add(rows == sum(v for (_, width), v in right.items() if width == columns - cut))
    # a row that is not cut lies on a domain of either side
    whole = sum(rows for side in (left, right) for (_, width), rows in side.items() if width == columns)
    solver.Add(sum(at_cut) + whole == problem.rows)
    solver.SetTimeLimit(max(1, int(1000 * seconds)))  # milliseconds, at least one
    solver.SetSolverSpecificParametersAsString(
        f"limits/totalnodes = {nodes}\nrandomization/randomseedshift = {seed}\nlimits/solutions = 1"
    )
    if solver.Solve() not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
        return None
    return _lay_out(problem, *({k: round(v.solution_value()) for k, v in side.items()} for side in (left, right)))


def _sides(solver: pywraplp.Solver, problem: GridProblem, dp: int) -> tuple[Rows, Rows]:
    """Add the rows of each domain and width on either side, within capacities, at most ``dp`` domains in a column.

    ``reaches[side][q - 1]`` says whether the domain lies on the side and serves q columns or more there; so its width
    is q where that is true for q and false for q + 1.
    """
    rows, columns = problem.rows, problem.columns
    left: Rows = {}
    right: Rows = {}
    serving: list[list[pywraplp.Variable]] = [[] for _ in range(columns)]
    for k, capacity in enumerate(problem.capacities):
        load = []
        widest = min(columns, capacity)
        reaches = [[solver.BoolVar("") for _ in range(widest)] for _ in range(2)]
        # on one side, or unused
        solver.Add(reaches[0][0] + reaches[1][0] <= 1)
        for side, reach in zip((left, right), reaches, strict=True):
            for width in range(1, widest + 1):
                if width < widest:
                    solver.Add(reach[width] <= reach[width - 1])
                most = min(rows, capacity // width)
                hosted = side[k, width] = solver.IntVar(0, most, "")
                # rows with so many cells only where the domain is so wide or wider by one
                too_wide = reach[width + 1] if width + 1 < widest else 0
                solver.Add(hosted <= most * (reach[width - 1] - too_wide))
                load.append(width * hosted)
                # on the left it serves columns 0 .. q - 1, on the right the last q
                serving[width - 1 if side is left else columns - width].append(reach[width - 1])
        solver.Add(sum(load) <= capacity)
    for domains in serving:
        solver.Add(sum(domains) <= dp)
    return left, right


def _lay_out(problem: GridProblem, left: dict[tuple[int, int], int], right: dict[tuple[int, int], int]) -> IntArray:
    """Lay rows of equal cut together, the domains of either side one after another; rows that are not cut come last."""
    columns = problem.columns
    cells = np.empty((problem.rows, columns), dtype=np.int32)
    filled: dict[tuple[bool, int], int] = defaultdict(int)
    first = np.cumsum([0] + [sum(n for (_, width), n in left.items() if width == cut) for cut in range(1, columns)])
    for is_left, side in ((True, left), (False, right)):
        for (k, width), count in side.items():
            cut = width if is_left else columns - width
            start = int(first[-1]) if width == columns else int(first[cut - 1])
            # whole rows of both sides share one block
            block = (True, columns) if width == columns else (is_left, cut)
            start += filled[block]
            filled[block] += count
            cells[start : start + count, slice(0, cut) if is_left else slice(cut, columns)] = k
    return cells
