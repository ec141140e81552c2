"""Texts of any length that users write, and what becomes of them in answers, plans, logs and metrics."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from extender.cluster_cache import ClusterCache
from extender.objects import READ
from extender.plans.gang_plan import PlanPhase, encode_plan, object_name
from extender.texts import LONGEST
from extender.verbs import decode_filter, encode, filter_nodes
from scheduler.queue.priority import PriorityAge
from tests.case_counts import every_fourth
from tests.extender.controller.world import World
from tests.extender.service.asgi import Client
from tests.extender.things import NOW, Json, member_json, minipods, pod_json, state_of

LONG = "n" * 200_000
"""An annotation may have 256 kB."""

MOST_BYTES = 2_000_000
"""Of an answer about 5,000 nodes: 400 bytes for each."""

RANK = {"arnold.dev/rank": "0"}
NAMED: list[Json] = [
    {"annotations": {"scheduling.k8s.io/group-name": LONG}, "labels": RANK},
    {"annotations": {"pod-group-name": LONG}, "labels": RANK},
    {"gate": True, "owner": ("StatefulSet", LONG), "labels": RANK},
]
"""Forms in which Kubernetes does not bound the name of a gang: Volcano, KAI, and any owner that a user makes up."""


def answer_about_5000(state: ClusterCache, pod: Json) -> bytes:
    """What kube-scheduler receives that asks about 5,000 nodes."""
    names = [f"node-{number:04d}" for number in range(5_000)]
    body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode()
    return encode(filter_nodes(state, decode_filter(body), NOW, PriorityAge()).answer)


@pytest.mark.parametrize("named", NAMED, ids=["volcano", "kai", "owner"])
def test_a_long_name_of_a_gang_makes_no_long_answer(named: Json) -> None:
    """One short reason a node, with a plan that says why and without one."""
    document = pod_json("p", **named)
    world = World(minipods(4))
    assert len(answer_about_5000(world.state, document)) < MOST_BYTES
    world.add(document)
    world.later(5)
    world.settle()
    answer = answer_about_5000(world.state, document)
    assert len(answer) < MOST_BYTES
    reasons = set(json.loads(answer)["FailedAndUnresolvableNodes"].values())
    assert len(reasons) == 1
    assert all(len(reason.encode()) <= LONGEST for reason in reasons)


@pytest.mark.parametrize("named", NAMED, ids=["volcano", "kai", "owner"])
def test_a_long_name_of_a_gang_is_said_to_be_one(named: Json) -> None:
    """The gang is Invalid, under a name that fits; what is wrong is said, and a name that fits is planned."""
    world = World(minipods(4))
    world.add(pod_json("p", **named))
    world.later(5)
    world.settle()
    (plan,) = world.state.plans.values()
    assert (plan.phase, plan.reason) == (PlanPhase.INVALID, "InvalidName")
    # The number of bytes that the user wrote, in words of people.
    assert "200,000 bytes" in plan.message
    assert longest_text(encode_plan(plan)) <= 1_024
    # What the CRD takes: maxLength of spec.gang, and the longest name of an object.
    assert len(plan.key.name) <= 253
    assert len(object_name(plan.key)) <= 253


@pytest.mark.parametrize("where", ["arnold.dev/level", "kueue.x-k8s.io/podset-required-topology"])
def test_a_long_level_is_said_to_be_none(where: str) -> None:
    """A node label of 70 kB is Invalid: the CRD would refuse a plan that repeats it, for ever."""
    world = World(minipods(4))
    world.gang("g", 2, {where: "l" * 70_000})
    world.later(5)
    world.settle()
    plan = world.plan("g")
    assert (plan.phase, plan.reason) == (PlanPhase.INVALID, "InvalidLevel")
    assert where in plan.message
    assert longest_text(encode_plan(plan)) <= 1_024


def test_a_gang_with_a_long_name_is_logged_and_counted_shortly(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the log line of a refusal nor a page of metrics grows with the name."""
    caplog.set_level(logging.INFO)
    state = state_of(minipods(4))
    client = Client(state)
    answered = client.post("/filter", {"Pod": pod_json("p", **NAMED[0]), "Nodes": None, "NodeNames": ["m0-0"]})
    assert answered.status == 200
    assert caplog.records
    assert all(len(record.getMessage()) <= 1_024 for record in caplog.records)
    # 64 kB hold some hundred series; the name alone would be three times as long.
    assert len(client.get("/metrics").body) < 65_536


def longest_text(thing: Any) -> int:
    """Bytes of the longest text in a document."""
    if isinstance(thing, dict):
        return max((longest_text(value) for value in thing.values()), default=0)
    if isinstance(thing, list):
        return max(map(longest_text, thing), default=0)
    return len(thing.encode()) if isinstance(thing, str) else 0


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "text", ["l" * 200_000, "1" * 200_000, "l" * 3_000, "tp=8," * 600], ids=["long", "digits", "read", "degrees"]
)
@pytest.mark.parametrize("where", every_fourth(sorted(READ)))
def test_no_long_text_is_repeated(where: str, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whichever annotation has it: not in a plan, an answer about 5,000 nodes, a log line or a page of metrics."""
    caplog.set_level(logging.INFO)
    world = World(minipods(4))
    for document in [member_json("g", rank, 2, {where: text}) for rank in range(2)]:
        world.add(document)
    world.later(5)
    world.settle()
    client = Client(world.state)
    asked = {"Pod": document, "Nodes": None, "NodeNames": [f"m0-{number}" for number in range(4)]}
    said = [json.dumps(encode_plan(plan)) for plan in world.state.plans.values()]
    said += [client.post("/filter", asked).body.decode(), client.get("/metrics").body.decode()]
    said += [record.getMessage() for record in caplog.records]
    assert len(said) > 2
    assert not [one[:80] for one in said if text[: LONGEST + 1] in one]
    assert max(map(longest_text, map(encode_plan, world.state.plans.values()))) <= 1_024
