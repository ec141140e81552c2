"""Pods that Arnold's gate holds and no gang claims are told so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.cluster_api.events import EventRecorder
from extender.cluster_cache import ClusterCache
from extender.extender_metrics import Metrics
from extender.service import server
from tests.extender.fake_cluster import FakeCluster
from tests.extender.things import gang_pods, pod
from topology.kubernetes.pods import Pod

RANK = {"arnold.dev/rank": "0"}


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"labels": RANK}, "belongs to no gang"),
        ({"labels": {"arnold.dev/gang": "", **RANK}}, "belongs to no gang"),
        ({"gpus": 0, "owner": ("StatefulSet", "web")}, "no gang that needs GPUs"),
        ({"labels": {"arnold.dev/gang": "g", **RANK}, "schedulerName": "volcano"}, "its scheduler is volcano"),
    ],
)
def test_what_is_told(more: dict[str, Any], what: str) -> None:
    """No label, an empty one, no GPUs, another scheduler: each says why the pod waits, and what to do."""
    state = ClusterCache()
    state.put_pod(pod("stray", gate=True, **more))
    ((found, why),) = server.orphans(state)
    assert found.name == "stray"
    assert what in why
    assert "To fix: " in why


def test_who_is_not_told() -> None:
    """Members of gangs, pods without our gate, and pods that are going."""
    state = ClusterCache()
    for one in (*gang_pods("g", 2), pod("free"), pod("going", gate=True, leaving=True)):
        state.put_pod(one)
    assert list(server.orphans(state)) == []


def default(name: str, **more: Any) -> Pod:
    """A pod that the cluster's own scheduler places."""
    return pod(name, schedulerName="default-scheduler", **more)


def test_gangs_that_are_passed_over() -> None:
    """Pods with GPUs that say they are of a gang, by label or annotation, without gate and with another scheduler."""
    state = ClusterCache()
    labels, size = {"arnold.dev/gang": "llm"}, {"arnold.dev/gang-size": "2"}
    for one in (
        *(default(f"llm-{rank}", labels=labels) for rank in range(2)),
        default("on-node", annotations=size, node="m0-0", phase="Running", owner=("Job", "train")),
        default("launcher", labels=labels, gpus=0),
        default("done", labels=labels, phase="Succeeded"),
        default("going", labels=labels, leaving=True),
        default("held", labels=labels, gate=True),
        default("single"),
        *gang_pods("g", 2),
        *gang_pods("h", 2, gate=False),
    ):
        state.put_pod(one)
    found = {gang: [one.name for one in pods] for gang, pods in server.passed_over(state).items()}
    assert found == {"team/llm": ["llm-0", "llm-1"], "team/train": ["on-node"]}


def test_of_a_gang_that_is_passed_over_one_pod_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong and what helps, once for the gang; and a metric counts its pods."""
    monkeypatch.setattr(server, "LOOK_SECONDS", 0)
    state, api = ClusterCache(), FakeCluster()
    for rank in range(3):
        state.put_pod(default(f"llm-{rank}", labels={"arnold.dev/gang": "llm"}))

    async def scenario() -> None:
        events = EventRecorder(api, instance="test")
        telling = server.report_faults(state, events, leads=lambda: True)
        tasks = [asyncio.create_task(telling), asyncio.create_task(events.run())]
        await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()

    asyncio.run(scenario())
    (event,) = api.objects["events"].values()
    assert (event["regarding"]["name"], event["reason"], event["type"]) == ("llm-0", "PassedOver", "Warning")
    assert all(part in event["note"] for part in ("team/llm", "3 pods", "default-scheduler", "To fix: ", "before-1.36"))
    metrics = Metrics(plans=tuple, leads=bool, passed_over=lambda: len(server.passed_over(state)["team/llm"]))
    assert b"arnold_passed_over_pods 3.0" in metrics.text()


def test_the_leader_tells_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it looks; a follower says nothing."""
    monkeypatch.setattr(server, "LOOK_SECONDS", 0)
    state, api = ClusterCache(), FakeCluster()
    state.put_pod(pod("stray", gate=True))
    leading = False

    async def scenario() -> None:
        nonlocal leading
        events = EventRecorder(api, instance="test")
        telling = server.report_faults(state, events, leads=lambda: leading)
        tasks = [asyncio.create_task(telling), asyncio.create_task(events.run())]
        await asyncio.sleep(0.01)
        assert told(api) == []
        leading = True
        await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()

    asyncio.run(scenario())
    assert told(api) == [("stray", "NoGang")]


def told(api: FakeCluster) -> list[tuple[str, str]]:
    """Whom events are about, and their reasons."""
    return [(event["regarding"]["name"], event["reason"]) for event in api.objects["events"].values()]
