"""How often a gang is looked at while its pods come."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.cluster_api.client import NODES, PODS
from extender.controller import loop, pacing
from extender.controller.decide import decide
from extender.plans.gang_plan import PlanPhase
from tests.extender.controller.test_gang_controller import run, running, until
from tests.extender.fake_cluster import FakeCluster
from tests.extender.things import key, member_json, node_json

SIZE = 12


def test_a_gang_is_looked_at_when_its_last_pod_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at each pod, and no later: a rest of its own holds back what comes before the last."""
    looks: list[int] = []

    def look(*args: Any, **named: Any) -> Any:
        looks.append(len(args[0].pods))
        return decide(*args, **named)

    monkeypatch.setattr(loop, "decide", look)
    monkeypatch.setattr(pacing, "PAUSE", 0.001)
    # A look makes a rest of an hour, which only what must be heard at once ends.
    monkeypatch.setattr(pacing, "GANG_SHARE", 1e-12)
    monkeypatch.setattr(pacing, "LONGEST_REST", 3600.0)
    monkeypatch.setattr(pacing, "QUIET", 3600.0)

    async def scenario() -> None:
        api = FakeCluster()
        for number in range(SIZE):
            api.put(NODES, node_json(f"m0-{number}", "mp0", "mp0r0"))
        async with running(api) as replica:
            for rank in range(SIZE):
                api.put(PODS, member_json("g", rank, SIZE))
                await until(lambda: len(replica.state.pods) == rank + 1, "the pod to be seen")  # noqa: B023
                if rank == 0:
                    # the first pod, which says how many there are, and that a plan says so
                    await until(lambda: looks == [1, 1], "a first look")
                await asyncio.sleep(0.005)
            await until(lambda: replica.state.plans[key("g")].phase is PlanPhase.RELEASED, "its release")
        # complete; planned: to be released; released: to be said
        assert looks[2:5] == [SIZE] * 3

    run(scenario)
