"""The program of a pair, cell by cell: what a solver is asked where arithmetic alone cannot tell.

A domain serves columns and is touched by rows; a cell goes to a domain that serves its column and is touched by its
row.  Simple on purpose: it shares no idea with the search, and says "no" only where there is no assignment at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from scheduler.objective import Spread
from scheduler.verification.question import CountedGrid
from scheduler.verification.refutations import Recount

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from scheduler.verification.verdict import SolverCheck

MOST_CHOICES = 200_000  # Choices of a domain for a cell up to which the program is written down
ORDERED = 30  # Domains by which equal lines are put in order: weights are powers of two, in 64 bits


def solver_check(*, seconds: float, seed: int, workers: int) -> SolverCheck:
    """Return what decides a pair with a solver, within so many seconds."""

    def solved(grid: CountedGrid, pair: Spread) -> Recount:
        from ortools.sat.python import cp_model

        # The largest domains are of use, as a larger one can take the place of a smaller one; and not more than this.
        # Columns that share a domain hang together.  Every row touches each such component, so there are at most R; and
        # one of e columns has at most e (S - 1) + 1 domains.  The same holds with rows and columns exchanged.
        by_columns = grid.columns * (pair.dp - 1) + min(pair.pp, grid.columns)
        by_rows = grid.rows * (pair.pp - 1) + min(pair.dp, grid.rows)
        capacities = grid.capacities[: min(len(grid.capacities), by_columns, by_rows)]
        if grid.cells * len(capacities) > MOST_CHOICES:
            return Recount("not told", "too large for the solver")
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.random_seed = seed
        solver.parameters.num_workers = workers
        status = solver.solve(_program(grid, pair, capacities))
        if status == cp_model.INFEASIBLE:
            return Recount("holds", "a solver found that no assignment of the cells has it")
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Recount("fails", "a solver found an assignment of the cells that has it")
        return Recount("not told", f"a solver did not settle it within {seconds:g} s")

    return solved


def _program(grid: CountedGrid, pair: Spread, capacities: Sequence[int]) -> cp_model.CpModel:
    from ortools.sat.python import cp_model

    program = cp_model.CpModel()
    rows, columns, domains = range(grid.rows), range(grid.columns), range(len(capacities))
    touched = [[program.new_bool_var("") for _ in domains] for _ in rows]
    serves = [[program.new_bool_var("") for _ in domains] for _ in columns]
    cells = {(i, j): [program.new_bool_var("") for _ in domains] for i in rows for j in columns}
    for (i, j), choices in cells.items():
        program.add_exactly_one(choices)
        for k in domains:
            program.add_implication(choices[k], touched[i][k])
            program.add_implication(choices[k], serves[j][k])
    for k in domains:
        program.add(sum(choices[k] for choices in cells.values()) <= capacities[k])
    for lines, most in ((touched, pair.pp), (serves, pair.dp)):
        for line in lines:
            program.add(sum(line) <= most)
        # lines can be exchanged: those that touch earlier domains come first
        weights = [sum(2 ** (ORDERED - k) * touch for k, touch in enumerate(line[:ORDERED])) for line in lines]
        for before, after in pairwise(weights):
            program.add(before >= after)
    return program
