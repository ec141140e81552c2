"""Recordings with long gaps, or with times that cannot belong to them: quick, and the same answer as a walk through."""

from __future__ import annotations

import json
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from ground.files import Source
from health.collectives.diagnosis import alarms, diagnose, looks
from health.collectives.inspector import read_inspector
from health.collectives.progress import read_progress
from health.collectives.reading import diagnose_files
from health.collectives.recording import (
    CollectiveRecording,
    CompletionRow,
    Completions,
    Member,
    RankGroup,
    StateRow,
    States,
)
from health.collectives.trigger_settings import TriggerSettings
from tests.case_counts import examples
from tests.facts import saying, says

DAY = 86_400.0


def recording(ends: list[float], standing: list[float]) -> CollectiveRecording:
    """One data-parallel group of two, of which member 1 is watched."""
    done = [CompletionRow(end, nan, 0, 1, i, 0, 100) for i, end in enumerate(ends)]
    rows = [StateRow(time, 0, 1, len(ends), 0, 0, 0, 0, 8, 4, 4, 4) for time in standing]
    members = (Member("rank 0", 0), Member("rank 1", 1))
    return CollectiveRecording(
        members, (RankGroup("dp", "dp", (0, 1)),), ("AllReduce",), Completions.of(done), States.of(rows)
    )


def naive(made: CollectiveRecording, rule: TriggerSettings) -> list[tuple[float, str, float]]:
    """Every look in turn, by the rule as the documentation says it: time, kind and ratio of each alarm."""
    ends, standing = made.completions.end, made.states.time
    count = max(1, int(np.ceil((made.end - made.start) / rule.period - 1e-9)))
    found = []
    for time in [made.start + rule.period * k for k in range(1, count)] + [made.end]:
        done = ends[ends <= time]
        stood = standing[standing <= time]
        seen = [*done[:1], *stood[:1]] or [*ends[:1], *standing[:1]]
        first = min([*ends[:1], *standing[:1]], default=time)
        if first >= time or not seen:
            continue
        last = done[-1] if len(done) else first
        longest = max(np.diff(done), default=0.0)
        regular = len(done) >= max(rule.history, 2)
        patience = rule.window / 2 if regular else rule.window * rule.history
        if time - last >= max(patience, 2 * longest) and len(stood) and time - stood[-1] < rule.quiet:
            found.append((time, "failure", inf))
            continue
        if not regular:
            continue
        half = [rule.window / 2] if 2 / 3 * float(np.median(np.diff(done))) <= rule.window / 2 else []
        for window in [rule.window, *half]:
            starts = np.arange(done[0], time - 2 * window, window / 10)
            if len(starts) < 10 * (rule.history - 1) + 1:
                continue
            # Bytes are the same for all, so both of the rule's rates say the same: completions in a window.
            before = np.searchsorted(done, starts + window, "right") - np.searchsorted(done, starts, "right")
            now = np.sum(done > time - window)
            usual = float(np.median(before))
            if usual > 0 and now * rule.factor <= usual and now < 0.9 * before.min():
                found.append((time, "straggler", usual / now if now else inf))
                break
    return found


PAUSES = st.one_of(st.floats(0.05, 3.0), st.floats(0.05, 3.0), st.floats(3.0, 100.0))


@examples(200)
@given(
    st.lists(PAUSES, max_size=40),
    st.lists(st.tuples(st.floats(0.0, 400.0), st.integers(1, 80)), max_size=3),
    st.sampled_from([3.0, 10.0]),
    st.sampled_from([2.5, 10.0]),
)
def test_jumping_over_gaps_raises_what_a_walk_through_them_raises(
    pauses: list[float], stands: list[tuple[float, int]], window: float, period: float
) -> None:
    """Recordings with gaps of up to 100 s: the same alarms at the same looks as by every look in turn."""
    ends = np.cumsum(pauses).tolist()
    standing = sorted(start + 0.1 * i for start, count in stands for i in range(count))
    made, rule = recording(ends, standing), TriggerSettings(window=window, period=period)
    raised = [(look.time, one.kind, one.ratio) for look in alarms(made, rule) for one in look.alarms]
    assert raised == [pytest.approx(one) for one in naive(made, rule)]


def test_a_gap_of_years_costs_no_looks() -> None:
    """Two completions 57 years apart: 180 million looks lie between them, and all are told of without being made."""
    made = recording([2.1, *(1.8e9 + 0.5 * i for i in range(100))], [])
    rule = TriggerSettings()
    # From 2.1 s to 1.8e9 + 49.5 s, each 10 s, and one at the end.
    assert looks(made, rule) == 180_000_005
    assert list(alarms(made, rule)) == []
    found = diagnose(made)
    assert (found.status, found.looks) == ("healthy", 180_000_005)
    assert any("nothing was recorded for 20,833 days" in note for note in found.notes)


def test_a_failure_is_found_beyond_a_gap_too() -> None:
    """A rank that stands still after a pause of two hours is a failure, as it is without the pause."""
    ends = [*(0.5 * i for i in range(100)), *(7_200 + 0.5 * i for i in range(100))]
    # Its longest pause before was two hours, so it must be silent for four.
    stuck = recording(ends, [7_250 + 0.1 * i for i in range(150_000)])
    first = next(look for look in alarms(stuck, TriggerSettings()) if look.alarms[0].kind == "failure")
    assert first.time - ends[-1] == pytest.approx(2 * (7_200 - 49.5), abs=10.0)


# --- rows whose time cannot be ----------------------------------------------------------------------------------------


def rows(count: int = 30) -> list[dict[str, Any]]:
    """Two ranks that complete a collective each second from 1800000001 on."""
    head: list[dict[str, Any]] = [
        {"type": "format", "name": "arnold-progress", "version": 1},
        {"type": "rank", "rank": 0, "host": "n0"},
        {"type": "rank", "rank": 1, "host": "n1"},
        {"type": "group", "comm": "dp", "kind": "dp", "ranks": [0, 1]},
    ]
    done = {"type": "done", "comm": "dp", "op": "AllReduce", "bytes": 4096}
    return head + [done | {"time": 1.8e9 + 1 + i, "rank": rank, "seq": i} for i in range(count) for rank in (0, 1)]


def source(given: list[dict[str, Any]]) -> Source:
    """Objects as JSON lines."""
    return Source("progress.jsonl", "".join(json.dumps(row) + "\n" for row in given))


def test_one_wrong_group_of_digits_is_told_with_its_line() -> None:
    """18002.1 among 1800000002.1: strict says the line; lenient leaves it out, and nothing is certain of the rank."""
    made = rows()
    made[8]["time"] = 18002.1
    with pytest.raises(InvalidInput, match=saying("more than a day")) as caught:
        diagnose_files([source(made)])
    # Four lines of the head, then two for each second: row 8 is line 9.
    assert caught.value.where == "progress.jsonl:9"
    assert "--lenient" in caught.value.fix
    found = diagnose_files([source(made)], lenient=True)[1]
    assert found.looks <= 4
    assert says(found.notes, "dropped 1 rows", "more than a day")
    assert 0 in read_progress([source(made)], lenient=True).tainted


def test_a_start_a_day_before_its_end_is_refused() -> None:
    """No collective runs for a day: the launch has the wrong digits."""
    made = rows()
    made[8]["start"] = 18002.1
    with pytest.raises(InvalidInput, match=saying("'start'", "more than a day", "'time'")) as caught:
        read_progress([source(made)])
    assert caught.value.where == "progress.jsonl:9"


@pytest.mark.parametrize("time", [1.8e18, 1e300, 10**400])
def test_times_that_are_no_seconds_are_refused(time: float) -> None:
    """Nanoseconds, and numbers beyond all calendars: refused with the line."""
    made = rows()
    made[8]["time"] = time
    with pytest.raises(InvalidInput, match="'time' is ") as caught:
        read_progress([source(made)])
    assert caught.value.where == "progress.jsonl:9"


def test_a_host_whose_clock_is_days_off_is_put_right_as_before() -> None:
    """All rows of one rank are ten days early: its clock is off, and its rows belong together."""
    made = rows()
    ranks = [
        {"type": "rank", "rank": 2, "host": "n2"},
        {"type": "group", "comm": "all", "kind": "", "ranks": [0, 1, 2]},
    ]
    done = {"type": "done", "comm": "all", "op": "AllReduce", "bytes": 1}
    late = [
        done | {"rank": rank, "seq": i, "time": 1.8e9 + 1 + i - (10 * DAY if rank == 2 else 0.0)}
        for i in range(10)
        for rank in (0, 1, 2)
    ]
    found = diagnose_files([source(made + ranks + late)])[1]
    assert any("that of rank 2, by -864000.0 s" in note for note in found.notes)
    assert not any("nothing was recorded" in note for note in found.notes)


def inspector(rank: int, seq: int, second: float) -> dict[str, Any]:
    """One line of the Inspector without times of its own."""
    perf = {"coll": "AllReduce", "coll_sn": seq, "coll_msg_size_bytes": 1 << 20, "coll_exec_time_us": 1000}
    return {
        "header": {"id": "0xa", "rank": rank, "n_ranks": 2, "nnodes": 2},
        "metadata": {
            "inspector_output_format_version": "v4.2",
            "dump_timestamp_us": int(second * 1e6),
            "hostname": f"h{rank}",
            "pid": 100 + rank,
        },
        "coll_perf": perf,
    }


def test_inspector_lines_of_two_runs_are_told_apart() -> None:
    """A folder that was used again 17 days later: the line of the other run is refused; leniently it is left out."""
    old = [inspector(0, seq, 1.8e9 - 17 * DAY + seq) for seq in range(2)]
    new = [inspector(rank, seq, 1.8e9 + seq) for seq in range(10, 20) for rank in (0, 1)]
    with pytest.raises(InvalidInput, match="a wrong clock, or another run") as caught:
        read_inspector([source(old + new)])
    assert caught.value.where == "progress.jsonl:1"
    left = read_inspector([source(old + new)], lenient=True)
    assert left.completions.seq.min() == 10
    assert left.notes[0].startswith("dropped 2 rows")


def test_ranks_of_two_runs_are_a_note() -> None:
    """Each rank by itself is in order, but they share no day: they are judged, and the gap is told."""
    two = [inspector(0, 1, 1.8e9 - 17 * DAY), inspector(1, 1, 1.8e9)]
    found = diagnose_files([source(two)])[1]
    assert any("nothing was recorded for 17 days" in note and "two runs" in note for note in found.notes)
