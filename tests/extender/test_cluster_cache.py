"""The cache: what is known, whatever the order in which it was learnt."""

import random
from typing import Any

from extender.controller.store import Stores
from extender.objects import decode_owner, decode_pod
from extender.plans.gang_plan import GangPlan, PlanPhase
from tests.extender.things import SPACE, gang_of, gang_pods, key, member_json, minipods, missing, pod, state_of, uid


def plan_of(name: str, *nodes: str, phase: PlanPhase = PlanPhase.PLANNED) -> GangPlan:
    """A plan for a gang on some nodes."""
    return GangPlan(key(name), phase, nodes=nodes, pods=tuple(uid(f"{name}-{rank}") for rank in range(len(nodes))))


def test_pods_become_gangs_as_they_come() -> None:
    """Whatever the order; complete with the last one."""
    pods = random.Random(3).sample(gang_pods("g", 3), 3)
    state = state_of(minipods(3), pods[:2])
    assert not gang_of(state, "g").complete
    state.put_pod(pods[2])
    assert gang_of(state, "g").complete
    assert [gang.key for gang in state.gangs()] == [key("g")]


def test_a_gang_is_put_together_once_until_a_pod_changes() -> None:
    """Ten thousand pods are not read again for each question."""
    state = state_of(minipods(3), gang_pods("g", 3))
    first = gang_of(state, "g")
    assert gang_of(state, "g") is first
    state.put_pod(decode_pod(member_json("g", 1, 3, node="m0-1", phase="Running")))
    assert gang_of(state, "g") is not first


def test_a_gang_gathers_until_its_last_pod_comes() -> None:
    """By the size that its pods said when they were last looked at; a pod that goes is missed at once."""
    pods = gang_pods("g", 3)
    state = state_of(minipods(3), pods[:2])
    assert not state.gathering(key("g")), "nobody has looked how many there should be"
    assert gang_of(state, "g").size == 3
    assert state.gathering(key("g"))
    state.put_pod(pods[2])
    assert not state.gathering(key("g"))
    state.drop_pod(pods[0].uid)
    assert state.gathering(key("g"))
    for pod_ in pods[1:]:
        state.drop_pod(pod_.uid)
    assert not state.gathering(key("g"))


def test_a_gang_without_pods_is_none() -> None:
    """When the last one is gone."""
    state = state_of(minipods(2), gang_pods("g", 2))
    for rank in range(2):
        assert state.gang(key("g")) is not None
        state.drop_pod(uid(f"g-{rank}"))
    assert state.gang(key("g")) is None
    assert list(state.gangs()) == []


def test_pods_of_other_schedulers_are_nobodys_gang_and_hold_their_gpus() -> None:
    """A gang label does not make a pod ours to plan."""
    foreign = member_json("g", 0, 1, gate=False, node="m0-0", phase="Running")
    foreign["spec"]["schedulerName"] = "default-scheduler"
    state = state_of(minipods(2), [decode_pod(foreign)])
    assert state.gang(key("g")) is None
    assert state.fleet.held.gpus_on("m0-0") == 8


def test_plans_promise_nodes_while_they_hold_them() -> None:
    """From planned to expired, and when the plan is deleted."""
    state = state_of(minipods(3))
    state.put_plan(plan_of("g", "m0-0", "m0-1"))
    assert state.fleet.promised_to("m0-0") == key("g")
    state.put_plan(plan_of("g", "m0-0", "m0-1", phase=PlanPhase.EXPIRED))
    assert state.fleet.promised_to("m0-0") is None
    state.put_plan(plan_of("g", "m0-2"))
    assert state.fleet.promised_to("m0-2") == key("g")
    state.drop_plan(key("g"))
    assert state.fleet.promised_to("m0-2") is None
    assert dict(state.plans) == {}


def test_a_pods_plan_and_rank_are_found_by_its_uid() -> None:
    """Also after the rank was given to another pod."""
    state = state_of(minipods(3))
    state.put_plan(plan_of("g", "m0-0", "m0-1"))
    found = state.plan_of_pod(uid("g-1"))
    assert found is not None
    assert (found[0].key, found[1]) == (key("g"), 1)
    before = state.plans[key("g")]
    state.put_plan(before.replace(pods=(before.pods[0], uid("new"), *before.pods[2:])))
    assert state.plan_of_pod(uid("g-1")) is None
    again = state.plan_of_pod(uid("new"))
    assert again is not None
    assert again[1] == 1
    state.drop_plan(key("g"))
    assert state.plan_of_pod(uid("new")) is None


def test_an_owner_that_comes_later_tells_the_size() -> None:
    """The Job is seen after its pods, and grows."""

    def job(completions: int) -> Any:
        meta = {"name": "j", "namespace": SPACE, "uid": uid("j")}
        return decode_owner({"kind": "Job", "metadata": meta, "spec": {"completions": completions}})

    labels = {"batch.kubernetes.io/job-completion-index": "0"}
    state = state_of(minipods(2), [pod("p", owner=("Job", "j"), labels=labels, gate=True)])
    assert gang_of(state, "j").size is None
    state.put_owner(job(2))
    assert gang_of(state, "j").size == 2
    state.put_owner(job(1))
    assert gang_of(state, "j").complete
    state.drop_owner(uid("j"))
    assert gang_of(state, "j").size is None


def test_a_pod_that_joins_another_gang_leaves_the_first() -> None:
    """Labels may be edited."""
    state = state_of(minipods(2), gang_pods("g", 2))
    raw = member_json("h", 1, 2, name="g-1")
    state.put_pod(decode_pod(raw))
    assert missing(gang_of(state, "g")) == (1,)
    assert missing(gang_of(state, "h")) == (0,)


def test_a_new_list_replaces_what_was_known() -> None:
    """After a watch broke, what is not in the list any more is gone: nodes, pods and plans."""
    state = state_of([])
    stores = Stores(state)
    nodes, pods, plans = stores.nodes, stores.pods, stores.plans
    nodes.replace(minipods(3))
    pods.replace([*gang_pods("g", 2), pod("single", gpus=2, node="m0-2", phase="Running")])
    plans.replace([plan_of("g", "m0-0", "m0-1")])
    assert state.fleet.promised_to("m0-1") == key("g")
    nodes.replace(minipods(2))
    pods.replace(gang_pods("g", 2)[:1])
    plans.replace([])
    assert state.fleet.host("m0-2") is None
    assert missing(gang_of(state, "g")) == (1,)
    assert state.fleet.held.gpus_on("m0-2") == 0
    assert state.fleet.promised_to("m0-0") is None
    assert set(state.pods) == {uid("g-0")}
