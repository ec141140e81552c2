"""Forgetting old history changes no answer about what came later, and no decision."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from health.flags import Ledger, Rule, Rules, open_ledger
from health.flags import flag_store as module
from health.flags.flag_store import compact_store
from health.flags.rules import MOST_FINDINGS, rules_of
from tests.case_counts import examples
from tests.health.flags.stores import copied, memory_ledger
from topology.flag_sources import open_log
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
    ledger, now = memory_ledger(T0), T0
    ledger.govern(RULES, now)
    for hours, node, slowdown, source in events:
        now += timedelta(hours=hours)
        if slowdown < 0:
            ledger.lift([node], now=now, because="mended", by="ada")
        else:
            ledger.record([flag(node, slowdown, source)], now=now)
    return ledger, now


def compacted(ledger: Ledger, before: datetime, *, because: str = "x") -> Ledger:
    """A copy of a store without its old history."""
    small = copied(ledger)
    small.forget(before, because=because)
    return small


@examples(60)
@given(EVENTS, st.floats(0, 1), st.lists(st.tuples(st.sampled_from(["n1", "n2"]), st.sampled_from([1.0, 1.5]))))
def test_what_came_later_stays(
    events: list[tuple[int, str, float, str]], share: float, more: list[tuple[str, float]]
) -> None:
    """At any time since then the same flags; what is found afterwards makes the same events as without compaction."""
    whole, now = ledger_of(events)
    cut = T0 + share * (now - T0)
    small = compacted(whole, cut)
    for step in range(21):
        at = cut + step / 20 * (now + 20 * DAY - cut)
        assert small.standing(at) == whole.standing(at)
    later, as_before = (
        [event for event in ledger.events("number > 1") if event.time >= cut] for ledger in (small, whole)
    )
    assert later == as_before
    for i, (node, slowdown) in enumerate(more):
        for source in ("peers", "cries"):
            time, found = now + (i + 1) * 2 * DAY, flag(node, slowdown, source)
            assert small.record([found], now=time) == whole.record([found], now=time)


def test_findings_that_did_not_suffice_still_count() -> None:
    """Two of three findings before the cut, the third after it: flagged, as without compaction."""
    ledger = memory_ledger(T0)
    ledger.govern(RULES, T0)
    for days in (1, 2):
        ledger.record([flag("n1", 1.5, "cries")], now=T0 + days * DAY)
    small = compacted(ledger, T0 + 3 * DAY)
    third = small.record([flag("n1", 1.5, "cries")], now=T0 + 4 * DAY)
    assert [event.event for event in third.events] == ["raised"]


def test_findings_that_no_rule_can_count_go() -> None:
    """Of 150 that did not suffice the last 101 stay: a rule may ask for 100, and the next would be one more."""
    ledger = memory_ledger(T0)
    ledger.govern(Rules(Rule(raise_after=100, within=timedelta(hours=1))), T0)
    for hours in range(150):
        ledger.record([flag("n1", 1.5)], now=T0 + 2 * hours * timedelta(hours=1))
    small = compacted(ledger, T0 + 30 * DAY)
    assert len([*small.events("event = 'noted'")]) == MOST_FINDINGS + 1


def test_rules_that_were_replaced_go() -> None:
    """Those of the cut stay, and later ones."""
    ledger = memory_ledger(T0)
    for days in range(1, 5):
        ledger.govern(Rules(Rule(raise_after=days + 1)), T0 + days * DAY)
    small = compacted(ledger, T0 + 2.5 * DAY)
    assert [event.time for event in small.events("event = 'rules'")] == [T0 + days * DAY for days in (2, 3, 4)]
    assert rules_of(small) == rules_of(ledger)


def test_what_a_store_is_made_of_goes() -> None:
    """Ninety days of a node that is found every eight hours: of the time before the cut one finding is left."""
    ledger = memory_ledger(T0)
    for i in range(3 * 90):
        ledger.record([flag("n1", 1.5)], now=T0 + i * DAY / 3)
    small = compacted(ledger, T0 + 60 * DAY)
    # The first event, the last finding before the cut, and three a day of the 30 days since then.
    assert len([*small.events()]) == 1 + 1 + 90
    assert (small.forgotten, small.opened.because) == (T0 + 60 * DAY, "x")
    assert small.opened.time == T0
    again = compacted(small, T0 + 60 * DAY, because="y")
    assert [*again.events()] == [*small.events()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of two weeks, a finding every twelve hours."""
    path = tmp_path / "flags.db"
    for i in range(30):
        with open_ledger(path, now=T0) as ledger:
            ledger.record([flag("n1", 1.5)], now=T0 + i * DAY / 2)
    return path


def count(path: Path) -> int:
    """Events of a store."""
    with open_log(path) as log:
        return len([*log.events()])


def test_the_file_becomes_smaller_and_is_archived(path: Path, tmp_path: Path) -> None:
    """The archive is the store as it was; a writer goes on; nothing to forget leaves the file alone."""
    with open_log(path) as log:
        before, archive = [*log.events()], tmp_path / "old.db"
    done = compact_store(path, CUT, archive=archive)
    assert (done.dropped, done.kept, done.archive) == (19, 12, str(archive))
    assert done.size == path.stat().st_size <= done.size_before
    with open_log(archive) as log:
        assert [*log.events()] == before
    now = T0 + 15 * DAY
    with open_ledger(path, now=now) as ledger:
        ledger.record([flag("n2", 2.0)], now=now)
        assert {found.node for found in ledger.holding(now)} == {"n1", "n2"}
    left = path.read_bytes()
    assert compact_store(path, CUT, archive=tmp_path / "unused").dropped == 0
    assert path.read_bytes() == left
    assert not (tmp_path / "unused").exists()


def test_refusals_leave_the_store_alone(path: Path, tmp_path: Path) -> None:
    """An archive that is there already, or in no folder; a store that does not exist, or is empty."""
    before = path.read_bytes()
    for archive, words in ((path, "there already"), (tmp_path / "no" / "x", "cannot be written")):
        with pytest.raises(InvalidInput, match=words) as caught:
            compact_store(path, CUT, archive=archive)
        assert caught.value.where == str(archive)
    with pytest.raises(InvalidInput, match="no such file"):
        compact_store(tmp_path / "none", T0)
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty").touch()
    with pytest.raises(InvalidInput, match="is empty"):
        compact_store(tmp_path / "empty", T0)
    assert path.read_bytes() == before
    assert count(path) == 31


def test_a_full_store_can_be_compacted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No event more fits, which is told with what to do about it; then there is room again."""
    monkeypatch.setattr(module, "MAX_STORE_BYTES", path.stat().st_size)
    now = T0 + 15 * DAY
    many = [flag(f"n{i}", 1.5) for i in range(100)]
    with pytest.raises(InvalidInput, match="full") as caught, open_ledger(path, now=now) as ledger:
        ledger.record(many, now=now)
    assert "arnold flags compact" in caught.value.fix
    assert count(path) == 31
    compact_store(path, CUT)
    with open_ledger(path, now=now) as ledger:
        ledger.record([flag("n2", 1.5)], now=now)
    assert count(path) == 13


WRITER = """
import sys
from datetime import UTC, datetime
from health.flags import open_ledger
from health.flags.flag_store import compact_store
from topology.flags import NodeFlag
path, name = sys.argv[1:]
for i in range(15):
    now = datetime.now(UTC)
    if name == "compact":
        compact_store(path, now)
    else:
        with open_ledger(path, now=now) as ledger:
            ledger.record([NodeFlag(f"{name}{i}", "straggler", 1.5, source=name)], now=now)
"""


def test_compaction_beside_a_writer_loses_no_flag(tmp_path: Path) -> None:
    """Fifteen findings while another process compacts: all nodes are flagged in the end."""
    path, root = tmp_path / "flags.db", Path(__file__).parents[3]
    now = datetime.now(UTC)
    with open_ledger(path, now=now) as ledger:
        ledger.record([flag("n1", 1.5)], now=now)
    both = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], cwd=root) for name in ("a", "compact")]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    with open_log(path) as log:
        held = {found.node for found in log.holding(datetime.now(UTC))}
    assert held == {"n1", *(f"a{i}" for i in range(15))}
