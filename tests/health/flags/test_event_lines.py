"""Events of a flag store as JSON lines: what is exported is read back, of this version and the one before."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import ArnoldError, InvalidInput
from ground.files import Source
from health.flags.imports import read_event_lines
from tests.case_counts import examples
from tests.health.flags.stores import memory_ledger
from topology.flags import FAULTY

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

STORE = """\
{"arnold":"flag-store","version":1,"time":"2026-11-17T08:00:00Z","event":"opened"}
{"time":"2026-11-17T08:00:00Z","event":"raised","node":"n1","source":"what-if","steps":[{"kind":"straggler",\
"slowdown":1.5,"until":"2026-11-17T14:00:00Z","evidence":"S_w","seen":"2026-11-17T08:00:00Z"},{"kind":"straggler",\
"slowdown":1.2,"until":"2026-11-17T16:00:00Z","seen":"2026-11-17T09:00:00Z"}]}
{"time":"2026-11-17T10:00:00Z","event":"raised","node":"n9","source":"nvsentinel","steps":[{"kind":"faulty",\
"until":"2026-11-18T10:00:00Z","evidence":"GpuMemWatch","seen":"2026-11-17T10:00:00Z"}]}
{"time":"2026-11-17T11:00:00Z","event":"raised","node":"n1","source":"peers","steps":[{"kind":"straggler",\
"slowdown":1.3,"until":"2026-11-18T11:00:00Z","seen":"2026-11-17T11:00:00Z"}]}
{"time":"2026-11-17T13:00:00Z","event":"cleared","node":"n9","source":"nvsentinel","because":"replaced","by":"ada"}
"""
"""A store of version 1, as Arnold wrote it before stores were SQLite files."""


def test_a_store_of_version_1_is_taken_over() -> None:
    """Every event with its node and source, what held at any time, and what is exported is of version 2."""
    events, torn = read_event_lines(Source("store", STORE))
    assert torn == 0
    ledger = memory_ledger(NOON)
    ledger.take_over(events)
    held = {flag.node: flag for flag in ledger.holding(NOON)}
    assert {node: flag.slowdown for node, flag in held.items()} == {"n1": 1.5, "n9": FAULTY}
    assert (held["n1"].source, held["n9"].evidence) == ("what-if, peers", "GpuMemWatch")
    assert [(event.event, event.by) for event in events][-1] == ("cleared", "ada")
    lines = [*ledger.lines()]
    assert '"version":2' in lines[0]
    again, _ = read_event_lines(Source("export", "\n".join(lines)))
    assert again == events


def test_a_lifted_flag_of_version_1_keeps_its_relapses() -> None:
    """Its line did not say them; the line before did."""
    text = STORE.replace('"seen":"2026-11-17T10:00:00Z"}]', '"seen":"2026-11-17T10:00:00Z"}],"relapses":3')
    events, _ = read_event_lines(Source("store", text))
    assert [event.relapses for event in events if event.node == "n9"] == [3, 3]


def test_a_line_that_a_killed_writer_left_unfinished_is_left_out() -> None:
    """Wherever it was cut off; a last line that lacks nothing but its end is kept."""
    whole = STORE.rstrip("\n")
    last = whole.rindex("\n") + 1
    for length in (last + 1, last + 20, len(whole) - 1):
        events, torn = read_event_lines(Source("store", whole[:length]))
        assert (len(events), torn) == (4, length - last)
    assert [len(part) if isinstance(part, list) else part for part in read_event_lines(Source("store", whole))] == [
        5,
        0,
    ]


def test_a_store_takes_over_nothing_when_it_has_events() -> None:
    """Two histories cannot be put in one order."""
    events, _ = read_event_lines(Source("store", STORE))
    ledger = memory_ledger(NOON)
    ledger.take_over(events)
    with pytest.raises(InvalidInput, match="has events already"):
        ledger.take_over(events)


@pytest.mark.parametrize(
    ("line", "text", "complaint"),
    [
        (2, "", "is no JSON"),
        (3, '{"time":"2026-11-17T08:00:00Z","event":"raised","node":"n1"', "is no JSON"),
        (3, "[" * 100_000, "is no JSON"),
        (2, "[1]", "keys with values are expected"),
        (3, '{"time":"2026-11-17T10:00:00Z","event":"burnt","node":"n1"}', "event: input should be"),
        (3, '{"time":"2026-11-17T10:00:00","event":"cleared","node":"n1"}', "time: .*timezone"),
        (3, '{"time":"2026-11-17T10:00:00Z","event":"cleared"}', "names a node"),
        (3, '{"time":"2026-11-17T10:00:00Z","event":"cleared","node":"n1","bad":1}', "unknown key .*bad"),
        (3, '{"time":"2026-11-17T10:00:00Z","event":"rules"}', "has rules"),
        (
            3,
            '{"time":"2026-11-17T10:00:00Z","event":"raised","node":"n1","steps":[{"kind":"straggler","slowdown":0.5,'
            '"until":"2026-11-17T10:00:00Z","seen":"2026-11-17T10:00:00Z"}]}',
            "steps.0..flag.slowdown: input should be greater than or equal to 1",
        ),
        (4, '{"time":"2026-11-17T07:00:00Z","event":"cleared","node":"n1"}', "before the line above it"),
        (4, STORE.split("\n", maxsplit=1)[0].replace("08:00", "11:00"), "opens the store again"),
    ],
)
def test_a_broken_line_is_an_error_with_its_place(line: int, text: str, complaint: str) -> None:
    """Anywhere but at the end: nothing is flagged, or not flagged, on a history that cannot be read."""
    lines = STORE.split("\n")
    lines[line - 1] = text
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read_event_lines(Source("store", "\n".join(lines)))
    assert caught.value.where == f"store:{line}"
    assert caught.value.fix


@examples(100)
@given(st.integers(0, len(STORE)), st.text('n1[]{}-:,.\n"\ud7ff0', max_size=4), st.integers(0, 40))
def test_no_text_breaks_the_reader_of_lines(at: int, inserted: str, removed: int) -> None:
    """A store with a piece replaced: lines or an ArnoldError."""
    text = STORE[:at] + inserted + STORE[at + removed :]
    with suppress(ArnoldError):
        read_event_lines(Source("store", text))
