"""Set flow: interval flow with any sets of columns in place of intervals, for few columns and few different capacities.

Columns have no order, so nothing asks for intervals or arcs: a domain may serve any set of columns, and hosts rows on
all of it or on all but one.  A row is a *partition* of the columns into at most R sets.  On eight columns there are 255
sets and a thousand partitions into three, and where many domains are equal a linear program over them is small.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
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

_NOISE = 1e-3  # Rows that a domain on a set is worth at most, at random: all orders of the columns are as good

Partition = tuple[Segment, ...]


def set_flow(problem: GridProblem, pair: Pair, *, limit: FlowLimit, coverage: CoverageBound) -> IntArray | None:
    """Return a placement in which every domain serves a set of columns; ``None`` when none was found.

    Nothing found proves nothing.

    :returns: shape [rows, columns], the domain of each cell.
    """
    return _SetDives(problem, pair, coverage, limit).dive()


def count_sets(problem: GridProblem, pair: Pair, coverage: CoverageBound) -> int:
    """Return how many sets of columns domains of different capacity may serve: the size of the model."""
    allowed = coverage.widths_worth(pair)
    every = range(1, 1 << problem.columns)
    return sum(bool(allowed[c][chosen.bit_count()]) for c in allowed for chosen in every)


def partitions(columns: int, parts: int) -> list[Partition]:
    """Return the ways to divide the columns into at most so many sets, each a tuple of columns."""
    found: list[list[Segment]] = [[]]
    for column in range(columns):
        found = [
            [*sets[:i], (*(sets[i] if i < len(sets) else ()), column), *sets[i + 1 :]]
            for sets in found
            for i in range(min(len(sets) + 1, parts))
        ]
    return [tuple(sets) for sets in found]


class _SetDives(Dives):
    """A depth-first search over sets of columns."""

    def _worth(self, width: int) -> float:
        return super()._worth(width) + _NOISE * self._rng.random()

    def _columns(self, place: Segment) -> list[int]:
        return list(place)

    def _to_serve(self) -> list[Segment]:
        columns = range(self.problem.columns)
        return [some for width in range(1, len(columns) + 1) for some in combinations(columns, width)]

    def _segments(self, place: Segment) -> list[Segment]:
        return [place, *(combinations(place, len(place) - 1) if len(place) > 1 else ())]

    def _add_rows(self) -> pywraplp.Constraint:
        return _add_partitions(self.solver, self.problem, self.pp, self.hosted, whole=False)[0]

    def _whole_rows(self, limit: FlowLimit) -> IntArray | None:
        """Return a placement on the sets found, with rows on any part of them."""
        from ortools.linear_solver import pywraplp

        solver, problem = pywraplp.Solver.CreateSolver("SCIP"), self.problem
        hosted: dict[tuple[int, Segment], pywraplp.Variable] = {}
        on_set: dict[Segment, list[pywraplp.Variable]] = defaultdict(list)
        for k, place in self._places().items():
            cells = solver.Constraint(-solver.infinity(), problem.capacities[k])
            for width in range(1, len(place) + 1):
                for part in combinations(place, width):
                    y = hosted[k, part] = solver.IntVar(0, min(problem.rows, problem.capacities[k] // width), "")
                    cells.SetCoefficient(y, width)
                    on_set[part].append(y)
        _, cut = _add_partitions(solver, problem, self.pp, on_set, whole=True)
        if not found_whole(solver, limit):
            return None
        domains: dict[Segment, list[int]] = defaultdict(list)
        for (k, part), y in hosted.items():
            domains[part] += [k] * round(y.solution_value())
        every = [sets for sets, f in cut.items() for _ in range(round(f.solution_value()))]
        found = np.empty((problem.rows, problem.columns), dtype=np.int32)
        for row, sets in enumerate(every):
            for part in sets:
                found[row, list(part)] = domains[part].pop()
        return found

    def _places(self) -> dict[int, Segment]:
        """Return the set that each domain in use serves."""
        free = defaultdict(list)
        for k, c in enumerate(self.problem.capacities):
            free[c].append(k)
        served = [(c, place) for (c, place), z in self.serving.items() for _ in range(round(z.solution_value()))]
        return {free[c].pop(0): place for c, place in served}


def _add_partitions(
    solver: pywraplp.Solver,
    problem: GridProblem,
    pp: int,
    hosted: dict[Segment, list[pywraplp.Variable]],
    *,
    whole: bool,
) -> tuple[pywraplp.Constraint, dict[Partition, pywraplp.Variable]]:
    """Add the rows of every partition whose sets are hosted.

    :param hosted: variables whose sum is the rows on a set; ``whole``: in whole numbers.
    :returns: the constraint that there are D rows, and the rows of each partition.
    """
    of_set = {place: solver.Constraint(0, 0) for place in hosted}
    for place, rows in hosted.items():
        for y in rows:
            of_set[place].SetCoefficient(y, -1)
    start = solver.Constraint(problem.rows, problem.rows)
    found = {}
    for cut in partitions(problem.columns, pp):
        if all(place in of_set for place in cut):
            f = found[cut] = solver.Var(0, solver.infinity(), whole, "")
            start.SetCoefficient(f, 1)
            for place in cut:
                of_set[place].SetCoefficient(f, 1)
    return start, found
