"""Swaps of domains in slots: what the engine counts, and that it finds what trying all ways finds."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.bands import SlotSwaps
from tests.case_counts import examples


@st.composite
def slot_problems(draw: st.DrawFn) -> SlotSwaps:
    """One problem of up to three bands with up to six slots, one of which may keep its domain."""
    bands, dp = draw(st.sampled_from([(2, 2), (3, 2), (2, 3), (3, 1)]))
    size = bands * dp
    capacities = sorted(draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)), reverse=True)
    closed = np.zeros((1, bands, dp), dtype=np.bool_)
    closed[0, -1, -1] = draw(st.booleans())
    return SlotSwaps(
        needs=np.array([draw(st.lists(st.integers(1, 6), min_size=bands, max_size=bands))], dtype=np.int32),
        widths=np.array([draw(st.lists(st.integers(1, 3), min_size=bands, max_size=bands))], dtype=np.int32),
        capacities=np.array([capacities], dtype=np.int32),
        slots=np.arange(size, dtype=np.int32).reshape(1, bands, dp),
        closed=closed,
    )


def lacking(search: SlotSwaps, slots: np.ndarray) -> int:
    """Cells without room, counted band by band."""
    total = 0
    for band, domains in enumerate(slots):
        width, need = int(search.widths[0, band]), int(search.needs[0, band])
        rows = sum(min(need, int(search.capacities[0, k]) // width) for k in domains)
        total += width * max(0, need - rows)
    return total


@given(slot_problems(), st.integers(0, 9))
@examples(300)
def test_the_least_is_found_that_any_order_of_the_domains_has(search: SlotSwaps, seed: int) -> None:
    """Up to 720 orders, closed slots as they are; 300 steps find a fit wherever there is one."""
    shape, kept = search.slots[0].shape, search.slots.copy()
    orders = (np.array(order).reshape(shape) for order in permutations(range(search.slots.size)))
    valid = (np.sort(order, axis=1) for order in orders if (order == kept[0])[search.closed[0]].all())
    # within a band the order makes no difference
    fits = any(lacking(search, order) == 0 for order in {order.tobytes(): order for order in valid}.values())
    left = search.run(300, np.random.default_rng(seed))
    assert left[0] == lacking(search, search.slots[0]) == search.lacking().sum()
    assert sorted(search.slots.ravel()) == sorted(kept.ravel())
    assert (search.slots == kept)[search.closed].all()
    assert (left[0] == 0) == fits


def test_problems_do_not_disturb_each_other() -> None:
    """Two at once: the one that can be filled is, with its own domains; the other has the cells left that it must."""
    both = SlotSwaps(
        needs=np.array([[4, 4], [4, 4]], dtype=np.int32),
        widths=np.array([[2, 1], [2, 1]], dtype=np.int32),
        capacities=np.array([[4, 4, 2, 2], [4, 3, 2, 2]], dtype=np.int32),
        slots=np.array([[[0, 2], [1, 3]], [[0, 2], [1, 3]]], dtype=np.int32),
        closed=np.zeros((2, 2, 2), dtype=np.bool_),
    )
    left = both.run(50, np.random.default_rng(0))
    assert left[0] == 0
    # 2 + 1 rows of two cells, and four of one: two cells have no room
    assert left[1] == 2
