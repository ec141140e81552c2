"""Ring flow: interval flow on columns that have no first and no last one.

Columns are interchangeable, so they may as well lie on a ring: a domain serves an arc of it, and a row is cut at up to
R of its joints.  Arcs across the joint of the last and the first column let all columns have equally many domains,
where intervals crowd in the middle.  A row is a *tiling* of the ring, its joints; there are few enough of them to be
listed where R is small, or the columns are few.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.exact.bounds import CoverageBound
from scheduler.placement.exact.interval_flow import Dives
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.whole_rows import FlowLimit, Segment, found_whole
from scheduler.placement.types import Pair
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.linear_solver import pywraplp

_NOISE = 1e-3  # Rows that a domain on an arc is worth at most, at random

Tiling = tuple[Segment, ...]  # arcs of columns l, ..., r - 1, counted on past the last, that make a row


def ring_flow(problem: GridProblem, pair: Pair, *, limit: FlowLimit, coverage: CoverageBound) -> IntArray | None:
    """Return a placement in which every domain serves an arc of a ring of columns; ``None`` when none was found.

    Nothing found proves nothing.

    :returns: shape [rows, columns], the domain of each cell.
    """
    return _RingDives(problem, pair, coverage, limit).dive()


def count_tilings(problem: GridProblem, pair: Pair) -> int:
    """Return in how many ways a row may be cut."""
    return 1 + sum(comb(problem.columns, joints) for joints in range(2, min(pair[1], problem.columns) + 1))


def count_arcs(problem: GridProblem, pair: Pair, coverage: CoverageBound) -> int:
    """Return on how many arcs domains of different capacity may lie: the size of the model."""
    allowed = coverage.widths_worth(pair)
    columns = problem.columns
    return sum(1 if width == columns else columns for c in allowed for width in np.flatnonzero(allowed[c]) if width)


def _tilings(columns: int, pp: int) -> list[Tiling]:
    cuts = [joints for count in range(2, pp + 1) for joints in combinations(range(columns), count)]
    return [((0, columns),), *(tuple(zip(cut, (*cut[1:], cut[0] + columns), strict=True)) for cut in cuts)]


def _on_ring(left: int, right: int, columns: int) -> Segment:
    """Return an arc as it is listed: it begins at a column of the grid, and the whole ring at the first."""
    start = 0 if right - left >= columns else left % columns
    return start, start + min(right - left, columns)


class _RingDives(Dives):
    """A depth-first search over arcs."""

    def _worth(self, width: int) -> float:
        # all turns of the ring are as good: a little noise chooses others with every seed
        return super()._worth(width) + _NOISE * self._rng.random()

    def _to_serve(self) -> list[Segment]:
        columns = self.problem.columns
        arcs = [(left, left + width) for width in range(1, columns) for left in range(columns)]
        return [*arcs, (0, columns)]

    def _segments(self, place: Segment) -> list[Segment]:
        left, right = place
        columns = self.problem.columns
        if right - left == columns:
            shorter = [(i, i + columns - 1) for i in range(columns)]
        else:
            shorter = [(left + 1, right), (left, right - 1)]
        return sorted({(left, right), *(_on_ring(*s, columns) for s in shorter if s[0] < s[1])})

    def _add_rows(self) -> pywraplp.Constraint:
        return _add_tilings(self.solver, self.problem, self.pp, self.hosted, whole=False)[0]

    def _whole_rows(self, limit: FlowLimit) -> IntArray | None:
        return _rows_on_arcs(self.problem, self._arcs(), pp=self.pp, limit=limit)

    def _arcs(self) -> dict[int, Segment]:
        """Return the arcs of domains, wider ones where columns have fewer than S domains: short ones first."""
        columns = self.problem.columns
        free: dict[int, list[int]] = defaultdict(list)
        arcs: dict[int, Segment] = {}
        room = np.full(columns, self.dp)
        for k, c in enumerate(self.problem.capacities):
            free[c].append(k)
        for (c, (left, right)), z in self.serving.items():
            for _ in range(round(z.solution_value())):
                arcs[free[c].pop(0)] = (left, right)
                room[[column % columns for column in range(left, right)]] -= 1
        for k in sorted(arcs, key=lambda k: (arcs[k][1] - arcs[k][0], k)):
            left, right = arcs[k]
            while right - left < columns and room[(left - 1) % columns]:
                left -= 1
                room[left % columns] -= 1
            while right - left < columns and room[right % columns]:
                room[right % columns] -= 1
                right += 1
            arcs[k] = _on_ring(left, right, columns)
        return arcs


def _add_tilings(
    solver: pywraplp.Solver,
    problem: GridProblem,
    pp: int,
    hosted: dict[Segment, list[pywraplp.Variable]],
    *,
    whole: bool,
) -> tuple[pywraplp.Constraint, dict[Tiling, pywraplp.Variable]]:
    """Add the rows of every tiling whose arcs are hosted.

    :param hosted: variables whose sum is the rows on an arc; ``whole``: in whole numbers.
    :returns: the constraint that there are D rows, and the rows of each tiling.
    """
    of_arc = {arc: solver.Constraint(0, 0) for arc in hosted}
    for arc, rows in hosted.items():
        for y in rows:
            of_arc[arc].SetCoefficient(y, -1)
    start = solver.Constraint(problem.rows, problem.rows)
    found = {}
    for tiling in _tilings(problem.columns, pp):
        arcs = [_on_ring(left, right, problem.columns) for left, right in tiling]
        if all(arc in of_arc for arc in arcs):
            f = found[tiling] = solver.Var(0, solver.infinity(), whole, "")
            start.SetCoefficient(f, 1)
            for arc in arcs:
                of_arc[arc].SetCoefficient(f, 1)
    return start, found


def _rows_on_arcs(problem: GridProblem, arcs: dict[int, Segment], *, pp: int, limit: FlowLimit) -> IntArray | None:
    """Return a placement in which each domain serves its arc and each row has ``pp`` arcs at most.

    :returns: shape [rows, columns], the domain of each cell; ``None`` when none was found.
    """
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("SCIP")
    columns = problem.columns
    hosted: dict[tuple[int, Segment], pywraplp.Variable] = {}
    on_arc: dict[Segment, list[pywraplp.Variable]] = defaultdict(list)
    for k, (left, right) in arcs.items():
        cells = solver.Constraint(-solver.infinity(), problem.capacities[k])
        ends = [(i, j) for i in range(left, right) for j in range(i + 1, right + 1)]
        if right - left == columns:  # all arcs of the ring
            ends = [(i, i + width) for i in range(columns) for width in range(1, columns)] + [(0, columns)]
        for i, j in ends:
            arc = _on_ring(i, j, columns)
            y = hosted[k, arc] = solver.IntVar(0, min(problem.rows, problem.capacities[k] // (j - i)), "")
            cells.SetCoefficient(y, j - i)
            on_arc[arc].append(y)
    _, tilings = _add_tilings(solver, problem, pp, on_arc, whole=True)
    if not found_whole(solver, limit):
        return None
    rows = {tiling: round(f.solution_value()) for tiling, f in tilings.items()}
    return _lay_out(problem, rows, {key: round(y.solution_value()) for key, y in hosted.items()})


def _lay_out(problem: GridProblem, rows: dict[Tiling, int], hosted: dict[tuple[int, Segment], int]) -> IntArray:
    """Lay out the rows of each tiling; rows on one arc go to its domains in any order."""
    domains: dict[Segment, list[int]] = defaultdict(list)
    for (k, arc), count in hosted.items():
        domains[arc] += [k] * count
    cells = np.empty((problem.rows, problem.columns), dtype=np.int32)
    every = (tiling for tiling, count in rows.items() for _ in range(count))
    for row, tiling in enumerate(every):
        for left, right in tiling:
            k = domains[_on_ring(left, right, problem.columns)].pop()
            cells[row, [column % problem.columns for column in range(left, right)]] = k
    return cells
