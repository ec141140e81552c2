"""Leader election: at most one leader at any moment, and a new one soon after the old is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from extender.cluster_api.client import LEASES, Conflict
from extender.cluster_api.election import Election, LeaseTimes
from tests.extender.fake_cluster import FakeCluster, unreachable

TERMS = LeaseTimes(lease=12, renew_deadline=8, retry=2)


class Clock:
    """Steady seconds that move when told."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        """The seconds now."""
        return self.seconds


def candidate(api: FakeCluster, clock: Clock, name: str, **more: Any) -> Election:
    """A replica that stands for election."""
    return Election(api, name="arnold", namespace="arnold", identity=name, terms=TERMS, clock=clock, **more)


def steps(*candidates: Election) -> None:
    """Let each try once."""

    async def scenario() -> None:
        for one in candidates:
            await one.step()

    asyncio.run(scenario())


def test_the_first_leads() -> None:
    """The first to come makes the Lease; the second waits."""
    api, clock = FakeCluster(), Clock()
    a, b = candidate(api, clock, "a"), candidate(api, clock, "b")
    steps(a, b)
    assert (a.leads(), b.leads()) == (True, False)
    spec = api.find(LEASES, "arnold", "arnold")["spec"]
    assert spec["holderIdentity"] == "a"
    assert spec["leaseDurationSeconds"] == 12


def test_a_leader_renews() -> None:
    """A leader that renews leads for ever, and the acquire time of its Lease stays."""
    api, clock = FakeCluster(), Clock()
    a, b = candidate(api, clock, "a"), candidate(api, clock, "b")
    steps(a, b)
    acquired = api.find(LEASES, "arnold", "arnold")["spec"]["acquireTime"]
    for _ in range(20):
        clock.seconds += 2
        steps(a, b)
        assert a.leads()
        assert not b.leads()
    assert api.find(LEASES, "arnold", "arnold")["spec"]["acquireTime"] == acquired
    assert api.find(LEASES, "arnold", "arnold")["spec"]["leaseTransitions"] == 1


def test_a_dead_leader_is_replaced() -> None:
    """Twelve seconds after it saw the last renewal the other takes over; the old one has stopped before."""
    api, clock = FakeCluster(), Clock()
    a, b = candidate(api, clock, "a"), candidate(api, clock, "b")
    steps(a, b)
    for second in range(1, 13):
        clock.seconds += 1
        steps(b)
        assert a.leads() == (second < 8)
        assert b.leads() == (second >= 12)
    assert api.find(LEASES, "arnold", "arnold")["spec"]["leaseTransitions"] == 2


def test_the_time_of_the_leader() -> None:
    """Clocks that are ten minutes and a quarter of an hour wrong: a replica knows the leader's, whoever leads."""
    api, clock = FakeCluster(), Clock()
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)

    def wrong(minutes: int) -> Callable[[], datetime]:
        return lambda: noon + timedelta(minutes=minutes, seconds=clock.seconds)

    a, b = candidate(api, clock, "a", now=wrong(10)), candidate(api, clock, "b", now=wrong(-5))
    steps(a, b)
    assert a.leader_time() == b.leader_time() == a.now()
    # renewals are seen up to two seconds later, of which the first that was seen at once tells more
    clock.seconds += 2
    steps(a)
    clock.seconds += 1.5
    steps(b)
    assert b.leader_time() == a.now()
    clock.seconds += 60
    steps(b, a)
    assert b.leads()
    assert a.leader_time() == b.now()


def test_a_leader_that_cannot_renew_stops() -> None:
    """With the API server away, leading ends after the deadline by the clock alone, and is told."""
    api, clock = FakeCluster(), Clock()
    told: list[bool] = []
    a = candidate(api, clock, "a", changed=lambda: told.append(True))
    steps(a)
    api.fail_next("get", *(unreachable() for _ in range(10)))
    for second in range(2, 12, 2):
        clock.seconds += 2
        steps(a)
        assert a.leads() == (second < 8)
    assert len(told) == 2


def test_leading_that_lapsed_between_two_tries_is_told() -> None:
    """A leader whose time ran out, and whose next try renews its own Lease, says that it ended and that it began anew.

    Whoever asked in between was told that it does not lead, and would not learn that it does again.
    """
    api, clock = FakeCluster(), Clock()
    told: list[bool] = []
    a = candidate(api, clock, "a", changed=lambda: told.append(a.leads()))
    steps(a)
    clock.seconds += 9
    assert not a.leads()
    steps(a)
    assert told == [True, False, True]


def test_a_request_that_hangs_does_not_keep_a_leader() -> None:
    """Renewing hangs: the try is given up after half the deadline, and leading ends at the deadline."""

    async def scenario() -> None:
        api, clock = FakeCluster(), Clock()
        a = Election(
            api,
            name="l",
            namespace="n",
            identity="a",
            terms=LeaseTimes(lease=1, renew_deadline=0.1, retry=0.1),
            clock=clock,
        )
        await a.step()
        assert a.leads()

        async def hang(*_: Any, **__: Any) -> bytes:
            clock.seconds += 1
            await asyncio.sleep(60)
            return b""

        api.get = hang  # type: ignore[method-assign]
        await asyncio.wait_for(a.step(), 5)
        assert not a.leads()

    asyncio.run(scenario())


def test_two_that_take_an_expired_lease_at_once() -> None:
    """Both saw it expire; the update of the slower fails, and it does not lead."""
    api, clock = FakeCluster(), Clock()
    a, b, c = (candidate(api, clock, name) for name in "abc")
    steps(a, b, c)
    clock.seconds += 12

    async def scenario() -> None:
        original = api.replace

        async def slow(*args: Any, **kwargs: Any) -> bytes:
            await asyncio.sleep(0)
            return await original(*args, **kwargs)

        api.replace = slow  # type: ignore[method-assign]
        await asyncio.gather(b.step(), c.step())

    asyncio.run(scenario())
    assert sorted([b.leads(), c.leads()]) == [False, True]


def test_who_lets_go_is_followed_at_once() -> None:
    """A replica that stops releases its Lease; the other need not wait for it to expire."""
    api, clock = FakeCluster(), Clock()
    a, b = candidate(api, clock, "a"), candidate(api, clock, "b")
    steps(a, b)
    asyncio.run(a.release())
    assert not a.leads()
    steps(b)
    assert b.leads()
    assert api.find(LEASES, "arnold", "arnold")["spec"]["leaseTransitions"] == 2


def test_a_lost_race_ends_leading() -> None:
    """Somebody else wrote the Lease under us: the update conflicts, and once we see another holder we follow."""
    api, clock = FakeCluster(), Clock()
    a = candidate(api, clock, "a")
    steps(a)
    api.fail_next("replace", Conflict("changed", status=409, reason="Conflict"))
    clock.seconds += 2
    steps(a)
    assert a.leads(), "one failed renewal does not end it: the Lease is still ours"
    lease = api.find(LEASES, "arnold", "arnold")
    lease["spec"]["holderIdentity"] = "b"
    api.put(LEASES, lease)
    clock.seconds += 2
    steps(a)
    assert not a.leads()


def test_a_lease_that_cannot_be_read() -> None:
    """A Lease that is not one is reported with what to do, and ends nothing but this try."""
    api, clock = FakeCluster(), Clock()
    api.put(LEASES, {"metadata": {"name": "arnold", "namespace": "arnold"}, "spec": {"leaseDurationSeconds": "long"}})
    a = candidate(api, clock, "a")
    steps(a)
    assert not a.leads()
