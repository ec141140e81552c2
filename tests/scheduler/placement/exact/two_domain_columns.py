"""What R tiny grids can have with S = 2, by trying all columns on two domains: the judge of components.

It shares no code with the solver.  Columns are added one by one; what is remembered is which domains each row touches
and how many cells each domain holds.  One enumeration answers for every capacity at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

States = npt.NDArray[np.int64]  # shape [states, rows + domains]: domains of each row as bits, sorted; cells per domain

_BASE = 32  # More than the cells of a grid, and than the bits of five domains


def fits_in_two(rows: int, columns: int, capacities: Sequence[int], pp: int) -> bool:
    """Whether some placement keeps to the capacities, with columns on at most two domains and rows on at most R."""
    room = sorted(capacities, reverse=True)
    known = least_spread(rows, columns, len(room))
    return any(r <= pp and all(n <= c for n, c in zip(usage, room, strict=True)) for usage, r in known.items())


@cache
def least_spread(rows: int, columns: int, domains: int) -> dict[tuple[int, ...], int]:
    """Least R of all placements with S <= 2, by the cells that the domains hold, in descending order."""
    of_column = {c for pair in combinations(range(domains), min(2, domains)) for c in product(pair, repeat=rows)}
    states = np.zeros((1, rows + domains), dtype=np.int64)
    for _ in range(columns):
        states = _distinct([_with_column(states, np.array(column), rows) for column in sorted(of_column)])
    least: dict[tuple[int, ...], int] = {}
    spreads = np.bitwise_count(states[:, :rows]).max(axis=1)
    for usage, spread in zip(np.sort(states[:, rows:], axis=1)[:, ::-1].tolist(), spreads.tolist(), strict=True):
        key = tuple(usage)
        least[key] = min(spread, least.get(key, domains))
    return least


def _with_column(states: States, column: States, rows: int) -> States:
    touched = np.sort(states[:, :rows] | 1 << column, axis=1)
    usage = states[:, rows:] + np.bincount(column, minlength=states.shape[1] - rows)
    return np.concatenate([touched, usage], axis=1)


def _distinct(states: Sequence[States]) -> States:
    width = states[0].shape[1]
    digits = _BASE ** np.arange(width, dtype=np.int64)
    codes = np.unique(np.concatenate([some @ digits for some in states]))
    return codes[:, None] // digits % _BASE
