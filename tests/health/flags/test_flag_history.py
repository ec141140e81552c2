"""Why was n1 avoided on Tuesday?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from health.flags import Ledger
from health.flags.history import history
from tests.facts import says
from tests.health.flags.stores import memory_ledger
from topology.flags import FAULTY, NodeFlag

TUESDAY = datetime(2026, 11, 17, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def told() -> Ledger:
    """Tuesday 8:00 slow by one source, 12:00 broken by another, 18:00 lifted; Thursday slow again until it is quiet."""
    ledger = memory_ledger(TUESDAY - 5 * DAY)
    slow = NodeFlag("n1", "straggler", 1.5, source="what-if", evidence="S_w 1.5")
    ledger.record([slow, NodeFlag("n2", "straggler", 1.2, source="what-if")], now=TUESDAY + 8 * HOUR)
    ledger.record([NodeFlag("n1", "faulty", FAULTY, source="nvsentinel")], now=TUESDAY + 12 * HOUR)
    ledger.lift(["n1"], now=TUESDAY + 18 * HOUR, because="replaced", by="ada")
    ledger.record([slow], now=TUESDAY + 2 * DAY)
    return ledger


def test_why_was_it_avoided_on_tuesday() -> None:
    """Two spells, what was held, by whom, and how the last one ended."""
    found = history(told(), "n1", since=TUESDAY, until=TUESDAY + DAY)
    slow, broken = (spell.sentence for spell in found.spells)
    assert says(
        slow, "2026-11-17 08:00 UTC to 2026-11-17 12:00 UTC", "straggler", "1.5 times slower", "what-if", "S_w 1.5"
    )
    assert says(broken, "2026-11-17 12:00 UTC to 2026-11-17 18:00 UTC", "faulty", "nvsentinel", "what-if", "S_w 1.5")
    assert says(broken, "ended", "cleared by ada", "replaced")
    assert [event.event for event in found.events] == ["raised", "raised", "cleared", "cleared"]


def test_at_an_instant() -> None:
    """One spell holds, although nothing was written then."""
    found = history(told(), "n1", since=TUESDAY + 9 * HOUR, until=TUESDAY + 9 * HOUR)
    assert [spell.flag.slowdown for spell in found.spells] == [1.5]
    assert found.spells[0].begin == TUESDAY + 8 * HOUR
    assert found.events == ()


def test_when_it_was_not() -> None:
    """On Wednesday nothing was held against it."""
    found = history(told(), "n1", since=TUESDAY + 1.5 * DAY, until=TUESDAY + 1.6 * DAY)
    assert found.spells == ()


def test_a_flag_that_ended_before_anybody_wrote_it_down() -> None:
    """Raised on Thursday as a relapse: two days of quiet, in the second half as likely; nobody touched the store."""
    ledger = told()
    found = history(ledger, "n1", since=TUESDAY + 2 * DAY, until=TUESDAY + 9 * DAY)
    *_, spell = found.spells
    assert spell.end == TUESDAY + 4 * DAY
    assert says(spell.ended, "quiet time")
    ledger.settle(TUESDAY + 9 * DAY)
    *_, spell = history(ledger, "n1", since=TUESDAY + 2 * DAY, until=TUESDAY + 9 * DAY).spells
    assert spell.end == TUESDAY + 4 * DAY
    assert spell.ended == "cleared, not found since 2026-11-19 00:00 UTC"


def test_what_goes_on_has_no_end() -> None:
    """At the end of the span."""
    found = history(told(), "n1", since=None, until=TUESDAY + 3 * DAY - timedelta(minutes=1))
    assert [spell.end is None for spell in found.spells] == [False, False, True]
    assert found.spells[-1].sentence.startswith("since 2026-11-19 00:00 UTC: straggler")
