"""How many cells a pair of spreads can cover where single rows and columns must add up, recounted in whole numbers.

The domains that a row touches are at most R, and their widths come to P or more; those that a column touches are at
most S, and their heights come to D or more.  Weigh every width and every height somehow: let U be the least weight of
such widths, V of such heights.  A domain of r rows and q columns is in r rows with its width and in q columns with its
height, so all these weights come to D U and P V at least.  So to the worth of a domain
(:mod:`scheduler.verification.covering`) come r times the weight of its width and q times that of its height, and from
what all domains may have go D U and P V.  What is left below D P refutes the pair, whatever charges and weights are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from scheduler.objective import Spread
from scheduler.verification.counted_grid import CountedGrid
from scheduler.verification.effort import CALL, MOST_ENTRIES, Effort, TooMuch
from scheduler.witnesses import PatternPrices

_LARGEST = 2**62  # Numbers up to which sums of two fit into 64 bits
_TABLES = 5  # Of all shapes, that are made for each capacity


def pattern_slack(grid: CountedGrid, pair: Spread, prices: PatternPrices, effort: Effort) -> int:
    """Return how many more cells than those of the grid may be covered, in parts; below 0 the pair is refuted.

    :param prices: with a weight for every width up to P and every height up to D.
    :raises TooMuch: the grid or the numbers are too large.
    """
    rows, columns = grid.rows, grid.columns
    weights = rows * max(prices.widths) + columns * max(prices.heights)
    largest = weights + prices.unit * grid.cells + prices.row * rows + prices.column * columns
    if largest >= _LARGEST or _TABLES * grid.cells > MOST_ENTRIES:
        raise TooMuch
    row = least_weight(prices.widths, pair.pp, effort)
    column = least_weight(prices.heights, pair.dp, effort)
    slack = prices.row * pair.pp * rows + prices.column * pair.dp * columns - rows * row - columns * column
    effort.take(CALL + _TABLES * grid.cells)
    r, q = np.arange(1, rows + 1)[:, None], np.arange(1, columns + 1)[None, :]
    gained = r * np.array(prices.widths)[None, :] + q * np.array(prices.heights)[:, None]
    gained -= prices.row * r + prices.column * q
    for capacity, count in Counter(grid.capacities).items():
        effort.take(CALL + _TABLES * grid.cells)
        worth = prices.unit * np.minimum(capacity, r * q) + gained
        slack += count * max(0, int(worth.max()))
    return slack - prices.unit * grid.cells


def least_weight(weights: Sequence[int], parts: int, effort: Effort) -> int:
    """Return the least weight of at most so many sizes that add up to the largest one or more.

    :param weights: of the sizes 1, 2, ...; none below zero.
    """
    total = len(weights)
    # least[t]: of so many sizes that add up to t or more
    least = np.full(total + 1, _LARGEST, dtype=np.int64)
    least[0] = 0
    for _ in range(min(parts, total)):
        effort.take(total * CALL)
        found = least.copy()
        for size, weight in enumerate(weights, start=1):
            with_one = np.concatenate([np.full(size, least[0]), least[: total + 1 - size]]) + weight
            np.minimum(found, with_one, out=found)
        if np.array_equal(found, least):
            break
        least = found
    return int(least[total])
