"""Quick fills of a parcel: the cells in every order that counts, on one sequence of domains, all counted at once.

A domain takes as many cells, one after another in some order, as it has room for: filled *to the brim*.  The orders are
those of shelves (:mod:`scheduler.placement.seating.shelves`); they depend on the shape of a parcel alone and are kept.
No search, no solver: what comes of it is good, and nothing is proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.placement.seating.shelves import shelf_orders
from scheduler.placement.types import Pair
from topology.cluster import IntArray

Indices = npt.NDArray[np.integer[Any]]

_KEPT = 512  # shapes of parcels whose orders are kept: about a megabyte at a hundred cells each
_WORD = 64  # bits of a word
_BITS = np.uint64(1) << np.arange(_WORD, dtype=np.uint64)
_MOST_ORDERS = 12  # orders tried of a shape, evenly spread over the numbers of shelves


@dataclass(frozen=True, slots=True)
class ShapeOrders:
    """Orders in which the cells of a parcel are filled; every cell is in two lines, its column and its row.

    Places are those of two sequences, one after the other.  The last order is the first, row by row, on the second.
    """

    place: Indices  # shape [orders, cells], the place of each cell
    columns: int  # lines are numbered: the columns, then the rows
    starts: Indices  # shape [lines], where the places of each line begin in `by_line`
    by_line: Indices  # shape [orders, 2 x cells], the places of the cells of one line after another


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
    place = np.stack([*kept, kept[0] + len(of_row)]).astype(np.intp)
    line = np.concatenate([of_column, len(columns) + of_row])
    alike = np.argsort(line, kind="stable")
    starts = np.searchsorted(line[alike], np.arange(len(columns) + len(rows)))
    return ShapeOrders(place, len(columns), starts, np.tile(place, 2)[:, alike])


def best_fill(
    shape: ShapeOrders, sequence: IntArray, row_by_row: IntArray, *, dp_weight: float, pp_weight: float
) -> tuple[IntArray, Pair]:
    """Return the fill with the least of the weighted spreads, of equal ones that with the fewest touches in all.

    :param sequence: shape [cells], the domain of each place, numbered from 0; ``row_by_row``: another, tried in the
        first order alone.
    :returns: shape [cells], the domain of each cell; and the most domains that a column touches, and a row.
    """
    domain = np.concatenate([sequence, row_by_row])
    # the domains that a line touches are bits of words
    touched = np.zeros((len(shape.place), len(shape.starts)), dtype=np.int32)
    for bits in _words(domain):
        touched += np.bitwise_count(np.bitwise_or.reduceat(bits[shape.by_line], shape.starts, axis=1))
    dp, pp = touched[:, : shape.columns].max(axis=1), touched[:, shape.columns :].max(axis=1)
    # the cost decides: sums of touches are whole numbers, smaller than what they are divided by
    cost = dp_weight * dp + pp_weight * pp + touched.sum(axis=1) / (1e6 * shape.by_line.size)
    best = int(cost.argmin())
    return domain[shape.place[best]], (int(dp[best]), int(pp[best]))


def _words(domain: IntArray) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield for each word the bit that each domain has in it, if any; of the shape of the domains, numbered from 0."""
    if (last := int(domain.max())) < _WORD:
        yield _BITS[domain]
        return
    for word in range(last // _WORD + 1):
        yield np.where(domain // _WORD == word, _BITS[domain % _WORD], np.uint64(0))
