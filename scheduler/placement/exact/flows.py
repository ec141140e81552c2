"""Flows: every domain serves an interval of the columns, and a row is a path of at most R segments within these.

A linear program chooses the intervals, with the rows as a flow in fractions; a dive rounds them, and SCIP makes whole
rows.  Bands may be peeled off first.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, combinations
from math import comb, inf, sqrt
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.exact.bands import lay_bands
from scheduler.placement.exact.bounds import CoverageBound, product_bound
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from scheduler.work_clock import clock, spend, wall_left
from topology.cluster import BoolArray, IndexArray, IntArray

if TYPE_CHECKING:
    from ortools.linear_solver import pywraplp

# Whole rows on the intervals that domains serve: an integer program of hundredths of a second.
#
# Every row is a path over the columns of segments within the intervals.  In fractions the rows are the same flow, which
# the linear programs below have.


Segment = tuple[int, ...]  # (l, r) for the columns l, ..., r - 1

ITERATION_SECONDS = 2e-8  # Of work, that an iteration of a program takes for each variable
# Linear programs of a quick dive, in which whole rows are looked for once, which takes as long: on 150 x 8 cells a dive
# that succeeds takes 15 to 18, a hundredth of a second each
PROGRAMS = 40
_ROUNDING_SECONDS = 1e-2  # Of work, that whole rows take besides
_ROUNDING_NODES = 200  # Nodes of SCIP's tree for whole rows: mostly the first has them, or none


@dataclass(frozen=True, slots=True)
class FlowLimit:
    """How long a search for intervals may go on."""

    seconds: float
    programs: int  # linear programs solved, the same whatever the clock says; to look for whole rows counts as some
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


# Interval flow: each domain serves an interval of the columns, and rows are paths across the columns.
#
# A row is cut into at most R segments, from the first column to the last.  A domain that serves the columns from l to r
# hosts the segment of all its columns and those that leave out the first or the last: so it can use up its nodes
# whatever their number, and every row may be cut at columns of its own.  Column bands, ragged bands and rows cut in two
# are all of this shape.
#
# Intervals are found by dives in a linear program.  Equal domains are counted, not told apart, and rows are a flow, in
# fractions.  One interval after another is taken for good, each time one that the program nearly takes anyway, while D
# rows can still be had.  It asks for many rows on few columns served, which leaves most room for what is chosen later;
# every other dive asks for domains at random in its place.  With the intervals given, whole rows of any segments within
# them are an integer program of hundredths of a second.


COLUMNS = 16  # up to which interval flows are looked for: with 150 a search for two segments took seconds
INTERVALS = 6000  # of all different capacities, up to which: seconds for models of that size
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
        start = add_rows(self.solver, problem, self.pp, self.hosted, whole=False)[0]  # how many rows there are
        start.SetBounds(problem.rows, self.solver.infinity())
        objective = self.solver.Objective()
        for f in (f for f in self.solver.variables() if start.GetCoefficient(f)):
            objective.SetCoefficient(f, 1)
        self._rng = np.random.default_rng(limit.seed)
        for (_, place), z in self.serving.items():
            # worth in rows: few columns served, or many domains, at random; what one misses the other often has
            gift = limit.seed % 2
            worth = _GIFT * problem.rows * self._rng.random() if gift else -_PRICE * len(self._columns(place))
            objective.SetCoefficient(z, worth)
        objective.SetMaximization()
        spend(_MADE_SECONDS * self.solver.NumVariables())
        self._left = limit.programs
        self._end = clock() + limit.seconds

    def dive(self) -> IntArray | None:
        """Return a placement within the bounds that the variables have now, or nothing."""
        from ortools.linear_solver import pywraplp

        if self._left <= 0 or clock() > self._end:
            return None
        # D rows, in fractions
        self._left -= 1
        limit_time(self.solver, self._end - clock())
        settings = pywraplp.MPSolverParameters()
        settings.SetIntegerParam(settings.LP_ALGORITHM, settings.DUAL)
        settings.SetIntegerParam(settings.PRESOLVE, settings.PRESOLVE_OFF)
        status = self.solver.Solve(settings)
        spend((_PROGRAM_SECONDS + ITERATION_SECONDS * self.solver.iterations()) * self.solver.NumVariables())
        if status != pywraplp.Solver.OPTIMAL:
            return None
        served = list(self.serving.values())
        values = np.array([z.solution_value() for z in served])
        below = np.floor(values + _ROUNDED)
        part = values - below
        if part.max(initial=0.0) > _ROUNDED:
            # the largest fraction, but not always: by a random factor between 1 and 1.5
            k = int((part * (1 + 0.5 * self._rng.random(len(part)))).argmax())
        else:
            self._left -= PROGRAMS
            limit = replace(self.limit, seconds=self._end - clock())
            cells = rows_on_intervals(self.problem, self._intervals_served(), pp=self.pp, limit=limit)
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

    def _add_domains(self, coverage: CoverageBound) -> None:
        """Add the domains of each capacity that serve an interval, and the rows on its segments."""
        problem, solver = self.problem, self.solver
        inf, columns = solver.infinity(), problem.columns
        at_column = [solver.Constraint(-inf, self.dp) for _ in range(columns)]
        allowed = coverage.widths_worth((self.dp, self.pp))
        for c, count in self.kinds:
            of_kind = solver.Constraint(-inf, count)
            for place in _intervals(columns, self.pp):
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
                # rows may leave out a column at an end of the interval
                left, right = place
                some = {place, (left + 1, right), (left, right - 1)} if width > 1 else {place}
                for part in sorted(s for s in some if self.pp > 2 or s[0] == 0 or s[1] == columns):
                    y = solver.NumVar(0, inf, "")
                    cells.SetCoefficient(y, len(self._columns(part)))
                    rows.SetCoefficient(y, 1)
                    self.hosted[part].append(y)

    def _columns(self, place: Segment) -> list[int]:
        """Return the columns of an interval."""
        return [column % self.problem.columns for column in range(*place)]

    def _intervals_served(self) -> BoolArray:
        """Return the intervals of the last program, and wider ones where columns have fewer than S domains.

        Of equal domains one comes after another; narrow intervals are widened first.
        """
        columns = self.problem.columns
        serves = np.zeros((len(self.problem.capacities), columns), dtype=np.bool_)
        free = defaultdict(list)
        for k, c in enumerate(self.problem.capacities):
            free[c].append(k)
        for (c, (left, right)), z in self.serving.items():
            for _ in range(round(z.solution_value())):
                serves[free[c].pop(0), left:right] = True
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


# Peeled bands: some bands in whole rows first, drawn at random, and an interval flow over what they leave.
#
# A *band* is a set of at most S domains that hold all cells of some columns, each row in one of them.  So b bands leave
# a problem with fewer columns, without their domains, whose pair is (S, R - b).  It is so small that a dive takes
# hundredths of a second, and many choices of bands can be tried, where one flow over all columns takes seconds.
#
# By the product bound what is left needs ``(sum sqrt n_k)^2 <= S (R - b) D * columns``.  Bands are weighed by what they
# do to that, drawn one after another from the best of those that are left, and of a few draws the one is taken that
# leaves the sum most room.


SETS = 100_000  # of domains, up to which they are listed, as numpy does in tenths of a second
_KEPT = 1000  # Bands that are drawn from, those that weigh least
_NEXT = 0.2  # Chance of each band in turn, the best first, to be the one that is drawn
_DRAWS = 8  # of which the best is taken
_LEFT = (2, 3, 4)  # R - b, in turn: with more the flow is large again
# Of work: to list a set of domains, and to draw bands
_SET_SECONDS, _DRAW_SECONDS = 1e-6, 3e-4


@dataclass(frozen=True, slots=True)
class _Rest:
    """What drawn bands leave."""

    room: float  # S (R - b), less what the product bound asks
    bands: tuple[int, ...]  # their places
    domains: IntArray  # that are in none
    problem: GridProblem


@lru_cache(4)  # grids inside alike domains ask for the same
def _sets(domains: int, size: int) -> IndexArray:
    """Return all sets of so many domains, shape [sets, size]."""
    listed = np.fromiter(chain.from_iterable(combinations(range(domains), size)), dtype=np.int64)
    return listed.reshape(-1, size)


class PeeledBands:
    """The bands that may be peeled off for one pair, at least two of its R parts being left to a flow."""

    def __init__(self, problem: GridProblem, pair: Pair) -> None:
        self._problem, self._pair = problem, pair
        dp, pp = pair
        self._capacities = np.array(problem.capacities)
        self._spare = int(self._capacities.sum()) - problem.cells
        self._left = [parts for parts in _LEFT if parts < pp]
        domains = len(self._capacities)
        sizes = [size for size in (dp - 1, dp) if 0 < size <= domains and comb(domains, size) <= SETS]
        if not sizes or not self._left:
            self._left = []
            return
        # a cell that is wasted is one that the smallest domain in use must hold
        last = int(np.searchsorted(np.cumsum(self._capacities), problem.cells))
        price = 1 / sqrt(self._capacities[last])
        budget = sqrt(dp * pp * problem.cells) / 2
        listed = []
        for size in sizes:
            sets = _sets(domains, size)
            spend(_SET_SECONDS * len(sets))
            held = self._capacities[sets]
            # as many columns as they hold, or one fewer, so that rows of each are whole
            for fewer in (0, 1):
                widths = np.maximum(held.sum(axis=1) // problem.rows - fewer, 1)
                waste = held.sum(axis=1) - widths * problem.rows
                whole = np.minimum(held // widths[:, None], problem.rows).sum(axis=1) >= problem.rows
                good = whole & (waste <= self._spare) & (widths < problem.columns)
                weight = price * waste + budget * (1 / pp + widths / problem.columns) - np.sqrt(held).sum(axis=1)
                inside = np.zeros((int(good.sum()), domains), dtype=np.bool_)
                np.put_along_axis(inside, sets[good], values=True, axis=1)
                listed.append((weight[good], inside, widths[good], waste[good]))
        weight, inside, widths, waste = (np.concatenate(arrays) for arrays in zip(*listed, strict=True))
        best = np.argsort(weight, kind="stable")[:_KEPT]
        self._inside, self._widths, self._waste = inside[best], widths[best], waste[best]

    def flow(self, limit: FlowLimit) -> IntArray | None:
        """Return a placement of some bands and an interval flow beside them; ``None`` when none was found.

        Nothing found proves nothing.

        :param limit: of the flow; its seed draws the bands too.
        :returns: shape [rows, columns], the domain of each cell.
        """
        if not self._left:
            return None
        rng, parts = np.random.default_rng(limit.seed), self._left[limit.seed % len(self._left)]
        spend(_DRAW_SECONDS * _DRAWS)
        draws = [rest for _ in range(_DRAWS) if (rest := self._draw(parts, rng)) is not None]
        rest = max(draws, key=lambda rest: rest.room, default=None)
        if rest is None or rest.room < 0:
            return None
        small, pair = rest.problem, (self._pair[0], parts)
        if turned := small.columns > small.rows:
            small, pair = small.transposed, (parts, self._pair[0])
        if small.columns > COLUMNS or count_intervals(small, pair) > INTERVALS:
            return None
        coverage = CoverageBound(small)
        if coverage.refutes(*pair) or (beside := interval_flow(small, pair, limit=limit, coverage=coverage)) is None:
            return None
        bands = list(rest.bands)
        widths = self._widths[bands]
        rows_in = self._inside[bands].T * (self._capacities[:, None] // widths)
        band_cells = lay_bands(self._problem.rows, widths.tolist(), rows_in)
        return np.column_stack([band_cells, rest.domains[beside.T if turned else beside]])

    def _draw(self, parts: int, rng: np.random.Generator) -> _Rest | None:
        """Return what R less so many bands leave; ``None`` where it is too little."""
        problem = self._problem
        bands, columns, spare = list[int](), problem.columns, self._spare
        free = np.ones(len(self._widths), dtype=np.bool_)
        for _ in range(self._pair[1] - parts):
            some = np.flatnonzero(free & (self._widths < columns) & (self._waste <= spare))
            if not len(some):
                return None
            band = int(some[min(len(some), int(rng.geometric(_NEXT))) - 1])
            bands.append(band)
            columns, spare = columns - int(self._widths[band]), spare - int(self._waste[band])
            free &= ~(self._inside & self._inside[band]).any(axis=1)
        domains = np.flatnonzero(~self._inside[bands].any(axis=0)).astype(np.int32)
        rest = GridProblem(problem.rows, columns, tuple(self._capacities[domains].tolist()))
        if sum(rest.capacities) < rest.cells:
            return None
        return _Rest(self._pair[0] * parts - product_bound(rest), tuple(bands), domains, rest)
