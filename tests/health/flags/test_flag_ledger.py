"""Findings come in, flags come out: merging, hysteresis, expiry, and the audit that gives the same state again."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from ground.files import Source
from health.flags import Ledger, Rule, Rules
from health.flags.flag_store import Track, track_of
from health.flags.imports import read_event_lines
from health.flags.rules import rules_of
from tests.case_counts import examples
from tests.facts import says
from tests.health.flags.stores import copied, memory_ledger
from topology.flags import FAULTY, FlagKind, NodeFlag

T0 = datetime(2026, 11, 17, 8, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def slow(factor: float, *, node: str = "n1", source: str = "what-if", **fields: Any) -> NodeFlag:
    """A finding that a node is slow."""
    return NodeFlag(node, "straggler", factor, source=source, **fields)


def broken(*, node: str = "n1", source: str = "nvsentinel") -> NodeFlag:
    """A finding that a node is faulty."""
    return NodeFlag(node, "faulty", FAULTY, source=source)


def opened(rule: Rule | None = None) -> Ledger:
    """A new store, with this rule for all sources."""
    ledger = memory_ledger(T0)
    if rule is not None:
        ledger.govern(Rules(rule), T0)
    return ledger


def record(ledger: Ledger, after: timedelta, *flags: NodeFlag) -> list[str]:
    """Names of the events that findings cause, this long after the beginning."""
    return [event.event for event in ledger.record(flags, now=T0 + after).events]


def held(ledger: Ledger, after: timedelta) -> dict[str, float]:
    """Slowdown of each flagged node, this long after the beginning."""
    return {flag.node: flag.slowdown for flag in ledger.holding(T0 + after)}


# raising


def test_a_finding_raises_a_flag_at_once_and_the_next_renews_it() -> None:
    """By default one finding suffices: detectors demand persistence themselves."""
    ledger = opened()
    assert record(ledger, 0 * HOUR, slow(1.5)) == ["raised"]
    assert held(ledger, 0 * HOUR) == {"n1": 1.5}
    assert record(ledger, HOUR, slow(1.5)) == ["renewed"]
    assert record(ledger, 2 * HOUR, slow(1.7)) == ["raised"]
    assert held(ledger, 2 * HOUR) == {"n1": 1.7}


def test_as_many_findings_as_the_rule_asks_for_within_its_time() -> None:
    """Three within an hour: two and a late third do not suffice, the next one does, with the two before it."""
    ledger = opened(Rule(raise_after=3))
    assert record(ledger, 0 * MINUTE, slow(1.5)) == ["noted"]
    assert record(ledger, 10 * MINUTE, slow(1.5)) == ["noted"]
    assert held(ledger, 10 * MINUTE) == {}
    assert record(ledger, 65 * MINUTE, slow(1.5)) == ["noted"]
    assert record(ledger, 66 * MINUTE, slow(1.5)) == ["raised"]


def test_findings_in_a_row_are_broken_by_an_all_clear() -> None:
    """The source takes it back, and counting begins anew."""
    ledger = opened(Rule(raise_after=2))
    record(ledger, 0 * MINUTE, slow(1.5))
    assert record(ledger, MINUTE, slow(1.0)) == ["noted"]
    assert record(ledger, 2 * MINUTE, slow(1.5)) == ["noted"]
    assert record(ledger, 3 * MINUTE, slow(1.5)) == ["raised"]


def test_a_faulty_node_waits_for_nothing_and_neither_does_a_sure_finding() -> None:
    """Whatever number of findings the rule asks for; a score just below the bar does wait."""
    ledger = opened(Rule(raise_after=5, score=0.9))
    assert record(ledger, 0 * MINUTE, broken()) == ["raised"]
    assert record(ledger, MINUTE, slow(1.5, node="n2", score=0.89)) == ["noted"]
    assert record(ledger, 2 * MINUTE, slow(1.5, node="n2", score=0.9)) == ["raised"]


def test_two_findings_of_a_batch_are_one_occasion() -> None:
    """The same source about the same node at the same time: the worst counts, with the evidence of both."""
    ledger = opened(Rule(raise_after=2))
    assert record(ledger, 0 * MINUTE, slow(1.2, evidence="a"), slow(1.4, evidence="b")) == ["noted"]
    (event,) = [event for event in ledger.events() if event.event == "noted"]
    assert event.finding is not None
    assert (event.finding.slowdown, event.finding.evidence) == (1.4, "b; a")


# ending


def test_a_flag_ends_when_nothing_was_found_for_the_quiet_time() -> None:
    """A day after the last finding, to the second; the event says so when somebody looks."""
    ledger = opened()
    record(ledger, 0 * HOUR, slow(1.5))
    record(ledger, 5 * HOUR, slow(1.5))
    assert held(ledger, 5 * HOUR + DAY - timedelta(seconds=1)) == {"n1": 1.5}
    assert held(ledger, 5 * HOUR + DAY) == {}
    (event,) = ledger.settle(T0 + 3 * DAY)
    assert (event.event, event.time, event.because) == (
        "cleared",
        T0 + 5 * HOUR + DAY,
        "not found since 2026-11-17 13:00 UTC",
    )


def test_a_flag_holds_as_long_as_its_source_says() -> None:
    """If that is longer than the quiet time; if it is shorter, the quiet time counts."""
    ledger = opened()
    record(ledger, 0 * HOUR, slow(1.5, until=T0 + 3 * DAY), slow(1.5, node="n2", until=T0 + MINUTE))
    assert held(ledger, 2 * MINUTE) == {"n1": 1.5, "n2": 1.5}
    assert held(ledger, 2 * DAY) == {"n1": 1.5}
    assert [(event.node, event.event) for event in ledger.settle(T0 + 4 * DAY)] == [
        ("n2", "cleared"),
        ("n1", "expired"),
    ]


def test_an_all_clear_ends_a_flag_soon_but_not_at_once() -> None:
    """Half an hour after the source last found something, even if it had said that the flag holds for a week."""
    ledger = opened()
    record(ledger, 0 * MINUTE, slow(1.5, until=T0 + 7 * DAY))
    assert record(ledger, MINUTE, slow(1.0)) == ["noted"]
    assert held(ledger, 29 * MINUTE) == {"n1": 1.5}
    assert held(ledger, 30 * MINUTE) == {}


def test_an_all_clear_long_after_the_last_finding_ends_a_flag_at_once() -> None:
    """The quiet has been."""
    ledger = opened()
    record(ledger, 0 * HOUR, slow(1.5))
    assert record(ledger, 2 * HOUR, slow(1.0)) == ["noted", "cleared"]
    assert held(ledger, 2 * HOUR) == {}


def test_all_clears_about_what_nobody_holds_leave_no_trace() -> None:
    """A monitor that finds 10,000 nodes healthy every minute must not fill the disk."""
    ledger = opened()
    assert record(ledger, 0 * HOUR, slow(1.0)) == []
    record(ledger, HOUR, slow(1.5))
    record(ledger, HOUR + MINUTE, slow(1.0))
    assert record(ledger, HOUR + 2 * MINUTE, slow(1.0)) == []


def test_a_slowdown_falls_only_when_it_stays_lower() -> None:
    """1.5, 1.2, 1.5, 1.2 is 1.5; half an hour after the last 1.5 it is 1.2, and a day after that nothing."""
    ledger = opened()
    events = [record(ledger, i * 10 * MINUTE, slow(factor)) for i, factor in enumerate((1.5, 1.2, 1.5, 1.2))]
    assert events == [["raised"], ["renewed"], ["renewed"], ["renewed"]]
    assert held(ledger, 49 * MINUTE) == {"n1": 1.5}
    assert held(ledger, 50 * MINUTE) == {"n1": 1.2}
    assert held(ledger, DAY + 30 * MINUTE) == {}
    assert [event.event for event in ledger.settle(T0 + 3 * DAY)] == ["lowered", "cleared"]


@pytest.mark.parametrize(
    ("kind", "prices"), [("straggler", [1.5, 1.25, 1.125]), ("degraded", [1.5, 1.5, 1.25]), ("faulty", [FAULTY] * 3)]
)
def test_a_finding_gets_less_likely_by_its_kind(kind: FlagKind, prices: list[float]) -> None:
    """Half-life of two hours: 1 + 0.5, and half of the excess; twice the time where the cause is known; never of a
    faulty node.  Found again it is as it was.
    """
    ledger = opened(Rule(half_life=2 * HOUR))
    flag = NodeFlag("n1", kind, FAULTY if kind == "faulty" else 1.5, source="what-if")
    ledger.record([flag], now=T0)
    assert [held(ledger, hours * HOUR)["n1"] for hours in (1, 3, 5)] == prices
    record(ledger, 6 * HOUR, flag)
    assert held(ledger, 7 * HOUR)["n1"] == prices[0]


def test_a_node_that_relapses_waits_twice_as_long() -> None:
    """Flagged again six days after its flag ended: two days of quiet.  After eight days of peace: one day again."""
    ledger = opened()
    record(ledger, 0 * DAY, slow(1.5))
    record(ledger, 7 * DAY, slow(1.5))
    # after the first of two days it is half as likely slow
    assert held(ledger, 8 * DAY - MINUTE) == {"n1": 1.5}
    assert (held(ledger, 9 * DAY - MINUTE), held(ledger, 9 * DAY)) == ({"n1": 1.25}, {})
    record(ledger, 17 * DAY, slow(1.5))
    assert (held(ledger, 18 * DAY - MINUTE), held(ledger, 18 * DAY)) == ({"n1": 1.5}, {})


def test_somebody_lifts_a_flag() -> None:
    """All sources at once, with name and reason; what is found afterwards counts again."""
    ledger = opened()
    record(ledger, 0 * HOUR, slow(1.5), broken(), slow(1.2, node="n2"))
    lines = ledger.lift(["n1"], now=T0 + HOUR, because="replaced", by="ada")
    assert [(event.source, event.event, event.by, event.because) for event in lines] == [
        ("nvsentinel", "cleared", "ada", "replaced"),
        ("what-if", "cleared", "ada", "replaced"),
    ]
    assert held(ledger, HOUR) == {"n2": 1.2}
    assert record(ledger, 2 * HOUR, slow(1.5)) == ["raised"]


# several sources


def test_the_worst_of_several_sources_counts_and_all_are_named() -> None:
    """Each ends for itself."""
    ledger = opened()
    record(ledger, 0 * HOUR, slow(1.5, evidence="S_w 1.5"))
    record(ledger, 6 * HOUR, slow(1.2, source="peers"))
    (flag,) = ledger.holding(T0 + 7 * HOUR)
    assert (flag.slowdown, flag.source) == (1.5, "what-if, peers")
    assert says(flag.evidence, "what-if: S_w 1.5", "peers: straggler", "1.2 times slower")
    (flag,) = ledger.holding(T0 + 25 * HOUR)
    assert (flag.slowdown, flag.source) == (1.2, "peers")


def test_no_source_outvotes_another() -> None:
    """The contradiction rule: an all-clear takes back what its own source said, and nothing else."""
    ledger = opened()
    record(ledger, 0 * HOUR, slow(1.5), slow(1.5, source="peers"))
    record(ledger, HOUR, slow(1.0, source="peers"), slow(1.0, source="third"))
    (flag,) = ledger.holding(T0 + 2 * HOUR)
    assert (flag.slowdown, flag.source) == (1.5, "what-if")


# what is left out


def test_what_is_known_over_or_early() -> None:
    """The same version of a file twice; findings of which the time is past; those that begin tomorrow."""
    ledger = opened()
    flags = [
        slow(1.5),
        slow(1.5, node="n2", until=T0),
        slow(1.5, node="n3", since=T0 + DAY),
        slow(1.5, node="n4", since=T0 + MINUTE),
    ]
    first = ledger.record(flags, now=T0, stamp="v1")
    assert (first.known, first.over, first.early) == (0, 1, 1)
    assert held(ledger, 0 * HOUR) == {"n1": 1.5, "n4": 1.5}
    again = ledger.record(flags, now=T0 + HOUR, stamp="v1")
    assert (again.events, again.known) == ((), 2)
    assert [event.event for event in ledger.record(flags, now=T0 + HOUR, stamp="v2").events] == ["renewed", "renewed"]


def test_time_does_not_go_back() -> None:
    """A little, as clocks do, is taken for the present; more is refused, and nothing is written."""
    ledger = opened()
    record(ledger, HOUR, slow(1.5))
    record(ledger, HOUR - MINUTE, slow(1.6))
    assert [*ledger.events()][-1].time == T0 + HOUR
    with pytest.raises(InvalidInput, match="which is after"):
        record(ledger, 0 * HOUR, slow(1.7))
    with pytest.raises(InvalidInput, match="too late"):
        ledger.record([], now=datetime(9999, 1, 1, tzinfo=UTC))


def test_rules_change_from_now_on() -> None:
    """Flags that stand keep their ends; the same rules again are no event."""
    ledger = opened()
    record(ledger, 0 * HOUR, slow(1.5))
    rules = Rules(Rule(quiet=HOUR))
    assert [event.event for event in ledger.govern(rules, T0 + MINUTE)] == ["rules"]
    assert ledger.govern(rules, T0 + MINUTE) == []
    assert held(ledger, 23 * HOUR) == {"n1": 1.5}
    record(ledger, 2 * HOUR, slow(1.5))
    assert held(ledger, 3 * HOUR) == {}


# whatever happens

FINDINGS = st.builds(
    lambda node, source, factor, until: (node, source, factor, until),
    st.sampled_from(["n1", "n2"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from([1.0, 1.2, 1.5, FAULTY]),
    st.sampled_from([None, -1, 5, 40, 400]),
)
ROUNDS = st.lists(st.tuples(st.sampled_from([0, 1, 7, 29, 30, 61, 240]), st.lists(FINDINGS, max_size=4)), max_size=12)
RULES = st.builds(
    Rule,
    raise_after=st.integers(1, 3),
    within=st.just(20 * MINUTE),
    quiet=st.just(60 * MINUTE),
    all_clear=st.just(30 * MINUTE),
    longest=st.just(240 * MINUTE),
    memory=st.just(200 * MINUTE),
)


def tracks(ledger: Ledger) -> list[Track]:
    """What is known of each node by each source."""
    return [track_of(ledger, event.node, event.source) for event in [*ledger.latest()]]


def at(now: datetime, findings: Iterable[tuple[str, str, float, int | None]]) -> list[NodeFlag]:
    """Findings of a moment."""
    return [
        NodeFlag(
            node,
            "faulty" if factor == FAULTY else "straggler",
            factor,
            source=source,
            until=None if until is None else now + until * MINUTE,
        )
        for node, source, factor, until in findings
    ]


def played(rule: Rule, rounds: Sequence[tuple[int, list[Any]]]) -> tuple[Ledger, list[datetime]]:
    """A store to which all rounds have happened, and their times."""
    ledger, now, times = opened(rule), T0, []
    for minutes, findings in rounds:
        now += minutes * MINUTE
        ledger.record(at(now, findings), now=now)
        times.append(now)
    return ledger, times


def imported(ledger: Ledger) -> Ledger:
    """A new store of what another one exports."""
    events, torn = read_event_lines(Source("export", "".join(f"{event}\n" for event in ledger.lines())))
    assert torn == 0
    again = memory_ledger(T0)
    again.take_over(events)
    return again


@examples(60)
@given(RULES, ROUNDS)
def test_the_audit_replayed_gives_the_same_state(rule: Rule, rounds: Any) -> None:
    """Events, rules, time, and what holds at any time, from the exported text alone."""
    ledger, times = played(rule, rounds)
    again = imported(ledger)
    assert [*again.events()] == [*ledger.events()]
    assert (rules_of(again), again.time) == (rules_of(ledger), ledger.time)
    for time in times:
        assert again.standing(time) == ledger.standing(time)
    later = (times or [T0])[-1] + HOUR
    assert again.record(at(later, [("n1", "a", 1.5, None)]), now=later) == ledger.record(
        at(later, [("n1", "a", 1.5, None)]), now=later
    )


@examples(60)
@given(RULES, ROUNDS, st.lists(FINDINGS, max_size=5), st.randoms(use_true_random=False))
def test_a_batch_is_a_set(rule: Rule, rounds: Any, findings: Any, chance: random.Random) -> None:
    """Its order does not matter, repeating it changes nothing, and sources come in any order."""
    one, times = played(rule, rounds)
    now = (times or [T0])[-1] + MINUTE
    flags = at(now, findings)
    shuffled = list(flags)
    chance.shuffle(shuffled)
    other, apart = copied(one), copied(one)
    one.record(flags, now=now)
    other.record(shuffled, now=now)
    assert [*other.events()] == [*one.events()]
    assert one.record(shuffled, now=now).events == ()
    for source in chance.sample(["a", "b"], 2):
        apart.record([flag for flag in flags if flag.source == source], now=now)
    assert tracks(apart) == tracks(one)


@examples(60)
@given(RULES, ROUNDS)
def test_no_flag_flaps_faster_than_its_quiet_time(rule: Rule, rounds: Any) -> None:
    """From the raising of a flag to its end, and so to the next raising, at least the shorter quiet time passes."""
    ledger, times = played(rule, rounds)
    ledger.settle((times or [T0])[-1] + DAY)
    begun: dict[tuple[str, str], datetime] = {}
    for event in ledger.events():
        if event.event in ("cleared", "expired"):
            assert event.time - begun.pop((event.node, event.source)) >= rule.all_clear
        elif event.event == "raised":
            begun.setdefault((event.node, event.source), event.time)
    assert begun == {}


@examples(60)
@given(RULES, ROUNDS)
def test_the_past_does_not_change(rule: Rule, rounds: Any) -> None:
    """What held when a round was over is what the store says of that time ever after; merged it is the worst of all."""
    ledger, now = opened(rule), T0
    then: list[tuple[datetime, list[NodeFlag]]] = []
    for minutes, findings in rounds:
        now += (minutes + 1) * MINUTE
        ledger.record(at(now, findings), now=now)
        then.append((now, ledger.standing(now)))
    ledger.settle(now + DAY)
    for time, standing in then:
        assert ledger.standing(time) == standing
        worst = {flag.node: max(f.slowdown for f in standing if f.node == flag.node) for flag in standing}
        assert {flag.node: flag.slowdown for flag in ledger.holding(time)} == worst
