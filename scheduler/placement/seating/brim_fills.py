"""Quick fills of a parcel: the cells in every order that counts, on one sequence of domains, all counted at once.

A domain takes as many cells, one after another in some order, as it has room for: filled *to the brim*.  The orders are
those of shelves (:mod:`scheduler.placement.seating.shelves`); they depend on the shape of a parcel alone and are kept.
No search, no solver: what comes of it is good, and nothing is proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from scheduler.placement.seating.shelves import shelf_orders
from scheduler.placement.types import Pair
from topology.cluster import IntArray

_KEPT = 512  # shapes of parcels whose orders are kept: about a megabyte at a hundred cells each
_MOST_ORDERS = 12  # orders tried of a shape, evenly spread over the numbers of shelves


@dataclass(frozen=True, slots=True)
class ShapeOrders:
    """Orders in which the cells of a parcel are filled; every cell is in two lines, its column and its row."""

    columns: int  # lines are numbered: the columns, then the rows
    lines: int
    line: IntArray  # shape [2 x cells], the column of each cell, then the row of each
    # shape [orders, 2 x cells], the place of each of these cells in the sequence; in the first order row by row
    place: IntArray


@lru_cache(_KEPT)
def orders_of(row: bytes, column: bytes) -> ShapeOrders:
    """Return the orders of a parcel.

    :param row: shape [cells] of int32, the row of each cell; ``column``: its column; rows and columns without a cell
        count for nothing.
    """
    rows, row_of = np.unique(np.frombuffer(row, dtype=np.int32), return_inverse=True)
    columns, column_of = np.unique(np.frombuffer(column, dtype=np.int32), return_inverse=True)
    of_row, of_column = row_of.astype(np.int32), column_of.astype(np.int32)
    orders = [np.lexsort((of_column, of_row)), *shelf_orders(of_row, of_column)]
    places: dict[bytes, IntArray] = {}
    for order in orders:
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        places.setdefault(place.tobytes(), place)
    kept = list(places.values())
    if len(kept) > _MOST_ORDERS:
        kept = [kept[i] for i in np.linspace(0, len(kept) - 1, _MOST_ORDERS).astype(int)]
    lines = np.concatenate([of_column, len(columns) + of_row])
    return ShapeOrders(len(columns), len(columns) + len(rows), lines, np.tile(np.stack(kept), 2))


def best_fill(
    shape: ShapeOrders, sequence: IntArray, row_by_row: IntArray, *, dp_weight: float, pp_weight: float
) -> tuple[IntArray, Pair]:
    """Return the fill with the least of the weighted spreads, of equal ones that with the fewest touches in all.

    :param sequence: shape [cells], the domain of each place, numbered from 0; ``row_by_row``: another, tried in the
        first order alone.
    :returns: shape [cells], the domain of each cell; and the most domains that a column touches, and a row.
    """
    child = np.concatenate([sequence[shape.place], row_by_row[shape.place[:1]]])
    fills, children = len(child), 1 + int(max(sequence.max(), row_by_row[-1]))
    seen = np.zeros(fills * shape.lines * children, dtype=np.bool_)
    first = np.arange(0, len(seen), shape.lines * children)
    seen[child + (shape.line * children + first[:, None])] = True
    touched = np.add.reduce(seen.reshape(fills, shape.lines, children), axis=2, dtype=np.int32)
    dp, pp = touched[:, : shape.columns].max(axis=1), touched[:, shape.columns :].max(axis=1)
    # the cost decides: sums of touches are whole numbers, smaller than what they are divided by
    cost = dp_weight * dp + pp_weight * pp + np.add.reduce(touched, axis=1) / (1e6 * child.size)
    best = int(cost.argmin())
    return child[best, : len(sequence)], (int(dp[best]), int(pp[best]))
