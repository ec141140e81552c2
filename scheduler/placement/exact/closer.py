"""Eq. 2 at a closer level by the search of pairs, among placements that are as good at the level above.

The level above allows some pairs (S, R), mostly one.  With S = R = 1 the job lies in one of its domains, and each that
has room is a grid problem of its own.  With S = 1, or R = 1, lines lie whole in domains: say pods, and rows of the
grid.  At most S pods are in use, each with a number of whole rows, and what is left is to share out the rows: counting
says how many racks the columns of a pod touch at least, for each number of rows, and a knapsack over the pods adds that
up; and each pod with its rows is laid with as few of these touches as are found, or proved.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, product
from math import ceil, inf

import numpy as np

from ground.errors import InvalidJob
from scheduler.job import Hold, Job
from scheduler.objective import TOLERANCE, closer_levels
from scheduler.placement.admission import blocks_at
from scheduler.placement.cpsat import Slice, solve
from scheduler.placement.exact.bands import lay_bands, partitions
from scheduler.placement.exact.bounds import LEAST, POINTS, SLACK, usable_domains
from scheduler.placement.exact.closed_forms import closed_form
from scheduler.placement.exact.goals import GoalSearch
from scheduler.placement.exact.lattice import Lattice, PairSearch, pair_cost
from scheduler.placement.exact.level_bounds import LINES, LevelBounds, LineTouches, largest_of, unrefuted, weights_of
from scheduler.placement.exact.line_counts import LineCounts
from scheduler.placement.exact.params import ExactParams
from scheduler.placement.exact.pieces import PieceCounts
from scheduler.placement.exact.problem import GridProblem, GridReduction
from scheduler.placement.exact.schedule import search_pairs
from scheduler.placement.exact.skeletons import EFFORT, Pods, decide_in_pods
from scheduler.placement.exact.solve import alike_together, seat_cells, seating_seconds, usable_part
from scheduler.placement.types import Limits, Pair, corners
from scheduler.work_clock import LEAST_SECONDS, clock, spend
from topology.cluster import FloatArray, IntArray, Level


@dataclass
class TargetLattice(Lattice):
    """A lattice on which one pair alone is looked for."""

    target: Pair = (1, 1)

    def open(self) -> list[Pair]:
        """Return the pair while it is neither refuted nor built."""
        return [] if self.is_refuted(self.target) or self.is_built(self.target) else [self.target]


@dataclass
class CornerLattice(Lattice):
    """A lattice of which only pairs within some corners are of interest."""

    within: Sequence[Pair] = ()  # the largest of them; none = all are

    def cost(self, pair: Pair) -> float:
        """Return Eq. 2 of a pair, infinite where it is of no interest."""
        inside = not self.within or any(pair[0] <= dp and pair[1] <= pp for dp, pp in self.within)
        return super().cost(pair) if inside else inf

    def _order(self, pair: Pair) -> tuple[float, int, int, Pair]:
        return round(self.cost(pair), 9), *super()._order(pair)[1:]


class Decisions:
    """Whether grids have a placement of a pair, each asked of the search and kept."""

    def __init__(self, limits: Limits, params: ExactParams) -> None:
        self._limits = limits
        self._params = params
        self._searches: dict[GridProblem, tuple[TargetLattice, PairSearch]] = {}
        self._left_open: set[tuple[GridProblem, Pair, float]] = set()

    def decide(self, problem: GridProblem, pair: Pair, seconds: float) -> IntArray | None:
        """Return a placement of a pair, shape [rows, columns]; ``None`` = there is none, or none was found in time."""
        pair = min(pair[0], problem.largest_pair[0]), min(pair[1], problem.largest_pair[1])
        if problem not in self._searches:
            made = TargetLattice(problem, 0.5, 0.5, target=pair)
            self._searches[problem] = made, PairSearch(made, replace(self._limits, seconds=seconds), self._params)
        lattice, search = self._searches[problem]
        lattice.target = pair
        if (not lattice.built or lattice.open()) and (problem, pair, seconds) not in self._left_open:
            search.limits = replace(self._limits, seconds=seconds)
            search.extend(seconds)
            search_pairs(search)
        for (dp, pp), cells in lattice.built.items():
            if dp <= pair[0] and pp <= pair[1]:
                return cells
        self._left_open.add((problem, pair, seconds))
        return None


# Pods and their racks at once: touches of rows and of columns at both levels, by Lagrangian relaxation.

_ELEMENT_SECONDS = 2e-9  # Of work for an element of a table
_SHARES = np.linspace(0.0, 1.0, 11)  # Of a cell that its pod, not its rack, is paid for
_CUTTING_PLANES = 40  # Prices that are tried for a pair: most pairs are decided after ten


@dataclass(frozen=True)
class PodTouches:
    """How many cells a pair of pods and a pair of racks can cover together, at most.

    A pod that a rows and b columns touch holds a b cells at most, and each rack there that h <= a rows and w <= b
    columns touch min(c, h w).  For all prices of touches, x of pods and y of racks, and shares t of each pod,
    ``D P <= x1 R' D + x2 S' P + y1 R D + y2 S P + sum over pods of max over (a, b) of [t a b - x1 a - x2 b + sum over
    racks of max over (h, w) of [(1 - t) min(c, h w) - y1 h - y2 w]^+]^+``, where (S', R') is the pair of pods.  The
    prices are those of a linear program that is given what pods do at the prices before (Kelley's cutting planes).
    """

    rows: int  # of the grid
    columns: int
    pods: tuple[tuple[int, ...], ...]  # room of the racks of each

    @cached_property
    def _kinds(self) -> tuple[IntArray, IntArray, IntArray]:
        """Capacities of racks; of each kind of pod how many there are, and how many racks of each capacity it has."""
        capacities, of_rack = np.unique(np.concatenate(self.pods), return_inverse=True)
        racks = np.zeros((len(self.pods), len(capacities)), dtype=np.int32)
        np.add.at(racks, (np.repeat(np.arange(len(self.pods)), [len(pod) for pod in self.pods]), of_rack), 1)
        different, many = np.unique(racks, axis=0, return_counts=True)
        return capacities.astype(np.int32), many.astype(np.int32), different

    @cached_property
    def elements(self) -> int:
        """Elements of the tables for one pair of prices."""
        return len(_SHARES) * len(self._kinds[1]) * min(self.rows, max(map(sum, self.pods))) * self.columns

    def refutes(self, pair: Pair, above: Pair, end: float = inf) -> bool:
        """Return whether racks with a pair, in pods with the pair ``above``, cannot cover all cells, as far as that is
        seen by the end of the time.
        """
        from ortools.linear_solver import pywraplp

        cells, (_, many, _) = self.rows * self.columns, self._kinds
        touches = np.array(
            [above[1] * self.rows, above[0] * self.columns, pair[1] * self.rows, pair[0] * self.columns], dtype=float
        )
        program = pywraplp.Solver.CreateSolver("GLOP")
        prices = [program.NumVar(0.0, float(most), "") for most in (self.columns, self.rows) * 2]
        gains = [program.NumVar(0.0, program.infinity(), "") for _ in many]
        program.Minimize(sum(float(n) * cost for n, cost in zip((*touches, *many), (*prices, *gains), strict=True)))
        at = np.array([0.5 / above[1], 0.5 / above[0], 0.3, 0.3])
        for _ in range(_CUTTING_PLANES):
            if clock() >= end:
                break
            gain, patterns = self._gains(at)
            if touches @ at + many @ gain < cells - SLACK:
                return True
            for kind, covered, touched in patterns:
                paid = sum(float(n) * price for n, price in zip(touched, prices, strict=True))
                program.Add(gains[kind] + paid >= covered)
            # what the program finds no prices do better than
            if program.Solve() != pywraplp.Solver.OPTIMAL or program.Objective().Value() >= cells - SLACK:
                return False
            at = np.array([max(0.0, price.solution_value()) for price in prices])
        return False

    def _gains(self, prices: FloatArray) -> tuple[FloatArray, list[tuple[int, float, FloatArray]]]:
        """Return what each kind of pod gains at most; of those that gain, how: kind, cells, touches of each price."""
        capacities, _, racks = self._kinds
        high, wide = np.arange(1, min(self.rows, int(capacities.max())) + 1), np.arange(1, self.columns + 1)
        cells = np.minimum(capacities[:, None, None], high[:, None] * wide).astype(float)
        paid = prices[2] * high[:, None] + prices[3] * wide
        heights = np.arange(1, min(self.rows, max(map(sum, self.pods))) + 1)
        area, least = heights[:, None] * wide, np.full((len(racks), len(heights), self.columns), inf)
        spend(_ELEMENT_SECONDS * self.elements)
        for share in _SHARES:
            best = np.maximum((1.0 - share) * cells - paid, 0.0)
            best = np.maximum.accumulate(np.maximum.accumulate(best, axis=1), axis=2)
            of_pod = np.tensordot(racks, best, axes=1)[:, np.minimum(heights, len(high)) - 1]
            np.minimum(least, of_pod + share * area, out=least)
        net = (least - prices[0] * heights[:, None] - prices[1] * wide).reshape(len(racks), -1)
        gain = np.maximum(net.max(axis=1), 0.0)
        patterns = []
        for kind in np.flatnonzero(gain):
            a, b = divmod(int(net[kind].argmax()), self.columns)
            inside = cells[:, : a + 1, : b + 1].reshape(len(capacities), -1)
            cost = paid[: a + 1, : b + 1].ravel()
            before: tuple[float, FloatArray] | None = None
            for share in _SHARES:
                value = (1.0 - share) * inside - cost
                shape = value.argmax(axis=1)
                taken = racks[kind] * (value.max(axis=1) > 0.0)
                h, w = np.divmod(shape, b + 1)
                covered = float(taken @ inside[np.arange(len(shape)), shape])
                touched = np.array([a + 1.0, b + 1.0, taken @ (h + 1), taken @ (w + 1)])
                if covered <= area[a, b]:
                    if before is not None:
                        # between two shares, so that the pod is as full as it may be
                        part = (area[a, b] - covered) / (before[0] - covered)
                        covered, touched = float(area[a, b]), part * before[1] + (1.0 - part) * touched
                    patterns.append((int(kind), covered, touched))
                    break
                before = covered, touched
        return gain, patterns


# Whole lines in pods: how many racks their columns touch at least, and a knapsack over the pods.


@dataclass(frozen=True)
class ColumnTouches:
    """What the columns of a pod touch at least, for each number of whole rows in it, by Lagrangian relaxation.

    A rack that h rows and w columns touch holds min(c, h * w) cells.  For all prices lam of a row's touch and mu > 0 of
    a column's ``a P <= lam r a + mu T + sum over racks of max over (h <= a, w) of [min(c, h w) - lam h - mu w]^+``,
    where each of a rows touches r racks at most and the columns T together.
    """

    rows: int  # of the grid
    columns: int
    racks: tuple[tuple[int, ...], ...]  # of each pod its racks' capacities, descending

    @property
    def most_rows(self) -> int:
        """Whole rows that the roomiest pod holds, at most."""
        return min(self.rows, max(map(sum, self.racks)) // self.columns)

    @cached_property
    def _gains(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Prices of row and column touches, and the sum of the gains, shape [lams, mus, pods, most_rows + 1]."""
        kinds, of_rack = np.unique(np.concatenate([np.asarray(racks) for racks in self.racks]), return_inverse=True)
        pod_of = np.repeat(np.arange(len(self.racks)), [len(racks) for racks in self.racks])
        count = np.zeros((len(self.racks), len(kinds)))
        np.add.at(count, (pod_of, of_rack), 1.0)
        lams = np.concatenate([[0.0], np.geomspace(LEAST, self.columns, POINTS)])
        mus = np.geomspace(LEAST, self.rows, POINTS)
        widths = np.arange(1, self.columns + 1)
        rows = np.arange(self.most_rows + 1)
        # shape [2, widths, kinds, most_rows + 1]: below and above the height that fills a rack
        heights = np.stack([kinds // widths[:, None], -(-kinds // widths[:, None])])[..., None]
        heights = np.minimum(heights, rows)
        cells = np.minimum(heights * widths[:, None, None], kinds[:, None])
        gains = np.empty((len(lams), len(mus), len(self.racks), len(rows)))
        for i, lam in enumerate(lams):
            net = (cells - lam * heights).max(axis=0)
            for j, mu in enumerate(mus):
                best = np.maximum((net - mu * widths[:, None, None]).max(axis=0), 0.0)
                gains[i, j] = count @ best
        spend(_ELEMENT_SECONDS * cells.size * len(lams) * (1 + len(mus)))
        return lams, mus, gains

    def least(self, pp: int) -> FloatArray:
        """Return what the columns touch together, shape [pods, most_rows + 1], where no row touches more than ``pp``
        racks; infinite where a pod has no room for the rows.
        """
        lams, mus, gains = self._gains
        rows = np.arange(self.most_rows + 1)
        bound = (rows * (self.columns - lams[:, None, None, None] * pp) - gains) / mus[:, None, None]
        touched: FloatArray = np.ceil(bound.max(axis=(0, 1)) - 1e-6)
        touched[:, 1:] = np.maximum(touched[:, 1:], self.columns)
        touched[:, 0] = 0.0
        for pod, racks in enumerate(self.racks):
            touched[pod, sum(racks) // self.columns + 1 :] = inf
            if pp == 1:
                # each row lies in a rack whole, and each column touches all of these
                whole = np.cumsum(np.asarray(racks) // self.columns)
                racks_of = np.searchsorted(whole, rows[1:]) + 1.0
                touched[pod, 1:] = np.where(racks_of > len(racks), inf, racks_of * self.columns)
        return touched


def sharing_seconds(pods: int, counts: int, rows: int, most: int) -> float:
    """Return the work of sharing so many rows out among pods, of which ``most`` may be in use, each with so many counts
    of rows from 0 on.
    """
    return _ELEMENT_SECONDS * pods * counts * (most + 1) * (rows + 1)


def share_rows(cost: FloatArray, rows: int, most: int) -> tuple[float, list[int]]:
    """Share whole rows out among pods at the least cost; return the cost, and the rows of each pod.

    :param cost: shape [pods, most rows + 1], of so many rows in a pod; ``most``: pods that may be in use.
    """
    best = np.full((most + 1, rows + 1), inf)
    best[:, 0] = 0.0
    taken = np.zeros((len(cost), most + 1, rows + 1), dtype=np.int32)
    for pod, of_pod in enumerate(cost):
        onward = best.copy()
        for some in np.flatnonzero(of_pod[1 : rows + 1] < inf) + 1:
            through = best[:-1, : rows + 1 - some] + of_pod[some]
            less = through < onward[1:, some:] - TOLERANCE
            onward[1:, some:][less] = through[less]
            taken[pod, 1:, some:][less] = some
        best = onward
    spend(sharing_seconds(cost.shape[0], cost.shape[1], rows, most))
    if best[most, rows] == inf:
        return inf, []
    shares, left, pods = [0] * len(cost), rows, most
    for pod in reversed(range(len(cost))):
        shares[pod] = int(taken[pod, pods, left])
        left -= shares[pod]
        pods -= bool(shares[pod])
    return float(best[most, rows]), shares


# Rows of one pod in its racks: with the fewest column touches, where no row touches more racks than so many.


_PARTITIONS = 16  # Of the columns into bands that are tried, those that need fewest touches
_CELL_CHOICES = 1_200  # Cells times racks up to which each cell is decided: with more no solver finds what bands do not
_PIECE_CHOICES = 3_000  # The same up to which pieces are counted: with more hardly any counts are laid
_POD_SOLUTIONS = 12  # Counts of pieces in a pod that are looked at: they are small
_CUTS = (1, 2, 3, 4, 6, 8)
"""Prices of a touch, in halves of a cell, at which no rack gains more than its best rectangle."""


@dataclass(frozen=True, slots=True)
class LaidRows:
    """What is known of rows in a pod."""

    least: int  # column touches that every placement has
    cells: IntArray | None = None  # shape [rows, columns], the rack of each cell; ``None`` = none is known

    @property
    def touches(self) -> float:
        """Column touches of the placement."""
        return inf if self.cells is None else column_touches(self.cells)


def column_touches(cells: IntArray) -> int:
    """Return the racks that columns touch, together; ``cells`` has shape [rows, columns]."""
    return int(np.count_nonzero(np.diff(np.sort(cells, axis=0), axis=0))) + int(cells.shape[1])


def lay_rows(grid: GridProblem, pp: int, least: int, most: int, limit: Slice) -> LaidRows:
    """Lay a grid where no row touches more racks than ``pp``, with as few column touches as are found: in bands, and
    where it is small by counts of pieces and cell by cell, which also prove that fewer are too few.

    :param least: column touches that are needed; ``most``: with more it is of no use.
    :param limit: of each way.
    """
    cells = _in_bands(grid, pp, least, most, limit)
    if cells is not None:
        most = column_touches(cells) - 1
    if least <= most and grid.cells * len(grid.capacities) <= _PIECE_CHOICES:
        # of its pieces a column has no more than others leave
        dp = most - (grid.columns - 1) * -(-grid.rows // min(grid.rows, max(grid.capacities)))
        pieces = PieceCounts(grid, (min(dp, len(grid.capacities)), pp), touches=most)
        fewest = pieces.fewest_touches(limit)
        least = max(least, fewest)
        # as even as may be: a column has pieces in other pods besides; none where not all cuts are listed
        even = [
            replace(pieces, pair=(min(pieces.pair[0], -(-touches // grid.columns)), pp), touches=touches)
            for touches in range(least, most + 1)
            if fewest
        ]
        end = clock() + min(limit.wall, limit.effort / 2)
        for counts in even:
            laid = counts.lay(replace(limit, effort=limit.effort / 4, wall=end - clock()), _POD_SOLUTIONS)[1]
            if laid is not None:
                cells, most = laid, column_touches(laid) - 1
                break
    if least > most or grid.cells * len(grid.capacities) > _CELL_CHOICES:
        return LaidRows(least, cells)
    by_cell = _cell_by_cell(grid, pp, least, most, limit)
    return by_cell if by_cell.cells is not None else replace(by_cell, cells=cells)


def _in_bands(grid: GridProblem, pp: int, least: int, most: int, limit: Slice) -> IntArray | None:
    """Cut the columns into bands, in each of which a row lies in one rack; return the rack of each cell, or nothing."""
    from scheduler.placement import cp_model

    rooms = np.asarray(grid.capacities)
    cuts: list[tuple[int, tuple[int, ...]]] = []
    for widths in (
        widths for parts in range(1, min(pp, grid.columns) + 1) for widths in partitions(grid.columns, parts)
    ):
        # racks that a band needs where all are its own
        held = np.cumsum(np.minimum(grid.rows, rooms[:, None] // np.asarray(widths)), axis=0)
        if (held[-1] >= grid.rows).all():
            touches = int(np.asarray(widths) @ ((held < grid.rows).sum(axis=0) + 1))
            if touches <= most:
                cuts.append((touches, widths))
    found = None
    for touches, widths in sorted(cuts)[:_PARTITIONS]:
        if touches > most:
            break
        model = cp_model.CpModel()
        held_rows: dict[tuple[int, int], cp_model.IntVar] = {}
        touched: dict[tuple[int, int], cp_model.IntVar] = {}
        for rack, room in enumerate(grid.capacities):
            for band, width in enumerate(widths):
                if fits := min(grid.rows, room // width):
                    held_rows[rack, band] = model.new_int_var(0, fits, "")
                    touched[rack, band] = model.new_bool_var("")
                    model.add(held_rows[rack, band] <= fits * touched[rack, band])
            model.add(sum(widths[band] * rows for (k, band), rows in held_rows.items() if k == rack) <= room)
        for band in range(len(widths)):
            model.add(sum(rows for (_, other), rows in held_rows.items() if other == band) >= grid.rows)
        total = sum(widths[band] * touch for (_, band), touch in touched.items())
        model.add(total >= max(least, touches))
        model.add(total <= most)
        model.minimize(total)
        answer, solver = solve(model, limit)
        if answer != "yes":
            continue
        rows_in = np.zeros((len(rooms), len(widths)), dtype=np.int32)
        for (rack, band), rows in held_rows.items():
            rows_in[rack, band] = solver.value(rows)
        found = lay_bands(grid.rows, widths, rows_in)
        if (most := column_touches(found) - 1) < least:
            break
    return found


def _cell_by_cell(grid: GridProblem, pp: int, least: int, most: int, limit: Slice) -> LaidRows:
    """Decide the rack of each cell."""
    from scheduler.placement import cp_model

    rows, columns, racks = range(grid.rows), range(grid.columns), range(len(grid.capacities))
    model = cp_model.CpModel()
    lies = [[[model.new_bool_var("") for _ in racks] for _ in columns] for _ in rows]
    by_row = [[model.new_bool_var("") for _ in racks] for _ in rows]
    by_column = [[model.new_bool_var("") for _ in racks] for _ in columns]
    for row, column in product(rows, columns):
        model.add_exactly_one(lies[row][column])
        for rack, here in enumerate(lies[row][column]):
            model.add_implication(here, by_row[row][rack])
            model.add_implication(here, by_column[column][rack])
    for lines, length in ((by_row, grid.columns), (by_column, grid.rows)):
        for touches in lines:
            # implied, and seen sooner so: what a line touches has room for it
            fits = [min(room, length) * touch for room, touch in zip(grid.capacities, touches, strict=True)]
            model.add(sum(fits) >= length)
    for touches in by_row:
        model.add(sum(touches) <= pp)
    order: list[cp_model.LinearExprT] = []
    for rack, room in enumerate(grid.capacities):
        held = sum(lies[row][column][rack] for row, column in product(rows, columns))
        high, wide = sum(touches[rack] for touches in by_row), sum(touches[rack] for touches in by_column)
        model.add(held <= room)
        # no rectangle gains more
        shapes = np.minimum(room, np.outer(np.arange(grid.rows + 1), np.arange(grid.columns + 1)))
        for of_row, of_column in product(_CUTS, repeat=2):
            price = of_row * np.arange(grid.rows + 1)[:, None] + of_column * np.arange(grid.columns + 1)
            model.add(2 * held - of_row * high - of_column * wide <= int((2 * shapes - price).max()))
        order.append((grid.rows + 1) * wide + high)
    # racks alike, rows and columns may be exchanged: one order is enough
    for rack, (room, following) in enumerate(pairwise(grid.capacities)):
        if room == following:
            model.add(order[rack] >= order[rack + 1])
    first = [sum(rack * here for rack, here in enumerate(lies[row][0])) for row in rows]
    top = [sum(rack * here for rack, here in enumerate(lies[0][column])) for column in columns]
    for line in (first, top):
        for cell, next_cell in pairwise(line):
            model.add(cell <= next_cell)
    total = sum(sum(touches) for touches in by_column)
    model.add(total >= least)
    model.add(total <= most)
    model.minimize(total)
    answer, solver = solve(model, limit)
    if answer == "no":
        return LaidRows(most + 1)
    if answer == "unknown":
        return LaidRows(least)
    cells = np.array(
        [[next(k for k, here in enumerate(cell) if solver.boolean_value(here)) for cell in row] for row in lies],
        dtype=np.int32,
    )
    return LaidRows(ceil(solver.best_objective_bound - 1e-6), cells)


@dataclass
class WholeLines:
    """The pairs of a closer level where rows lie whole in pods, of which so many may be in use."""

    lattice: Lattice  # of the grid on all racks
    racks: tuple[tuple[int, ...], ...]  # of each pod its racks' capacities, descending
    most: int  # pods that may be in use
    tied: int  # rows that stay together in a pod: a pod has a multiple of so many
    decisions: Decisions
    limits: Limits
    _least: dict[int, FloatArray] = field(default_factory=dict)  # by R, what the columns of each pod touch at least
    _laid: dict[tuple[tuple[int, ...], int, int], LaidRows] = field(default_factory=dict)  # by racks, rows, R

    @cached_property
    def touches(self) -> ColumnTouches:
        """What the columns of a pod touch."""
        return ColumnTouches(self.lattice.problem.rows, self.lattice.problem.columns, self.racks)

    def count(self, pp: int) -> None:
        """Refute what is too few where no row touches more racks than so many."""
        problem = self.lattice.problem
        if pp not in self._least:
            self._least[pp] = self.touches.least(pp)
            self._least[pp][:, np.arange(self.touches.most_rows + 1) % self.tied > 0] = inf
        total, _ = share_rows(self._least[pp], problem.rows, self.most)
        fewest = problem.largest_pair[0] + 1 if total == inf else int(-(-total // problem.columns))
        self.lattice.refute((fewest - 1, pp), "whole lines", "")

    def build(self, pair: Pair, effort: float, end: float) -> list[tuple[int, IntArray]] | None:
        """Return the rows of each pod in use, with a placement of each in its racks; ``None`` = none was found.

        :param effort: of each question about one pod; ``end``: of the time.
        """
        dp, pp = pair
        problem = self.lattice.problem
        self.count(pp)
        # what columns touch in each pod, as far as is known at this effort
        cost, asked = self._least[pp].copy(), dict[tuple[tuple[int, ...], int, int], float]()
        while clock() < end and not self.lattice.is_refuted(pair):
            total, shares = share_rows(cost, problem.rows, self.most)
            spare = dp * problem.columns - total
            if spare < 0:
                return None
            parts: list[tuple[int, IntArray]] = []
            for pod, rows in enumerate(shares):
                key = self.racks[pod], rows, pp
                if not rows:
                    continue
                if (known := self._laid.get(key)) and known.cells is not None and known.touches <= cost[pod, rows]:
                    parts.append((pod, known.cells))
                    continue
                needed, most = int(cost[pod, rows]), int(cost[pod, rows] + spare)
                laid = known or LaidRows(int(self._least[pp][pod, rows]))
                if laid.touches > most or key not in asked:
                    laid = self._ask(key, laid, most, Slice(effort, end - clock(), self.limits.seed))
                    asked[key] = most
                alike = [other for other, racks in enumerate(self.racks) if racks == key[0]]
                cost[alike, rows] = max(needed, min(laid.touches, most + 1))
                break
            else:
                return parts
        return None

    def _ask(self, key: tuple[tuple[int, ...], int, int], known: LaidRows, most: int, limit: Slice) -> LaidRows:
        """Lay rows in a pod, and keep what comes of it; more rows do not touch less."""
        racks, rows, pp = key
        grid = usable_part(rows, self.lattice.problem.columns, racks)
        most, laid = int(min(most, known.touches - 1)), known
        dp = most // grid.columns
        if known.least <= dp * grid.columns:
            # pairs, whose search knows more ways, though all columns are alike there
            cells = self.decisions.decide(grid, (dp, pp), limit.effort)
            if cells is not None:
                laid = LaidRows(known.least, cells)
        if laid.least < laid.touches:
            further = lay_rows(grid, pp, laid.least, int(min(most, laid.touches - 1)), limit)
            laid = LaidRows(further.least, laid.cells if further.cells is None else further.cells)
        self._laid[key] = laid
        for pod, others in enumerate(self.racks):
            if others == racks:
                self._least[pp][pod, rows:] = np.maximum(self._least[pp][pod, rows:], laid.least)
        self.count(pp)
        return laid


# Bands in two levels: one model of how many rows each rack holds of each band.
#
# The columns are cut into r bands, in each of which a row lies in one rack.  The bands are joined in R wide ones, in
# each of which a row lies in one pod.  What is left to choose is how many rows of each wide band lie in each pod, and
# of each band in each rack there.


_BAND_CHOICES = 600  # Racks times bands up to which such a model is made: to presolve more takes seconds
_BAND_SHARE = 0.1  # Part of the time limit that all of them may take for one pair of the level above
_BAND_EFFORT = 0.06  # In deterministic time, of each: a seed finds a solution in a tenth of a second, or hardly ever
_BAND_SEEDS = 4


@dataclass(frozen=True)
class TwoLevelBands:
    """Racks in pods, for bands of the columns of a grid."""

    rows: int
    columns: int
    racks: tuple[tuple[int, ...], ...]  # of each pod its racks' capacities
    together: int = 1  # neighbouring rows that lie in one pod

    def build(self, pair: Pair, above: Pair, limit: Slice) -> IntArray | None:
        """Return the rack of each cell, numbered pod by pod, shape [rows, columns]; ``None`` = none was found.

        :param pair: (S, R) at the level of racks; ``above``: at that of pods.
        """
        from scheduler.placement import cp_model

        (dp, pp), (pods, wide) = pair, above
        bands = min(pp, self.columns)
        widths = next(partitions(self.columns, bands))
        wide = min(wide, bands)
        # which wide band each band is part of, as even as may be
        of_band = [band * wide // bands for band in range(bands)]
        model = cp_model.CpModel()
        held: dict[tuple[int, int], cp_model.IntVar] = {}
        touched: dict[tuple[int, int], cp_model.IntVar] = {}
        in_pod: dict[tuple[int, int], cp_model.LinearExprT] = {}
        first = 0
        for pod, racks in enumerate(self.racks):
            entered = [model.new_bool_var("") for _ in range(wide)]
            for part in range(wide):
                groups = model.new_int_var(0, self.rows // self.together, "")
                in_pod[pod, part] = self.together * groups
                model.add(in_pod[pod, part] <= self.rows * entered[part])
                touched[-1 - pod, part] = entered[part]
            for rack, room in enumerate(racks, start=first):
                for band, width in enumerate(widths):
                    most = min(self.rows, room // width)
                    if most:
                        held[rack, band] = model.new_int_var(0, most, "")
                        touched[rack, band] = model.new_bool_var("")
                        model.add(held[rack, band] <= most * touched[rack, band])
                        model.add_implication(touched[rack, band], entered[of_band[band]])
                model.add(
                    sum(width * held[rack, band] for band, width in enumerate(widths) if (rack, band) in held) <= room
                )
            for band in range(bands):
                inside = [held[rack, band] for rack in range(first, first + len(racks)) if (rack, band) in held]
                model.add(sum(inside) == in_pod[pod, of_band[band]])
            first += len(racks)
        for part in range(wide):
            model.add(sum(in_pod[pod, part] for pod in range(len(self.racks))) == self.rows)
            model.add(sum(touched[-1 - pod, part] for pod in range(len(self.racks))) <= pods)
        for band in range(bands):
            model.add(sum(touched[rack, band] for rack in range(first) if (rack, band) in touched) <= dp)
        answer, solver = solve(model, limit)
        if answer != "yes":
            return None
        rows_in = np.zeros((first, bands), dtype=np.int32)
        for (rack, band), rows in held.items():
            rows_in[rack, band] = solver.value(rows)
        # pods come in one order, so that a row lies in one pod in all bands of a wide one
        return lay_bands(self.rows, widths, rows_in)


# All closer levels of a job, one after another.

_TERM_SHARE = 0.5  # Part of the time limit for the pairs of a level where a closer one counts in the objective
_TERM_ROUNDS = 3  # In each of which what is left of it is shared out anew
_ALONE_SHARE = 0.25  # Part of the time that is left which the grid on all racks of a region may take, without its pods
_COUNTS = 2_000  # Lines times racks up to which they are counted: with more none was proved within sixty seconds
_SKELETONS = 400  # Lines times racks up to which skeletons are looked for: with more none was found in ten seconds
# Part of the time limit that counting may take for one pair of the level above; and where skeletons come after it
_COUNT_SHARE, _FEW_SHARE = 0.8, 0.5
_LINE_SHARE = 0.6  # Part of the time limit that sharing lines out may take for one pair of the level above


@dataclass(frozen=True)
class PodRacks:
    """A domain of the level above, with its racks: domains of the closer level with room, the roomiest first."""

    racks: IntArray  # shape [racks], by their index at the closer level
    room: tuple[int, ...]  # blocks that each can take


@dataclass(frozen=True)
class Region:
    """Nodes among which all best placements that are in question lie whole, and the pods there."""

    nodes: IntArray  # by index
    pods: tuple[PodRacks, ...]

    @property
    def roomiest(self) -> list[PodRacks]:
        """The pods, the roomiest first."""
        return sorted(self.pods, key=lambda pod: -sum(pod.room))

    @property
    def racks(self) -> IntArray:
        """All racks, shape [racks]."""
        return np.concatenate([pod.racks for pod in self.pods])


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for at a level: less of a goal than is known."""

    goals: GoalSearch
    number: int  # of the goal
    closer: GridReduction  # the job with its spread counted at the level
    above: Level
    end: float  # of the time
    before: float = 0.0  # what the goal has beside Eq. 2 of the level
    scale: float = 1.0  # what Eq. 2 of the level is multiplied with in it
    within: tuple[Pair, ...] = ()  # pairs of the level that the goals before allow, the largest; none = all
    least: tuple[Pair, ...] = ((1, 1),)  # pairs of the level above of which a placement has one, or a larger
    broader: tuple[tuple[Level, list[Pair]], ...] = ()  # levels broader than that above, with their largest pairs

    @property
    def most(self) -> float:
        """Eq. 2 from which on a pair is of no use."""
        return (self.goals.best.costs[self.number] - self.before) / self.scale

    def lattice(self, problem: GridProblem, *, transposed: bool = False) -> Lattice:
        """Return the lattice of a grid, where it is searched transposed of its transpose."""
        lattice = CornerLattice(problem, self.closer.job.alpha, self.closer.job.beta, within=self.within)
        if transposed:
            within = [pair[::-1] for pair in self.within]
            lattice = CornerLattice(problem.transposed, lattice.beta, lattice.alpha, within=within)
        lattice.most = self.most
        return lattice


class CloserSearch:
    """The search of one job's closer levels, after its objective is settled; or of an objective of two levels.

    :param end: of the time, by ``scheduler.work_clock``.
    """

    def __init__(self, goals: GoalSearch, bounds: LevelBounds, limits: Limits, params: ExactParams, end: float) -> None:
        self._goals = goals
        self._decisions = Decisions(limits, params)
        self._bounds = bounds
        self._limits = limits
        self._params = params
        self._end = end
        # of the grids that were searched, with their level; a certificate needs what counting refuted of them
        self.lattices: list[tuple[str, Lattice]] = []
        # of grids on the racks of regions, with what lines touch at least: by S the most R refuted
        self._refuted: dict[tuple[GridProblem, Pair, tuple[Pair, ...]], list[int]] = {}

    def search(self) -> None:
        """Search each closer level in turn, as long as those before are settled."""
        goals, reduction = self._goals, self._goals.reduction
        cluster, above, job = reduction.cluster, reduction.level, self._forced()
        names = closer_levels(cluster, reduction.job)
        nodes = [np.flatnonzero(reduction.admitted).astype(np.int32)]
        broader: list[tuple[Level, list[Pair]]] = []
        least = unrefuted(self._bounds.lattices[above.name])
        for number, name in enumerate(names, start=len(goals.goals) - len(names)):
            goals.count(number)
            if not all(goals.settled(earlier) for earlier in range(number)) or not self._bounds.sees_lines(name):
                return
            if cluster.level_index(name) != cluster.level_index(above.name) + 1:
                return  # a level between them counts in the objective
            pairs = self._allowed(above.name, number)
            if not pairs:
                return
            if pairs == [(1, 1)]:
                nodes = self._each(above, np.concatenate(nodes)) if nodes else []
            closer = GridReduction(cluster, job.replace(level=name), reduction.slowest)
            known = [(1, 1)]
            if not goals.settled(number):
                regions = [Region(region, self._pods(closer, above, region)) for region in nodes]
                wanted = Wanted(
                    goals,
                    number,
                    closer,
                    above,
                    self._end,
                    within=tuple(self._allowed(name, number)),
                    least=tuple(least),
                    broader=tuple(broader),
                )
                bounds, known = self._search_level(wanted, regions, pairs)
                goals.raise_bound(number, min(bounds, default=-inf))
                reached = goals.best.costs[number] + TOLERANCE
                nodes = [region for region, bound in zip(nodes, bounds, strict=True) if bound <= reached]
            broader.append((above, pairs))
            above, least = cluster.level(name), self._least(name, number, known)

    def _allowed(self, name: str, before: int) -> list[Pair]:
        """Return the largest pairs of a level with which the goals before one may be what they are."""
        goals, pairs = self._goals, [(self._goals.reduction.job.grid.rows, self._goals.reduction.job.grid.columns)]
        for terms, cost in zip(goals.goals[:before], goals.best.costs, strict=False):
            of_goal = self._bounds.allowed(name, terms, cost)
            pairs = largest_of((min(a, s), min(b, r)) for a, b in of_goal for s, r in pairs)
        return pairs

    def _least(self, name: str, number: int, known: Sequence[Pair]) -> list[Pair]:
        """Return the least pairs of a level with which Eq. 2 there, a goal that is settled, is what it is.

        :param known: pairs of the level of which a placement has one, or a larger.
        """
        goals, pairs = self._goals, list[Pair]()
        (w, v), cost = weights_of(goals.goals[number])[name], goals.best.costs[number]
        for s_most, r_most in self._allowed(name, number + 1):
            for s in range(1, s_most + 1):
                fewest = min((r for dp, r in known if dp <= s), default=r_most + 1)
                r = max(fewest, ceil((cost - w * s) / v - TOLERANCE)) if v else fewest
                if r <= r_most and w * s + v * r >= cost - TOLERANCE:
                    pairs.append((s, r))
        return corners(pairs)

    def search_terms(self) -> None:
        """Search an objective with terms of rows and columns at the job's level and at one that is closer: each pair of
        the job's level that may lead to less, with the closer level searched below it.
        """
        goals, reduction = self._goals, self._goals.reduction
        cluster, above, bounds = reduction.cluster, reduction.level, self._bounds
        lines = [term for term in goals.goals[0] if term.family in LINES and term.weight > 0.0]
        rest = [term for term in goals.goals[0] if term not in lines]
        weights = weights_of(lines)
        w, v = weights.pop(above.name, (0.0, 0.0))
        if len(weights) != 1 or not all(map(bounds.sees_lines, (above.name, *weights))):
            return
        ((name, (dp, pp)),) = weights.items()
        if cluster.level_index(name) < cluster.level_index(above.name):
            return
        job = reduction.job.replace(level=name, alpha=dp / (dp + pp))
        closer = GridReduction(cluster, job, reduction.slowest)
        s_most, r_most = reduction.problem.largest_pair
        fixed, known = bounds.least(rest) if rest else 0.0, bounds.lattices[above.name]
        # what the objective is at least with each pair above
        least = {
            (s, r): w * s + v * r + fixed + dp + pp
            for s, r in product(range(1, s_most + 1), range(1, r_most + 1))
            if not known.is_refuted((s, r))
        }
        every = np.flatnonzero(reduction.admitted).astype(np.int32)
        end = min(self._end, clock() + _TERM_SHARE * self._limits.seconds)
        for _ in range(_TERM_ROUNDS):
            for pair in sorted(least, key=lambda above: (least[above], above)):
                waiting = sum(bound < goals.best.costs[0] - TOLERANCE for bound in least.values())
                if least[pair] >= goals.best.costs[0] - TOLERANCE or clock() >= end:
                    break
                before = w * pair[0] + v * pair[1] + fixed
                until = clock() + max(LEAST_SECONDS, (end - clock()) / waiting)
                wanted = Wanted(goals, 0, closer, above, until, before, dp + pp)
                nodes = self._each(above, every) if pair == (1, 1) else [every]
                regions = [Region(region, self._pods(closer, above, region)) for region in nodes]
                of_pair = min(self._search_level(wanted, regions, [pair])[0], default=inf)
                least[pair] = max(least[pair], before + (dp + pp) * of_pair)
        goals.raise_bound(0, min(least.values(), default=inf))

    def _forced(self) -> Job:
        """Return the job with its soft terms as holds where all placements as good in the objective keep them so: a
        spread of 2 would cost more than the objective leaves beside the least of all other terms; and its expert
        groups, where they lie whole in domains.
        """
        goals, job = self._goals, self._goals.reduction.job
        terms, held = goals.goals[0], []
        for term in job.soft:
            others = [other for other in terms if other is not term]
            if 2 * term.weight > goals.best.costs[0] - self._bounds.least(others) + TOLERANCE:
                held.append(Hold(term.family, term.level))
        if job.experts_apart and goals.best.costs[1] <= 1.0 + TOLERANCE:
            held.append(Hold("ep", goals.goals[1][0].level))
        kept = [term for term in job.counts if Hold(term.family, term.level) not in held]
        return job.replace(holds=(*job.holds, *held), counts=tuple(kept)) if held else job

    def _each(self, level: Level, nodes: IntArray) -> list[IntArray]:
        """Return which of some nodes are in each domain of a level that has room for the job."""
        domain_of = level.domain_of[nodes]
        nodes, room = nodes[np.argsort(domain_of, kind="stable")], np.bincount(domain_of, minlength=len(level))
        ends = room.cumsum()
        roomy = np.flatnonzero(room >= self._goals.reduction.job.grid.cells)
        return [nodes[ends[k] - room[k] : ends[k]] for k in roomy]

    @staticmethod
    def _pods(closer: GridReduction, above: Level, nodes: IntArray) -> tuple[PodRacks, ...]:
        racks, first = np.unique(closer.level.domain_of[nodes], return_index=True)
        with_room = closer.room[racks] > 0
        racks, pod_of = racks[with_room], above.domain_of[nodes[first]][with_room]
        pods = []
        for pod in np.unique(pod_of):
            inside = racks[pod_of == pod]
            inside = inside[np.argsort(-closer.room[inside], kind="stable")]
            pods.append(PodRacks(inside, tuple(closer.room[inside].tolist())))
        return tuple(pods)

    def _search_level(
        self, wanted: Wanted, regions: Sequence[Region], pairs: Sequence[Pair]
    ) -> tuple[list[float], list[Pair]]:
        """Search one level in some regions; return what Eq. 2 there is at least in each, infinite where there is none,
        and pairs of the level of which a placement has one, or a larger.

        :param pairs: the largest that the level above may have.
        """
        closer = wanted.closer
        fitting = [region for region in regions if int(closer.room[region.racks].sum()) >= closer.problem.cells]
        if list(pairs) == [(1, 1)]:
            known, least = self._search_inside(wanted, fitting), [(1, 1)]
        else:
            known, least = [inf] * len(fitting), []
            # the roomiest first: what is built there ends the others
            roomiest = sorted(pairs, key=lambda held: -held[0] * held[1])
            for place, (number, pair) in enumerate(product(range(len(fitting)), roomiest)):
                left = len(fitting) * len(pairs) - place
                if place and clock() >= wanted.end:
                    fewest = min(pair_cost(above, closer.job.alpha) for above in wanted.least)
                    known[number], least = min(known[number], fewest), [(1, 1)]
                    continue
                of_pair = replace(wanted, end=clock() + (wanted.end - clock()) / left)
                bound, unrefuted_here = self._search_held(of_pair, fitting[number], pair)
                known[number] = min(known[number], bound)
                least += unrefuted_here
        bounds = dict(zip(map(id, fitting), known, strict=True))
        return [bounds.get(id(region), inf) for region in regions], least

    def _search_inside(self, wanted: Wanted, regions: Sequence[Region]) -> list[float]:
        """Search the pairs of the grid inside each region; return what each costs at least."""
        closer = wanted.closer
        # of regions alike the first serves for all
        where: dict[GridProblem, Region] = {}
        problems = []
        for region in regions:
            room = np.sort(closer.room[region.racks])[::-1].tolist()
            problem = usable_part(closer.problem.rows, closer.problem.columns, room)
            problems.append(problem)
            where.setdefault(problem, region)
        forms = {problem: closed_form(problem, closer.job.alpha) for problem in where}
        bounds = {problem: form.bound for problem, form in forms.items()}
        order = sorted(forms, key=lambda problem: forms[problem].cost)
        for place, problem in enumerate(order):
            if bounds[problem] >= wanted.most - TOLERANCE:
                continue  # counting says that nothing better is inside
            lattice, racks = wanted.lattice(problem), where[problem].racks
            search = PairSearch(lattice, self._limits, self._params)
            search.extend(max(LEAST_SECONDS, (wanted.end - clock()) / (len(order) - place)))
            search_pairs(search)
            self.lattices.append((closer.level.name, lattice))
            bounds[problem] = max(bounds[problem], lattice.bound())
            if lattice.cost(lattice.best) < wanted.most - TOLERANCE:
                racks = racks[np.argsort(-closer.room[racks], kind="stable")]
                self._offer(closer, racks[lattice.built[lattice.best]], [racks])
        return [bounds[problem] for problem in problems]

    def _search_held(self, wanted: Wanted, region: Region, pair: Pair) -> tuple[float, list[Pair]]:
        """Search the pairs of a region with the level above held to a pair; return what they cost at least, and the
        least that are not refuted.
        """
        grid, region = wanted.closer.problem, self._usable(wanted, region, pair)
        if int(wanted.closer.room[region.racks].sum()) < grid.cells:
            return inf, []  # no pods that so few lines touch have room
        transposed = pair[1] > 1 if min(pair) == 1 else grid.rows < grid.columns
        lattice = self._alone(wanted, region, pair, transposed=transposed)
        self._count_touches(wanted, region, lattice, pair, transposed=transposed)
        lines = min(grid.rows, grid.columns)
        if lines > 1:  # one line alone is counted out at once
            if lattice.open() and min(pair) == 1:
                self._share_lines(wanted, region, lattice, max(pair), transposed=transposed)
            if lattice.open():
                self._lay_bands(wanted, region, lattice, pair, transposed=transposed)
        few = lines > 1 and lines * len(region.racks) <= _SKELETONS
        if lattice.open():
            self._count_lines(wanted, region, lattice, pair, few=few, transposed=transposed)
        if lattice.open() and few:
            self._decide_skeletons(wanted, region, lattice, pair, transposed=transposed)
        least = unrefuted(lattice)
        return lattice.bound(), [pair[::-1] for pair in least] if transposed else least

    @staticmethod
    def _usable(wanted: Wanted, region: Region, pair: Pair) -> Region:
        """Return the part of a region that serves as well as all of it: of pods in a broader domain that have as much
        room as another, rack by rack, as many as a placement may touch.
        """
        grid, level = wanted.closer.problem, wanted.closer.level
        most = usable_domains(GridProblem(grid.rows, grid.columns, (grid.cells,) * len(region.pods)), pair)
        node_of = np.empty(len(level), dtype=np.int32)
        node_of[level.domain_of[region.nodes]] = region.nodes
        # of each pod its broader domain, and the room of its racks
        rooms = np.zeros((len(region.pods), 1 + max(len(pod.room) for pod in region.pods)), dtype=np.int32)
        for number, pod in enumerate(region.pods):
            rooms[number, 1 : 1 + len(pod.room)] = pod.room
        if wanted.broader:
            rooms[:, 0] = wanted.broader[-1][0].domain_of[node_of[[pod.racks[0] for pod in region.pods]]]
        kinds, kind_of, many = np.unique(rooms, axis=0, return_inverse=True, return_counts=True)
        left = []
        for kind in kinds:
            roomier = (kinds[:, 0] == kind[0]) & (kinds >= kind).all(axis=1) & (kinds > kind).any(axis=1)
            left.append(most - int(many[roomier].sum()))
        spend(_ELEMENT_SECONDS * kinds.size * len(kinds))
        kept = []
        for pod, kind in zip(region.pods, kind_of.ravel().tolist(), strict=True):
            if left[kind] > 0:
                left[kind] -= 1
                kept.append(pod)
        racks = np.concatenate([pod.racks for pod in kept])
        return Region(region.nodes[np.isin(level.domain_of[region.nodes], racks)], tuple(kept))

    def _alone(self, wanted: Wanted, region: Region, pair: Pair, *, transposed: bool) -> Lattice:
        """Return the pairs of a region, with those refuted that have no placement in its racks wherever these lie."""
        closer = wanted.closer
        room = np.sort(closer.room[region.racks])[::-1].tolist()
        problem = GridProblem(closer.problem.rows, closer.problem.columns, tuple(room))
        lattice = wanted.lattice(problem, transposed=transposed)
        most, rooms = lattice.problem.largest_pair, [np.asarray(pod.room) for pod in region.pods]
        shape = lattice.problem.rows, lattice.problem.columns
        dp, pp = (
            LineTouches(length, lines, rooms, self._params.touch_table).fewest(broader)
            for (length, lines), broader in zip((shape, shape[::-1]), pair[::-1] if transposed else pair, strict=True)
        )
        least = [pair[::-1] for pair in wanted.least] if transposed else list(wanted.least)
        asked = lattice.problem, (dp, pp), tuple(least)
        lattice.most_refuted[:] = self._refuted.get(asked, lattice.most_refuted)
        lattice.refute((dp - 1, most[1]), "line touches", "")
        lattice.refute((most[0], pp - 1), "line touches", "")
        for s in range(1, most[0] + 1):
            # lines touch as many domains as at the level above, or more
            fewest = min((r for above, r in least if above <= s), default=most[1] + 1)
            lattice.refute((s, fewest - 1), "pairs above", "")
        if lattice.open():
            search = PairSearch(lattice, self._limits, self._params)
            search.extend(max(LEAST_SECONDS, _ALONE_SHARE * (wanted.end - clock())))
            search_pairs(search)
            # what is built knows nothing of pods
            lattice.built.clear()
            self._refuted[asked] = lattice.most_refuted.copy()
        return lattice

    def _count_touches(
        self, wanted: Wanted, region: Region, lattice: Lattice, above: Pair, *, transposed: bool
    ) -> None:
        """Refute pairs whose racks, in pods with the pair above, cannot cover all cells."""
        problem = lattice.problem
        touches = PodTouches(problem.rows, problem.columns, tuple(pod.room for pod in region.pods))
        if touches.elements > self._params.touch_table:
            return
        for pair in lattice.open():
            if clock() >= wanted.end:
                return
            if not lattice.is_refuted(pair) and touches.refutes(pair, above[::-1] if transposed else above, wanted.end):
                lattice.refute(pair, "touches of pods and racks", "")

    def _share_lines(self, wanted: Wanted, region: Region, lattice: Lattice, pods: int, *, transposed: bool) -> None:
        """Refute and build pairs where rows lie whole in pods, of which so many may be in use."""
        rows, columns = lattice.problem.rows, lattice.problem.columns
        order, together = self._tied_lines(wanted, transposed=transposed)
        rooms = tuple(pod.room for pod in region.pods)
        lines = WholeLines(lattice, rooms, pods, together[-1], self._decisions, self._limits)
        if clock() + sharing_seconds(len(rooms), lines.touches.most_rows + 1, rows, pods) > wanted.end:
            return
        for pp in range(1, lattice.problem.largest_pair[1] + 1):
            if lattice.cost((1, pp)) >= lattice.most - TOLERANCE:
                break
            lines.count(pp)
        end = min(wanted.end, clock() + _LINE_SHARE * self._limits.seconds)
        for effort in self._params.pod_efforts:
            tried: set[Pair] = set()
            while clock() < end and (left := [target for target in lattice.open() if target not in tried]):
                tried.add(left[0])
                if (parts := lines.build(left[0], effort, end)) is not None:
                    cells = np.empty((rows, columns), dtype=np.int32)
                    cells[order] = _laid_out([region.pods[pod].racks[part] for pod, part in parts])
                    used = [region.pods[pod].racks for pod, _ in parts]
                    self._offer(wanted.closer, cells.T if transposed else cells, used)
                    lattice.most = wanted.most

    def _count_lines(
        self, wanted: Wanted, region: Region, lattice: Lattice, above: Pair, *, few: bool, transposed: bool
    ) -> None:
        """Refute and build pairs whose cross lines may touch as many racks as they have cells.

        :param few: whether so few that skeletons come after: they get what is counted out but was not laid.
        """
        closer, grid = wanted.closer, lattice.problem
        # a node of each rack
        nodes = region.nodes[np.unique(closer.level.domain_of[region.nodes], return_index=True)[1]]
        nodes = nodes[closer.room[closer.level.domain_of[nodes]] > 0]
        levels = (*(level for level, _ in wanted.broader), wanted.above, closer.level)
        paths = np.stack([level.domain_of[nodes] for level in levels])
        broader = list(product(*(pairs for _, pairs in wanted.broader), [above]))
        end = min(wanted.end, clock() + (_FEW_SHARE if few else _COUNT_SHARE) * self._limits.seconds)
        index_of = np.full(len(closer.level), -1, dtype=np.int32)
        index_of[paths[-1]] = np.arange(len(nodes))
        tied = [self._tied_lines(wanted, transposed=transposed != turned) for turned in (False, True)]
        # with pairs above
        refuted: set[tuple[Pair, tuple[Pair, ...]]] = set()
        counted: set[tuple[Pair, tuple[Pair, ...]]] = set()

        def ask(target: Pair, pairs: tuple[Pair, ...], limit: Slice) -> IntArray | None:
            """Return a placement of a pair with pairs above it, shape [rows, columns] of the grid."""
            # the lines are columns where a row may touch as many racks as it has cells, else rows
            by_rows = target[1] < grid.columns
            turned = [pair[::-1] if transposed != by_rows else pair for pair in pairs]
            touches, cross = zip(*turned, target[::-1] if by_rows else target, strict=True)
            shape = (grid.columns, grid.rows) if by_rows else (grid.rows, grid.columns)
            order, together = tied[by_rows]
            counts = LineCounts(*shape, paths, closer.room[paths[-1]], touches, cross, (*together, 1))
            best = np.empty((closer.problem.rows, closer.problem.columns), dtype=np.int32)
            best[closer.blocks.row_of[:, None], closer.blocks.column_of] = closer.level.domain_of[
                self._goals.best.nodes
            ]
            start = index_of[best.T if transposed != by_rows else best][order]
            begun = None if (start < 0).any() else start
            answer, cells = counts.lay(limit, begun, counted=(target, pairs) in counted)
            if answer != "unknown":
                (refuted if answer == "no" else counted).add((target, pairs))
            if cells is None:
                return None
            placed = np.empty_like(cells)
            placed[order] = paths[-1][cells]
            return placed.T if by_rows else placed

        for doubled in range(20):
            tried = set[Pair]()
            while clock() < end:
                free = (p for p in lattice.open() if p[1] >= grid.columns or p[0] >= grid.rows)
                target = next((p for p in free if p not in tried), None)
                if target is None:
                    break
                tried.add(target)
                if (grid.columns if target[1] >= grid.columns else grid.rows) * len(nodes) > _COUNTS:
                    continue
                for pairs in broader:
                    if (target, pairs) in refuted or (few and (target, pairs) in counted):
                        continue
                    limit = Slice(EFFORT * 2**doubled, end - clock(), self._limits.seed + doubled, workers=1)
                    if (cells := ask(target, pairs, limit)) is not None:
                        self._offer(closer, cells.T if transposed else cells, [pod.racks for pod in region.pods])
                        lattice.most = wanted.most
                        break
                if all((target, pairs) in refuted for pairs in broader):
                    lattice.refute(target, "line counts", "")
            if not tried or clock() >= end:
                return

    def _lay_bands(self, wanted: Wanted, region: Region, lattice: Lattice, above: Pair, *, transposed: bool) -> None:
        """Build pairs by bands in two levels, the roomiest of the cheaper half of the open ones first."""
        problem, roomiest = lattice.problem, region.roomiest
        end = min(wanted.end, clock() + _BAND_SHARE * self._limits.seconds)
        most_racks = np.cumsum([len(pod.racks) for pod in roomiest])
        tied = [self._tied_lines(wanted, transposed=transposed != turned) for turned in (False, True)]
        failed: set[Pair] = set()  # a smaller pair has other bands
        while clock() < end and (waiting := [pair for pair in lattice.open() if pair not in failed]):
            target = max(waiting[: (len(waiting) + 1) // 2], key=lambda p: p[0] * p[1])
            ways: list[tuple[TwoLevelBands, IntArray, bool]] = []
            # at first no more pods than lines touch at most, where each is of one wide band
            for turned, few in product((False, True), (True, False)):
                grid = problem.transposed if turned else problem
                some = int(np.searchsorted(most_racks * (target[0] if turned else target[1]), _BAND_CHOICES, "right"))
                rooms = tuple(pod.room for pod in roomiest[: min(some, above[0] * above[1]) if few else some])
                if sum(map(sum, rooms)) >= problem.cells and (few or some > above[0] * above[1]):
                    order, together = tied[turned]
                    ways.append((TwoLevelBands(grid.rows, grid.columns, rooms, together[-1]), order, turned))
            best = self._goals.best
            for (bands, order, turned), seed in product(ways, range(_BAND_SEEDS)):
                if clock() >= end:
                    break
                asked, held = (target[::-1], above[::-1]) if turned else (target, above)
                # the pair above is of the job, the lattice may be of its transpose
                held = held[::-1] if transposed else held
                limit = Slice(_BAND_EFFORT, end - clock(), seed, light=True)
                # by itself at first, then otherwise: restarts find what a long search does not
                limit = replace(limit, linearization=0, workers=1) if seed else limit
                cells = bands.build(asked, held, limit)
                if cells is not None:
                    laid = np.concatenate([pod.racks for pod in roomiest])[cells[np.argsort(order)]]
                    self._offer(wanted.closer, laid.T if turned != transposed else laid, [p.racks for p in region.pods])
                if self._goals.best is not best:
                    break
            lattice.most = wanted.most
            if self._goals.best is best:
                failed.add(target)

    def _decide_skeletons(
        self, wanted: Wanted, region: Region, lattice: Lattice, above: Pair, *, transposed: bool
    ) -> None:
        """Decide pairs by models of which columns racks serve, and pods."""
        pods = region.roomiest
        racks = np.concatenate([pod.racks for pod in pods])
        order = np.argsort(-wanted.closer.room[racks], kind="stable")
        of_rack = np.repeat(np.arange(len(pods)), [len(pod.racks) for pod in pods])[order]
        around = Pods(tuple(of_rack.tolist()), above[::-1] if transposed else above)
        search = PairSearch(lattice, self._limits, self._params)
        search.extend(wanted.end - clock())
        decide_in_pods(search, around)
        if lattice.built:
            cells = racks[order][lattice.built[lattice.best]]
            self._offer(wanted.closer, cells.T if transposed else cells, [pod.racks for pod in pods])
            lattice.most = min(lattice.most, wanted.most)

    @staticmethod
    def _tied_lines(wanted: Wanted, *, transposed: bool) -> tuple[IntArray, list[int]]:
        """Return the rows of the grid (columns, where that is transposed), those next to one another that holds keep
        together in a domain; and for each level from the broadest to the one above how many these are: as many each, or
        one.
        """
        closer = wanted.closer
        own = closer.blocks.column_of if transposed else closer.blocks.row_of
        first, together = np.unique(own, return_index=True)[1], list[int]()
        order = np.arange(len(first), dtype=np.int32)
        for level in (wanted.above, *(level for level, _ in reversed(wanted.broader))):
            blocks = blocks_at(closer.cluster, closer.job, closer.cluster.level_index(level.name))
            tied = (blocks.column_of if transposed else blocks.row_of)[first]
            sizes = np.unique(np.bincount(tied))
            if len(sizes) == 1:
                order = order[np.argsort(tied[order], kind="stable")]
            together.insert(0, int(sizes[0]) if len(sizes) == 1 else 1)
        return order, together

    def _offer(self, closer: GridReduction, rack_of_block: IntArray, inside: Sequence[IntArray]) -> None:
        """Offer a placement on racks; in each of some sets of racks cells move to the tightest that hold them.

        :param rack_of_block: shape [rows, columns] of blocks, domains of the closer level.
        """
        room, moved = closer.room, rack_of_block.copy()
        for racks in inside:
            loads = [(int(np.count_nonzero(rack_of_block == rack)), int(rack)) for rack in racks]
            free = sorted((int(room[rack]), int(rack)) for rack in racks)
            for load, rack in sorted(loads, reverse=True):
                if load:
                    at = next(i for i, (most, _) in enumerate(free) if most >= load)
                    moved[rack_of_block == rack] = free.pop(at)[1]
        blocks = closer.blocks
        cells = moved[blocks.row_of[:, None], blocks.column_of[None, :]].astype(np.int32)
        ways = [cells]
        if self._rows_tied is not None:
            # the fuller racks of a pod first, so that what is left of one and of the next make a group
            fullest = np.argsort(-np.bincount(cells.ravel(), minlength=len(room)), kind="stable")
            order = alike_together(self._rows_tied, closer.level.parent_of[cells], np.argsort(fullest)[cells])
            ways.append(cells[order])
        seconds = seating_seconds(self._limits, self._params)
        self._goals.offer_all(seat_cells(closer, way, seconds, self._params, end=self._end) for way in ways)

    @cached_property
    def _rows_tied(self) -> IntArray | None:
        """Shape [rows], the part of each with which groups that goals count beside lines lie whole; ``None`` = none."""
        families = {term.family for terms in self._goals.goals for term in terms if term.family not in LINES}
        with suppress(InvalidJob):
            return self._goals.reduction.job.grid.tied(sorted(families))[0] if families else None
        return None


def _laid_out(parts: Sequence[IntArray]) -> IntArray:
    """Return the rack of each cell, the rows of one pod after those of another: columns that touch many racks in one
    touch few in the next.

    :param parts: shape [rows, columns] each.
    """
    touched, laid = np.zeros(parts[0].shape[1], dtype=np.int64), []
    for racks in parts:
        own = np.array([len(np.unique(column)) for column in racks.T])
        order = np.empty(len(own), dtype=np.int64)
        order[np.argsort(touched, kind="stable")] = np.argsort(-own, kind="stable")
        laid.append(racks[:, order])
        touched = touched + own[order]
    return np.concatenate(laid)
