"""Constructions that a small model fills in: bands, the workhorse, and rows cut in two.

**Column bands.**  Cut the columns into b <= R bands of widths w_1 >= ... >= w_b.  In each band every row lies in one
domain, so a row touches at most b domains; with at most S domains in each band a column touches at most S.  What is
left to choose is how many rows each domain hosts in each band: K * b integers, milliseconds for CP-SAT, whatever the
number of nodes.

**Ragged bands**, for clusters so full that whole rows of a band cannot be cut out of the domains: a domain gives a band
any number of cells, laid row after row, so that two domains may share a row of the band.  Nothing is wasted, at the
price of one: with b bands a row touches b domains, and one more where a boundary falls into it.  Turning each band's
rows against the others keeps two boundaries out of one row: R = b + 1.

**Rows cut in two**, each where it suits: for R = 2 on clusters so full that bands leave too many nodes over.  What is
left of the cut lies in a *left* domain, the rest in a *right* one.  A left domain of width q hosts rows cut at q or at
q - 1, so that it can use up its nodes whatever their number; it serves columns 0 .. q - 1, a right one the last q.  Any
rows of equal cut can be put together: what is left to choose is side and width of each domain and its rows at either
cut, a model of some hundred variables without symmetric columns.  SCIP finds its solutions where CP-SAT does not: the
linear relaxation is tight, and says which widths to try.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.exact.cpsat import Slice, solve
from scheduler.placement.exact.params import DEFAULTS, ExactParams
from scheduler.placement.exact.problem import GridProblem
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.linear_solver import pywraplp

Rows = dict[tuple[int, int], "pywraplp.Variable"]
"""Rows that a domain hosts on one side, by (domain, how many cells of each)."""


def partitions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a number as that many positive parts in descending order, the most even first."""

    def with_largest(left: int, parts: int, largest: int) -> Iterator[tuple[int, ...]]:
        if parts == 1:
            if left <= largest:
                yield (left,)
            return
        for first in range(-(-left // parts), min(largest, left - parts + 1) + 1):
            for rest in with_largest(left - first, parts - 1, first):
                yield (first, *rest)

    return with_largest(total, parts, total)


def column_bands(
    problem: GridProblem, *, dp: int, widths: Sequence[int], limit: Slice, whole: bool = False
) -> IntArray | None:
    """Return a placement with these column bands and at most ``dp`` domains in each.

    :param widths: widths of the bands, sum = columns.
    :param whole: each domain serves one band only, with all the rows it can: faster on clusters of many nodes.
    :returns: shape [rows, columns], the domain of each cell; ``None`` when none was found.
    """
    rows_in = _one_band_each(problem, dp, widths, limit) if whole else _shared(problem, dp, widths, limit)
    if rows_in is None:
        return None
    return lay_bands(problem, widths, rows_in)


def lay_bands(problem: GridProblem, widths: Sequence[int], rows_in: IntArray) -> IntArray:
    """Return the domain of each cell, shape [rows, columns], from the rows of each domain in each band.

    :param rows_in: shape [domains, bands]; rows of a band beyond D are left out.
    """
    cells = np.empty((problem.rows, problem.columns), dtype=np.int32)
    left = 0
    for band, width in enumerate(widths):
        domains = np.repeat(np.arange(rows_in.shape[0], dtype=np.int32), rows_in[:, band])
        cells[:, left : left + width] = domains[: problem.rows, None]
        left += width
    return cells


def _shared(problem: GridProblem, dp: int, widths: Sequence[int], limit: Slice) -> IntArray | None:
    """Return the rows that each domain hosts in each band, shape [domains, bands]; a domain may serve several bands."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    # S domains in each of b bands are at most S * b, and the largest do as well as any
    capacities = problem.capacities[: dp * len(widths)]
    hosts: dict[tuple[int, int], cp_model.IntVar] = {}
    for band, width in enumerate(widths):
        uses = []
        for k, capacity in enumerate(capacities):
            if top := min(problem.rows, capacity // width):
                hosts[k, band] = model.new_int_var(0, top, "")
                use = model.new_bool_var("")
                model.add(hosts[k, band] <= top * use)
                uses.append(use)
        if not uses:
            return None
        # every row of the band lies in a domain
        model.add(sum(hosts[k, band] for k in range(len(capacities)) if (k, band) in hosts) == problem.rows)
        # a column of the band touches all domains of the band
        model.add(sum(uses) <= dp)
    for k, capacity in enumerate(capacities):
        load = [width * hosts[k, band] for band, width in enumerate(widths) if (k, band) in hosts]
        # one band alone is within the capacity by the bound of its variable
        if len(load) > 1:
            model.add(sum(load) <= capacity)
    answer, solver = solve(model, limit)
    if answer != "yes":
        return None
    rows_in = np.zeros((len(capacities), len(widths)), dtype=np.int32)
    for (k, band), variable in hosts.items():
        rows_in[k, band] = solver.value(variable)
    return rows_in


def _one_band_each(problem: GridProblem, dp: int, widths: Sequence[int], limit: Slice) -> IntArray | None:
    """Return the same with each domain in one band: booleans instead of rows, and nothing to pack into a domain."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    serves: dict[tuple[int, int], cp_model.IntVar] = {}
    for k, capacity in enumerate(problem.capacities):
        for band, width in enumerate(widths):
            if capacity >= width:
                serves[k, band] = model.new_bool_var("")
        model.add_at_most_one(serves[k, band] for band in range(len(widths)) if (k, band) in serves)
    for band, width in enumerate(widths):
        here = [k for k in range(len(problem.capacities)) if (k, band) in serves]
        if not here:
            return None
        # all rows that the domains of the band can host; what they host beyond D is left free below
        rows = sum(min(problem.rows, problem.capacities[k] // width) * serves[k, band] for k in here)
        model.add(rows >= problem.rows)
        model.add(sum(serves[k, band] for k in here) <= dp)
    answer, solver = solve(model, limit)
    if answer != "yes":
        return None
    rows_in = np.zeros((len(problem.capacities), len(widths)), dtype=np.int32)
    for band, width in enumerate(widths):
        left = problem.rows
        for k in range(len(problem.capacities)):
            if (k, band) in serves and solver.value(serves[k, band]):
                rows_in[k, band] = min(left, problem.capacities[k] // width)
                left -= int(rows_in[k, band])
    return rows_in


def ragged_bands(
    problem: GridProblem, *, dp: int, widths: Sequence[int], limit: Slice, params: ExactParams = DEFAULTS
) -> IntArray | None:
    """Return a placement with these bands, ragged, and at most ``dp`` domains in each; see :func:`column_bands`."""
    cells_in = _share_out(problem, dp, widths, limit)
    if cells_in is None:
        return None
    cells = np.empty((problem.rows, problem.columns), dtype=np.int32)
    domains_in_row = np.zeros(problem.rows, dtype=np.int32)
    left = 0
    for band, width in enumerate(widths):
        used = np.flatnonzero(cells_in[:, band]).astype(np.int32)
        laid = np.repeat(used, cells_in[used, band]).reshape(problem.rows, width)
        touched = 1 + (np.diff(laid, axis=1) != 0).sum(axis=1).astype(np.int32)
        turn = _best_turn(domains_in_row, touched, params)
        domains_in_row += np.roll(touched, turn)
        cells[:, left : left + width] = np.roll(laid, turn, axis=0)
        left += width
    return cells


def _best_turn(so_far: IntArray, touched: IntArray, params: ExactParams) -> int:
    """Return the rows by which to turn a band so that the fullest row is least full, and few rows are.

    :param so_far: shape [rows], domains that each row touches in the bands before; ``touched``: in this one.
    """
    rows = len(so_far)
    steps = np.unique(np.linspace(0, rows - 1, min(rows, params.ragged_turns)).astype(int))
    totals = [np.sort(so_far + np.roll(touched, step))[::-1] for step in steps]
    return int(steps[min(range(len(steps)), key=lambda i: tuple(totals[i][: params.ragged_rows]))])


def _share_out(problem: GridProblem, dp: int, widths: Sequence[int], limit: Slice) -> IntArray | None:
    """Return the cells that each domain gives to each band, shape [domains, bands]."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    capacities = problem.capacities[: dp * len(widths)]
    gives = [[model.new_int_var(0, capacity, "") for _ in widths] for capacity in capacities]
    uses = [[model.new_bool_var("") for _ in widths] for _ in capacities]
    for k, capacity in enumerate(capacities):
        model.add(sum(gives[k]) <= capacity)
        for cells, use in zip(gives[k], uses[k], strict=True):
            model.add(cells <= capacity * use)
    for band, width in enumerate(widths):
        model.add(sum(cells[band] for cells in gives) == problem.rows * width)
        # a column of the band touches at most all domains of the band
        model.add(sum(use[band] for use in uses) <= dp)
    answer, solver = solve(model, limit)
    if answer != "yes":
        return None
    return np.array([[solver.value(cells) for cells in row] for row in gives], dtype=np.int32)


def cut_rows(problem: GridProblem, *, dp: int, seconds: float, nodes: int, seed: int) -> IntArray | None:
    """Return a placement in which every row touches at most two domains and every column at most ``dp``.

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
