"""The rectangle bound of one pair by regrets: quick where multipliers leave little slack, on any number of domains.

Let n_k be at most ``min(c_k, r q)`` for the shape (r, q) of domain k, lambda and mu prices of a row and a column
touched, and G_k the most that a shape of it is worth, ``n - lambda r - mu q``, at least 0.  In every placement the
regrets ``G_k - worth`` of all domains, and the prices of touches that the pair allows beyond those made, are together
at most ``lambda R D + mu S P + sum G_k - D P``, the *slack*.  So each domain has few shapes, and a table over the sums
of r and of q keeps the least regret of each.  Where no entry with its touches left over is within the slack, no
shapes cover all cells.  Prices are whole parts of a cell, so all of it is in integers.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.types import Pair
from scheduler.witnesses import Multipliers
from scheduler.work_clock import spend
from topology.cluster import IndexArray

_ENTRY_SECONDS, _SHAPE_SECONDS = 2e-9, 1e-5  # Of work: an entry of the table, and a shape on it

_NEVER = np.int64(1 << 62)  # More than any slack

_LARGEST = 1 << 60  # Worths up to which their sums fit into 64 bits


class OutOfEntries(Exception):
    """The table grows beyond what is worth it."""


def regrets_refute(problem: GridProblem, pair: Pair, prices: Multipliers, *, entries: int) -> bool:
    """Return whether no shapes of all domains cover the grid within the touches of a pair.

    :param entries: of all tables together, beyond which :class:`OutOfEntries` is raised.
    """
    touches = pair[1] * problem.rows, pair[0] * problem.columns
    if prices.unit * problem.capacities[0] + prices.row * problem.rows + prices.column * problem.columns > _LARGEST:
        raise OutOfEntries
    best = {c: _most_worth(problem, c, prices) for c in set(problem.capacities)}
    slack = prices.row * touches[0] + prices.column * touches[1] - prices.unit * problem.cells
    slack += sum(best[c] for c in problem.capacities)
    if not 0 <= slack < _LARGEST:
        return slack < 0
    table, corner = np.zeros((1, 1), dtype=np.int64), (0, 0)
    for capacity, count in sorted(Counter(problem.capacities).items()):
        shapes = _shapes(problem, capacity, prices, (best[capacity], slack), entries // len(problem.capacities))
        for _ in range(count):
            size = len(shapes) * _size(table, shapes)
            if (entries := entries - size) < 0:
                raise OutOfEntries
            spend(_ENTRY_SECONDS * size + _SHAPE_SECONDS * len(shapes))
            table, corner = _with_domain(table, corner, shapes, slack)
            if not table.size:
                return True
    rows, columns = (np.array(touches[axis] - corner[axis] - np.arange(table.shape[axis])) for axis in (0, 1))
    within = table + np.maximum(0, prices.row * rows[:, None]) + np.maximum(0, prices.column * columns) <= slack
    return not bool((within & (rows >= 0)[:, None] & (columns >= 0)).any())


def _most_worth(problem: GridProblem, capacity: int, prices: Multipliers) -> int:
    """Return the most that a shape of a domain is worth: at the last height that it fills, or the one after."""
    most = 0
    for q in range(1, problem.columns + 1):
        for r in (capacity // q, -(-capacity // q)):
            rows = min(r, problem.rows)
            most = max(most, prices.unit * min(capacity, rows * q) - prices.row * rows - prices.column * q)
    return most


def _shapes(problem: GridProblem, capacity: int, prices: Multipliers, limit: tuple[int, int], most: int) -> IndexArray:
    """Return (r, q, regret) of the shapes that lose no more than the slack, shape [shapes, 3]; (0, 0) = not in use.

    :param limit: the most that a shape is worth, and the slack; ``most``: shapes, beyond which there are too many.
    """
    best, slack = limit
    found = [(0, 0, best)] if best <= slack else []
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
                    found.append((r, q, regret))
                elif stop:
                    break
                if len(found) > most:
                    raise OutOfEntries
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def _size(table: IndexArray, shapes: IndexArray) -> int:
    """Return the entries of a table with one domain more."""
    if not len(shapes):
        return 0
    return int(np.prod([np.ptp(shapes[:, axis]) + table.shape[axis] for axis in (0, 1)]))


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
    found = np.full((rows, columns), _NEVER)
    for r, q, regret in (shapes - [*low.tolist(), 0]).tolist():
        at = found[r : r + table.shape[0], q : q + table.shape[1]]
        np.minimum(at, table + regret, out=at)
    found[found > slack] = _NEVER
    alive = found < _NEVER
    if not alive.any():
        return np.empty((0, 0), dtype=np.int64), corner
    some = [np.flatnonzero(alive.any(axis=1 - axis)) for axis in (0, 1)]
    first = corner[0] + int(low[0] + some[0][0]), corner[1] + int(low[1] + some[1][0])
    return found[some[0][0] : some[0][-1] + 1, some[1][0] : some[1][-1] + 1], first
