"""Gangs that take the nodes of others of lower priority: whose, in which order, and who may forbid it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from extender.cluster_api.client import BUDGETS, EVENTS, HISTORIES, PODS, Busy, ClusterError
from extender.controller import pacing
from extender.kubernetes_names import PREEMPTIBLE
from extender.plans.gang_plan import PlanPhase
from tests.extender.controller.test_gang_controller import (
    bind,
    cluster,
    judged,
    phase,
    plan,
    pods_of,
    run,
    running,
    submit,
    until,
)
from tests.extender.fake_cluster import FakeCluster
from tests.extender.things import SPACE, Json, pod_json
from tests.facts import says

OLD, YOUNG = "2026-11-21T08:00:00Z", "2026-11-21T11:00:00Z"
"""When victims were bound: an old one loses more GPU-hours."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop without its pauses, which are there for real clusters."""
    monkeypatch.setattr(pacing, "PAUSE", 0.001)
    monkeypatch.setattr(pacing, "LOOK", 0.01)
    monkeypatch.setattr(pacing, "LONGEST_IDLE", 0.01)
    monkeypatch.setattr(pacing, "AGAIN", 0.01)
    monkeypatch.setattr(pacing, "REMIND", 1.0)
    monkeypatch.setattr("extender.controller.outlooks.REST", 0.0)


async def placed(api: FakeCluster, gang: str, size: int = 4, since: str = OLD, **more: Any) -> None:
    """Submit a gang, and bind it."""
    submit(api, gang, size, created=since, **more)
    await until(lambda: phase(api, gang) is PlanPhase.RELEASED, f"{gang} to be released")
    bind(api, gang)
    await until(lambda: phase(api, gang) is PlanPhase.BOUND, f"{gang} to be bound")


def message(api: FakeCluster, gang: str) -> str:
    """What the plan of a gang says."""
    found = plan(api, gang)
    return "" if found is None else found.message


def leaving(api: FakeCluster) -> set[str]:
    """Names of the pods that were evicted and have not left yet."""
    return {pod["metadata"]["name"] for pod in api.objects["pods"].values() if "deletionTimestamp" in pod["metadata"]}


def leave(api: FakeCluster) -> None:
    """The evicted pods go."""
    for name in leaving(api):
        api.remove(PODS, name, SPACE)


def verbs(api: FakeCluster, *wanted: str) -> list[str]:
    """Names of the pods that these were asked of."""
    return [name for verb, kind, name in api.asked if kind == "pods" and verb in wanted]


def budget(allowed: int, **labels: str) -> Json:
    """A disruption budget for pods with these labels."""
    return {
        "metadata": {"name": "pdb", "namespace": SPACE, "uid": "pdb"},
        "spec": {"selector": {"matchLabels": {key.replace("_", "/"): text for key, text in labels.items()}}},
        "status": {"disruptionsAllowed": allowed},
    }


def test_the_cheapest_gang_makes_room_whole() -> None:
    """Eight nodes, four each for a, which began at eight, and b, at eleven: c of a higher priority takes those of b.

    All of b goes, by the Eviction API, after a dry run of it; b is told why, for whom and when; c gets the nodes when
    they are left, and not before.
    """

    async def scenario() -> None:
        api = cluster()
        async with running(api, preemption="on"):
            await placed(api, "a")
            await placed(api, "b", since=YOUNG)
            b = plan(api, "b")
            assert b is not None
            submit(api, "c", 4, priority=5)
            await until(lambda: len(leaving(api)) == 4, "b to be evicted")
            assert leaving(api) == {f"b-{rank}" for rank in range(4)}
            assert sorted(verbs(api, "evict-dry-run")) == sorted(verbs(api, "evict")) == sorted(leaving(api))
            c, stopped = plan(api, "c"), plan(api, "b")
            assert c is not None
            assert stopped is not None
            assert (stopped.phase, stopped.reason) == (PlanPhase.QUEUED, "Preempted")
            assert says(stopped.message, f"makes room for gang {SPACE}/c", "priority 5", "evicted at")
            assert (c.phase, c.victims, c.promised, c.expires) == (PlanPhase.PLANNED, (f"{SPACE}/b",), c.nodes, None)
            assert {*c.nodes} == {*b.nodes}
            await asyncio.sleep(0.1)
            assert phase(api, "c") is PlanPhase.PLANNED
            leave(api)
            await until(lambda: phase(api, "c") is PlanPhase.RELEASED, "c to be released")
            released = plan(api, "c")
            assert released is not None
            assert (released.nodes, released.victims) == (c.nodes, ())
            assert phase(api, "a") is PlanPhase.BOUND
            await until(lambda: "Preempted" in reasons(api), "the event")

    run(scenario)


def reasons(api: FakeCluster) -> set[str]:
    """Reasons of the events."""
    return {event["reason"] for event in api.objects[EVENTS.plural].values()}


def test_single_pods_make_room_too() -> None:
    """Of any scheduler, the lowest first, but for that of a DaemonSet; each hears of it by an event."""

    async def scenario() -> None:
        api = cluster(1)
        for i in range(4):
            owner = ("ReplicaSet" if i else "DaemonSet", "p")
            api.put(PODS, pod_json(f"p{i}", node=f"m0-{i}", owner=owner, priority=i, schedulerName="default-scheduler"))
        async with running(api, preemption="on"):
            submit(api, "c", 2, priority=9)
            await until(lambda: len(leaving(api)) == 2, "pods to be evicted")
            assert leaving(api) == {"p1", "p2"}
            await until(lambda: "Preempted" in reasons(api), "the event")
            leave(api)
            await until(lambda: phase(api, "c") is PlanPhase.RELEASED, "c to be released")
            found = plan(api, "c")
            assert found is not None
            assert {*found.nodes} == {"m0-1", "m0-2"}

    run(scenario)


def never(api: FakeCluster) -> None:
    """The gang that waits preempts none."""
    for pod in pods_of(api, "c"):
        pod["spec"]["preemptionPolicy"] = "Never"
        api.put(PODS, pod)


@pytest.mark.parametrize(
    ("options", "annotations", "prepare", "told"),
    [
        ({"preemption": "off"}, {}, None, ""),
        ({"preemption": "advise"}, {}, None, "stopping gang b (4 nodes, priority 0) would start it now"),
        ({"preemption": "on", "per_hour": 0}, {}, None, "--preemptions-per-hour"),
        ({"preemption": "on"}, {PREEMPTIBLE: "false"}, None, ""),
        ({"preemption": "on"}, {}, never, ""),
        ({"preemption": "on"}, {}, lambda api: api.put(BUDGETS, budget(3, arnold_dev="b")), ""),
    ],
)
def test_who_is_not_stopped(
    options: dict[str, Any], annotations: dict[str, str], prepare: Callable[[FakeCluster], Any] | None, told: str
) -> None:
    """Where preemption is off or only advised, or the hour has had its preemptions; one that says it may not be; for a
    gang whose pods say that they preempt none; and whom a disruption budget keeps: three of four pods may go, so none.
    """

    async def scenario() -> None:
        api = cluster(1)
        async with running(api, **options):
            await placed(api, "b", annotations=annotations, labels={"arnold/dev": "b"})
            submit(api, "c", 4, priority=5)
            if prepare is not None:
                prepare(api)
            await until(lambda: "cannot be told" in message(api, "c"), "c to hear when it starts")
            assert ("stopping" in message(api, "c")) is bool(told)
            assert told in message(api, "c")
            await asyncio.sleep(0.1)
            assert (phase(api, "b"), phase(api, "c"), verbs(api, "evict")) == (PlanPhase.BOUND, PlanPhase.QUEUED, [])

    run(scenario)


def test_whom_the_server_keeps_stays_and_the_next_goes() -> None:
    """The dry runs of evictions of b are refused: a goes, though it loses more."""

    async def scenario() -> None:
        api = cluster()
        async with running(api, preemption="on"):
            await placed(api, "a")
            await placed(api, "b", since=YOUNG)
            evict = api.evict

            async def refusing(name: str, **options: Any) -> None:
                if name == "b-3":
                    raise Busy("a budget forbids it", status=429, reason="TooManyRequests")
                await evict(name, **options)

            api.evict = refusing  # type: ignore[method-assign]
            submit(api, "c", 4, priority=5)
            await until(lambda: len(leaving(api)) == 4, "pods to be evicted")
            assert leaving(api) == {f"a-{rank}" for rank in range(4)}

    run(scenario)


def test_the_hour_is_counted_across_restarts() -> None:
    """One preemption an hour: after it another leader does none, even when the gang that did it is gone."""

    async def scenario() -> None:
        api = cluster(1)
        async with running(api, preemption="on", per_hour=1):
            await placed(api, "b")
            submit(api, "c", 4, priority=5)
            await until(lambda: len(leaving(api)) == 4, "b to be evicted")
            leave(api)
            await until(lambda: phase(api, "c") is PlanPhase.RELEASED, "c to be released")
        for rank in range(4):
            api.remove(PODS, f"c-{rank}", SPACE)
        async with running(api, preemption="on", per_hour=1):
            await until(lambda: plan(api, "c") is None, "c to be forgotten")
            await placed(api, "d")
            submit(api, "e", 4, priority=5)
            await until(lambda: "--preemptions-per-hour" in message(api, "e"), "e to hear that the hour is over")
            assert (phase(api, "d"), leaving(api)) == (PlanPhase.BOUND, set())
        assert len(api.objects[HISTORIES.plural]) == 1

    run(scenario)


@pytest.mark.parametrize("writes", range(8))
def test_a_leader_that_is_killed_anywhere(writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes so much about the preemption and no more; the next ends it: b whole and gone, c on its nodes, and no
    node was promised to two at any moment.
    """
    monkeypatch.setattr(pacing, "REMIND", 0.3)  # when gangs that wait are asked about once more
    monkeypatch.setattr(pacing, "RETHINK", 0.3)

    async def scenario() -> None:
        api = cluster(1)
        twice = list[str]()
        async with running(api, preemption="on") as replica:
            await placed(api, "b")
            left = writes

            def count(write: Callable[..., Any]) -> Callable[..., Any]:
                async def counted(*args: Any, **kwargs: Any) -> Any:
                    nonlocal left
                    if left <= 0:
                        raise ClusterError("killed")
                    left -= 1
                    answer = await write(*args, **kwargs)
                    holders = [node for name in ("b", "c") if (p := plan(api, name)) for node in p.promised]
                    twice.extend(node for node in holders if holders.count(node) > 1)
                    return answer

                return counted

            submit(api, "c", 4, priority=5)
            await until(lambda: judged(api, "c"), "c to be asked about")
            original = {name: getattr(api, name) for name in ("create", "replace", "evict")}
            for name, write in original.items():
                setattr(api, name, count(write))
            await asyncio.sleep(0.2)
            replica.leads = False
        for name, write in original.items():
            setattr(api, name, write)
        async with running(api, preemption="on"):
            await until(lambda: len(leaving(api)) == 4, "b to be evicted")
            leave(api)
            await until(lambda: phase(api, "c") is PlanPhase.RELEASED, "c to be released")
        assert twice == []

    run(scenario)
