"""What lines touch at a closer level, given what they touch at a broader one: against all placements of tiny grids."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.exact.level_bounds import LineTouches
from scheduler.placement.types import Limits
from tests.case_counts import examples
from tests.scheduler.placement.exact.test_exact_holds import racks

MANY = 1e9  # array elements: no knapsack is cut short


def touches(length: int, lines: int, rooms: list[list[int]], most: float = MANY) -> LineTouches:
    """Lines on racks, given the room of each rack of each minipod."""
    return LineTouches(length, lines, [np.array(room) for room in rooms], most)


def least_by_trying(length: int, lines: int, rooms: list[list[int]]) -> dict[int, int]:
    """For each number of minipods that lines touch at most, the fewest racks that the worst line touches."""
    pod_of = [pod for pod, room in enumerate(rooms) for _ in room]
    room = [cells for of_pod in rooms for cells in of_pod]
    least: dict[int, int] = {}
    for placed in product(range(len(room)), repeat=length * lines):
        if any(placed.count(rack) > room[rack] for rack in set(placed)):
            continue
        parts = [placed[line * length : (line + 1) * length] for line in range(lines)]
        worst = max(len({pod_of[rack] for rack in part}) for part in parts), max(len(set(part)) for part in parts)
        for pods in range(worst[0], len(rooms) + 1):
            least[pods] = min(least.get(pods, worst[1]), worst[1])
    return least


@given(seed=st.integers(0, 10**9))
@examples(150)
def test_never_more_than_the_least(seed: int) -> None:
    """Up to five racks of one to four nodes in up to three minipods, up to six cells; knapsacks cut short too."""
    chance = random.Random(seed)
    rooms: list[list[int]] = [[] for _ in range(chance.randint(1, 3))]
    for _ in range(chance.randint(len(rooms), 5)):
        chance.choice(rooms).append(chance.randint(1, 4))
    rooms = [room for room in rooms if room]
    length, lines = chance.choice([(1, 4), (2, 2), (3, 2), (2, 3), (4, 1), (6, 1), (5, 1)])
    bounds = touches(length, lines, rooms, chance.choice([MANY, 100.0, 10.0, 0.0]))
    for pods, fewest in least_by_trying(length, lines, rooms).items():
        assert bounds.fewest(pods) <= fewest


def test_whole_lines_lie_in_one_minipod_each() -> None:
    """Two columns of six: minipods have racks of 4 + 2 + 2, of 3 + 3 + 3 and of 8.

    The rack of 8 takes one column by itself, 4 + 2 or 3 + 3 the other.  Without it, 2 + 2 + 2 is three racks.
    """
    bounds = touches(6, 2, [[4, 2, 2], [3, 3, 3], [8]])
    assert [bounds.fewest(pods) for pods in (1, 2)] == [2, 2]
    assert touches(6, 2, [[4, 2, 2], [3, 3, 3]]).fewest(1) == 2
    assert touches(6, 2, [[4, 2, 1], [2, 2, 2]]).fewest(1) == 3


def test_racks_are_those_of_the_minipods_that_a_line_may_touch() -> None:
    """Racks of 4, one in each of four minipods, and a minipod of racks of 2: a line of 8 needs two racks anywhere.

    In one minipod it needs four racks of 2; in two minipods two racks of 4.
    """
    bounds = touches(8, 1, [[4], [4], [4], [4], [2, 2, 2, 2]])
    assert [bounds.fewest(pods) for pods in (1, 2, 3)] == [4, 2, 2]


def test_it_proves_what_racks_alone_leave_open() -> None:
    """A column of six: two racks of 5 would do, but these are minipods of their own.

    The minipods that have room for all of it have racks of 2, 2 and 2 or of 3, 2 and 1: three racks in either.
    """
    cluster = racks((2, 2, 2), (3, 2, 1), (5,), (5,))
    job = Job("job", Parallelism(tp=8, dp=6), alpha=1.0, level="minipod")
    outcome = run(Exact(), cluster, job, Limits(seconds=10.0, workers=1))
    (found,) = outcome.closer.values()
    assert (found.dp, found.proved) == (3, True)


@pytest.mark.parametrize("broader", [2, 3])
def test_a_knapsack_cut_short_says_less(broader: int) -> None:
    """Never more than the whole one, and one touch of a line at least."""
    rooms = [[3, 2], [2, 2], [4, 1]]
    short, whole = touches(4, 2, rooms, 60.0), touches(4, 2, rooms)
    assert 1 <= short.fewest(broader) <= whole.fewest(broader)
