"""Fewer moves for free: rename the rows, columns and domains of a new placement so that it agrees with the old one.

Spread does not change when rows change places, or columns, or domains that can take each other's cells.  Each renaming
that keeps most cells where they are is a linear assignment; the three take turns until nothing improves.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from topology.cluster import IntArray

_MOST_LINES = 2_000
"""More rows than this are matched as they come: the assignment has rows squared arcs."""


def relabel(new: IntArray, old: IntArray, *, room: IntArray) -> IntArray:
    """Rename the rows, columns and domains of the new placement.

    :param new: shape [rows, columns], the domain of each cell.
    :param old: same shape, the domain of each cell before; -1 where the cell must move anyway.
    :param room: shape [domains], cells each domain can take.
    :returns: same shape: as good in spread as ``new``, and with at least as many cells as before.
    """
    best, kept = new, _kept(new, old)
    while True:
        renamed = _rename_domains(best, old, room)
        renamed = _rename_rows(renamed.T, old.T).T
        renamed = _rename_rows(renamed, old)
        if _kept(renamed, old) <= kept:
            return best
        best, kept = renamed, _kept(renamed, old)


def _kept(new: IntArray, old: IntArray) -> int:
    return int((new == old).sum())


def _rename_rows(new: IntArray, old: IntArray) -> IntArray:
    rows = len(new)
    if rows > _MOST_LINES:
        return new
    agreement = np.zeros((rows, rows), dtype=np.int64)
    for column in range(new.shape[1]):
        agreement += old[:, column, None] == new[None, :, column]
    return new[_assign(agreement, np.ones_like(agreement, dtype=np.bool_))]


def _rename_domains(new: IntArray, old: IntArray, room: IntArray) -> IntArray:
    """Rename domain k of the new placement to the domain that keeps most of its cells and can take them all."""
    used = np.bincount(new.ravel(), minlength=len(room))
    stays = old >= 0
    agreement = np.zeros((len(room), len(room)), dtype=np.int64)
    np.add.at(agreement, (new[stays], old[stays]), 1)
    renamed: IntArray = _assign(agreement, used[:, None] <= room[None, :]).astype(np.int32)[new]
    return renamed


def _assign(gain: npt.NDArray[np.int64], allowed: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the column of each row in a matching of greatest gain; each row may keep its own number."""
    from ortools.graph.python import linear_sum_assignment

    left, right = np.nonzero(allowed)
    assignment = linear_sum_assignment.SimpleLinearSumAssignment()
    assignment.add_arcs_with_cost(left, right, -gain[left, right])
    assignment.solve()
    return np.array([assignment.right_mate(i) for i in range(len(gain))], dtype=np.int64)
