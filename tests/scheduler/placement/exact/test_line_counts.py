"""Closer levels where cross lines are free: lines counted by kinds of domains, against all placements."""

from __future__ import annotations

import itertools
import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.cpsat import Slice
from scheduler.placement.exact.line_counts import LineCounts
from tests.case_counts import examples
from topology.cluster import IntArray

LIMIT = Slice(5.0, 60.0)


def spreads(cells: IntArray, paths: IntArray) -> list[tuple[int, int]]:
    """By level what a line and a cross line touch at most; ``cells`` has shape [length, lines]: closest domains."""
    return [
        (max(len(set(line)) for line in of[cells].T.tolist()), max(len(set(row)) for row in of[cells].tolist()))
        for of in paths
    ]


@given(seed=st.integers(0, 10**9))
@examples(60)
def test_counts_agree_with_all_placements(seed: int) -> None:
    """All placements of up to six cells on up to five racks in up to three pods, where pairs of neighbours may have to
    stay in one pod, from any placement or none.  A "no" is right whatever cross lines may touch in pods; where they are
    free "yes" comes with a placement, and always where one comes with it, it keeps to all.
    """
    chance = random.Random(seed)
    racks = chance.randint(2, 5)
    pod_of = np.sort([chance.randint(0, 2) for _ in range(racks)])
    paths = np.stack([pod_of, np.arange(racks)]).astype(np.int32)
    room = np.array([chance.randint(1, 4) for _ in range(racks)], dtype=np.int32)
    length, lines = chance.choice([(2, 2), (3, 2), (2, 3), (4, 1), (5, 1)])
    touches = chance.randint(1, 2), chance.randint(1, 3)
    cross = chance.randint(1, lines), lines
    together = chance.choice([1, 2]) if length % 2 == 0 else 1
    placements = [
        np.reshape(placement, (length, lines))
        for placement in itertools.product(range(racks), repeat=length * lines)
        if (np.bincount(placement, minlength=racks) <= room).all()
    ]

    def keeps(cells: IntArray) -> bool:
        within = all(
            spread[0] <= most and spread[1] <= across
            for spread, most, across in zip(spreads(cells, paths), touches, cross, strict=True)
        )
        return within and bool((pod_of[cells[::together]] == pod_of[cells[together - 1 :: together]]).all())

    exists = any(map(keeps, placements))
    start = chance.choice([None, *placements])
    answer, cells = LineCounts(length, lines, paths, room, touches, cross, together).lay(LIMIT, start)
    assert answer == "yes" if exists else answer == "no" or (cells is None and cross[0] < lines)
    if cross[0] == lines and exists:
        assert cells is not None
    if cells is not None:
        assert (np.bincount(cells.ravel(), minlength=racks) <= room).all()
        if answer == "yes":
            assert keeps(cells)
        else:
            assert start is not None
            assert spreads(cells, paths)[1][0] < spreads(start, paths)[1][0]


def test_pods_alike_are_one_kind_and_told_apart_in_the_end() -> None:
    """Four columns of 144 nodes on 20 pods of four leaves of two racks of four: five pods a column have 160, and 36
    racks, 18 leaves, hold 144; one rack fewer holds 140.
    """
    racks = np.arange(20 * 8, dtype=np.int32)
    paths, room = np.stack([racks // 8, racks // 2, racks]), np.full(len(racks), 4, dtype=np.int32)
    answer, cells = LineCounts(144, 4, paths, room, (5, 18, 36), (4, 4, 4)).lay(LIMIT)
    assert answer == "yes"
    assert cells is not None
    assert [spread[0] for spread in spreads(cells, paths)] == [5, 18, 36]
    assert LineCounts(144, 4, paths, room, (5, 18, 35), (4, 4, 4)).lay(LIMIT) == ("no", None)


def test_cross_lines_follow_sets_of_pods() -> None:
    """Four columns of six on pods of nine, six, six and three, in racks of three: rows in two pods, columns in two.
    The two columns that end in the small pod fill it with three rows of one, so it serves one column; still all fit,
    as 24 nodes are all there are.
    """
    racks = [(0, 3)] * 3 + [(1, 3)] * 2 + [(2, 3)] * 2 + [(3, 3)]
    paths = np.array([[pod for pod, _ in racks], range(len(racks))], dtype=np.int32)
    room = np.array([size for _, size in racks], dtype=np.int32)
    answer, cells = LineCounts(6, 4, paths, room, (2, 2), (3, 4)).lay(LIMIT)
    assert answer == "yes"
    assert cells is not None
    assert spreads(cells, paths) == [(2, 3), (2, 4)]
