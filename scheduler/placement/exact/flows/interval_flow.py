"""Interval flow: each domain serves an interval of the columns, and rows are paths across the columns.

A row is cut into at most R segments, from the first column to the last.  A domain that serves the columns from l to r
hosts the segment of all its columns and those that leave out the first or the last: so it can use up its nodes
whatever their number, and every row may be cut at columns of its own.  Column bands, ragged bands and rows cut in two
are all of this shape.

Intervals are found by dives in a linear program.  Equal domains are counted, not told apart, and rows are a flow, in
fractions.  One interval after another is taken for good, each time one that the program nearly takes anyway, while D
rows can still be had.  It asks for many rows on few columns served, which leaves most room for what is chosen later;
every other dive asks for domains at random in its place.  With the intervals given, whole rows of any segments within
them are an integer program of hundredths of a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.exact.flows.whole_rows import (
    ITERATION_SECONDS,
    FlowLimit,
    Segment,
    add_rows,
    limit_time,
    rows_on_intervals,
)
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.exact.pairs.bounds import CoverageBound
from scheduler.placement.types import Pair
from scheduler.work_clock import clock, spend
from topology.cluster import BoolArray, IntArray

if TYPE_CHECKING:
    from ortools.linear_solver import pywraplp

_PRICE = 0.05  # Rows that a domain in a column is worth: slots to spare let whole rows be made of fractions
_GIFT = 0.02  # Part of the rows that a domain in use is worth at most, with odd seeds
_ROUNDED = 1e-6  # What linear programs may be off

# Of work for each variable: to make it, and to solve a program once more
_MADE_SECONDS, _PROGRAM_SECONDS = 2e-5, 1e-6


def interval_flow(problem: GridProblem, pair: Pair, *, limit: FlowLimit, coverage: CoverageBound) -> IntArray | None:
    """Return a placement in which every domain serves an interval of the columns; ``None`` when none was found.

    Nothing found proves nothing.

    :returns: shape [rows, columns], the domain of each cell.
    """
    return Dives(problem, pair, coverage, limit).dive()


def count_intervals(problem: GridProblem, pair: Pair) -> int:
    """Return the number of intervals that domains of different capacity may serve: the size of the model."""
    return len(_intervals(problem.columns, pair[1])) * len(set(problem.capacities))


def _intervals(columns: int, pp: int) -> list[Segment]:
    """Return the intervals that a domain may serve; with two segments to a row each begins or ends it."""
    every = ((left, right) for left in range(columns) for right in range(left + 1, columns + 1))
    return [s for s in every if pp > 2 or s[0] == 0 or s[1] == columns]


class Dives:
    """A depth-first search over the intervals that the domains of each capacity serve."""

    def __init__(self, problem: GridProblem, pair: Pair, coverage: CoverageBound, limit: FlowLimit) -> None:
        from ortools.linear_solver import pywraplp

        self.problem, self.limit = problem, limit
        self.dp, self.pp = pair
        self.solver = pywraplp.Solver.CreateSolver("GLOP")
        kinds, counts = np.unique(problem.capacities[: self.dp * problem.columns], return_counts=True)
        self.kinds = [(int(c), int(n)) for c, n in zip(kinds[::-1], counts[::-1], strict=True)]
        self.serving: dict[tuple[int, Segment], pywraplp.Variable] = {}
        self.hosted: dict[Segment, list[pywraplp.Variable]] = defaultdict(list)  # rows on each segment
        self._add_domains(coverage)
        start = self._add_rows()
        start.SetBounds(problem.rows, self.solver.infinity())
        objective = self.solver.Objective()
        for f in (f for f in self.solver.variables() if start.GetCoefficient(f)):
            objective.SetCoefficient(f, 1)
        self._rng = np.random.default_rng(limit.seed)
        for (_, place), z in self.serving.items():
            objective.SetCoefficient(z, self._worth(len(self._columns(place))))
        objective.SetMaximization()
        spend(_MADE_SECONDS * self.solver.NumVariables())
        self._left, self._roundings = limit.programs, limit.roundings
        self._end = clock() + limit.seconds

    def dive(self) -> IntArray | None:
        """Return a placement within the bounds that the variables have now, or nothing."""
        if not self._left or not self._roundings or clock() > self._end or not self._enough():
            return None
        served = list(self.serving.values())
        values = np.array([z.solution_value() for z in served])
        below = np.floor(values + _ROUNDED)
        part = values - below
        if part.max(initial=0.0) > _ROUNDED:
            # the largest fraction, but not always: by a random factor between 1 and 1.5
            k = int((part * (1 + 0.5 * self._rng.random(len(part)))).argmax())
        else:
            self._roundings -= 1
            cells = self._whole_rows(replace(self.limit, seconds=self._end - clock()))
            k = next((i for i, z in enumerate(served) if z.lb() < z.ub()), -1)
            if cells is not None or k < 0:
                return cells
        z = served[k]
        lower, upper = z.lb(), z.ub()
        split = min(float(below[k]), upper - 1)
        for bounds in ((split + 1, upper), (lower, split)):
            z.SetBounds(*bounds)
            cells = self.dive()
            z.SetBounds(lower, upper)
            if cells is not None:
                return cells
        return None

    def _enough(self) -> bool:
        """Return whether D rows can be had, in fractions."""
        from ortools.linear_solver import pywraplp

        self._left -= 1
        limit_time(self.solver, self._end - clock())
        settings = pywraplp.MPSolverParameters()
        settings.SetIntegerParam(settings.LP_ALGORITHM, settings.DUAL)
        settings.SetIntegerParam(settings.PRESOLVE, settings.PRESOLVE_OFF)
        status = self.solver.Solve(settings)
        spend((_PROGRAM_SECONDS + ITERATION_SECONDS * self.solver.iterations()) * self.solver.NumVariables())
        return bool(status == pywraplp.Solver.OPTIMAL)

    def _add_domains(self, coverage: CoverageBound) -> None:
        """Add the domains of each capacity that serve an interval, and the rows on its segments."""
        problem, solver = self.problem, self.solver
        inf, columns = solver.infinity(), problem.columns
        at_column = [solver.Constraint(-inf, self.dp) for _ in range(columns)]
        allowed = coverage.widths_worth((self.dp, self.pp))
        for c, count in self.kinds:
            of_kind = solver.Constraint(-inf, count)
            for place in self._to_serve():
                width = len(self._columns(place))
                if width > c or not allowed[c][width]:
                    continue
                z = self.serving[c, place] = solver.NumVar(0, count, "")
                of_kind.SetCoefficient(z, 1)
                for column in self._columns(place):
                    at_column[column].SetCoefficient(z, 1)
                cells, rows = solver.Constraint(-inf, 0), solver.Constraint(-inf, 0)
                cells.SetCoefficient(z, -c)
                rows.SetCoefficient(z, -min(problem.rows, c))
                for part in self._segments(place):
                    y = solver.NumVar(0, inf, "")
                    cells.SetCoefficient(y, len(self._columns(part)))
                    rows.SetCoefficient(y, 1)
                    self.hosted[part].append(y)

    def _columns(self, place: Segment) -> list[int]:
        """Return the columns of an interval."""
        return [column % self.problem.columns for column in range(*place)]

    def _worth(self, width: int) -> float:
        """Return what a domain on so many columns is worth in rows; what one of the two misses the other often has:
        few columns served, or many domains, at random.
        """
        return _GIFT * self.problem.rows * self._rng.random() if self.limit.seed % 2 else -_PRICE * width

    def _to_serve(self) -> list[Segment]:
        """Return the intervals that a domain may serve."""
        return _intervals(self.problem.columns, self.pp)

    def _add_rows(self) -> pywraplp.Constraint:
        """Add the rows, and return the constraint on how many there are."""
        return add_rows(self.solver, self.problem, self.pp, self.hosted, whole=False)[0]

    def _whole_rows(self, limit: FlowLimit) -> IntArray | None:
        """Return a placement on the intervals found."""
        return rows_on_intervals(self.problem, self._found(), pp=self.pp, limit=limit)

    def _served(self) -> Iterator[tuple[int, Segment]]:
        """Yield each domain in use and the place that it serves; equal domains in any order."""
        free = defaultdict(list)
        for k, c in enumerate(self.problem.capacities):
            free[c].append(k)
        for (c, place), z in self.serving.items():
            for _ in range(round(z.solution_value())):
                yield free[c].pop(0), place

    def _found(self) -> BoolArray:
        """Return the intervals found, and wider ones where columns have fewer than S domains: narrow ones first."""
        columns = self.problem.columns
        serves = np.zeros((len(self.problem.capacities), columns), dtype=np.bool_)
        for k, (left, right) in self._served():
            serves[k, left:right] = True
        room = self.dp - serves.sum(axis=0)
        for k in np.argsort(serves.sum(axis=1), kind="stable"):
            if not serves[k].any():
                continue
            left, right = int(serves[k].argmax()), columns - int(serves[k][::-1].argmax())
            while left > 0 and room[left - 1]:
                left -= 1
                serves[k, left], room[left] = True, room[left] - 1
            while right < columns and room[right]:
                serves[k, right], room[right] = True, room[right] - 1
                right += 1
        return serves

    def _segments(self, place: Segment) -> list[Segment]:
        """Return the segments of an interval that rows may have."""
        left, right = place
        some: set[Segment] = {(left, right)}
        if right - left > 1:
            some |= {(left + 1, right), (left, right - 1)}
        return sorted(s for s in some if self.pp > 2 or s[0] == 0 or s[1] == self.problem.columns)
