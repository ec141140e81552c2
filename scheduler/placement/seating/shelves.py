"""Shelves: the cells of a parcel cut into rectangles, these into bands of rows or columns, and the orders of the cells.

A shelf is a band of rows.  It is filled column after column, one shelf forth, the next back.  The same with rows and
columns exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from topology.cluster import BoolArray, IntArray

_MOST_BANDS = 24  # Numbers of shelves tried in either direction: all small ones, then ever fewer


def pieces_of(rows: IntArray, columns: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Cut blocks into rectangles (row set x column set): rows with the same columns make one, or columns with the same
    rows where that gives fewer.

    :param rows: shape [blocks], the row of each block; ``columns``: its column.
    :returns: for each block its piece, and its row and column within the piece, each shape [blocks].
    """
    row, column = _number(rows), _number(columns)
    mask = np.zeros((int(row.max()) + 1, int(column.max()) + 1), dtype=np.bool_)
    mask[row, column] = True
    # a full rectangle is one piece
    if mask.all():
        return np.zeros_like(row), row, column
    row_piece, column_piece = _number_rows(mask), _number_rows(mask.T)
    piece = row_piece[row] if row_piece.max() <= column_piece.max() else column_piece[column]
    inner_row, inner_column = np.empty_like(row), np.empty_like(column)
    for p in range(int(piece.max()) + 1):
        members = piece == p
        inner_row[members] = _number(row[members])
        inner_column[members] = _number(column[members])
    return piece, inner_row, inner_column


def extent(piece: IntArray, position: IntArray) -> IntArray:
    """Return the rows (or columns) of the piece of each block, given its row (or column) within it; shapes [blocks]."""
    most = np.zeros(int(piece.max()) + 1, dtype=np.int32)
    np.maximum.at(most, piece, position + 1)
    return most[piece]


def _number(values: IntArray) -> IntArray:
    """Replace the values by their rank among the distinct ones."""
    return np.unique(values, return_inverse=True)[1].astype(np.int32)


def _number_rows(mask: BoolArray) -> IntArray:
    """Return the kind of each row of a table, equal rows alike; kinds numbered by first appearance."""
    packed = np.packbits(mask, axis=1)
    _, first, kind = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[kind.ravel()].astype(np.int32)


def shelf_orders(rows: IntArray, columns: IntArray) -> npt.NDArray[np.int64]:
    """Return the orders, shape [orders, cells], in which shelves of every height are filled, both ways round.

    :param rows: shape [cells], the row of each cell; ``columns``: its column.
    """
    piece, row, column = pieces_of(rows, columns)
    orders = []
    for across, along in ((row, column), (column, row)):
        depth = extent(piece, across)
        bands = np.array(_band_counts(int(depth.max())))[:, None]
        band = across * np.minimum(bands, depth) // depth
        # one number by which cells are sorted: shelf after shelf, one forth, the next back
        width = int(along.max()) + 1
        shelf = (piece * bands + band) * width + np.where(band % 2, width - 1 - along, along)
        orders.append(np.argsort(shelf * (int(across.max()) + 1) + across, axis=1))
    return np.concatenate(orders)


def shelves(pieces: tuple[IntArray, IntArray, IntArray]) -> Iterator[tuple[int, IntArray, IntArray, IntArray]]:
    """Yield numbers of shelves, and for each cell its shelf and where it lies along and across shelves."""
    piece, row, column = pieces
    for across, along in ((row, column), (column, row)):
        depth = extent(piece, across)
        for bands in _band_counts(int(depth.max())):
            yield bands, across * np.minimum(bands, depth) // depth, along, across


def _band_counts(most: int) -> list[int]:
    """Return the numbers of bands that cut ``most`` lines in really different ways: one for each height of a band."""
    counts = sorted({-(-most // -(-most // bands)) for bands in range(1, most + 1)})
    if len(counts) <= _MOST_BANDS:
        return counts
    return sorted({counts[i] for i in np.geomspace(1, len(counts), _MOST_BANDS).astype(int) - 1})


def back_and_forth(piece: IntArray, band: IntArray, along: IntArray, across: IntArray) -> npt.NDArray[np.int64]:
    """Return the order of shelf after shelf, one forth, the next back."""
    return np.lexsort((across, np.where(band % 2, -along, along), band, piece))
