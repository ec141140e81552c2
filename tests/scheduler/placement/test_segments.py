"""Few moves where a placement has bands: whole segments move between domains."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objective import spread
from scheduler.placement.moves import bands_of, move_segments
from scheduler.placement.types import Limits
from tests.case_counts import examples
from topology.cluster import BoolArray, IntArray

LIMITS = Limits(seconds=20.0, workers=1)


def test_bands_are_seen_through_losses() -> None:
    """Columns 0 and 2 agree in four rows of five, column 1 with neither: two bands."""
    old = np.array([[0, 1, 0], [0, 1, 0], [0, 2, 3], [2, 1, 2], [2, 0, 2]], dtype=np.int32)
    assert bands_of(old).tolist() == [0, 1, 0]


def test_one_segment_follows_its_lost_cell() -> None:
    """A band of two columns in domains 0 and 1, both full; one cell is lost, and domain 2 has two nodes: with at most
    three domains the segment of that row moves there, with two nothing can be done.
    """
    old = np.array([[0, 0], [0, 0], [1, 1]], dtype=np.int32)
    stays = np.array([[True, True], [True, False], [True, True]])
    band_of = bands_of(old)
    room = np.array([3, 2, 2], dtype=np.int32)
    found = move_segments(old, stays, band_of=band_of, room=room, most=3, limits=LIMITS)
    assert found is not None
    assert found.tolist() == [[0, 0], [2, 2], [1, 1]]
    assert move_segments(old, stays, band_of=band_of, room=room, most=2, limits=LIMITS) is None


def cost(new: IntArray, old: IntArray, stays: BoolArray) -> int:
    """Cells that move."""
    return int(((new != old) | ~stays).sum())


def every_shift(rows: int, band_of: IntArray, domains: int) -> list[IntArray]:
    """All placements of whole segments."""
    bands = int(band_of.max()) + 1
    ways = product(product(range(domains), repeat=rows), repeat=bands)
    return [np.array(way, dtype=np.int32)[band_of].T for way in ways]


@st.composite
def banded(draw: st.DrawFn) -> tuple[IntArray, BoolArray, IntArray, int]:
    """A placement of three rows in two bands on three domains, some cells lost, some room."""
    band_of = np.array(draw(st.sampled_from([[0, 1], [0, 0, 1], [0, 1, 1], [0, 0]])), dtype=np.int32)
    domain = np.array(draw(st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=2, max_size=2)))
    old = domain[band_of].T.astype(np.int32)
    stays = np.array(draw(st.lists(st.booleans(), min_size=old.size, max_size=old.size))).reshape(old.shape)
    spare = np.array(draw(st.lists(st.integers(0, 3), min_size=3, max_size=3)))
    room = np.bincount(old[stays], minlength=3) + spare
    return old, stays, room.astype(np.int32), draw(st.integers(1, 3))


@given(banded())
@examples(60)
def test_as_few_moves_as_trying_all_segments(instance: tuple[IntArray, BoolArray, IntArray, int]) -> None:
    """Against every placement of whole segments: the same number of moves, or none in both; and what is found fits."""
    old, stays, room, most = instance
    band_of = bands_of(old)
    column = np.broadcast_to(np.arange(old.shape[1], dtype=np.int32), old.shape)

    def fits(new: IntArray) -> bool:
        return bool((np.bincount(new.ravel(), minlength=3) <= room).all()) and spread(column, new) <= most

    costs = [cost(new, old, stays) for new in every_shift(3, band_of, 3) if fits(new)]
    found = move_segments(old, stays, band_of=band_of, room=room, most=most, limits=LIMITS)
    assert (found is None) == (not costs)
    if found is not None:
        assert fits(found)
        assert cost(found, old, stays) == min(costs)
