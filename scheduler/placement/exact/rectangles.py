"""The rectangle bound, exact, for all pairs at once: a knapsack over domains by dynamic programming.

Domain k is touched by r rows and q columns and holds n <= min(c_k, r * q) cells.  ``most_cells(S, R)`` is the largest
sum of n under sum r <= R * D and sum q <= S * P: below D * P the pair is impossible.  It is the coverage bound without
its integrality gap, in integers throughout.

Per domain and q only two values of r matter, the full heights floor(c / q) and ceil(c / q), except for at most one
domain of the whole cluster: of two domains that are touched by less than their full height, a row moved from the
smaller q to the larger loses nothing.  The table carries that one exception as a second layer.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from topology.cluster import IntArray

_NEVER = np.int32(-(10**9))


class RectangleBound:
    """Most cells that pairs can cover.

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
        """Array elements that building the table touches, to decide beforehand whether it is worth it."""
        asked = list(pairs)
        states = max(dp for dp, _ in asked) * problem.columns * max(pp for _, pp in asked) * problem.rows
        return 10.0 * states * len(problem.capacities) * problem.columns

    def knows(self, pair: Pair) -> bool:
        """Whether the table reaches as far as the pair."""
        return pair[0] * self._problem.columns <= self._columns and pair[1] * self._problem.rows <= self._rows

    def most_cells(self, pair: Pair) -> int:
        """Most cells that any choice of rectangles covers with this pair."""
        dp, pp = pair
        return int(self._most[dp * self._problem.columns, pp * self._problem.rows])

    def refutes(self, pair: Pair) -> bool:
        """Whether no choice of rectangles covers all cells."""
        return self.most_cells(pair) < self._problem.cells

    def spare_rows(self, pair: Pair) -> int:
        """Row touches that the pair allows beyond the fewest with which rectangles cover all cells."""
        dp, pp = pair
        enough = self._most[dp * self._problem.columns] >= self._problem.cells
        return pp * self._problem.rows - int(enough.argmax())

    def spare_columns(self, pair: Pair) -> int:
        """Column touches that the pair allows beyond the fewest with which rectangles cover all cells."""
        dp, pp = pair
        enough = self._most[:, pp * self._problem.rows] >= self._problem.cells
        return dp * self._problem.columns - int(enough.argmax())

    def _fill(self) -> IntArray:
        """Shape [sum q + 1, sum r + 1]: most cells within these sums."""
        full = np.zeros((self._columns + 1, self._rows + 1), dtype=np.int32)
        any_height = full.copy()
        for capacity in self._problem.capacities:
            full, any_height = self._with_domain(capacity, full, any_height)
        return any_height

    def _with_domain(self, capacity: int, full: IntArray, any_height: IntArray) -> tuple[IntArray, IntArray]:
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
                below = full[: self._columns + 1 - q] - q * ramp
                _raise(new_any[q:], _window_maximum(below, height) + q * ramp)
        _raise(new_any, new_full)
        return new_full, new_any


def _raise(target: IntArray, other: IntArray) -> None:
    np.maximum(target, other, out=target)


def _window_maximum(values: IntArray, width: int) -> IntArray:
    """Maximum over the last ``width`` entries along the last axis (van Herk's two running maxima per block)."""
    length = values.shape[-1]
    if width >= length:
        return np.maximum.accumulate(values, axis=-1)
    padding = np.full((*values.shape[:-1], -length % width), _NEVER, dtype=np.int32)
    blocks = np.concatenate([values, padding], axis=-1).reshape(*values.shape[:-1], -1, width)
    forward = np.maximum.accumulate(blocks, axis=-1).reshape(*values.shape[:-1], -1)[..., :length]
    backward = np.maximum.accumulate(blocks[..., ::-1], axis=-1)[..., ::-1].reshape(*values.shape[:-1], -1)
    result: IntArray = forward.copy()
    _raise(result[..., width - 1 :], backward[..., : length - width + 1])
    return result
