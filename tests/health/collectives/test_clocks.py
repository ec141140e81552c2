"""Clocks that are off, times that cannot be of one recording, and gaps."""

from __future__ import annotations

import itertools
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from health.collectives.recording import (
    FEWEST,
    LONGEST_PAUSE,
    TOLERATED,
    CollectiveRecording,
    CompletionRow,
    Completions,
    Member,
    RankGroup,
    StateRow,
    States,
    align_clocks,
    clock_offsets,
    note_gaps,
    strays,
)
from tests.facts import says

DAY = LONGEST_PAUSE


def completed(ends: list[tuple[int, int, int, float]], members: int) -> CollectiveRecording:
    """Completions of (group, number, member, end); each begins a second before, and has a state line half of one."""
    rows = [CompletionRow(end, end - 1, group, member, seq, 0, 8) for group, seq, member, end in ends]
    states = [StateRow(end - 0.5, g, m, seq, 0, 0, 0, 0, 8, 4, 4, 4) for g, seq, m, end in ends]
    groups = tuple(RankGroup(f"g{g}", "dp", tuple(range(members))) for g in range(1 + max(row.group for row in rows)))
    named = tuple(Member(f"rank {i}", i) for i in range(members))
    return CollectiveRecording(named, groups, ("AllReduce",), Completions.of(rows), States.of(states))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 9)), max_size=12))
def test_strays_are_all_but_the_largest_part_of_a_member(rows: list[tuple[int, int, int]]) -> None:
    """Times of a member fall into parts more than a day apart; the largest part stays, of equal ones the latest."""
    member, time = [row[0] for row in rows], [row[1] * 1.5 * DAY + row[2] for row in rows]
    found = strays(np.array(time, dtype=np.float64), np.array(member, dtype=np.int64))
    for one in set(member):
        # 1.5 days lie between the parts, seconds within them: the part is the number of the days
        parts = [row[1] for row in rows if row[0] == one]
        kept = max(set(parts), key=lambda part: (parts.count(part), part))
        assert [bool(stray) for stray, of in zip(found, member, strict=True) if of == one] == [p != kept for p in parts]


ENDS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 4), st.integers(0, 4), st.floats(0, 50)),
    min_size=1,
    max_size=30,
    unique_by=lambda row: row[:3],
)


@given(ENDS)
def test_an_offset_is_the_median_of_what_a_member_ends_later_than_its_groups(
    ends: list[tuple[int, int, int, float]],
) -> None:
    """Counted by hand: collectives of three members or more, and three such collectives of the member."""
    deviations: dict[int, list[float]] = {}
    for group, seq in {row[:2] for row in ends}:
        own = {member: end for g, s, member, end in ends if (g, s) == (group, seq)}
        if len(own) >= FEWEST:
            for member, end in own.items():
                deviations.setdefault(member, []).append(end - median(own.values()))
    expected = [median(found) if len(found := deviations.get(m, [])) >= FEWEST else 0.0 for m in range(5)]
    assert clock_offsets(completed(ends, 5)).tolist() == pytest.approx(expected)


@given(st.floats(0.6, 1e6) | st.floats(-1e6, -0.6), st.integers(0, 3))
def test_a_wrong_clock_is_moved_and_told(skew: float, odd: int) -> None:
    """Ends, starts and state lines of the one member move by its offset, all rows stay sorted, and a note names it."""
    ends = [(0, seq, member, 100.0 + seq) for seq in range(5) for member in range(4)]
    shifted = [(g, s, m, end + skew * (m == odd)) for g, s, m, end in ends]
    right, made = completed(ends, 4), align_clocks(completed(shifted, 4))
    assert sorted(made.completions.end) == pytest.approx(sorted(right.completions.end))
    assert np.all(np.diff(made.completions.end) >= 0)
    assert np.all(np.diff(made.states.time) >= 0)
    assert (made.completions.end - made.completions.start).tolist() == pytest.approx([1.0] * 20)
    assert made.states.time.tolist() == pytest.approx(right.states.time.tolist())
    (note,) = made.notes
    told, by = note.split(" s: ")[0].rsplit(" ", 1)
    assert says(told, "1 clock", f"rank {odd}")
    # one digit is told of an offset that is a difference of floats: it may round the other way than the skew does
    assert by == f"{float(by):+.1f}"
    assert float(by) == pytest.approx(skew, abs=0.051)


@given(st.lists(st.floats(-TOLERATED / 2, TOLERATED / 2), min_size=4, max_size=4))
def test_small_offsets_are_left_alone(skews: list[float]) -> None:
    """The end of a collective is not the same instant for all: the recording is the same object."""
    made = completed([(0, seq, m, 100.0 + seq + skews[m]) for seq in range(5) for m in range(4)], 4)
    assert align_clocks(made) is made


def test_two_do_not_tell_whose_clock_is_wrong() -> None:
    """A group of two is hours apart, and neither is moved."""
    made = completed([(0, seq, m, 100.0 + seq + 7200 * m) for seq in range(5) for m in range(2)], 2)
    assert clock_offsets(made).tolist() == [0.0, 0.0]


@given(st.lists(st.floats(0, 5), min_size=1, max_size=8))
def test_gaps_of_days_are_a_note(days: list[float]) -> None:
    """The longest time without a row of any member is told, if it is longer than a day."""
    times = np.cumsum([day * DAY for day in days]).tolist()
    made = completed([(0, i, 0, time) for i, time in enumerate(times)], 1)
    every = sorted([*times, *(time - 0.5 for time in times)])
    longest = max(later - time for time, later in itertools.pairwise(every))
    notes = note_gaps(made).notes
    assert len(notes) == (longest > DAY)
    if notes:
        assert notes[0].startswith(f"nothing was recorded for {longest / DAY:,.0f} days")
