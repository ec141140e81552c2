"""A parcel: the blocks that one domain holds, and the children of the domain that share them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scheduler.job import Family
from topology.cluster import IntArray


@dataclass(frozen=True, slots=True)
class ParcelGroups:
    """The communication groups of one family that have cells in a parcel.

    :param ids: shape [groups], their numbers in the whole job.
    :param of_cell: shape [cells], index into ``ids``.
    """

    ids: IntArray
    of_cell: IntArray

    def touched(self, child_of_cell: IntArray, children: int) -> IntArray:
        """Return how many children each group touches, shape [groups]."""
        touches = np.zeros((len(self.ids), children), dtype=np.bool_)
        touches[self.of_cell, child_of_cell] = True
        count: IntArray = np.count_nonzero(touches, axis=1).astype(np.int32)
        return count


@dataclass(frozen=True)
class Parcel:
    """What one domain has to share out among its children.

    :param rows: shape [blocks], the block row of each block.
    :param columns: shape [blocks], the block column of each block.
    :param capacities: shape [children], blocks each child can take; descending, none of them zero.
    :param block_of_cell: shape [cells], the block each cell of the parcel belongs to.
    :param groups: the communication groups whose spread matters.
    """

    rows: IntArray
    columns: IntArray
    capacities: IntArray
    block_of_cell: IntArray
    groups: Mapping[Family, ParcelGroups]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def shape(self) -> tuple[bytes, ...]:
        """Equal for parcels that differ only in where they lie: they have the same fillings."""
        groups = (groups.of_cell for groups in self.groups.values())
        return tuple(array.tobytes() for array in (*self.pieces, self.capacities, self.block_of_cell, *groups))

    @cached_property
    def pieces(self) -> tuple[IntArray, IntArray, IntArray]:
        """The parcel cut into rectangles (row set x column set): rows with the same columns make one, or columns with
        the same rows where that gives fewer.

        :returns: for each block its piece, and its row and column within the piece, each shape [blocks].
        """
        row, column = _number(self.rows), _number(self.columns)
        mask = np.zeros((int(row.max()) + 1, int(column.max()) + 1), dtype=np.bool_)
        mask[row, column] = True
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

    @cached_property
    def turns(self) -> tuple[IntArray, ...]:
        """Permutations of the blocks that leave the spread of a filling as it is and change which row or column bears
        it: rows, or columns, of every piece mirrored, or moved on by half of them.

        :returns: shape [blocks] each: the block whose place each block takes; the first changes nothing.
        """
        piece, row, column = self.pieces
        height, width = extent(piece, row), extent(piece, column)
        positions = (
            (row, column),
            (height - 1 - row, column),
            (row, width - 1 - column),
            ((row + height // 2) % height, column),
            (row, (column + width // 2) % width),
        )
        places = np.lexsort((column, row, piece))
        turns = []
        for new_row, new_column in positions:
            turn = np.empty(len(self), dtype=np.int32)
            turn[np.lexsort((new_column, new_row, piece))] = places
            turns.append(turn)
        return tuple(turns)


def extent(piece: IntArray, position: IntArray) -> IntArray:
    """Return the rows (or columns) of the piece of each block, shape [blocks].

    :param piece: shape [blocks].
    :param position: shape [blocks], row (or column) of each block within its piece.
    """
    most = np.zeros(int(piece.max()) + 1, dtype=np.int32)
    np.maximum.at(most, piece, position + 1)
    return most[piece]


def _number(values: IntArray) -> IntArray:
    """Replace the values by their rank among the distinct ones."""
    return np.unique(values, return_inverse=True)[1].astype(np.int32)


def _number_rows(mask: npt.NDArray[np.bool_]) -> IntArray:
    """Return the kind of each row of a table, equal rows alike; kinds numbered by first appearance."""
    packed = np.packbits(mask, axis=1)
    _, first, kind = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[kind.ravel()].astype(np.int32)
