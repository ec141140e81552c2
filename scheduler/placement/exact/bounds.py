"""Lower bounds that need no search: which pairs (S, R) are impossible, in microseconds.

Domain k is touched by r_k rows and q_k columns and holds n_k <= min(c_k, r_k * q_k) cells, with sum r_k <= R * D,
sum q_k <= S * P and sum n_k = D * P.  Every bound here relaxes that.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import numpy.typing as npt

from scheduler.placement.exact.problem import GridProblem

FloatArray = npt.NDArray[np.float64]

_SLACK = 1e-6


def product_bound(problem: GridProblem) -> float:
    """Least value of S * R: ``(sum sqrt(n_k))^2 / (D * P)`` with the largest domains filled first.

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


def fewest_domains(wanted: int, capacities: npt.ArrayLike) -> int | None:
    """Fewest domains whose capacities reach a number; ``None`` when all together do not."""
    reached = np.cumsum(np.sort(np.asarray(capacities))[::-1])
    enough = int(np.searchsorted(reached, wanted)) + 1
    return enough if enough <= len(reached) else None


class CoverageBound:
    """Upper bound on the cells that a pair can cover, by Lagrangian relaxation of the two sums.

    For all lambda, mu >= 0: ``coverable(S, R) <= lambda * R * D + mu * S * P + sum_k G_k`` with
    ``G_k = max over (a, q) of [min(c_k, a * q) - lambda * a - mu * q]^+``.  The sum of the G_k does not depend on the
    pair, so one table over a grid of multipliers serves all pairs; :meth:`refutes` then zooms in for its pair.
    """

    def __init__(self, problem: GridProblem, *, points: int = 24) -> None:
        self._problem = problem
        self._gain, self._rows, self._columns, self._count = self._shapes()
        self._lambdas = np.concatenate([[0.0], np.geomspace(0.02, problem.columns, points)])
        self._mus = np.concatenate([[0.0], np.geomspace(0.02, problem.rows, points)])
        self._table = self._sum_of_gains(self._lambdas, self._mus)

    def _shapes(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """All useful (cells, rows, columns) of each distinct capacity, padded to one table, and its multiplicity."""
        problem = self._problem
        capacities, count = np.unique(problem.capacities, return_counts=True)
        columns = np.arange(1, problem.columns + 1)
        floor = np.minimum(capacities[:, None] // columns, problem.rows)
        ceil = np.minimum(-(-capacities[:, None] // columns), problem.rows)
        rows = np.concatenate([floor, ceil], axis=1).astype(float)
        width = np.concatenate([columns, columns]).astype(float)[None, :].repeat(len(capacities), axis=0)
        gain = np.minimum(rows * width, capacities[:, None])
        return gain, rows, width, count.astype(float)

    def _sum_of_gains(self, lambdas: FloatArray, mus: FloatArray) -> FloatArray:
        """Shape [lambdas, mus]."""
        total = np.zeros((len(lambdas), len(mus)))
        for gain, rows, width, count in zip(self._gain, self._rows, self._columns, self._count, strict=True):
            net = gain - lambdas[:, None] * rows
            best = (net[:, None, :] - mus[None, :, None] * width).max(axis=2)
            total += count * np.maximum(best, 0.0)
        return total

    def coverable(self, dp: int, pp: int) -> float:
        """Upper bound on the cells that can be covered with S = dp, R = pp."""
        problem = self._problem
        rows, columns = pp * problem.rows, dp * problem.columns
        lambdas, mus, table = self._lambdas, self._mus, self._table
        for zoom in range(3):
            value = lambdas[:, None] * rows + mus[None, :] * columns + table
            i, j = np.unravel_index(int(value.argmin()), value.shape)
            if zoom == 2 or value[i, j] < problem.cells - _SLACK:
                break
            lambdas, mus = _around(lambdas, int(i)), _around(mus, int(j))
            table = self._sum_of_gains(lambdas, mus)
        return float(value[i, j])

    def refutes(self, dp: int, pp: int) -> bool:
        """Whether the pair cannot cover all cells."""
        return self.coverable(dp, pp) < self._problem.cells - _SLACK


def _around(points: FloatArray, i: int) -> FloatArray:
    """Nine points between the neighbours of one."""
    return np.linspace(points[max(i - 1, 0)], points[min(i + 1, len(points) - 1)], 9)
