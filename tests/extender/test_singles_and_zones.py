"""Single pods and the zones of reservations: what Filter and Preempt answer."""

from __future__ import annotations

import json

import pytest

from extender.cluster_cache import ClusterCache
from extender.verbs import RefusalKind, decode_filter, decode_preempt, encode, filter_nodes, preempt
from scheduler.queue.arnold import Arnold, NoJct
from scheduler.queue.policy import QueuePolicy
from scheduler.queue.priority import PriorityAge
from tests.extender.things import NOW, Json, gang_pods, minipods, pod, pod_json, reserve, state_of
from tests.facts import says

NAMES = ["m0-0", "m0-1", "m0-2", "m0-3"]
LENGTH, STOP = "arnold.dev/expected-duration", "arnold.dev/preemptible"


def zoned(*busy: str) -> ClusterCache:
    """Four nodes; two of them are reserved for a gang that arrives in four hours."""
    state = state_of(minipods(4), [pod(f"on-{name}", node=name, phase="Running") for name in busy])
    reserve(state, "m0-0", "m0-1")
    return state


def passed(state: ClusterCache, document: Json, policy: QueuePolicy) -> list[str]:
    """The nodes that Filter lets a pod use."""
    body = json.dumps({"Pod": document, "Nodes": None, "NodeNames": NAMES}).encode()
    answer = json.loads(encode(filter_nodes(state, decode_filter(body), NOW, policy).answer))
    return sorted(answer["NodeNames"])


@pytest.mark.parametrize(
    ("notes", "policy", "inside"),
    [
        ({}, Arnold(), False),
        ({LENGTH: "5h"}, Arnold(), False),
        ({LENGTH: "3h"}, Arnold(), True),
        ({LENGTH: "3h"}, NoJct(), False),
        ({STOP: "true"}, Arnold(), True),
        ({}, PriorityAge(), True),
    ],
)
def test_who_may_use_a_zone(notes: dict[str, str], policy: QueuePolicy, inside: bool) -> None:
    """The same policy as for gangs; nodes outside come first where the pod could leave in time."""
    full = zoned("m0-2", "m0-3")
    assert passed(full, pod_json("s", annotations=notes), policy) == (["m0-0", "m0-1"] if inside else [])
    if policy.name == "arnold" and STOP not in notes:
        assert passed(zoned(), pod_json("s", annotations=notes), policy) == ["m0-2", "m0-3"]


def test_a_refusal_says_that_nodes_are_reserved() -> None:
    """In a kind of its own, so that it can be counted."""
    state = zoned("m0-2", "m0-3")
    body = json.dumps({"Pod": pod_json("s"), "Nodes": None, "NodeNames": NAMES}).encode()
    verdict = filter_nodes(state, decode_filter(body), NOW, Arnold())
    assert verdict.refusal is not None
    assert verdict.refusal.kind is RefusalKind.NODE_RESERVED
    assert says(verdict.refusal.sentence, "reserved")
    assert dict(verdict.answer.failed_and_unresolvable_nodes)["m0-0"] == verdict.refusal.sentence


def test_a_zone_that_is_not_held_is_open() -> None:
    """Announced, used or expired."""
    state = zoned("m0-2", "m0-3")
    (held,) = state.reservations.values()
    for phase in ("Announced", "Used", "Expired"):
        state.put_reservation(held.replace(phase=phase))
        assert passed(state, pod_json("s"), Arnold()) == ["m0-0", "m0-1"]


def test_nobody_comes_in_once_the_gang_is_there() -> None:
    """Not even a pod that may be stopped: it would take what is being emptied."""
    state = zoned("m0-2", "m0-3")
    for one in gang_pods("llm", 2):
        state.put_pod(one)
    assert passed(state, pod_json("s", annotations={STOP: "true"}), Arnold()) == []


def test_no_pod_is_preempted_on_a_reserved_node() -> None:
    """Filter would refuse the node afterwards; where the policy keeps nothing, kube-scheduler decides."""
    state = zoned()
    victims = {name: {"Pods": [{"UID": "x"}], "NumPDBViolations": 0} for name in NAMES}
    body = json.dumps({"Pod": pod_json("s"), "NodeNameToMetaVictims": victims}).encode()

    def left(policy: QueuePolicy) -> list[str]:
        answer = encode(preempt(state, decode_preempt(body), NOW, policy))
        return sorted(json.loads(answer)["NodeNameToMetaVictims"])

    assert left(Arnold()) == ["m0-2", "m0-3"]
    assert left(PriorityAge()) == NAMES
