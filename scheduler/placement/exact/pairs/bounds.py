"""Lower bounds that need no search: which pairs (S, R) are impossible, and the two placements that counting gives.

Domain k is touched by r_k rows and q_k columns and holds n_k <= min(c_k, r_k * q_k) cells, with sum r_k <= R * D,
sum q_k <= S * P and sum n_k = D * P.  Every bound here relaxes that; :class:`RectangleBound` only by telling no row and
no column from another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt

import numpy as np

from scheduler.placement.exact.grid.params import DEFAULTS, ExactParams
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.types import Pair
from scheduler.witnesses import Multipliers
from scheduler.work_clock import spend
from topology.cluster import BoolArray, FloatArray, IntArray

_SLACK = 1e-6
"""Cells by which a bound in floating point is loosened: far above its error, far below the one cell that counts."""

CELL_PARTS = 2**40
"""Parts of a cell in which multipliers are handed on: 5e-13 cells a touch, so that rounding costs no refutation."""

_GAIN_SECONDS = 2e-9  # Of work to weigh a shape of a domain by a pair of multipliers
_TOGETHER = 200_000  # Elements of an array that stays in a processor's cache
_NEVER = np.int32(-(10**9))  # Less than any number of cells


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
    return total * total / problem.cells - _SLACK


class CoverageBound:
    """Upper bound on the cells that a pair can cover, by Lagrangian relaxation of the two sums.

    For all lambda, mu >= 0: ``coverable(S, R) <= lambda * R * D + mu * S * P + sum_k G_k`` with
    ``G_k = max over (a, q) of [min(c_k, a * q) - lambda * a - mu * q]^+``.  The sum of the G_k does not depend on the
    pair, so one table over a grid of multipliers serves all pairs; :meth:`refutes` then zooms in for its pair.
    """

    def __init__(self, problem: GridProblem, params: ExactParams = DEFAULTS) -> None:
        self._problem = problem
        self._params = params
        self._gain, self._rows, self._count = self._shapes()
        # a row touched is worth at most a cell in each column, a column at most one in each row
        least, points = params.coverage_least, params.coverage_points
        self._lambdas = np.concatenate([[0.0], np.geomspace(least, problem.columns, points)])
        self._mus = np.concatenate([[0.0], np.geomspace(least, problem.rows, points)])
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
        some = max(1, _TOGETHER // price.size)
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
        slack = covered - self._problem.cells + _SLACK
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
        problem, zooms = self._problem, self._params.coverage_zooms
        rows, columns = pp * problem.rows, dp * problem.columns
        lambdas, mus, table = self._lambdas, self._mus, self._table
        for zoom in range(zooms + 1):
            value = lambdas[:, None] * rows + mus[None, :] * columns + table
            i, j = np.unravel_index(int(value.argmin()), value.shape)
            if zoom == zooms or value[i, j] < problem.cells - _SLACK:
                break
            lambdas, mus = self._around(lambdas, int(i)), self._around(mus, int(j))
            table = self._sum_of_gains(lambdas, mus)
        found = self._known[dp, pp] = float(value[i, j]), float(lambdas[i]), float(mus[j])
        return found

    def refutes(self, dp: int, pp: int) -> bool:
        """Return whether the pair cannot cover all cells."""
        return self.coverable(dp, pp) < self._problem.cells - _SLACK

    def _around(self, points: FloatArray, i: int) -> FloatArray:
        """Return a finer grid between the neighbours of one multiplier."""
        return np.linspace(
            points[max(i - 1, 0)], points[min(i + 1, len(points) - 1)], self._params.coverage_zoom_points
        )


class RectangleBound:
    """Most cells that pairs can cover, exact, for all pairs at once: a knapsack over domains by dynamic programming.

    ``most_cells((S, R))`` is the largest sum of n under sum r <= R * D and sum q <= S * P: below D * P the pair is
    impossible.  It is the coverage bound without its integrality gap, in integers throughout.

    Per domain and q only two values of r matter, the full heights floor(c / q) and ceil(c / q), except for at most one
    domain of the whole cluster: of two domains that are touched by less than their full height, a row moved from the
    smaller q to the larger loses nothing.  The table carries that one exception as a second layer.

    :param pairs: the pairs that will be asked about; the table is as large as the largest of them needs.
    """

    def __init__(self, problem: GridProblem, pairs: Iterable[Pair]) -> None:
        asked = list(pairs)
        self._problem = problem
        self._columns = max(dp for dp, _ in asked) * problem.columns
        self._rows = max(pp for _, pp in asked) * problem.rows
        self._most = self._fill()

    @staticmethod
    def work(problem: GridProblem, pairs: Iterable[Pair]) -> float:
        """Return the array elements that building the table touches, to decide beforehand whether it is worth it."""
        asked = list(pairs)
        states = max(dp for dp, _ in asked) * problem.columns * max(pp for _, pp in asked) * problem.rows
        # two heights in two layers and a window maximum: about ten passes over the table for each domain and width
        return 10.0 * states * len(problem.capacities) * problem.columns

    def knows(self, pair: Pair) -> bool:
        """Return whether the table reaches as far as the pair."""
        return pair[0] * self._problem.columns <= self._columns and pair[1] * self._problem.rows <= self._rows

    def most_cells(self, pair: Pair) -> int:
        """Return the most cells that any choice of rectangles covers with this pair."""
        dp, pp = pair
        return int(self._most[dp * self._problem.columns, pp * self._problem.rows])

    def refutes(self, pair: Pair) -> bool:
        """Return whether no choice of rectangles covers all cells."""
        return self.most_cells(pair) < self._problem.cells

    def spare_rows(self, pair: Pair) -> int:
        """Return the row touches that the pair allows beyond the fewest with which rectangles cover all cells."""
        dp, pp = pair
        enough = self._most[dp * self._problem.columns] >= self._problem.cells
        return pp * self._problem.rows - int(enough.argmax())

    def spare_columns(self, pair: Pair) -> int:
        """Return the column touches that the pair allows beyond the fewest with which rectangles cover all cells."""
        dp, pp = pair
        enough = self._most[:, pp * self._problem.rows] >= self._problem.cells
        return dp * self._problem.columns - int(enough.argmax())

    def _fill(self) -> IntArray:
        """Return the most cells within each pair of sums, shape [sum q + 1, sum r + 1]."""
        full = np.zeros((self._columns + 1, self._rows + 1), dtype=np.int32)
        any_height = full.copy()
        for capacity in self._problem.capacities:
            full, any_height = self._with_domain(capacity, full, any_height)
        return any_height

    def _with_domain(self, capacity: int, full: IntArray, any_height: IntArray) -> tuple[IntArray, IntArray]:
        """Return both layers with one domain more: all at full height, and at most one domain below it."""
        problem = self._problem
        new_full, new_any = full.copy(), any_height.copy()
        ramp = np.arange(self._rows + 1, dtype=np.int32)
        for q in range(1, min(problem.columns, capacity, self._columns) + 1):
            for r in {min(capacity // q, problem.rows), min(-(-capacity // q), problem.rows)}:
                if r <= self._rows:
                    cells = min(capacity, q * r)
                    _raise(new_full[q:, r:], full[: self._columns + 1 - q, : self._rows + 1 - r] + cells)
                    _raise(new_any[q:, r:], any_height[: self._columns + 1 - q, : self._rows + 1 - r] + cells)
            if (height := min(capacity // q, problem.rows)) > 1:
                # this domain is the exception: r < height rows give q * r cells, so with s rows in all the best is
                # q * s + max over r of (full at s - r, less q * (s - r)), a maximum over a window of s - r
                below = full[: self._columns + 1 - q] - q * ramp
                _raise(new_any[q:], _window_maximum(below, height) + q * ramp)
        _raise(new_any, new_full)
        return new_full, new_any


def _raise(target: IntArray, other: IntArray) -> None:
    np.maximum(target, other, out=target)


def _window_maximum(values: IntArray, width: int) -> IntArray:
    """Return the maximum over the last ``width`` entries along the last axis (van Herk's running maxima of blocks)."""
    length = values.shape[-1]
    if width >= length:
        return np.maximum.accumulate(values, axis=-1)
    padding = np.full((*values.shape[:-1], -length % width), _NEVER, dtype=np.int32)
    blocks = np.concatenate([values, padding], axis=-1).reshape(*values.shape[:-1], -1, width)
    forward = np.maximum.accumulate(blocks, axis=-1).reshape(*values.shape[:-1], -1)[..., :length]
    backward = np.maximum.accumulate(blocks[..., ::-1], axis=-1)[..., ::-1].reshape(*values.shape[:-1], -1)
    result: IntArray = forward.copy()
    # a window spans at most two blocks: the end of one (backward) and the start of the next (forward)
    _raise(result[..., width - 1 :], backward[..., : length - width + 1])
    return result
