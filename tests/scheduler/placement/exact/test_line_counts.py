"""Closer levels where cross lines are free: lines counted by kinds of domains, against all placements."""

from __future__ import annotations

import functools
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
    answer, cells = LineCounts(length, lines, paths, room, touches, cross, (together, 1)).lay(LIMIT, start)
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
    answer, cells = LineCounts(144, 4, paths, room, (5, 18, 36), (4, 4, 4), (1, 1, 1)).lay(LIMIT)
    assert answer == "yes"
    assert cells is not None
    assert [spread[0] for spread in spreads(cells, paths)] == [5, 18, 36]
    assert LineCounts(144, 4, paths, room, (5, 18, 35), (4, 4, 4), (1, 1, 1)).lay(LIMIT) == ("no", None)


@given(seed=st.integers(0, 10**9))
@examples(60)
def test_lines_have_pods_of_their_own_where_they_can(seed: int) -> None:
    """Up to six pods of up to four racks, in leaves of two: where some pods of each line hold it with no more leaves
    and racks than it may touch, neighbours that stay in one pod or leaf included, a placement is found.
    """
    chance = random.Random(seed)
    paths = np.array([[p, 2 * p + k // 2, 4 * p + k] for p in range(chance.randint(2, 6)) for k in range(4)]).T
    paths = paths[:, sorted(chance.sample(range(paths.shape[1]), min(paths.shape[1], 14)))].astype(np.int32)
    room = np.array([chance.randint(1, 3) for _ in paths[0]], dtype=np.int32)
    lines, length = chance.randint(2, 3), 2 * chance.randint(1, 3)
    touches = chance.randint(1, 3), chance.randint(1, 4), chance.randint(1, 5)
    together = chance.choice([(1, 1, 1), (2, 1, 1), (2, 2, 1)])
    racks_of = {pod: np.flatnonzero(paths[0] == pod).tolist() for pod in paths[0].tolist()}

    @functools.cache
    def holds(pods: tuple[int, ...]) -> bool:
        """Whether some racks of the pods have room for a line, and it touches no more than it may."""
        racks = [rack for pod in pods for rack in racks_of[pod]]
        for used in itertools.product((False, True), repeat=len(racks)):
            some = [rack for rack, is_used in zip(racks, used, strict=True) if is_used]
            within = all(len(set(of[some])) <= most for of, most in zip(paths, touches, strict=True))
            cells = room[some]
            for of, tied in zip(paths[1::-1], together[1::-1], strict=True):
                cells = [cells[of[some] == domain].sum() // tied * tied for domain in sorted(set(of[some]))]
                some = [int(np.flatnonzero(of == domain)[0]) for domain in sorted(set(of[some]))]
                cells = np.array(cells)
            if within and cells.sum() >= length:
                return True
        return False

    deals = itertools.product(range(lines), repeat=len(racks_of))
    dealt = any(
        all(
            holds(tuple(pod for pod, owner in zip(racks_of, deal, strict=True) if owner == line))
            for line in range(lines)
        )
        for deal in deals
    )
    answer, cells = LineCounts(length, lines, paths, room, touches, (lines,) * 3, together).lay(LIMIT)
    if dealt:
        assert answer == "yes"
    if answer == "yes":
        assert cells is not None
        assert all(across[0] <= most for across, most in zip(spreads(cells, paths), touches, strict=True))
        assert (np.bincount(cells.ravel(), minlength=len(room)) <= room).all()
        for of, tied in zip(paths[:2], together, strict=False):
            assert (of[cells[::tied]] == of[cells[tied - 1 :: tied]]).all()


def test_more_pods_may_do_where_some_of_them_do_not() -> None:
    """Nine pods of a leaf with racks of 8, 4 and 6 and a leaf with one of 6: two pods hold 22 on the three racks that a
    column of 23 may touch, two of 8 and one of 6; each of three pods gives its rack of 8, together 24.  Of sixty there
    are pairs and columns that nobody could try one by one.
    """
    for pods, lines in ((9, 3), (60, 20)):
        paths = np.array([[p, 2 * p + k // 3, 4 * p + k] for p in range(pods) for k in range(4)], dtype=np.int32).T
        room = np.array([8, 4, 6, 6] * pods, dtype=np.int32)
        answer, cells = LineCounts(23, lines, paths, room, (3, 7, 3), (lines,) * 3, (1, 1, 1)).lay(LIMIT)
        assert answer == "yes"
        assert cells is not None
        assert [across[0] for across in spreads(cells, paths)] == [3, 3, 3]
        assert (np.bincount(cells.ravel(), minlength=len(room)) <= room).all()


def test_cross_lines_follow_sets_of_pods() -> None:
    """Four columns of six on pods of nine, six, six and three, in racks of three: rows in two pods, columns in two.
    The two columns that end in the small pod fill it with three rows of one, so it serves one column; still all fit,
    as 24 nodes are all there are.
    """
    racks = [(0, 3)] * 3 + [(1, 3)] * 2 + [(2, 3)] * 2 + [(3, 3)]
    paths = np.array([[pod for pod, _ in racks], range(len(racks))], dtype=np.int32)
    room = np.array([size for _, size in racks], dtype=np.int32)
    answer, cells = LineCounts(6, 4, paths, room, (2, 2), (3, 4), (1, 1)).lay(LIMIT)
    assert answer == "yes"
    assert cells is not None
    assert spreads(cells, paths) == [(2, 3), (2, 4)]
