"""Collectives that stand still, against a count by hand over rows."""

from __future__ import annotations

import itertools
from math import nan

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from health.collectives.recording import (
    CollectiveRecording,
    CompletionRow,
    Completions,
    Member,
    RankGroup,
    StateRow,
    States,
)
from health.collectives.stalls import Snapshot, stalls_at
from tests.case_counts import examples

OPS = ("AllReduce", "AllGather")
GROUPS = (RankGroup("a", "dp", (0, 1, 2)), RankGroup("b", "tp", (2, 3)))
MEMBERS = tuple(Member(f"rank {i}", i) for i in range(4))


def sample(time: float, member: int, *, seq: int = 2, group: int = 0, op: int = 0, moved: int = 4) -> StateRow:
    """One state line of a flow of which ``moved`` chunks are ready, transmitted and delivered."""
    return StateRow(time, group, member, seq, op, 0, (member + 1) % 4, 0, 8, moved, moved, moved)


def completion(end: float, member: int, *, seq: int = 1, group: int = 0) -> CompletionRow:
    """One completion."""
    return CompletionRow(end, nan, group, member, seq, 0, 8)


def seen(samples: list[StateRow], ends: list[CompletionRow], *, time: float = 10.0, back: float = 10.0) -> Snapshot:
    """The job at an instant, where two seconds without movement are a stall."""
    made = CollectiveRecording(MEMBERS, GROUPS, OPS, Completions.of(ends), States.of(samples))
    return stalls_at(made, time, quiet=2.0, back=back)


def every(start: float, end: float) -> list[float]:
    """An instant each half second."""
    return np.arange(start, end + 0.25, 0.5).tolist()


@examples(300)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=6, unique=True),
)
def test_who_stands_and_who_is_absent(launched: list[tuple[int, int]], done: list[tuple[int, int]]) -> None:
    """The first number that a member launched and did not complete; members that came neither to it nor further."""
    snapshot = seen(
        [sample(4.0 + i / 100, member, seq=seq) for i, (member, seq) in enumerate(launched)],
        [completion(1.0 + i / 100, member, seq=seq) for i, (member, seq) in enumerate(done)],
    )
    last = {m: max((seq for member, seq in launched if member == m), default=-1) for m in range(3)}
    over = {m: max((seq for member, seq in done if member == m), default=-1) for m in range(3)}
    waiting = {m: last[m] for m in range(3) if last[m] > over[m]}
    if not waiting:
        assert snapshot.stalls == ()
        return
    (stall,) = snapshot.stalls
    assert stall.seq == min(waiting.values())
    assert stall.standing == {m for m, seq in waiting.items() if seq == stall.seq}
    assert stall.absent == {m for m in range(3) if max(last[m], over[m]) < stall.seq}


@given(st.lists(st.integers(0, 8), min_size=20, max_size=20).map(sorted))
def test_a_stall_is_as_old_as_the_last_movement(counters: list[int]) -> None:
    """State lines each half second: since the last one whose counters differ from those before, or the first one."""
    times = every(0.5, 10.0)
    samples = [sample(time, 0, moved=moved) for time, moved in zip(times, counters, strict=True)]
    changed = [time for time, now, before in zip(times[1:], counters[1:], counters, strict=False) if now != before]
    since = max([times[0], *changed])
    snapshot = seen(samples, [])
    assert [stall.since for stall in snapshot.stalls] == [since] * (10.0 - since >= 2.0)
    # what moved a moment ago is under way, and its members are not idle
    assert snapshot.busy == ({0} if 10.0 - since < 2.0 else set())


@given(st.floats(3.0, 10.0))
def test_a_stall_is_no_older_than_the_member_that_came_last(arrival: float) -> None:
    """Rank 0 stands since 1 s, rank 1 comes later: no stall before it has been there for the quiet time."""
    samples = [sample(time, 0) for time in every(1.0, 10.0)] + [sample(t, 1) for t in every(arrival, 10.0)]
    stalls = seen(samples, []).stalls
    assert [stall.since for stall in stalls] == [arrival] * (10.0 - arrival >= 2.0)


def test_history_that_is_too_old_is_not_looked_at() -> None:
    """Lines of 3 s ago and more are outside of a look back over 2 s: nothing is known to stand."""
    samples = [sample(time, 0) for time in every(1.0, 7.0)]
    assert len(seen(samples, []).stalls) == 1
    assert seen(samples, [], back=2.0).stalls == ()


def test_members_that_launched_another_operation_are_told() -> None:
    """Two of three launched an all-reduce: the third is the odd one, whatever its number."""
    samples = [sample(t, m, op=m == 1) for t in every(1.0, 10.0) for m in (0, 1, 2)]
    snapshot = seen(samples, [])
    assert snapshot.stalls[0].op == "AllReduce"
    assert [(one.group, one.seq, one.op, one.others) for one in snapshot.mismatches] == [
        (0, 2, "AllReduce", ((1, "AllGather"),))
    ]


@given(st.floats(0.5, 9.5))
def test_a_member_whose_lines_cease_is_gone(silence: float) -> None:
    """Both launched; lines of rank 1 end: unreachable once the other has written for two seconds more."""
    samples = [sample(t, 0) for t in every(0.5, 10.0)] + [sample(0.5, 1), sample(silence, 1)]
    assert seen(samples, []).gone == ({1} if 10.0 - silence > 2.0 else set())


def test_nobody_is_gone_when_all_lines_cease() -> None:
    """A tracer that stopped for the whole job says nothing of one member."""
    samples = [sample(t, 0) for t in every(0.5, 7.0)] + [sample(0.5, 1)]
    assert seen(samples, []).gone == frozenset()


@given(st.lists(st.floats(0.1, 3.0), min_size=1, max_size=6), st.floats(0.0, 12.0))
def test_a_member_that_completed_something_lately_is_busy(pauses: list[float], idle: float) -> None:
    """For twice the longest time that it ever took between two completions, and for the quiet time at least."""
    ends = np.cumsum(pauses).tolist()
    time = ends[-1] + idle
    patience = max(2.0, 2 * max((later - end for end, later in itertools.pairwise(ends)), default=0.0))
    ended = [completion(end, 0, seq=i) for i, end in enumerate(ends)]
    snapshot = seen([sample(0.05, 3, group=1)], ended, time=time, back=50.0)
    assert (0 in snapshot.busy) == (time - ends[-1] < patience)


def test_groups_are_judged_apart() -> None:
    """Group a stands, group b, in which rank 2 also is, moves: one stall, and those who move are busy."""
    standing = [sample(t, m) for t in every(1.0, 10.0) for m in (0, 1)]
    moving = [sample(t, m, group=1, seq=5, moved=int(t) % 8) for t in every(1.0, 10.0) for m in (2, 3)]
    snapshot = seen(standing + moving, [])
    assert [(stall.group, stall.standing, stall.absent) for stall in snapshot.stalls] == [(0, {0, 1}, {2})]
    assert snapshot.busy == {2, 3}
