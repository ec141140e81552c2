"""Renaming a new placement so that it agrees with the old one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from scheduler.objective import spread
from scheduler.placement.moves import relabel
from tests.case_counts import examples
from topology.cluster import IntArray

OLD = np.array([[0, 0, 1], [0, 2, 2], [3, 3, 2], [3, 0, 1]], dtype=np.int32)
ROOM = np.array([4, 2, 3, 3], dtype=np.int32)


def pair_of(cells: IntArray) -> tuple[int, int]:
    """(S, R) of an assignment."""
    row, column = np.indices(cells.shape, dtype=np.int32)
    return spread(column, cells), spread(row, cells)


@pytest.mark.parametrize(
    "new",
    [
        OLD[[2, 0, 3, 1]],  # rows in another order
        OLD[:, [1, 2, 0]],  # columns in another order
        np.array([0, 1, 3, 2])[OLD].astype(np.int32),  # domains 2 and 3 exchanged: each has room for the other
    ],
)
def test_a_mere_renaming_is_undone(new: IntArray) -> None:
    """The same placement under other names moves nothing."""
    assert (relabel(new, OLD, room=ROOM) == OLD).all()


@given(
    npst.arrays(np.int32, (4, 3), elements=st.integers(0, 3)),
    npst.arrays(np.int32, (4, 3), elements=st.integers(-1, 3)),
    npst.arrays(np.int32, 4, elements=st.integers(0, 4)),
)
@examples(60)
def test_renaming_keeps_what_counts(new: IntArray, old: IntArray, spare: IntArray) -> None:
    """Spread is the same, no domain is overfilled, and no fewer cells stay where they were."""
    room = np.bincount(new.ravel(), minlength=4) + spare
    renamed = relabel(new, old, room=room.astype(np.int32))
    assert pair_of(renamed) == pair_of(new)
    assert (np.bincount(renamed.ravel(), minlength=4) <= room).all()
    assert (renamed == old).sum() >= (new == old).sum()
