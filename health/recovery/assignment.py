"""A perfect matching of least cost, for costs that are cheaper to compute than to store.

Shortest augmenting paths with dual prices (Jonker and Volgenant 1987), one row of costs at a time: memory grows with
the number of rows, not with its square, and the dual prices prove the answer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Costs = npt.NDArray[np.int64]

FORBIDDEN = 2**60  # Cost of a pair that must not be.  All costs of a matching together stay below an eighth of it
_NEVER = 2**62


def assign(size: int, costs: Callable[[int], Costs]) -> npt.NDArray[np.int64]:
    """Return the column of each row.

    :param costs: of a row, the cost of every column, shape [size], at least 0; a copy that may be kept.
    :returns: shape [size], a permutation; pairs that are :data:`FORBIDDEN` only where there is no other.
    """
    of_row, of_column = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    row_at = np.full(size, -1, dtype=np.int64)
    column_at = np.full(size, -1, dtype=np.int64)
    for start in range(size):
        shortest = np.full(size, _NEVER, dtype=np.int64)
        before = np.full(size, -1, dtype=np.int64)
        scanned = np.zeros(size, dtype=np.bool_)
        rows, length, row = [start], np.int64(0), start
        while True:
            reach = costs(row) - of_column + (length - of_row[row])
            better = (reach < shortest) & ~scanned
            shortest[better] = reach[better]
            before[better] = row
            column, length = _nearest(shortest, scanned, row_at)
            scanned[column] = True
            if row_at[column] < 0:
                break
            row = int(row_at[column])
            rows.append(row)
        of_row[start] += length
        for other in rows[1:]:
            of_row[other] += length - shortest[column_at[other]]
        of_column[scanned] += shortest[scanned] - length
        while True:
            row = int(before[column])
            row_at[column] = row
            column, column_at[row] = int(column_at[row]), column
            if row == start:
                break
    return column_at


def _nearest(shortest: Costs, scanned: npt.NDArray[np.bool_], row_at: npt.NDArray[np.int64]) -> tuple[int, np.int64]:
    """Return the column at the least distance of those not scanned, a free one among equals."""
    distance = np.where(scanned, _NEVER, shortest)
    least = distance.min()
    ties = np.flatnonzero(distance == least)
    free = ties[row_at[ties] < 0]
    return int(free[0] if len(free) else ties[0]), least
