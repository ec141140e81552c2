"""Forgetting old history changes no answer about what came later, and no decision."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from health.flags import FlagStore, Ledger
from health.flags import store as module
from health.flags.compaction import compacted
from health.flags.rules import Rule, Rules
from topology.errors import InvalidInput, TooLarge
from topology.flag_log import FlagLog
from topology.flags import FAULTY, NodeFlag

T0 = datetime(2026, 8, 1, tzinfo=UTC)
DAY = timedelta(days=1)
CUT = T0 + 10 * DAY
"""Twenty findings of the store on disk are older, ten are not."""


def flag(node: str, slowdown: float, source: str = "peers") -> NodeFlag:
    """A finding; 1 is an all-clear, infinity a fault."""
    kind = "faulty" if slowdown == FAULTY else "straggler"
    return NodeFlag(node, kind, slowdown, source=source, evidence=f"{slowdown} times")


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 20 * 24),  # hours since the event before
        st.sampled_from(["n1", "n2"]),
        st.sampled_from([1.0, 1.2, 1.5, FAULTY, -1.0]),  # -1 lifts
        st.sampled_from(["peers", "cries"]),
    ),
    min_size=1,
    max_size=25,
)
RULES = Rules(Rule(), {"cries": Rule(raise_after=3, within=timedelta(days=30))})


def ledger_of(events: list[tuple[int, str, float, str]]) -> tuple[Ledger, datetime]:
    """A store in which so much happened, and the present."""
    ledger, now = Ledger(), T0
    ledger.open(now)
    ledger.govern(RULES, now)
    for hours, node, slowdown, source in events:
        now += timedelta(hours=hours)
        if slowdown < 0:
            ledger.lift([node], now=now, because="mended", by="somebody")
        else:
            ledger.record([flag(node, slowdown, source)], now=now)
    return ledger, now


@settings(max_examples=60, deadline=None)
@given(EVENTS, st.floats(0, 1), st.lists(st.tuples(st.sampled_from(["n1", "n2"]), st.sampled_from([1.0, 1.5]))))
def test_what_came_later_stays(
    events: list[tuple[int, str, float, str]], share: float, more: list[tuple[str, float]]
) -> None:
    """At any time since then the same flags; what is found afterwards makes the same lines as without compaction."""
    whole, now = ledger_of(events)
    cut = T0 + share * (now - T0)
    small = Ledger(FlagLog(compacted(whole.log, cut, because="old")))
    for step in range(21):
        at = cut + step / 20 * (now + 20 * DAY - cut)
        assert small.log.standing(at) == whole.log.standing(at)
    assert [line for line in small.log.lines[1:] if line.time >= cut] == [
        line for line in whole.log.lines[1:] if line.time >= cut
    ]
    for i, (node, slowdown) in enumerate(more):
        for source in ("peers", "cries"):
            later, found = now + (i + 1) * 2 * DAY, flag(node, slowdown, source)
            assert small.record([found], now=later) == whole.record([found], now=later)


def test_findings_that_did_not_suffice_still_count() -> None:
    """Two of three findings before the cut, the third after it: flagged, as without compaction."""
    ledger = Ledger()
    ledger.open(T0)
    ledger.govern(RULES, T0)
    for days in (1, 2):
        ledger.record([flag("n1", 1.5, "cries")], now=T0 + days * DAY)
    small = Ledger(FlagLog(compacted(ledger.log, T0 + 3 * DAY, because="x")))
    third = small.record([flag("n1", 1.5, "cries")], now=T0 + 4 * DAY)
    assert [line.event for line in third.lines] == ["raised"]


def test_what_a_store_is_made_of_goes() -> None:
    """A year of a node that is found every eight hours: of the time before the cut one finding is left."""
    ledger = Ledger()
    ledger.open(T0)
    for i in range(3 * 365):
        ledger.record([flag("n1", 1.5)], now=T0 + i * DAY / 3)
    lines = compacted(ledger.log, T0 + 335 * DAY, because="x")
    # The first line, the last finding before the cut, and three a day of the 30 days since then.
    assert len(lines) == 1 + 1 + 90
    assert (lines[0].forgotten, lines[0].because) == (T0 + 335 * DAY, "x")
    assert lines[0].time == T0
    again = compacted(FlagLog(lines), T0 + 335 * DAY, because="y")
    assert again == lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of two weeks, a finding every twelve hours."""
    path = tmp_path / "flags.jsonl"
    for i in range(30):
        now = T0 + i * DAY / 2
        FlagStore(path).change(lambda ledger, now=now: ledger.record([flag("n1", 1.5)], now=now), now=now)
    return path


def test_the_file_is_replaced_and_archived(path: Path, tmp_path: Path) -> None:
    """The archive is the store as it was; a writer goes on; nothing to forget leaves the file alone."""
    before, archive = path.read_bytes(), tmp_path / "old.jsonl"
    done = FlagStore(path).compact(CUT, archive=archive)
    assert (done.dropped, done.size) == (19, (len(before), path.stat().st_size))
    assert archive.read_bytes() == before
    assert len(FlagStore(archive).read().lines) == len(FlagStore(path).read().lines) + 19
    now = T0 + 15 * DAY
    FlagStore(path).change(lambda ledger: ledger.record([flag("n2", 2.0)], now=now), now=now)
    assert {found.node for found in FlagStore(path).read().holding(now)} == {"n1", "n2"}
    left = path.read_bytes()
    assert FlagStore(path).compact(CUT, archive=tmp_path / "unused").dropped == 0
    assert path.read_bytes() == left
    assert not (tmp_path / "unused").exists()


def test_refusals_leave_the_store_alone(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive that is there already, or in no folder; a store that does not exist; one beyond all measure."""
    before = path.read_bytes()
    for archive, words in ((path, "there already"), (tmp_path / "no" / "x", "cannot be written")):
        with pytest.raises(InvalidInput, match=words):
            FlagStore(path).compact(CUT, archive=archive)
    with pytest.raises(InvalidInput, match="no such file"):
        FlagStore(tmp_path / "none").compact(T0)
    assert not (tmp_path / "none").exists()
    monkeypatch.setattr(module, "MAX_STORE_BYTES", len(before) // 3)
    with pytest.raises(TooLarge):
        FlagStore(path).compact(CUT)
    assert path.read_bytes() == before


def test_a_store_that_was_too_large_can_be_compacted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither read nor written to any more, it becomes small enough again."""
    monkeypatch.setattr(module, "MAX_STORE_BYTES", path.stat().st_size - 1)
    with pytest.raises(TooLarge, match="compact") as caught:
        FlagStore(path).change(lambda ledger: None, now=T0 + 15 * DAY)
    assert "arnold flags compact" in caught.value.fix
    FlagStore(path).compact(CUT)
    assert len(FlagStore(path).read().lines) == 12


def test_an_unfinished_line_is_not_carried_over(path: Path) -> None:
    """What a killed writer left at the end goes with the old file."""
    with path.open("a", encoding="utf-8") as file:
        file.write('{"time":"2026')
    FlagStore(path).compact(CUT)
    assert FlagStore(path).read().torn == 0


def test_who_waited_for_the_lock_writes_to_the_new_file(path: Path) -> None:
    """A writer that had opened the old file before it was replaced does not write into what nobody reads any more."""
    stale = os.open(path, os.O_RDWR | os.O_APPEND)
    try:
        store = FlagStore(path)
        assert store._is_current(stale)
        store.compact(CUT)
        assert not store._is_current(stale)
    finally:
        os.close(stale)


WRITER = """
import sys
from datetime import UTC, datetime, timedelta
from health.flags import FlagStore
from topology.flags import NodeFlag
path, name = sys.argv[1:]
for i in range(15):
    now = datetime.now(UTC)
    if name == "compact":
        FlagStore(path).compact(now)
    else:
        flags = [NodeFlag(f"{name}{i}", "straggler", 1.5, source=name)]
        FlagStore(path).change(lambda ledger: ledger.record(flags, now=now), now=now)
"""


def test_compaction_beside_a_writer_loses_no_flag(tmp_path: Path) -> None:
    """Fifteen findings while another process compacts: all nodes are flagged in the end."""
    path, root = tmp_path / "flags.jsonl", Path(__file__).parents[4]
    now = datetime.now(UTC)
    FlagStore(path).change(lambda ledger: ledger.record([flag("n1", 1.5)], now=now), now=now)
    both = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], cwd=root) for name in ("a", "compact")]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    held = {found.node for found in FlagStore(path).read().holding(datetime.now(UTC))}
    assert held == {"n1", *(f"a{i}" for i in range(15))}
