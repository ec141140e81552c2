"""Lower bounds that need no search: which pairs (S, R) are impossible, and the two placements that counting gives.

Domain k is touched by r_k rows and q_k columns and holds n_k <= min(c_k, r_k * q_k) cells, with sum r_k <= R * D,
sum q_k <= S * P and sum n_k = D * P.  The product, coverage and rectangle bounds relax that; the regret table is the
rectangle bound of one pair, and the pattern bound adds prices for what a single row and a single column need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, product
from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from scheduler.witnesses import Multipliers, PatternPrices
from scheduler.work_clock import clock, spend
from topology.cluster import BoolArray, FloatArray, IndexArray, IntArray

if TYPE_CHECKING:
    from ortools.linear_solver import pywraplp

SLACK = 1e-6
"""Cells by which a bound in floating point is loosened: far above its error, far below the one cell that counts."""

CELL_PARTS = 2**40
"""Parts of a cell in which multipliers are handed on: 5e-13 cells a touch, so that rounding costs no refutation."""

POINTS = 24  # Multipliers on each axis of a table of bounds besides zero, spaced geometrically
LEAST = 0.02  # The least of these, in cells for one row touched: below it a touch is as good as free
_ZOOMS = 2  # Times that it zooms in on its best multipliers before a pair counts as not refuted
_ZOOM_POINTS = 9  # Multipliers on each axis of a zoom, so that each is about four times as fine as the one before
_GAIN_SECONDS = 2e-9  # Of work to weigh a shape of a domain by a pair of multipliers
TOGETHER = 30_000  # Elements of an array that stays in a processor's cache


def whole_columns(problem: GridProblem) -> IntArray | None:
    """Return the placement with S = 1 and the fewest domains; ``None`` when there is none.

    S = 1: every column lies in one domain, so domain k takes floor(c_k / D) columns and a row touches every domain in
    use: possible iff sum floor(c_k / D) >= P, and then R is the fewest such domains.  R = 1 is the same, transposed.

    :returns: shape [rows, columns], the domain of each cell.
    """
    takes = np.asarray(problem.capacities) // problem.rows
    order = np.argsort(-takes, kind="stable")
    domain_of_column = np.repeat(order, takes[order])[: problem.columns]
    if len(domain_of_column) < problem.columns:
        return None
    return np.tile(domain_of_column.astype(np.int32), (problem.rows, 1))


def contiguous(problem: GridProblem) -> IntArray:
    """Return the domain of each cell, shape [rows, columns], filled column by column from the largest domain on.

    So the fewest domains are used, and few of them in a column.
    """
    domains = np.repeat(np.arange(len(problem.capacities), dtype=np.int32), problem.capacities)
    return domains[: problem.cells].reshape(problem.columns, problem.rows).T


def fewest_for_lines(rows: int, columns: int, capacities: Sequence[int]) -> int | None:
    """Return the fewest domains that take all columns whole, each of ``rows`` cells; ``None`` = all take too few.

    :param capacities: descending.
    """
    taken = 0
    for number, capacity in enumerate(capacities, start=1):
        if capacity < rows:
            return None
        taken += capacity // rows
        if taken >= columns:
            return number
    return None


def usable_domains(problem: GridProblem, pair: Pair) -> int:
    """Return how many domains a placement with this pair can use at most; the largest ones serve as well as any.

    Take columns as hyperedges over the domains that serve them.  Every row touches every connected component, so there
    are at most R of them, and a component with e columns has at most e * (S - 1) + 1 domains.  Hence at most
    P * (S - 1) + R domains; and the same with rows and columns exchanged.
    """
    dp, pp = pair
    by_columns = problem.columns * (dp - 1) + min(pp, problem.columns)
    by_rows = problem.rows * (pp - 1) + min(dp, problem.rows)
    return min(len(problem.capacities), by_columns, by_rows)


def product_bound(problem: GridProblem) -> float:
    """Return the least value of S * R: ``(sum sqrt(n_k))^2 / (D * P)`` with the largest domains filled first.

    By Cauchy-Schwarz ``(sum r_k)(sum q_k) >= (sum sqrt(r_k q_k))^2 >= (sum sqrt(n_k))^2``; the right side is concave in
    n, hence least at a vertex of {n <= c, sum n = D * P}: the largest domains full, one partly, the others empty.
    """
    left, total = problem.cells, 0.0
    for capacity in problem.capacities:
        taken = min(capacity, left)
        total += sqrt(taken)
        left -= taken
        if not left:
            break
    return total * total / problem.cells - SLACK


class CoverageBound:
    """Upper bound on the cells that a pair can cover, by Lagrangian relaxation of the two sums.

    For all lambda, mu >= 0: ``coverable(S, R) <= lambda * R * D + mu * S * P + sum_k G_k`` with
    ``G_k = max over (a, q) of [min(c_k, a * q) - lambda * a - mu * q]^+``.  The sum of the G_k does not depend on the
    pair, so one table over a grid of multipliers serves all pairs; :meth:`refutes` then zooms in for its pair.
    """

    def __init__(self, problem: GridProblem) -> None:
        self._problem = problem
        self._gain, self._rows, self._count = self._shapes()
        # a row touched is worth at most a cell in each column, a column at most one in each row
        self._lambdas = np.concatenate([[0.0], np.geomspace(LEAST, problem.columns, POINTS)])
        self._mus = np.concatenate([[0.0], np.geomspace(LEAST, problem.rows, POINTS)])
        self._table = self._sum_of_gains(self._lambdas, self._mus)
        self._known: dict[Pair, tuple[float, float, float]] = {}

    def _shapes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the useful cells and rows of each width and distinct capacity, shape [heights, P, kinds], and counts.

        Of the heights of one width only floor(c / q) and ceil(c / q) matter: up to the first the gain is linear in the
        height, hence best there or at zero, and beyond the second no cell is gained.
        """
        self._capacities, count = np.unique(self._problem.capacities, return_counts=True)
        self._widths = np.arange(1, self._problem.columns + 1)[:, None]
        heights = np.stack([self._capacities // self._widths, -(-self._capacities // self._widths)])
        rows = np.minimum(heights, self._problem.rows).astype(float)
        return np.minimum(rows * self._widths, self._capacities), rows, count.astype(float)

    def _sum_of_gains(self, lambdas: FloatArray, mus: FloatArray) -> FloatArray:
        """Return the sum of the G_k for each pair of multipliers, shape [lambdas, mus]."""
        price = mus[None, :, None] * self._widths[:, :, None]
        total = np.zeros((len(lambdas), len(mus)))
        some = max(1, TOGETHER // price.size)
        for start in range(0, len(self._capacities), some):
            kinds = slice(start, start + some)
            for i, lam in enumerate(lambdas):
                net = (self._gain[:, :, kinds] - lam * self._rows[:, :, kinds]).max(axis=0)
                # the maximum over widths comes first, so that it is taken for all capacities at once
                total[i] += np.maximum((net[:, None] - price).max(axis=0), 0.0) @ self._count[kinds]
        spend(_GAIN_SECONDS * total.size * self._gain.size)
        return total

    def coverable(self, dp: int, pp: int) -> float:
        """Return an upper bound on the cells that can be covered with S = dp, R = pp."""
        return self._least(dp, pp)[0]

    def least(self, dp: int, pp: int) -> tuple[float, Multipliers]:
        """Return the least bound found on the cells that can be covered with S = dp, R = pp, and its multipliers."""
        covered, *prices = self._least(dp, pp)
        row, column = (round(price * CELL_PARTS) for price in prices)
        return covered, Multipliers(row, column, CELL_PARTS)

    def widths_worth(self, pair: Pair) -> dict[int, BoolArray]:
        """Return for each capacity the widths that a domain can have in a placement of the pair, shape [columns + 1].

        Whatever is lost by domains that are not used as the multipliers would have them adds up: with the best
        multipliers a placement covers all cells only if all regrets ``G_k - g_k(q)`` together are at most the slack of
        the bound.  So no domain has a width whose regret alone is more than that.
        """
        covered, lam, mu = self._least(*pair)
        slack = covered - self._problem.cells + SLACK
        allowed = {}
        every = (self._gain - lam * self._rows - mu * self._widths).max(axis=0)
        for capacity, net in zip(self._capacities, every.T, strict=True):
            best = max(0.0, float(net.max()))
            # no rows at all are worth nothing but the price of the columns
            worth = np.maximum(net, -mu * np.arange(1, len(net) + 1))
            allowed[int(capacity)] = np.concatenate([[best <= slack], best - worth <= slack])
        return allowed

    def _least(self, dp: int, pp: int) -> tuple[float, float, float]:
        """Return the bound of a pair and the multipliers that it comes from, looked for once."""
        if (known := self._known.get((dp, pp))) is not None:
            return known
        problem = self._problem
        rows, columns = pp * problem.rows, dp * problem.columns
        lambdas, mus, table = self._lambdas, self._mus, self._table
        for zoom in range(_ZOOMS + 1):
            value = lambdas[:, None] * rows + mus[None, :] * columns + table
            i, j = np.unravel_index(int(value.argmin()), value.shape)
            if zoom == _ZOOMS or value[i, j] < problem.cells - SLACK:
                break
            lambdas, mus = self._around(lambdas, int(i)), self._around(mus, int(j))
            table = self._sum_of_gains(lambdas, mus)
        bound = self._known[dp, pp] = float(value[i, j]), float(lambdas[i]), float(mus[j])
        return bound

    def refutes(self, dp: int, pp: int) -> bool:
        """Return whether the pair cannot cover all cells."""
        return self.coverable(dp, pp) < self._problem.cells - SLACK

    def _around(self, points: FloatArray, i: int) -> FloatArray:
        """Return a finer grid between the neighbours of one multiplier."""
        return np.linspace(points[max(i - 1, 0)], points[min(i + 1, len(points) - 1)], _ZOOM_POINTS)


# The rectangle bound of one pair, exact, by regrets: quick where multipliers leave little slack, for any domains.
#
# It is the coverage bound without its integrality gap.
# Let n_k be at most ``min(c_k, r q)`` for the shape (r, q) of domain k, lambda and mu prices of a row and a column
# touched, and G_k the most that a shape of it is worth, ``n - lambda r - mu q``, at least 0.  In every placement the
# regrets ``G_k - worth`` of all domains, and the prices of touches that the pair allows beyond those made, are together
# at most ``lambda R D + mu S P + sum G_k - D P``, the *slack*.  So each domain has few shapes, and a table over the
# sums of r and of q keeps the least regret of each.  Where no entry with its touches left over is within the slack, no
# shapes cover all cells.  Prices are whole parts of a cell, so all of it is in integers.


ENTRY_SECONDS, _SHAPE_SECONDS = 2e-9, 1e-5  # Of work: an entry of the table, and a shape on it

_BEYOND = np.int64(1 << 62)  # More than any slack

_LARGEST = 1 << 60  # Worths up to which their sums fit into 64 bits


class OutOfEntries(Exception):
    """The table grows beyond what is worth it."""


def regrets_refute(problem: GridProblem, pair: Pair, prices: Multipliers, *, entries: int) -> bool:
    """Return whether no shapes of all domains cover the grid within the touches of a pair.

    :param entries: of all tables together, beyond which :class:`OutOfEntries` is raised.
    """
    touches = pair[1] * problem.rows, pair[0] * problem.columns
    capacities = problem.capacities[: problem.cells]  # no rectangles need more domains, and the largest serve as well
    if prices.unit * problem.capacities[0] + prices.row * problem.rows + prices.column * problem.columns > _LARGEST:
        raise OutOfEntries
    # the most that a shape of a domain is worth: at the last height that it fills, or the one after
    best = dict.fromkeys(capacities, 0)
    for c, q in product(best, range(1, problem.columns + 1)):
        for r in (c // q, -(-c // q)):
            height = min(r, problem.rows)
            best[c] = max(best[c], prices.unit * min(c, height * q) - prices.row * height - prices.column * q)
    slack = prices.row * touches[0] + prices.column * touches[1] - prices.unit * problem.cells
    slack += sum(best[c] for c in capacities)
    if not 0 <= slack < _LARGEST:
        return slack < 0
    table, corner = np.zeros((1, 1), dtype=np.int64), (0, 0)
    for capacity, count in sorted(Counter(capacities).items()):
        shapes = _shapes(problem, capacity, prices, (best[capacity], slack), entries // len(capacities))
        for _ in range(count):
            # the entries of the table with one domain more, for each shape
            sides = [np.ptp(shapes[:, axis]) + table.shape[axis] for axis in (0, 1)] if len(shapes) else [0]
            size = len(shapes) * int(np.prod(sides))
            if (entries := entries - size) < 0:
                raise OutOfEntries
            spend(ENTRY_SECONDS * size + _SHAPE_SECONDS * len(shapes))
            table, corner = _with_domain(table, corner, shapes, slack)
            if not table.size:
                return True
    rows, columns = (np.array(touches[axis] - corner[axis] - np.arange(table.shape[axis])) for axis in (0, 1))
    within = table + np.maximum(0, prices.row * rows[:, None]) + np.maximum(0, prices.column * columns) <= slack
    return not bool((within & (rows >= 0)[:, None] & (columns >= 0)).any())


def _shapes(problem: GridProblem, capacity: int, prices: Multipliers, limit: tuple[int, int], most: int) -> IndexArray:
    """Return (r, q, regret) of the shapes that lose no more than the slack, shape [shapes, 3]; (0, 0) = not in use.

    :param limit: the most that a shape is worth, and the slack; ``most``: shapes, beyond which there are too many.
    """
    best, slack = limit
    shapes = [(0, 0, best)] if best <= slack else []
    for q in range(1, problem.columns + 1):
        full = min(capacity // q, problem.rows)
        for heights, stop in (
            # down from the last height that is filled each row lost costs the same, or gains it where rows are dear
            (range(full, 0, -1), prices.unit * q >= prices.row),
            # and above it no cell is gained
            (range(full + 1, problem.rows + 1), True),
        ):
            for r in heights:
                regret = best - prices.unit * min(capacity, r * q) + prices.row * r + prices.column * q
                if regret <= slack:
                    shapes.append((r, q, regret))
                elif stop:
                    break
                if len(shapes) > most:
                    raise OutOfEntries
    return np.array(shapes, dtype=np.int64).reshape(-1, 3)


def _with_domain(
    table: IndexArray, corner: tuple[int, int], shapes: IndexArray, slack: int
) -> tuple[IndexArray, tuple[int, int]]:
    """Return the least regrets with one domain more, and the touches that their first entry stands for.

    Only sums within the slack are kept.
    """
    if not len(shapes):
        return np.empty((0, 0), dtype=np.int64), corner
    low = shapes[:, :2].min(axis=0)
    rows, columns = (int(np.ptp(shapes[:, axis])) + table.shape[axis] for axis in (0, 1))
    # rows one after another: a shape shifts them all at once, and what goes over the end of a row is beyond the slack
    wide = np.full((table.shape[0], columns), _BEYOND)
    wide[:, : table.shape[1]] = table
    more, shifted, regrets = wide.ravel(), np.empty(wide.size, dtype=np.int64), np.full((rows + 1) * columns, _BEYOND)
    for r, q, regret in (shapes - [*low.tolist(), 0]).tolist():
        at = regrets[r * columns + q :][: more.size]
        np.minimum(at, np.add(more, regret, out=shifted), out=at)
    regrets = regrets.reshape(-1, columns)[:rows]
    regrets[regrets > slack] = _BEYOND
    alive = regrets < _BEYOND
    if not alive.any():
        return np.empty((0, 0), dtype=np.int64), corner
    some = [np.flatnonzero(alive.any(axis=1 - axis)) for axis in (0, 1)]
    first = corner[0] + int(low[0] + some[0][0]), corner[1] + int(low[1] + some[1][0])
    return regrets[some[0][0] : some[0][-1] + 1, some[1][0] : some[1][-1] + 1], first


# Upper bound on the cells that a pair can cover, with prices for what a single row and a single column need.
#
# A domain touched by r rows and q columns is a *shape*.  The widths q of the domains that a row touches add up to P or
# more, and they are at most R; the heights r of the domains of a column add up to D, and they are at most S.  The
# coverage bound knows the sums of both over all domains.  Here every width u(q) and every height v(r) has a weight as
# well: with U the least weight of at most R widths that add up to P, and V that of at most S heights that add up to D,
# all rows together weigh D U or more, sum r u(q) >= D U, and all columns sum q v(r) >= P V.  So for any multipliers and
# weights
#
#     D P <= lambda R D + mu S P - D U - P V + sum over k of max(0, max over (r, q) of
#            min(c_k, r q) - lambda r - mu q + r u(q) + q v(r)).
#
# Good weights come from a linear program over shapes and over *patterns*, the widths of a row and the heights of a
# column; both are generated.  They are rounded to integers and then hold whatever they are.


UNIT = 1 << 16  # Parts of a cell: weights are integers, and this rounds away a thousandth of a cell at most
# Of work: to make an entry of the program, and to read it in before each solution; an iteration for each variable; and
# to weigh a size of the last part of a line
_MADE_SECONDS, _READ_SECONDS, _ITERATION_SECONDS, _SIZE_SECONDS = 8e-7, 1.4e-7, 1.4e-8, 1e-8
_AROUND = 3  # Rows around c / q with which shapes are in the program from the start
_GAIN = 1e-6  # What a shape must gain to join it: the program works in floating point
_MISSING = 1000.0  # Price in cells of a row or column without a pattern: more than any pattern costs


class PatternBound:
    """The bound of one pair with some prices, in parts of ``UNIT``: what shapes are worth, and what they may lose."""

    def __init__(self, problem: GridProblem, pair: Pair, prices: PatternPrices) -> None:
        dp, pp = pair
        rows, columns = problem.rows, problem.columns
        self.prices, self._shape = prices, (columns, rows)
        self._widths, self._heights = np.array([0, *prices.widths]), np.array([0, *prices.heights])
        self.row_pattern, row_weight = lightest(self._widths, pp, columns)
        self.column_pattern, column_weight = lightest(self._heights, dp, rows)
        covered = prices.row * pp * rows + prices.column * dp * columns - rows * row_weight - columns * column_weight
        self.best = {c: max(0, int(self.worth(c).max())) for c in set(problem.capacities)}
        covered += sum(self.best[c] for c in problem.capacities)
        self.slack = covered - UNIT * problem.cells  # below 0 the pair is refuted

    def worth(self, capacity: int) -> IndexArray:
        """Return what each shape of a domain is worth, shape [P, D]: q - 1 first, then r - 1."""
        columns, rows = self._shape
        q, r = np.arange(1, columns + 1)[:, None], np.arange(1, rows + 1)[None, :]
        charged = self.prices.row * r + self.prices.column * q
        weighed = r * self._widths[1:, None] + q * self._heights[None, 1:]
        worth: IndexArray = UNIT * np.minimum(capacity, q * r) + weighed - charged
        return worth

    def shapes(self, capacity: int) -> list[tuple[int, int, int]]:
        """Return (q, r, regret) of the shapes that lose no more than the slack; (0, 0) = not in use.

        The regrets of all domains, what their shapes are worth less than the best, are at most the slack together.
        """
        regret = self.best[capacity] - self.worth(capacity)
        some = [(int(q) + 1, int(r) + 1, int(regret[q, r])) for q, r in np.argwhere(regret <= self.slack)]
        unused = self.best[capacity]
        return [(0, 0, unused), *some] if unused <= self.slack else some

    @cached_property
    def number_of_shapes(self) -> int:
        """How many shapes :meth:`shapes` has, over all different capacities."""
        return sum(len(self.shapes(capacity)) for capacity in self.best)


def lightest(weights: IndexArray, parts: int, total: int) -> tuple[tuple[int, ...], int]:
    """Return at most so many sizes that add up to the total or more and weigh least, descending, and their weight.

    :param weights: shape [total + 1], of each size, not negative; that of 0 is 0.
    """
    sizes = np.arange(total + 1)
    rest = np.maximum(0, sizes[:, None] - sizes[None, :])
    least = np.where(sizes == 0, 0, np.int64(1) << 60)
    spend(_SIZE_SECONDS * parts * rest.size)
    chosen = []
    for _ in range(parts):
        weighed = least[rest] + weights[None, :]
        best = weighed.argmin(axis=1)
        chosen.append(best)
        least = weighed[sizes, best]
    pattern, left = [], total
    for best in reversed(chosen):
        pattern.append(size := int(best[left]))
        left = max(0, left - size)
    return tuple(sorted((size for size in pattern if size), reverse=True)), int(least[total])


def least_pattern_bound(problem: GridProblem, pair: Pair, *, end: float = inf) -> PatternBound:
    """Return the bound with the best prices found: it is refuted, or nothing is to be gained, or time is up.

    :param end: of the time, by ``scheduler.work_clock``.
    """
    return _Master(problem, pair).least(end)


class _Master:
    """The linear program: the most cells of shapes whose rows and columns can be put together of patterns."""

    def __init__(self, problem: GridProblem, pair: Pair) -> None:
        from ortools.linear_solver import pywraplp

        dp, pp = pair
        rows, columns = problem.rows, problem.columns
        self._problem, self._pair = problem, pair
        self._solver = solver = pywraplp.Solver.CreateSolver("GLOP")
        inf = solver.infinity()
        self._many = {c: solver.Constraint(-inf, n) for c, n in Counter(problem.capacities).items()}
        self._touches = solver.Constraint(-inf, pp * rows), solver.Constraint(-inf, dp * columns)
        # of the sizes at least so large there are as many in shapes as the patterns ask
        self._wide = [solver.Constraint(0, inf) for _ in range(columns)]
        self._high = [solver.Constraint(0, inf) for _ in range(rows)]
        self._lines = solver.Constraint(rows, rows), solver.Constraint(columns, columns)
        self._objective = solver.Objective()
        self._objective.SetMaximization()
        for lines in self._lines:
            self._objective.SetCoefficient(without := solver.NumVar(0, inf, ""), -_MISSING)
            lines.SetCoefficient(without, 1)
        self._known: set[tuple[object, ...]] = set()
        self._entries = 0  # not zero, of all shapes
        for c in self._many:
            for q in range(1, min(columns, c) + 1):
                for r in range(max(1, c // q - _AROUND), min(rows, c // q + _AROUND + 1) + 1):
                    self._add_shape(c, q, r)

    def least(self, end: float) -> PatternBound:
        """Return the bound of the last prices, or the first that refutes."""
        from ortools.linear_solver import pywraplp

        columns, rows = self._problem.columns, self._problem.rows
        # of no prices: every domain gives all its cells
        bound = PatternBound(self._problem, self._pair, PatternPrices(0, 0, (0,) * columns, (0,) * rows, UNIT))
        while bound.slack >= 0 and clock() < end:
            status = self._solver.Solve()
            spend(_READ_SECONDS * self._entries)
            spend(_ITERATION_SECONDS * self._solver.iterations() * self._solver.NumVariables())
            if status != pywraplp.Solver.OPTIMAL:
                break
            worth = {c: _parts(count) for c, count in self._many.items()}
            row, column = (_parts(touch) for touch in self._touches)
            widths, heights = (
                tuple(accumulate(_parts(line, -1) for line in lines)) for lines in (self._wide, self._high)
            )
            bound = PatternBound(self._problem, self._pair, PatternPrices(row, column, widths, heights, UNIT))
            joined = self._add_pattern(self._wide, self._lines[0], bound.row_pattern)
            joined |= self._add_pattern(self._high, self._lines[1], bound.column_pattern)
            for c, paid in worth.items():
                if bound.best[c] > paid + UNIT * _GAIN:
                    q, r = np.unravel_index(int(bound.worth(c).argmax()), (self._problem.columns, self._problem.rows))
                    joined |= self._add_shape(c, int(q) + 1, int(r) + 1)
            if not joined:
                break
        return bound

    def _add_shape(self, capacity: int, q: int, r: int) -> bool:
        """Add a shape, unless it is there."""
        if (key := (capacity, q, r)) in self._known:
            return False
        self._known.add(key)
        shape = self._solver.NumVar(0, self._solver.infinity(), "")
        self._objective.SetCoefficient(shape, min(capacity, q * r))
        self._many[capacity].SetCoefficient(shape, 1)
        for touches, count in zip(self._touches, (r, q), strict=True):
            touches.SetCoefficient(shape, count)
        for at in self._wide[:q]:
            at.SetCoefficient(shape, r)
        for at in self._high[:r]:
            at.SetCoefficient(shape, q)
        self._entries += q + r
        spend(_MADE_SECONDS * (q + r))
        return True

    def _add_pattern(self, at: list[pywraplp.Constraint], lines: pywraplp.Constraint, pattern: tuple[int, ...]) -> bool:
        """Add the sizes in which a line may be cut, unless they are there."""
        if (key := (id(at), *pattern)) in self._known:
            return False
        self._known.add(key)
        count = self._solver.NumVar(0, self._solver.infinity(), "")
        lines.SetCoefficient(count, 1)
        for size in range(max(pattern)):
            at[size].SetCoefficient(count, -sum(part > size for part in pattern))
        return True


def _parts(constraint: pywraplp.Constraint, sign: int = 1) -> int:
    """Return the price of a constraint in parts of a cell, not negative."""
    price: float = sign * constraint.dual_value()
    return max(0, round(UNIT * price))
