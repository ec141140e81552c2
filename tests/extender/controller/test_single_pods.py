"""Single pods that were refused promised nodes are told when these are given back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from extender.cluster_api.client import PODS
from extender.controller.loop import SinglePods
from extender.objects import decode_pod
from extender.plans.gang_plan import PlanPhase
from tests.extender.controller.test_gang_controller import bind, cluster, phase, run, running, submit, until
from tests.extender.fake_cluster import FakeCluster
from tests.extender.things import SPACE, Json, key, minipods, pod_json, state_of
from topology.kubernetes.pods import Pod


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop without its pauses."""
    monkeypatch.setattr("extender.controller.pacing.PAUSE", 0.001)
    monkeypatch.setattr("extender.controller.pacing.QUIET", 0.01)
    monkeypatch.setattr("extender.controller.loop.SETTLE", 0.05)


def waits(api: FakeCluster, name: str, *, gpus: int = 8, tried: bool = True, scheduler: str = "arnold") -> None:
    """A single pod without a node; kube-scheduler has tried it, or has not come to it."""
    document = pod_json(name, gpus=gpus)
    document["spec"]["schedulerName"] = scheduler
    if tried:
        document["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    api.put(PODS, document)


def told(api: FakeCluster) -> dict[str, Json]:
    """The conditions of ours on pods without a gang, by name."""
    pods = (pod for pod in api.objects["pods"].values() if pod["metadata"]["name"].startswith("single"))
    found = {pod["metadata"]["name"]: pod["status"].get("conditions") or () for pod in pods}
    ours = {name: [one for one in them if one["type"] == "arnold.dev/Planned"] for name, them in found.items()}
    return {name: them[0] for name, them in ours.items() if them}


def test_as_many_as_have_room_are_told_when_a_gang_has_gone() -> None:
    """Two nodes are given back.  Three pods of a node each were refused: two of them are told.  So is no pod of another
    scheduler, none that was not tried yet, and none that asks for more than a node has.
    """

    async def scenario() -> None:
        api = cluster(1, 2)
        async with running(api):
            submit(api, "g", 2)
            await until(lambda: phase(api, "g") is PlanPhase.RELEASED, "the gang to be released")
            bind(api, "g")
            await until(lambda: phase(api, "g") is PlanPhase.BOUND, "the gang to be bound")
            waits(api, "single-other", scheduler="default-scheduler")
            waits(api, "single-new", tried=False)
            waits(api, "single-large", gpus=16)
            for number in range(3):
                waits(api, f"single-{number}")
            await asyncio.sleep(0.2)
            assert not told(api)
            for rank in range(2):
                api.remove(PODS, f"g-{rank}", SPACE)
            await until(lambda: len(told(api)) == 2, "two pods to be told")
            await asyncio.sleep(0.2)
            conditions = told(api)
            assert conditions.keys() <= {"single-0", "single-1", "single-2"}
            assert {(one["status"], one["reason"]) for one in conditions.values()} == {("False", "NodesFree")}

    run(scenario)


@pytest.mark.parametrize(("again", "expected"), [((), ["single"]), (("m0-0",), ["single"]), (("m0-0", "m0-1"), [])])
def test_nobody_is_told_of_nodes_that_are_promised_again(again: tuple[str, ...], expected: list[str]) -> None:
    """A gang gives two nodes back, and another gets none, one or both of them a moment later."""
    state, heard = state_of(minipods(2)), list[str]()
    document = pod_json("single", gpus=8)
    document["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    state.put_pod(decode_pod(document))

    async def tell_of_room(pod: Pod) -> None:
        heard.append(pod.name)

    async def scenario() -> None:
        shared: Any = SimpleNamespace(state=state, writer=SimpleNamespace(tell_of_room=tell_of_room))
        singles = SinglePods(shared)
        for nodes in (("m0-0", "m0-1"), (), again):
            state.fleet.promise(key("g"), nodes)
            singles.look()
        await asyncio.gather(*singles.tasks)

    run(scenario)
    assert heard == expected
