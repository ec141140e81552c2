"""From a skeleton to a placement: given the domains each column may use, find rows that touch few of them.

A *skeleton* says for every column which domains serve it (at most S).  A row then is a *team*, a set of at most R
domains that together serve all columns, with each cell going to one member of the team that serves its column.  How
many rows can be had under the capacities is a linear program over (team, cells per domain) patterns, solved by column
generation; when it reaches D, a small integer program over the teams that it used gives a placement: for whole numbers
of rows per team the rest is a flow, hence integral.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from scheduler.placement.exact.cpsat import Slice, solve
from scheduler.placement.exact.problem import GridProblem
from topology.cluster import IntArray

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]

_MOST_TEAMS = 20_000
_ROUNDS = 60
_PER_ROUND = 24
_EPS = 1e-6
_PRICE_UNIT = 1000
"""Integer price of the dearest cell of a domain."""


@dataclass(frozen=True, slots=True)
class Realised:
    """What came of a skeleton.

    :param cells: shape [rows, columns], the domain of each cell; ``None`` when none was found (which proves nothing).
    :param prices: shape [domains], prices of a cell in each domain at which no row that the search knows is as cheap as
        the average row has to be; ``None`` when fractions of rows could be had.
    """

    cells: IntArray | None
    prices: IntArray | None = None


def realise(problem: GridProblem, serves: BoolArray, *, pp: int, limit: Slice) -> Realised:
    """A placement in which column p uses only domains k with ``serves[k, p]`` and every row at most ``pp`` domains.

    :param serves: shape [domains, columns].
    """
    teams = _teams(serves, pp)
    if not len(teams):
        return Realised(None, np.zeros(serves.shape[0], dtype=np.int32))
    chosen, price = _column_generation(problem, serves, teams, pp)
    if chosen is None:
        dearest = max(float(price.max()), _EPS)
        return Realised(None, np.floor(_PRICE_UNIT * price / dearest).astype(np.int32))
    return Realised(_round(problem, serves, chosen, limit))


def _teams(serves: BoolArray, pp: int) -> BoolArray:
    """Sets of at most ``pp`` domains that serve all columns, shape [teams, domains].

    Branches on the uncovered column with the fewest domains; sets smaller than ``pp`` are filled up later, by price.
    """
    domains_of = [tuple(int(k) for k in np.flatnonzero(column)) for column in serves.T]
    covers = [int("".join("1" if s else "0" for s in reversed(row)), 2) for row in serves]
    everything = (1 << serves.shape[1]) - 1
    found: set[int] = set()
    visited: set[int] = set()
    stack: list[tuple[int, int]] = [(0, 0)]
    while stack and len(found) < _MOST_TEAMS:
        team, covered = stack.pop()
        if covered == everything:
            found.add(team)
            continue
        if team.bit_count() == pp:
            continue
        column = min((p for p in range(len(domains_of)) if not covered >> p & 1), key=lambda p: len(domains_of[p]))
        for k in domains_of[column]:
            larger = team | 1 << k
            if larger not in visited:
                visited.add(larger)
                stack.append((larger, covered | covers[k]))
    return np.array([[team >> k & 1 for k in range(serves.shape[0])] for team in sorted(found)], dtype=np.bool_)


def _fill_up(serves: BoolArray, teams: BoolArray, pp: int, price: FloatArray) -> BoolArray:
    """Teams smaller than ``pp`` joined, one after another, by the domains that make their cheapest rows cheaper."""
    filled = teams.copy()
    for _ in range(pp):
        small = np.flatnonzero(filled.sum(axis=1) < pp)
        paid = price[_cheapest_patterns(serves, filled[small], price)[1]]
        saved = np.stack([np.maximum(paid - p, 0.0) @ s for p, s in zip(price, serves, strict=True)], axis=1)
        useful = saved.max(axis=1, initial=0.0) > _EPS
        if not useful.any():
            break
        filled[small[useful], saved[useful].argmax(axis=1)] = True
    return filled


def _cheapest_patterns(serves: BoolArray, teams: BoolArray, price: FloatArray) -> tuple[FloatArray, IntArray]:
    """Price of each team's cheapest row, and the domain of each of its cells: shapes [teams], [teams, columns]."""
    cost = np.zeros(len(teams))
    domain = np.empty((len(teams), serves.shape[1]), dtype=np.int32)
    for p in range(serves.shape[1]):
        options = np.flatnonzero(serves[:, p])
        of_option = np.where(teams[:, options], price[options], np.inf)
        best = of_option.argmin(axis=1)
        cost += of_option[np.arange(len(teams)), best]
        domain[:, p] = options[best]
    return cost, domain


def _column_generation(
    problem: GridProblem, serves: BoolArray, teams: BoolArray, pp: int
) -> tuple[BoolArray | None, FloatArray]:
    """Teams whose rows can reach D under the capacities, in fractions, or ``None``; and the last prices."""
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    capacity = np.asarray(problem.capacities[: serves.shape[0]], dtype=float)
    room = [solver.Constraint(0.0, float(c)) for c in capacity]
    goal = solver.Constraint(0.0, float(problem.rows))
    objective = solver.Objective()
    objective.SetMaximization()
    known: set[bytes] = set()
    used: list[BoolArray] = []
    rows_on: list[pywraplp.Variable] = []
    price, wanted = 1.0 / capacity, np.inf
    for _ in range(_ROUNDS):
        candidates = _fill_up(serves, teams, pp, price)
        cost, domain = _cheapest_patterns(serves, candidates, price)
        before = len(used)
        for team in np.argsort(cost, kind="stable")[:_PER_ROUND]:
            if cost[team] >= wanted - _EPS:
                break
            pattern = np.bincount(domain[team], minlength=len(capacity))
            if (key := pattern.tobytes() + candidates[team].tobytes()) in known:
                continue
            known.add(key)
            used.append(candidates[team])
            variable = solver.NumVar(0.0, solver.infinity(), "")
            rows_on.append(variable)
            objective.SetCoefficient(variable, 1.0)
            goal.SetCoefficient(variable, 1.0)
            for k in np.flatnonzero(pattern):
                room[k].SetCoefficient(variable, float(pattern[k]))
        if len(used) == before or solver.Solve() != pywraplp.Solver.OPTIMAL:
            return None, price
        if objective.Value() >= problem.rows - _EPS:
            kept = [team for i, team in enumerate(used) if i >= before or rows_on[i].solution_value() > _EPS]
            return _with_unions(np.array(kept), pp), price
        price = np.maximum([constraint.dual_value() for constraint in room], 0.0)
        wanted = 1.0 - goal.dual_value()
    return None, price


def _with_unions(teams: BoolArray, pp: int) -> BoolArray:
    """Teams, and the unions of two of them that are small enough: whole rows may have to lie between the two."""
    first, second = np.triu_indices(len(teams))
    unions = teams[first] | teams[second]
    return np.unique(unions[unions.sum(axis=1) <= pp], axis=0)


def _round(problem: GridProblem, serves: BoolArray, teams: BoolArray, limit: Slice) -> IntArray | None:
    """Whole numbers of rows for teams, and the placement they make."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    rows = [model.new_int_var(0, problem.rows, "") for _ in teams]
    model.add(sum(rows) == problem.rows)
    load: list[list[cp_model.IntVar]] = [[] for _ in range(serves.shape[0])]
    cells_on: dict[tuple[int, int, int], cp_model.IntVar] = {}
    for t, team in enumerate(teams):
        for p in range(problem.columns):
            options = [int(k) for k in np.flatnonzero(team & serves[:, p])]
            for k in options:
                cells_on[t, p, k] = model.new_int_var(0, problem.rows, "")
                load[k].append(cells_on[t, p, k])
            model.add(sum(cells_on[t, p, k] for k in options) == rows[t])
    for k, cells in enumerate(load):
        if cells:
            model.add(sum(cells) <= problem.capacities[k])
    answer, solver = solve(model, limit)
    if answer != "yes":
        return None
    return _lay_out(problem, [solver.value(r) for r in rows], {key: solver.value(v) for key, v in cells_on.items()})


def _lay_out(problem: GridProblem, rows: Sequence[int], cells_on: dict[tuple[int, int, int], int]) -> IntArray:
    cells = np.empty((problem.rows, problem.columns), dtype=np.int32)
    top = dict.fromkeys(((t, p) for t in range(len(rows)) for p in range(problem.columns)), 0)
    first = [0, *accumulate(rows)]
    for (t, p, k), count in cells_on.items():
        start = first[t] + top[t, p]
        cells[start : start + count, p] = k
        top[t, p] += count
    return cells
