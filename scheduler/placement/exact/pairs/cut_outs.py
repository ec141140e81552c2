"""Rectangles cut out of the largest domain: S = 2 or R = 2 where one domain is much larger than the rest.

The largest domain lies under all cells, and every other one in use covers a rectangle of rows by columns.  Where the
rectangles share no columns, a column touches two domains at most; where they go round the rows, each of them adds one
domain to the rows that it has, and S = 2 comes with R = 1 + ceil(sum of heights / D).  Unbalanced trees have such
clusters: half of the nodes below one switch, the others below many.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.types import Pair
from topology.cluster import IntArray


def cut_outs(problem: GridProblem, pair: Pair) -> IntArray | None:
    """Return the domain of each cell, shape [rows, columns], with at most two domains a column; ``None`` = not so.

    :param pair: (S, R) that is wanted; S above 2 is left to the transposed problem and to others.
    """
    if pair[0] != 2 or pair[1] < 2:
        return None
    cells = fewest_cut_outs(problem)
    return None if cells is None or problem.pair_of(cells)[1] > pair[1] else cells


def fewest_cut_outs(problem: GridProblem) -> IntArray | None:
    """Return the domain of each cell, shape [rows, columns], with at most two domains a column; ``None`` = not so."""
    sizes = _cut(problem)
    widths = _widths(sizes, problem.rows, problem.columns)
    if sum(widths) > problem.columns:
        return None
    heights = [-(-size // width) for size, width in zip(sizes, widths, strict=True)]
    cells = np.zeros((problem.rows, problem.columns), dtype=np.int32)
    row = column = 0
    for k, (size, width, height) in enumerate(zip(sizes, widths, heights, strict=True), 1):
        rows = (row + np.arange(size) // width) % problem.rows
        cells[rows, column + np.arange(size) % width] = k
        row, column = row + height, column + width
    return cells


def _cut(problem: GridProblem) -> list[int]:
    """Return how many cells lie on each of the largest domains but the first, as few of them as hold all cells."""
    left = problem.cells - problem.capacities[0]
    sizes = []
    for capacity in problem.capacities[1:]:
        if left <= 0:
            break
        sizes.append(min(capacity, left))
        left -= capacity
    return sizes


def _widths(sizes: Sequence[int], rows: int, columns: int) -> list[int]:
    """Return widths of rectangles with so many cells, no more columns together, that are low together.

    Each is as narrow as its height allows, and then one column wider where that saves most rows.
    """
    widths = [max(1, -(-size // rows)) for size in sizes]
    saved = [(_saving(size, width), k) for k, (size, width) in enumerate(zip(sizes, widths, strict=True))]
    heapq.heapify(saved)
    for _ in range(columns - sum(widths)):
        if not saved:
            break
        _, k = saved[0]
        widths[k] += 1
        heapq.heapreplace(saved, (_saving(sizes[k], widths[k]), k))
    return widths


def _saving(size: int, width: int) -> float:
    """Return what one column more changes the height by, rows in fractions: negative."""
    return size / (width + 1) - size / width
