"""The watch over a running Prometheus: what it asks, what it says, and what it survives."""

from __future__ import annotations

from datetime import UTC, datetime
from threading import Event
from typing import Any

import pytest

from arnold.commands.health_peers import within_share
from ground.errors import InvalidInput
from health.peers.comparison import ComparisonSettings
from health.peers.sample_sources import WatchPlan
from health.peers.verdict import PeersVerdict
from health.peers.watch import FIRST_RETRY, Endpoint, EndpointAway, WatchRound, watch
from tests.health.peers.fake_prometheus import machines, serving
from tests.ports import free_port
from topology.flags import FAULTY, NodeFlag

NOW = 1_800_000_000.0
PLAN = WatchPlan(queries={"cpu_usage": "cpu"}, span=300.0)


class Clock:
    """A clock that is moved by waiting, and an event that ends the watch after some rounds."""

    def __init__(self) -> None:
        self.time = NOW
        self.waits: list[float] = []

    def now(self) -> float:
        """The time it is."""
        return self.time

    def event(self, *, rounds: int) -> Event:
        """An event whose wait takes no time, set after so many waits."""
        clock = self

        class Stop(Event):
            def wait(self, timeout: float | None = None) -> bool:
                clock.waits.append(timeout or 0.0)
                clock.time += timeout or 0.0
                if len(clock.waits) >= rounds:
                    self.set()
                return self.is_set()

        return Stop()


def run(url: str, *, rounds: int, plan: WatchPlan = PLAN) -> tuple[list[WatchRound], Clock]:
    """Some rounds of a watch."""
    clock = Clock()
    made = list(
        watch(Endpoint(url, timeout=5.0), plan, ComparisonSettings(), stop=clock.event(rounds=rounds), now=clock.now)
    )
    return made, clock


def test_a_round_flags_the_machine_that_idles() -> None:
    """One round: the query covers the span before now, n2 is flagged for as long as flags are held."""
    with serving(machines(broken="n2")) as prometheus:
        (made,), clock = run(prometheus.url, rounds=1)
    (asked,) = prometheus.asked
    assert asked["path"] == "/api/v1/query_range"
    assert (asked["query"], float(asked["start"]), float(asked["end"])) == ("cpu", NOW - 300.0, NOW)
    assert [flag.node for flag in made.flags] == ["n2"]
    assert made.flags[0].until is not None
    assert made.flags[0].until.timestamp() == NOW + 3600 * PLAN.hold_hours
    assert clock.waits == [PLAN.every]


def test_an_endpoint_that_is_away_is_asked_again_soon() -> None:
    """No node is flagged meanwhile; the waits are 15, 30 and 60 s, and never more than the usual."""
    made, clock = run(f"http://127.0.0.1:{free_port()}", rounds=7)
    assert all(one.verdict is None and isinstance(one.error, EndpointAway) for one in made)
    assert all(one.flags == () for one in made)
    assert clock.waits == [FIRST_RETRY * factor for factor in (1, 2, 4, 8, 16)] + [480.0, 480.0]


def test_flags_outlive_an_outage_and_then_run_out() -> None:
    """n2 is seen once; the flag holds through failed and healthy rounds for an hour, and is gone after it."""
    answers = [machines(broken="n2"), lambda *_: (503, b"starting"), *[machines()] * 20]
    turns = iter(answers)

    def in_turn(*asked: Any) -> Any:
        return next(turns)(*asked)

    with serving(in_turn) as prometheus:
        made, _ = run(prometheus.url, rounds=10)
    held = [[flag.node for flag in one.flags] for one in made]
    times = [one.at.timestamp() - NOW for one in made]
    assert made[1].error is not None
    assert held == [["n2"] if time < 3600 * PLAN.hold_hours else [] for time in times]
    assert times[2] == PLAN.every + FIRST_RETRY
    assert [] in held


def test_a_flag_that_is_seen_again_keeps_its_beginning() -> None:
    """Two rounds: the second renews the end and not the beginning."""
    with serving(machines(broken="n2")) as prometheus:
        (first, second), _ = run(prometheus.url, rounds=2)
    assert second.flags[0].since == first.flags[0].since
    assert first.flags[0].until is not None
    assert second.flags[0].until is not None
    assert second.flags[0].until > first.flags[0].until


@pytest.mark.parametrize(
    ("answer", "away", "words"),
    [
        ((200, b"<html>login</html>"), True, "JSON"),
        ((500, b"oops"), True, "500"),
        ((503, b'{"status": "error", "errorType": "timeout", "error": "query timed out"}'), True, "503"),
        ((429, b'{"status": "error"}'), True, "429"),
        ((401, b"who are you"), False, "401"),
        ((403, b'{"message": "forbidden"}'), False, "403"),
        ((302, b""), False, "302"),
        ((400, b'{"status": "error", "error": "parse error at char 3"}'), False, "parse error at char 3"),
        ((200, b'{"status": "success", "data": {"resultType": "matrix", "result": []}}'), False, "none of the queries"),
        ((200, b'{"status": "success", "data": {"resultType": "matrix", "result": null}}'), False, "not an answer"),
        ((200, b"[" * 100_000), True, "JSON"),
    ],
)
def test_bad_answers(answer: Any, away: bool, words: str) -> None:
    """Each is an error with the address in it; what may pass by itself is asked again, what does not is not."""
    with serving(lambda *_: answer) as prometheus, pytest.raises(InvalidInput, match=words) as caught:
        Endpoint(prometheus.url).fetch({"m": "q"}, start=0.0, end=1.0, step=1.0)
    assert isinstance(caught.value, EndpointAway) == away
    assert prometheus.url in caught.value.where


@pytest.mark.parametrize("beside", [{}, {"job": "old"}], ids=["the same labels", "another job"])
def test_two_series_that_contradict_each_other_convict_nobody(beside: dict[str, str]) -> None:
    """Of n2 a second exporter says 0 all the time: nothing is known of it, and the others are compared."""
    well = machines(broken="n4")

    def answer(*asked: Any) -> Any:
        said = well(*asked)
        result = said["data"]["result"]
        zero = [[at, "0"] for at, _ in result[2]["values"]]
        result.append({"metric": {**result[2]["metric"], **beside}, "values": zero})
        return said

    with serving(answer) as prometheus:
        (found,), _ = run(prometheus.url, rounds=1)
    assert [flag.node for flag in found.flags] == ["n4"]


def test_series_that_every_machine_has_several_of_are_averaged() -> None:
    """Two processors a machine, which differ: n2 is found by both together."""
    well = machines(broken="n2")

    def answer(*asked: Any) -> Any:
        said = well(*asked)
        half = [
            {
                "metric": {**one["metric"], "cpu": "1"},
                "values": [[at, str(float(value) / 2)] for at, value in one["values"]],
            }
            for one in said["data"]["result"]
        ]
        said["data"]["result"] += half
        return said

    with serving(answer) as prometheus:
        (found,), _ = run(prometheus.url, rounds=1)
    assert [flag.node for flag in found.flags] == ["n2"]


def test_the_token_is_sent() -> None:
    """A bearer token goes with every query."""
    with serving(machines()) as prometheus:
        Endpoint(prometheus.url, token="secret").fetch({"m": "q"}, start=0.0, end=1.0, step=1.0)
    assert prometheus.authorization == ["Bearer secret"]


def test_a_query_that_finds_nothing_is_noted() -> None:
    """The other metrics are judged all the same."""
    empty = {"status": "success", "data": {"resultType": "matrix", "result": []}}
    with serving(lambda query, *rest: empty if query == "none" else machines()(query, *rest)) as prometheus:
        found = Endpoint(prometheus.url).fetch({"a": "none", "b": "some"}, start=0.0, end=9.0, step=1.0)
    assert list(found.metrics) == ["b"]
    assert "no series of a" in found.notes


def test_what_prometheus_warns_of_is_noted() -> None:
    """An answer of a Thanos of which a store is away is a success, and lacks the machines of that store."""
    warned = {"warnings": ["store a: unavailable", "store a: unavailable"], "infos": ["not a counter"]}
    with serving(lambda *asked: machines()(*asked) | warned) as prometheus:
        found = Endpoint(prometheus.url).fetch({"a": "some", "b": "some"}, start=0.0, end=9.0, step=1.0)
    assert found.notes == ("Prometheus warns: store a: unavailable",)


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    """What is said of it can stand in a log."""
    with pytest.raises(InvalidInput, match="password") as caught:
        Endpoint("http://me:hunter2@prometheus:9090")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "prometheus:9090", "ftp://x", "file:///etc/passwd", "http://"])
def test_addresses_that_are_none(url: str) -> None:
    """Only http and https are asked."""
    with pytest.raises(InvalidInput, match="not the address"):
        Endpoint(url)


@pytest.mark.parametrize(("faulty", "kept"), [(2, True), (3, True), (4, False), (11, False)])
def test_a_round_that_accuses_too_many_judges_nothing(faulty: int, kept: bool) -> None:
    """Three of twelve machines are a quarter; four are no fault of theirs, and what held before stays as it was."""
    flags = tuple(NodeFlag(f"n{i:02}", "faulty", FAULTY) for i in range(faulty))
    verdict = PeersVerdict("made", "made", 12, (), flags, ())
    made = WatchRound(datetime(2026, 11, 17, tzinfo=UTC), verdict, None, flags)
    found = within_share(made)
    assert (found == made) == kept
    if not kept:
        assert (found.verdict, found.flags) == (None, ())
        assert f"{faulty} of 12 nodes" in str(found.error)
