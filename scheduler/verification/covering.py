"""How many cells a pair of spreads can cover, recounted in whole numbers.

Domain k is touched by r rows and q columns and holds at most min(c_k, r q) cells; all r come to at most R D, all q to
at most S P.  Charge every touched row and every touched column something, and call what a domain holds less its charges
its *worth*.  In any placement the cells D P are at most the worths and all that can be charged, whatever the charges
are.  By how much these are more than D P is the *slack*: below zero the pair is impossible.  Else no placement gives up
more than the slack, where a choice (r, q) of a domain gives up what the domain's best choice is worth more.  So few
choices are left that all their combinations can be tried, a table of row and column touches, domain by domain.

Charges are whole parts of a cell, so nothing is rounded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from scheduler.objective import Spread
from scheduler.verification.counted_grid import CountedGrid
from scheduler.verification.effort import CALL, MOST_ENTRIES, Effort, TooMuch
from scheduler.witnesses import Multipliers
from topology.cluster import IndexArray

WORTH = 1_000  # Steps that it takes to weigh the choices of a domain that have one width
LARGEST = 2**61  # Numbers up to which sums of two fit into 64 bits

_NEVER = np.int64(2**62)  # More than any slack


@dataclass(frozen=True, slots=True)
class Covering:
    """One pair on one grid, with charges; lines of the longer side of the grid are called rows."""

    rows: int
    columns: int
    row_touches: int  # at most, of all domains together
    column_touches: int
    row_charge: int  # in parts of a cell
    column_charge: int
    unit: int  # parts of a cell
    capacities: tuple[int, ...]

    @classmethod
    def of(cls, grid: CountedGrid, pair: Spread, charges: Multipliers) -> Covering:
        """Return the covering for a pair, turned so that there are no more columns than rows."""
        touches = pair.pp * grid.rows, pair.dp * grid.columns
        sides, charged = (grid.rows, grid.columns), (charges.row, charges.column)
        if grid.columns > grid.rows:
            sides, touches, charged = sides[::-1], touches[::-1], charged[::-1]
        return cls(*sides, *touches, *charged, charges.unit, grid.capacities)

    @property
    def work(self) -> int:
        """Return the steps that it takes to find the slack."""
        return WORTH * self.columns * len(set(self.capacities))

    @property
    def slack(self) -> int:
        """What the charged bound is above the cells to place, in parts of a cell; below 0 the pair is impossible."""
        worth = sum(count * self._best(capacity) for capacity, count in Counter(self.capacities).items())
        charged = self.row_charge * self.row_touches + self.column_charge * self.column_touches
        return worth + charged - self.unit * self.rows * self.columns

    def _best(self, capacity: int) -> int:
        """Return the largest worth of a domain, 0 where none is better than not to be touched."""
        best = 0
        for width in range(1, self.columns + 1):
            # the worth of a width rises or falls by one amount for each row that is filled, and falls beyond
            for height in (capacity // width, -(-capacity // width)):
                rows = min(height, self.rows)
                cells = min(capacity, rows * width)
                best = max(best, self.unit * cells - self.row_charge * rows - self.column_charge * width)
        return best

    def fits(self, slack: int, effort: Effort) -> bool:
        """Return whether some choice for every domain covers all cells; raise TooMuch where that is too large.

        :param slack: that of the pair, not below 0.
        """
        if max(slack, self.unit * max(self.capacities), self.row_charge, self.column_charge) * 4 >= LARGEST:
            raise TooMuch
        table = np.zeros((1, 1), dtype=np.int64)  # least given up, by rows and columns touched
        corner = (0, 0)  # touches that the first entry of the table stands for
        for capacity, count in sorted(Counter(self.capacities).items(), reverse=True):
            effort.take(CALL + 10 * self.rows * self.columns)
            choices = self._choices(capacity, slack)
            for _ in range(count):
                effort.take(len(choices) * (table.size + CALL))
                table, corner = self._with_domain(table, corner, choices, slack)
                if not table.size:
                    return False
        # a touch that is left over is charged, and was given up too
        rows = self.row_touches - corner[0] - np.arange(table.shape[0])
        columns = self.column_touches - corner[1] - np.arange(table.shape[1])
        left_over = self.row_charge * rows[:, None] + self.column_charge * columns[None, :]
        return bool((table + left_over <= slack).any())

    def _choices(self, capacity: int, slack: int) -> IndexArray:
        """Return (rows, columns, given up) of the choices that give up no more than the slack, shape [choices, 3]."""
        rows, columns = np.arange(1, self.rows + 1)[:, None], np.arange(1, self.columns + 1)[None, :]
        cells = np.minimum(capacity, rows * columns).astype(np.int64)
        given_up = self._best(capacity) - (self.unit * cells - self.row_charge * rows - self.column_charge * columns)
        r, q = np.nonzero(given_up <= slack)
        found = np.stack([r + 1, q + 1, given_up[r, q]], axis=1)
        untouched = [[0, 0, self._best(capacity)]] if self._best(capacity) <= slack else np.empty((0, 3), np.int64)
        return np.concatenate([untouched, found]).astype(np.int64)

    def _with_domain(
        self, table: IndexArray, corner: tuple[int, int], choices: IndexArray, slack: int
    ) -> tuple[IndexArray, tuple[int, int]]:
        """Return the table with one domain more, cut to what gives up no more than the slack."""
        if not len(choices):
            return np.empty((0, 0), dtype=np.int64), corner
        low, high = choices[:, :2].min(axis=0), choices[:, :2].max(axis=0)
        first = corner[0] + int(low[0]), corner[1] + int(low[1])
        # no more touches than the pair allows
        shape = (
            min(table.shape[0] + int(high[0] - low[0]), self.row_touches - first[0] + 1),
            min(table.shape[1] + int(high[1] - low[1]), self.column_touches - first[1] + 1),
        )
        if min(shape) < 1:
            return np.empty((0, 0), dtype=np.int64), first
        if shape[0] * shape[1] > MOST_ENTRIES:
            raise TooMuch
        found = np.full(shape, _NEVER, dtype=np.int64)
        for r, q, given_up in choices.tolist():
            at = found[r - low[0] :, q - low[1] :][: table.shape[0], : table.shape[1]]
            np.minimum(at, table[: at.shape[0], : at.shape[1]] + given_up, out=at)
        alive = found <= slack
        found[~alive] = _NEVER
        rows, columns = np.flatnonzero(alive.any(axis=1)), np.flatnonzero(alive.any(axis=0))
        if not len(rows):
            return np.empty((0, 0), dtype=np.int64), first
        cut = found[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        return cut, (first[0] + int(rows[0]), first[1] + int(columns[0]))
