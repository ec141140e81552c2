"""Pods that Arnold's gate holds and no gang claims are told so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.cluster_api.events import EventRecorder
from extender.cluster_cache import ClusterCache
from extender.service import announcements
from tests.extender.fake_cluster import FakeCluster
from tests.extender.things import gang_pods, pod

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
    ((found, why),) = announcements.orphans(state)
    assert found.name == "stray"
    assert what in why
    assert "To fix: " in why


def test_who_is_not_told() -> None:
    """Members of gangs, pods without our gate, and pods that are going."""
    state = ClusterCache()
    for one in (*gang_pods("g", 2), pod("free"), pod("going", gate=True, leaving=True)):
        state.put_pod(one)
    assert list(announcements.orphans(state)) == []


def test_the_leader_tells_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it looks; a follower says nothing."""
    monkeypatch.setattr(announcements, "LOOK_SECONDS", 0)
    state, api = ClusterCache(), FakeCluster()
    state.put_pod(pod("stray", gate=True))
    leading = False

    async def scenario() -> None:
        nonlocal leading
        events = EventRecorder(api, instance="test")
        telling = announcements.report_faults(state, events, leads=lambda: leading)
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
