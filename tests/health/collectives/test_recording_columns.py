"""Rows as columns: sorted, cut and chosen as lists of rows are."""

from __future__ import annotations

from math import inf, nan

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from health.collectives.recording import (
    CollectiveRecording,
    CompletionRow,
    Completions,
    Member,
    StateRow,
    States,
    runs,
)

TIMES = st.integers(0, 6).map(float)
SMALL = st.integers(0, 2**31 - 1)
LARGE = st.integers(0, 2**62)
"""The largest number that a reader lets through: it must not be cut off in a column."""

COMPLETION_ROWS = st.lists(st.builds(CompletionRow, TIMES, TIMES, SMALL, SMALL, LARGE, SMALL, LARGE), max_size=12)
STATE_ROWS = st.lists(
    st.builds(StateRow, TIMES, SMALL, SMALL, LARGE, SMALL, SMALL, SMALL, SMALL, LARGE, LARGE, LARGE, LARGE), max_size=12
)


@given(COMPLETION_ROWS)
def test_completions_come_back_by_end_and_number(rows: list[CompletionRow]) -> None:
    """What goes in comes out, whole numbers to the last digit, by end, of one end by number, else as given."""
    columns = Completions.of(rows)
    assert list(columns.rows()) == sorted(rows, key=lambda row: (row.end, row.seq))
    assert len(columns) == len(rows)


@given(STATE_ROWS)
def test_states_come_back_by_time_and_number(rows: list[StateRow]) -> None:
    """As completions do, with a column for each field."""
    columns = States.of(rows)
    assert list(columns.rows()) == sorted(rows, key=lambda row: (row.time, row.seq))
    assert columns.names == StateRow._fields


@given(STATE_ROWS, st.floats(-1, 7), st.floats(-1, 7))
def test_spans_take_their_end_and_not_their_beginning(rows: list[StateRow], start: float, end: float) -> None:
    """``between`` has the rows after its start and up to its end, ``until`` all up to an instant."""
    columns = States.of(rows)
    assert [row[0] for row in columns.between(start, end).rows()] == [
        time for time in columns.time.tolist() if start < time <= end
    ]
    assert [row[0] for row in columns.until(end).rows()] == [time for time in columns.time.tolist() if time <= end]


@given(COMPLETION_ROWS, st.integers(0, 2**12 - 1))
def test_rows_are_chosen_by_mask_number_or_slice(rows: list[CompletionRow], bits: int) -> None:
    """The three ways to choose the same rows give the same rows."""
    columns = Completions.of(rows)
    chosen = [i for i in range(len(rows)) if bits >> i & 1]
    mask = np.isin(np.arange(len(rows)), chosen)
    expected = [row for i, row in enumerate(columns.rows()) if i in chosen]
    assert list(columns.where(mask).rows()) == expected
    assert list(columns.where(np.array(chosen, dtype=np.intp)).rows()) == expected
    assert list(columns.where(slice(1, 3)).rows()) == list(columns.rows())[1:3]


@given(COMPLETION_ROWS, STATE_ROWS)
def test_a_recording_begins_and_ends_with_its_rows(ends: list[CompletionRow], samples: list[StateRow]) -> None:
    """The first and last instant of both sorts of rows; 0 where there are none."""
    members = (Member("rank 0"),)
    made = CollectiveRecording(members, (), (), Completions.of(ends), States.of(samples))
    times = [row.end for row in ends] + [row.time for row in samples]
    assert (made.start, made.end) == (min(times, default=0.0), max(times, default=0.0))


def test_columns_have_the_types_that_arithmetic_needs() -> None:
    """Times are floats, unknown ones NaN; numbers that may be large have 64 bits; nothing at all has types too."""
    one = Completions.of([CompletionRow(1.0, nan, 0, 0, 5, 0, 7)])
    assert np.isnan(one.start[0])
    for columns in (one, Completions.of([])):
        assert (columns.end.dtype, columns.seq.dtype, columns.group.dtype) == (np.float64, np.int64, np.int32)
    assert len(States.of([]).between(-inf, inf)) == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12).map(sorted))
def test_runs_are_the_rows_of_equal_keys(keys: list[tuple[int, int]]) -> None:
    """Each pair of keys has one run, with all of its rows in order."""
    first, second = (np.array([key[i] for key in keys], dtype=np.int64) for i in (0, 1))
    found = [rows.tolist() for rows in runs(np.arange(len(keys)), first, second)]
    assert found == [[i for i, key in enumerate(keys) if key == one] for one in sorted(set(keys))]
