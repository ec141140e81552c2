"""What namespaces have, their weights, and when these are watched."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster_api.client import NAMESPACES, ClusterApi
from extender.cluster_api.events import EventRecorder
from extender.cluster_cache import ClusterCache
from extender.controller.store import Stores
from extender.fleet.resources import NodeResources, PodRequest, Tenant
from extender.gangs.types import GangKey
from extender.objects import NamespaceObject, decode_namespace, decode_pod
from extender.planner.round import PlanningRound
from extender.planner.solve import answer_to
from extender.plans.gang_plan import GangPlan, PlanPhase
from extender.service import server
from extender.service.followed_cluster import make_reflectors
from scheduler.queue.fair_share import FairShare
from scheduler.queue.policy import POLICIES
from tests.case_counts import examples
from tests.extender.fake_cluster import FakeCluster
from tests.extender.things import NOW, Json, member_json, minipods, pod_json, state_of
from tests.facts import says


def namespace(name: str, weight: str | None = None, *, version: str = "1") -> NamespaceObject:
    """A namespace, and what its annotation says."""
    annotations = {} if weight is None else {"arnold.dev/fair-share-weight": weight}
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": version, "annotations": annotations}
    return decode_namespace({"kind": "Namespace", "metadata": metadata})


def put(state: ClusterCache, document: Json, space: str) -> None:
    """A pod of another namespace than that of all tests."""
    document["metadata"]["namespace"] = space
    document["metadata"]["uid"] += space
    state.put_pod(decode_pod(document))


def put_gang(state: ClusterCache, space: str, name: str, size: int) -> None:
    """A gang that waits."""
    for rank in range(size):
        put(state, member_json(name, rank, size), space)


def test_a_share_counts_what_pods_hold_and_what_gangs_are_promised() -> None:
    """Of a: 8 GPUs of its gang's promised node, on which a pod of it holds 4, and 2 of a single pod; the pod of b on
    the promised node counts for b; one without GPUs and one that has ended for nobody.
    """
    state = state_of(minipods(4))
    put(state, member_json("g", 0, 1, gate=False, gpus=4, node="m0-0", phase="Running"), "a")
    put(state, pod_json("single", gpus=2, node="m0-1", phase="Running"), "a")
    put(state, pod_json("guest", gpus=1, node="m0-0", phase="Running"), "b")
    put(state, pod_json("done", gpus=8, node="m0-2", phase="Succeeded"), "b")
    put(state, pod_json("web", gpus=0, node="m0-2", phase="Running"), "b")
    plan = GangPlan(GangKey("a", "g"), PlanPhase.RELEASED, nodes=("m0-0",), pods=("x",))
    state.put_plan(plan)
    assert (state.share("a"), state.share("b"), state.share("c")) == (10.0, 1.0, 0.0)
    state.weights.put(namespace("a", "4"))
    assert state.share("a") == 2.5
    state.put_plan(plan.replace(phase=PlanPhase.EXPIRED))
    assert state.share("a") == 1.5
    state.drop_node("m0-1")
    assert state.share("a") == 1.5  # its pod is still there
    state.drop_pod(next(uid for uid, one in state.pods.items() if one.name == "single"))
    assert state.share("a") == 1.0
    state.put_plan(plan)
    assert state.share("a") == 2.0
    state.drop_node("m0-0")
    assert state.share("a") == 1.0  # what is promised of a node that is gone is nothing


@given(
    changes=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.integers(0, 8), st.sampled_from(["", "a", "b"])),
        max_size=40,
    )
)
@examples(60)
def test_counting_change_by_change_is_counting_everything_anew(changes: list[tuple[int, str, int, str]]) -> None:
    """Pods come to four nodes, each for the one before it there, and nodes are promised."""
    held, pods, promises = NodeResources(), dict[str, tuple[str, str, int]](), dict[str, str]()
    for node, space, gpus, promised in changes:
        name, uid = f"n{node}", f"pod-{node}-{space}"
        before, dropped = pods.pop(uid, None), held.drop(uid)
        assert before == (None if dropped is None else (dropped.namespace, dropped.node, dropped.request.gpus))
        if gpus:
            pods[uid] = (space, name, gpus)
            held.put(uid, Tenant(name, space, PodRequest((("pods", 1),), (), gpus)))
        promises[name] = promised
        held.count(name, size=8, promised=promised or None)
        assert held.gpus_on(name) == sum(amount for _, where, amount in pods.values() if where == name)
    for space in "abc":
        expected = 0
        for name in {f"n{node}" for node, *_ in changes}:
            own = sum(amount for whose, where, amount in pods.values() if (whose, where) == (space, name))
            expected += max(own, 8) if promises[name] == space else own
        assert held.gpus_of(space) == expected


@pytest.mark.parametrize(
    "text", ["", "0", "-3", "nan", "inf", "two", "1e9", "9" * 5_000], ids=lambda text: repr(text[:6])
)
def test_a_weight_that_is_none_counts_as_1_and_is_told(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """Logged once, and in an event about the namespace, in a few hundred bytes; until it is mended."""
    state, api = ClusterCache(), FakeCluster()
    store = Stores(state).namespaces
    store.replace([namespace("team", text), namespace("fine", "2"), namespace("plain")])
    assert [state.weights.of(name) for name in ("team", "fine", "plain", "unknown")] == [1.0, 2.0, 1.0, 1.0]

    async def scenario() -> None:
        events = EventRecorder(api, instance="test")
        tasks = [
            asyncio.create_task(server.report_faults(state, events, leads=lambda: True)),
            asyncio.create_task(server.log_topology(state, ready=lambda: True)),
            asyncio.create_task(events.run()),
        ]
        await asyncio.sleep(0.01)
        store.put(namespace("team", "3", version="2"))
        await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()

    with pytest.MonkeyPatch.context() as patch, caplog.at_level("INFO"):
        patch.setattr(server, "LOOK_SECONDS", 0)
        asyncio.run(scenario())
    (event,) = api.objects["events"].values()
    assert (event["reason"], event["regarding"]["kind"], event["regarding"]["name"]) == (
        "BadWeight", "Namespace", "team",
    )  # fmt: skip
    assert "so it counts as 1" in event["note"]
    assert len(event["note"]) < 300
    told = [message for message in caplog.messages if "namespace team" in message]
    assert ["mended" in message for message in told] == [False, True]
    assert max(map(len, told)) < 300
    assert state.weights.of("team") == 3.0
    store.remove("", "team")
    assert state.weights.of("team") == 1.0


def test_another_weight_is_news_for_the_planner() -> None:
    """As if the fleet had changed: what was said to gangs that wait may not hold any more."""
    state = state_of(minipods(1))
    before = state.fleet.version
    state.weights.put(namespace("team", "1"))
    assert state.fleet.version == before
    state.weights.put(namespace("team", "2"))
    assert state.fleet.version == before + 1
    state.weights.drop("team")
    assert state.fleet.version == before + 2


@pytest.mark.parametrize("name", POLICIES.names())
def test_namespaces_are_watched_where_they_share_alone(name: str) -> None:
    """Under every other policy nobody looks at them."""
    api, policy = cast(ClusterApi, FakeCluster()), POLICIES.load(name)
    found = make_reflectors(api, Stores(ClusterCache()), changed=lambda: None, sharing=policy.sharing)
    assert (NAMESPACES in [one.resource for one in found]) == (name == "fair-share")


def order(state: ClusterCache) -> list[tuple[str, bool, str]]:
    """One round: which gangs are asked about, whether they have nodes then, and what is said to them."""
    found, round_ = list[Any](), PlanningRound(policy=FairShare())
    while (question := round_.next(state, NOW)) is not None:
        answer = answer_to(question)
        state.put_plan(answer.plan)
        round_.tell(answer)
        found.append((str(answer.key), answer.placed, answer.plan.message))
    return found


def test_a_round_takes_namespaces_in_turn() -> None:
    """Four nodes; b has one in use, a has none and the older gangs: two of a are served, then b's for two nodes waits,
    and keeps the last from a's third, whose message says why, and that a higher priority would not help it.
    """
    state = state_of(minipods(4))
    for name in ("g1", "g2", "g3"):
        put_gang(state, "a", name, 1)
    put_gang(state, "b", "wide", 2)
    put(state, pod_json("single", node="m0-0", phase="Running"), "b")
    rows = order(state)
    assert [row[:2] for row in rows] == [("a/g1", True), ("a/g2", True), ("b/wide", False), ("a/g3", False)]
    assert "gang b/wide is before it" in rows[-1][2]
    assert says(rows[-1][2], "To fix:", "wait", "fewer GPUs for its weight")
