"""From a skeleton to a placement: given the domains each column may use, find rows that touch few of them.

A *skeleton* says for every column which domains serve it (at most S).  A row then follows a *cover*, a set of at most R
domains that together serve all columns, with each cell going to one domain of the cover that serves its column.  How
many rows can be had under the capacities is a linear program over *patterns* (a cover, and how many cells each domain
gives), solved by column generation; when it reaches D, a small integer program over the covers that it used gives a
placement: for whole numbers of rows per cover the rest is a flow, hence integral.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from scheduler.placement.cpsat import Slice, solve
from scheduler.placement.exact.grid.params import DEFAULTS, ExactParams
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.work_clock import spend
from topology.cluster import BoolArray, FloatArray, IntArray

# Of work: to solve a linear program of patterns and look for better ones, and to look at a domain of a cover for that
_ROUND_SECONDS, _COVER_SECONDS = 2e-3, 1e-7

_EPS = 1e-6  # Prices and numbers of rows closer than this are equal: the linear program works in floating point


@dataclass(frozen=True, slots=True)
class Realised:
    """A placement made of a skeleton, or why there is none."""

    # shape [rows, columns], the domain of each cell; None when none was found (which proves nothing)
    cells: IntArray | None
    # shape [domains], prices of a cell in each domain at which no row that the search knows is as cheap as the average
    # row has to be; None when fractions of rows could be had
    prices: IntArray | None = None


def realise(
    problem: GridProblem, serves: BoolArray, *, pp: int, limit: Slice, params: ExactParams = DEFAULTS
) -> Realised:
    """Place each cell of column p in a domain k with ``serves[k, p]``, in every row at most ``pp`` of them."""
    covers = _covers(serves, pp, params.most_covers)
    if not len(covers):
        # no row at all, so any prices will do
        return Realised(None, np.zeros(serves.shape[0], dtype=np.int32))
    chosen, price = _column_generation(problem, serves, covers, pp, params)
    if chosen is None:
        dearest = max(float(price.max()), _EPS)
        return Realised(None, np.floor(params.price_unit * price / dearest).astype(np.int32))
    return Realised(_round(problem, serves, chosen, limit))


def _covers(serves: BoolArray, pp: int, most: int) -> BoolArray:
    """Return sets of at most ``pp`` domains that serve all columns, shape [covers, domains], up to so many.

    Branches on the uncovered column with the fewest domains; sets smaller than ``pp`` are filled up later, by price.
    """
    domains_of = [tuple(int(k) for k in np.flatnonzero(column)) for column in serves.T]
    # sets of columns and of domains as bits of an integer
    serves_bits = [int("".join("1" if s else "0" for s in reversed(row)), 2) for row in serves]
    everything = (1 << serves.shape[1]) - 1
    found: set[int] = set()
    visited: set[int] = set()
    stack: list[tuple[int, int]] = [(0, 0)]
    while stack and len(found) < most:
        cover, covered = stack.pop()
        if covered == everything:
            found.add(cover)
            continue
        if cover.bit_count() == pp:
            continue
        column = min((p for p in range(len(domains_of)) if not covered >> p & 1), key=lambda p: len(domains_of[p]))
        for k in domains_of[column]:
            larger = cover | 1 << k
            if larger not in visited:
                visited.add(larger)
                stack.append((larger, covered | serves_bits[k]))
    return np.array([[cover >> k & 1 for k in range(serves.shape[0])] for cover in sorted(found)], dtype=np.bool_)


def _fill_up(serves: BoolArray, covers: BoolArray, pp: int, price: FloatArray) -> BoolArray:
    """Return the covers, those smaller than ``pp`` joined one after another by the domain that saves most."""
    filled = covers.copy()
    for _ in range(pp):
        small = np.flatnonzero(filled.sum(axis=1) < pp)
        paid = price[_cheapest_patterns(serves, filled[small], price)[1]]
        saved = np.stack([np.maximum(paid - p, 0.0) @ s for p, s in zip(price, serves, strict=True)], axis=1)
        useful = saved.max(axis=1, initial=0.0) > _EPS
        if not useful.any():
            break
        filled[small[useful], saved[useful].argmax(axis=1)] = True
    return filled


def _cheapest_patterns(serves: BoolArray, covers: BoolArray, price: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the price of each cover's cheapest row, shape [covers], and its domains, shape [covers, columns]."""
    cost = np.zeros(len(covers))
    domain = np.empty((len(covers), serves.shape[1]), dtype=np.int32)
    for p in range(serves.shape[1]):
        options = np.flatnonzero(serves[:, p])
        of_option = np.where(covers[:, options], price[options], np.inf)
        best = of_option.argmin(axis=1)
        cost += of_option[np.arange(len(covers)), best]
        domain[:, p] = options[best]
    return cost, domain


def _column_generation(
    problem: GridProblem, serves: BoolArray, covers: BoolArray, pp: int, params: ExactParams
) -> tuple[BoolArray | None, FloatArray]:
    """Return covers with rows that can reach D under the capacities, in fractions, or ``None``; and the last prices.

    Master: max sum y_t over patterns t, with sum_t n_tk * y_t <= c_k for each domain and sum y_t <= D.  Pricing: a new
    pattern improves it when its cells, at the dual prices of the domains, cost less than 1 minus the dual of D.
    """
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    capacity = np.asarray(problem.capacities[: serves.shape[0]], dtype=float)
    room = [solver.Constraint(0.0, float(c)) for c in capacity]
    # D rows are enough: without this limit prices would go on improving what is good already
    goal = solver.Constraint(0.0, float(problem.rows))
    objective = solver.Objective()
    objective.SetMaximization()
    known: set[bytes] = set()
    used: list[BoolArray] = []
    rows_on: list[pywraplp.Variable] = []
    # before the first duals: cells of small domains are dear, and any pattern is welcome
    price, wanted = 1.0 / capacity, np.inf
    for _ in range(params.pricing_rounds):
        candidates = _fill_up(serves, covers, pp, price)
        spend(_ROUND_SECONDS + _COVER_SECONDS * covers.size)
        cost, domain = _cheapest_patterns(serves, candidates, price)
        before = len(used)
        for cover in np.argsort(cost, kind="stable")[: params.patterns_per_round]:
            if cost[cover] >= wanted - _EPS:
                break
            pattern = np.bincount(domain[cover], minlength=len(capacity))
            if (key := pattern.tobytes() + candidates[cover].tobytes()) in known:
                continue
            known.add(key)
            used.append(candidates[cover])
            variable = solver.NumVar(0.0, solver.infinity(), "")
            rows_on.append(variable)
            objective.SetCoefficient(variable, 1.0)
            goal.SetCoefficient(variable, 1.0)
            for k in np.flatnonzero(pattern):
                room[k].SetCoefficient(variable, float(pattern[k]))
        if len(used) == before or solver.Solve() != pywraplp.Solver.OPTIMAL:
            return None, price
        if objective.Value() >= problem.rows - _EPS:
            # those in use, and the newest, which may help to round
            kept = [cover for i, cover in enumerate(used) if i >= before or rows_on[i].solution_value() > _EPS]
            return _with_unions(np.array(kept), pp), price
        price = np.maximum([constraint.dual_value() for constraint in room], 0.0)
        wanted = 1.0 - goal.dual_value()
    return None, price


def _with_unions(covers: BoolArray, pp: int) -> BoolArray:
    """Return covers, and unions of two of them that are small enough: whole rows may have to lie between the two."""
    first, second = np.triu_indices(len(covers))
    unions = covers[first] | covers[second]
    return np.unique(unions[unions.sum(axis=1) <= pp], axis=0)


def _round(problem: GridProblem, serves: BoolArray, covers: BoolArray, limit: Slice) -> IntArray | None:
    """Find whole numbers of rows for covers, and return the placement they make."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    rows = [model.new_int_var(0, problem.rows, "") for _ in covers]
    model.add(sum(rows) == problem.rows)
    load: list[list[cp_model.IntVar]] = [[] for _ in range(serves.shape[0])]
    cells_on: dict[tuple[int, int, int], cp_model.IntVar] = {}
    for t, cover in enumerate(covers):
        for p in range(problem.columns):
            options = [int(k) for k in np.flatnonzero(cover & serves[:, p])]
            for k in options:
                cells_on[t, p, k] = model.new_int_var(0, problem.rows, "")
                load[k].append(cells_on[t, p, k])
            # each row of the cover has one cell in column p, in a domain of the cover that serves it
            model.add(sum(cells_on[t, p, k] for k in options) == rows[t])
    for k, cells in enumerate(load):
        if cells:
            model.add(sum(cells) <= problem.capacities[k])
    answer, solver = solve(model, limit)
    if answer != "yes":
        return None
    return _lay_out(problem, [solver.value(r) for r in rows], {key: solver.value(v) for key, v in cells_on.items()})


def _lay_out(problem: GridProblem, rows: Sequence[int], cells_on: dict[tuple[int, int, int], int]) -> IntArray:
    """Lay the rows of each cover together; in each column its domains follow one another, with so many ``cells_on``."""
    cells = np.empty((problem.rows, problem.columns), dtype=np.int32)
    top = dict.fromkeys(((t, p) for t in range(len(rows)) for p in range(problem.columns)), 0)
    first = [0, *accumulate(rows)]
    for (t, p, k), count in cells_on.items():
        start = first[t] + top[t, p]
        cells[start : start + count, p] = k
        top[t, p] += count
    return cells
