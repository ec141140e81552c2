"""What the controller decides, step by step, with a clock that moves when told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from extender.controller.actions import Forget, Learn, NotifyPod, Release, RepairAction, Write
from extender.extender_metrics import Metrics
from extender.objects import decode_node, decode_owner
from extender.plans.gang_plan import GangPlan, PlanPhase, canonical_uid
from tests.extender.controller.world import TERMS, World
from tests.extender.things import MINIPOD, NOW, RACK, key, member_json, minipods, node, node_json, pod_json, uid
from tests.facts import says

OWNER = ("Job", "train")
JUST_NOW = "2026-11-21T12:00:00Z"
GRID = {"arnold.dev/parallelism": "tp=8,pp=2,dp=2"}


def planned(size: int = 4, world: World | None = None) -> World:
    """A gang that was just planned, its gates still on."""
    world = world or World()
    world.gang("g", size, owner=OWNER)
    world.do(world.decide())
    assert world.phase("g") is PlanPhase.PLANNED
    return world


def released(size: int = 4) -> World:
    """A gang whose pods are released, and not bound yet."""
    world = planned(size)
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED
    return world


def bound(size: int = 4) -> World:
    """A gang that runs."""
    world = released(size)
    world.bind(*world.pods)
    world.settle()
    assert world.phase("g") is PlanPhase.BOUND
    return world


def names(size: int = 4) -> list[str]:
    """Names of the gang's pods."""
    return [f"g-{rank}" for rank in range(size)]


# Gangs that gather


def test_a_gang_that_is_being_made_is_given_time() -> None:
    """For two seconds after its first pod nobody is told that others are missing; then its GangPlan says so."""
    world = World()
    world.add(member_json("g", 0, 4, created=JUST_NOW))
    decision = world.decide()
    assert decision.actions == []
    assert decision.wake == NOW + timedelta(seconds=2)
    world.later(2)
    (write,) = world.decide().actions
    assert isinstance(write, Write)
    assert (write.plan.phase, write.plan.message) == (PlanPhase.WAITING, "3 of 4 pods are missing: rank 1, 2, 3")
    assert write.plan.spec.size == 4


def test_what_is_missing_is_told_anew() -> None:
    """A pod more: the message changes, at leisure.  Nothing new: nothing is written."""
    world = World()
    world.add(member_json("g", 0, 4))
    world.do(world.decide())
    assert world.decide().actions == []
    world.add(member_json("g", 1, 4))
    (write,) = world.decide().actions
    assert isinstance(write, Write)
    assert not write.urgent
    assert says(write.plan.message, "2 of 4 pods", "rank 2, 3")


def test_a_complete_gang_wants_nodes() -> None:
    """It is the planner's now."""
    world = World()
    world.gang("g", 4)
    decision = world.decide()
    assert (decision.actions, decision.unplaced) == ([], [key("g")])


def test_a_contradiction_is_told_once() -> None:
    """Pods that contradict their size: Invalid, with what to do; and an Event, not one a second."""
    world = World()
    world.add(member_json("g", 0, 4))
    world.add(member_json("g", 7, 4))
    (write,) = world.decide().actions
    assert isinstance(write, Write)
    assert (write.plan.phase, write.plan.reason) == (PlanPhase.INVALID, "RankOutOfRange")
    assert "To fix: " in write.plan.message
    assert [event.kind for event in write.events] == ["Warning"]
    world.do(world.decide())
    assert world.decide().actions == []


def test_a_contradiction_that_was_mended() -> None:
    """The wrong pod is deleted and the right one comes: planned as if nothing had been."""
    world = World()
    world.add(member_json("g", 0, 2))
    wrong = world.add(member_json("g", 7, 2))
    world.settle()
    world.delete(wrong)
    world.add(member_json("g", 1, 2))
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED
    valid = world.plan("g").condition("Valid")
    assert valid is None or valid.status == "True"


def test_gates_of_others() -> None:
    """A quota holds the pods too: nodes would lie idle, so the gang waits until our gate is the last."""
    world = World()
    world.gang("g", 4, schedulingGates=[{"name": "example.com/quota"}, {"name": "arnold.dev/gang"}], gate=False)
    world.do(world.decide())
    plan = world.plan("g")
    assert (plan.phase, plan.reason, plan.nodes) == (PlanPhase.WAITING, "OtherGates", ())
    assert "example.com/quota" in plan.message
    for name in names():
        world.change(name, lambda pod: pod["spec"].update(schedulingGates=[{"name": "arnold.dev/gang"}]))
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED


# Gangs on their way


def test_releases_follow_the_plan() -> None:
    """A planned gang that is complete: one release for each pod, to its rank's node."""
    world = planned()
    releases = world.decide().actions
    assert {one.pod.name: one.node for one in releases if isinstance(one, Release)} == dict(
        zip(names(), world.plan("g").nodes, strict=True)
    )
    assert len(releases) == 4


def test_nothing_is_released_while_a_pod_is_missing() -> None:
    """A pod was deleted between planning and releasing: the gang waits whole, its nodes kept until time runs out."""
    world = planned()
    world.delete("g-2")
    assert world.decide().actions == []
    world.add(member_json("g", 2, 4, owner=OWNER))
    assert len([one for one in world.decide().actions if isinstance(one, Release)]) == 4


def test_releases_go_on_where_they_stopped() -> None:
    """Killed after two of four releases: the other two follow, nothing is done twice."""
    world = planned()
    decision = world.decide()
    decision.actions = decision.actions[:2]
    world.do(decision)
    again = world.decide().actions
    assert [one.pod.name for one in again if isinstance(one, Release)] == ["g-2", "g-3"]
    assert len(again) == 2


def test_a_pod_lost_in_the_middle_of_releasing() -> None:
    """One pod is released and another deleted: the rest is released too, and the missing one when it is back."""
    world = planned()
    decision = world.decide()
    decision.actions = decision.actions[:1]
    world.do(decision)
    world.delete("g-3")
    world.settle()
    assert [world.gated(name) for name in names(3)] == [False, False, False]
    node_of_3 = world.plan("g").nodes[3]
    world.add(member_json("g", 3, 4, owner=OWNER))
    world.settle()
    assert world.node_of("g-3") == node_of_3


def test_phases_as_pods_are_bound() -> None:
    """Planned, Released when no gate is left, Bound when all pods are; then the plan waits for nobody."""
    world = released()
    plan = world.plan("g")
    assert plan.expires == NOW + TERMS.bind
    world.bind("g-0")
    (write,) = world.decide().actions
    assert isinstance(write, Write)
    assert (write.plan.bound_pods, write.urgent) == (1, False)
    world.bind("g-1", "g-2", "g-3")
    world.settle()
    plan = world.plan("g")
    assert (plan.phase, plan.bound_pods, plan.expires) == (PlanPhase.BOUND, 4, None)
    world.later(1e6)
    assert world.decide().actions == []


def test_pods_without_a_gate() -> None:
    """Pods that come without the gate need no release; Filter's answers bind them, once they are asked about again.

    Of those that it refused before they had nodes kube-scheduler asks again when they change: so they are told of their
    nodes at once.  Others it has not come to; they are told half a minute later, and all every half minute then.
    """
    world = World()
    world.gang("g", 4, gate=False)
    world.refuse("g-1", "g-2")
    world.do(world.decide())
    tells = [one for one in world.decide().actions if isinstance(one, NotifyPod)]
    nodes = world.plan("g").nodes
    assert [(one.pod.name, one.node) for one in tells] == [("g-1", nodes[1]), ("g-2", nodes[2])]
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED
    decision = world.decide()
    assert (decision.actions, decision.wake) == ([], NOW + timedelta(seconds=30))
    world.bind("g-0", node=nodes[0])
    world.later(30)
    assert told(world) == ["g-1", "g-2", "g-3"]
    for name, where in zip(names(), nodes, strict=True):
        world.bind(name, node=where)
    world.settle()
    assert world.phase("g") is PlanPhase.BOUND


def told(world: World) -> list[str]:
    """Names of the pods that are told now that they have a node."""
    return [one.pod.name for one in world.decide().actions if isinstance(one, NotifyPod)]


def test_released_pods_that_were_tried_in_vain() -> None:
    """A replica with old news refused them, and kube-scheduler asks again when something happens: so they are told.

    Not at once, as it tries a second time by itself; half a minute after they got their nodes, and every half minute.
    """
    world = released()
    world.refuse("g-1", "g-2")
    decision = world.decide()
    assert (decision.actions, decision.wake) == ([], NOW + timedelta(seconds=30))
    world.later(30)
    assert told(world) == ["g-1", "g-2"]
    world.settle()
    decision = world.decide()
    assert (decision.actions, decision.wake) == ([], NOW + timedelta(seconds=60))
    world.bind("g-1")
    world.later(30)
    assert told(world) == ["g-2"]


def test_a_pod_that_came_anew_and_was_tried_in_vain() -> None:
    """The gang runs, and its plan has no end: the half minute counts from when the pod was made."""
    world = bound()
    world.recreate("g-1")
    made = world.now.isoformat()
    world.change("g-1", lambda pod: pod["metadata"].update(creationTimestamp=made))
    world.settle()
    world.refuse("g-1")
    assert (told(world), world.decide().wake) == ([], NOW + timedelta(seconds=30))
    world.later(30)
    assert told(world) == ["g-1"]


def test_a_job_that_says_no_more_than_the_gate() -> None:
    """An Indexed Job with our gate in its template is a gang of its completions, and still one when the gate is off."""
    world = World()
    spec = {"completions": 4, "parallelism": 4}
    world.state.put_owner(decode_owner({"kind": "Job", "metadata": {"name": "j", "uid": uid("j")}, "spec": spec}))
    for rank in range(4):
        labels = {"batch.kubernetes.io/job-completion-index": str(rank)}
        world.add(pod_json(f"j-{rank}", gate=True, owner=("Job", "j"), labels=labels))
    world.settle()
    assert world.phase("j") is PlanPhase.RELEASED
    world.bind(*world.pods)
    world.settle()
    assert world.phase("j") is PlanPhase.BOUND


def test_ranks_that_have_succeeded() -> None:
    """A pod that is done counts as bound, and its gang goes on without it."""
    world = bound()
    world.change("g-0", lambda pod: pod["status"].update(phase="Succeeded"))
    world.recreate("g-1")
    world.settle()
    assert not world.gated("g-1")
    assert world.plan("g").bound_pods == 3
    metrics = Metrics(plans=world.state.plans.values, leads=lambda: True)
    assert b"arnold_unbound_ranks 1.0" in metrics.text(), "rank 0 has ended, rank 1 is on no node"


# Gangs that go


def test_a_gang_that_is_deleted_gives_everything_back() -> None:
    """In any phase: without pods there is no plan."""
    for world in (planned(), released(), bound()):
        world.delete(*names())
        *learnt, forget = world.decide().actions
        assert isinstance(forget, Forget)
        # what never was on its nodes did not run
        ran = world.phase("g") is PlanPhase.BOUND
        assert [type(one) for one in learnt] == [Learn] * ran
        world.do(world.decide())
        assert world.state.fleet.promised_to("m0-0") is None
        assert world.decide().actions == []


def test_a_gang_that_has_ended() -> None:
    """All pods have succeeded: they stay as records, their nodes are free."""
    world = bound()
    for name in names():
        world.change(name, lambda pod: pod["status"].update(phase="Succeeded"))
    world.settle()
    assert world.state.plans == {}


def test_pods_that_are_being_deleted_hold_their_nodes() -> None:
    """Until the last pod is gone its node is in use, and the plan stays."""
    world = bound()
    for name in names():
        world.change(name, lambda pod: pod["metadata"].update(deletionTimestamp=JUST_NOW))
    world.settle()
    assert world.plan("g").holding


# Pods that come anew


def test_a_recreated_pod_gets_its_ranks_node() -> None:
    """The plan learns the new UID first, and only then is the pod released."""
    world = bound()
    where = world.plan("g").nodes[2]
    world.recreate("g-2")
    (write,) = world.decide().actions
    assert isinstance(write, Write)
    assert write.plan.pods[2] == canonical_uid(uid("g-2-again-1"))
    world.settle()
    assert world.node_of("g-2") == where
    assert world.phase("g") is PlanPhase.BOUND


def test_a_forged_pod_changes_nothing() -> None:
    """A pod claims a rank that is taken: its gang runs on as planned, and the GangPlan says what is wrong."""
    world = bound()
    forged = world.add(member_json("g", 1, 4, name="forged"))
    world.settle()
    assert world.gated(forged)
    plan = world.plan("g")
    healthy = plan.condition("Healthy")
    assert plan.phase is PlanPhase.BOUND
    assert healthy is not None
    assert (healthy.status, "forged" in healthy.message) == ("False", True)
    world.recreate("g-3")
    world.delete(forged)
    world.settle()
    assert not world.gated("g-3")


def test_a_forged_pod_among_released_ones() -> None:
    """Releases that were begun are finished for the pods that the plan names."""
    world = planned()
    decision = world.decide()
    decision.actions = decision.actions[:2]
    world.do(decision)
    world.add(member_json("g", 1, 4, name="forged"))
    world.settle()
    assert [world.gated(name) for name in [*names(), "forged"]] == [False, False, False, False, True]


def test_a_plan_that_somebody_deleted() -> None:
    """The plan of a running gang is read off its pods again, node by node."""
    world = bound()
    before = world.plan("g")
    world.state.drop_plan(key("g"))
    world.settle()
    after = world.plan("g")
    assert (after.nodes, after.pods, after.phase) == (before.nodes, before.pods, PlanPhase.BOUND)
    worth = (before.spread, before.objective, before.bound, before.gap)
    assert (after.spread, after.objective, after.bound, after.gap) == worth
    assert None not in worth


def over_two_minipods(*taken: str) -> World:
    """The gang runs on both minipods, as others have these nodes."""
    world = World()
    for name in taken:
        world.add(pod_json(f"on-{name}", node=name, phase="Running"))
    planned(world=world)
    world.settle()
    world.bind(*names())
    world.settle()
    assert world.plan("g").spread == (2, 1)
    return world


def test_a_plan_that_somebody_deleted_was_not_the_best() -> None:
    """A gang over two minipods, of which others have left one since: what it is worth, and how far from best."""
    world = over_two_minipods("m0-0", "m0-1", "m1-0", "m1-1")
    world.delete("on-m0-0", "on-m0-1")
    world.state.drop_plan(key("g"))
    world.settle()
    after = world.plan("g")
    # One data-parallel group over two minipods, where one would do now.
    assert (after.spread, after.phase) == ((2, 1), PlanPhase.BOUND)
    assert after.bound is not None
    assert after.objective is not None
    assert after.gap == pytest.approx((after.objective - after.bound) / after.objective)
    assert after.gap > 0


def test_a_plan_that_somebody_deleted_while_a_node_was_gone() -> None:
    """Nobody knows what it is worth until the node is back: it is the only one of the gang in its minipod."""
    world = over_two_minipods("m0-0", "m0-1", "m0-2", "m1-0")
    world.state.drop_node("m0-3")
    world.state.drop_plan(key("g"))
    world.settle()
    told = world.plan("g").condition("Weighed")
    assert told is not None
    assert (told.status, told.message) == ("False", "nodes of it are gone")
    assert (world.phase("g"), world.plan("g").spread, world.plan("g").gap) == (PlanPhase.BOUND, None, None)
    world.state.put_node(node("m0-3", "mp0", "mp0r0"))
    world.settle()
    assert world.plan("g").condition("Weighed") is None
    assert (world.phase("g"), world.plan("g").spread, world.plan("g").gap) == (PlanPhase.BOUND, (2, 1), 0.0)


def test_a_repair_while_another_node_is_gone() -> None:
    """A pod goes with its node while a second node is away: the spread is said again when the second is back."""
    world = bound()
    lost, away = world.plan("g").nodes[:2]
    place = {name: one.labels[MINIPOD] for name in world.plan("g").nodes if (one := world.state.fleet.host(name))}
    world.state.drop_node(away)
    world.state.drop_node(lost)
    world.delete("g-0")
    world.add(member_json("g", 0, 4, GRID, owner=OWNER))
    world.settle()
    assert world.plan("g").nodes[0] != lost
    assert world.plan("g").spread is None
    world.state.put_node(node(away, place[away], f"{place[away]}r0"))
    world.settle()
    assert world.plan("g").spread is not None


def test_a_plan_deleted_in_the_middle() -> None:
    """Of a gang that is half bound: ranks that have nodes keep them, the others get the best that go with these."""
    world = planned()
    world.do(world.decide())
    world.bind("g-0", "g-1")
    before = world.plan("g").nodes
    for name in ("g-2", "g-3"):
        world.recreate(name)
    world.state.drop_plan(key("g"))
    world.settle()
    world.bind("g-2", "g-3")
    world.settle()
    after = world.plan("g")
    assert (after.nodes[:2], after.phase) == (before[:2], PlanPhase.BOUND)
    assert {node[:2] for node in after.nodes} == {before[0][:2]}, "all in one minipod, as the best plan is"


def test_a_plan_deleted_in_the_middle_with_no_room_left() -> None:
    """Others have the nodes of the ranks that wait: nobody moves, the plan says why, and names no node that is not."""
    world = planned(8)
    world.do(world.decide())
    world.bind(*names(7))
    world.recreate("g-7")
    world.add(pod_json("stranger", node=world.plan("g").nodes[7], phase="Running"))
    world.state.drop_plan(key("g"))
    (repair,) = world.decide().actions
    assert isinstance(repair, RepairAction)
    # Rank 7 is vacant: it loses no node, and is to get one.
    assert (repair.lost, repair.plan.nodes[7], "no plan says" in repair.why) == ((), None, True)


# Nodes that are lost


def lose(world: World, name: str, *, ready: str = "Unknown") -> None:
    """A node is not Ready any more, from now on."""
    taints = [] if ready == "True" else [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]
    document = node_json(name, f"mp{name[1]}", f"mp{name[1]}r0", ready=ready, taints=taints)
    for condition in document["status"]["conditions"]:
        condition["lastTransitionTime"] = world.now.isoformat()
    world.state.put_node(decode_node(document))


def test_a_node_lost_before_anything_was_released() -> None:
    """Nothing is decided yet: the gang is planned anew, with all freedom."""
    world = planned()
    where = world.plan("g").nodes[0]
    world.state.drop_node(where)
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED
    assert where not in world.plan("g").nodes


def test_running_pods_are_left_alone() -> None:
    """A cordoned or lost node under a running pod: the GangPlan says so, nobody moves."""
    world = bound()
    where = world.plan("g").nodes[1]
    lose(world, where)
    world.later(3_600)
    world.settle()
    plan = world.plan("g")
    healthy = plan.condition("Healthy")
    assert where in plan.nodes
    assert healthy is not None
    assert (healthy.status, healthy.reason) == ("False", "NodeAiling")


def test_a_pod_recreated_after_its_node_died() -> None:
    """Its rank, and no other, gets another node; the pod is released there."""
    world = bound()
    before = world.plan("g").nodes
    world.state.drop_node(before[1])
    world.recreate("g-1")
    world.settle()
    after = world.plan("g").nodes
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True, True]
    assert world.node_of("g-1") == after[1]


def test_a_node_that_comes_back_in_time() -> None:
    """Not Ready for less than 30 s is a kubelet that was restarted: nobody moves."""
    world = bound()
    before = world.plan("g").nodes
    world.recreate("g-1")
    world.do(world.decide())
    lose(world, before[1], ready="False")
    world.later(29)
    decision = world.decide()
    assert not [one for one in decision.actions if isinstance(one, RepairAction | Release)], (
        "nobody is released to it either"
    )
    assert decision.wake == world.now + timedelta(seconds=1)
    lose(world, before[1], ready="True")
    world.later(3_600)
    world.settle()
    assert world.plan("g").nodes == before


def test_a_gang_is_not_begun_on_a_node_that_may_be_lost() -> None:
    """One of the planned nodes is not Ready: nothing is released until it is, or until it is lost."""
    world = planned()
    where = world.plan("g").nodes[0]
    lose(world, where)
    (told,) = world.decide().actions
    assert isinstance(told, Write)
    condition = told.plan.condition("Healthy")
    assert condition is not None
    assert ("rank 0" in condition.message, "not Ready" in condition.message) == (True, True)
    world.later(30)
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED
    assert where not in world.plan("g").nodes


@pytest.mark.parametrize("how", [{"unschedulable": True}, {"taints": [{"key": "drain", "effect": "NoSchedule"}]}])
def test_a_node_that_is_drained(how: dict[str, Any]) -> None:
    """Cordoned or tainted, and its pod evicted: running pods stay, the pod that comes anew goes elsewhere."""
    world = bound()
    before = world.plan("g").nodes
    for where in before[:2]:
        minipod = f"mp{where[1]}"
        world.state.put_node(decode_node(node_json(where, minipod, f"{minipod}r0", **how)))
    world.recreate("g-1")
    world.settle()
    after = world.plan("g").nodes
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True, True]


@pytest.mark.parametrize("how", [{"allocatable": 7}, {"gpus": 7}, {"gpus": 4}, {"gpus": 0}])
def test_a_node_with_too_few_gpus(how: dict[str, Any]) -> None:
    """A GPU of it has failed, or it came back with fewer: its own pod stays, the pod that comes anew goes elsewhere."""
    world = bound()
    before = world.plan("g").nodes
    for where in before[:2]:
        minipod = f"mp{where[1]}"
        world.state.put_node(node(where, minipod, f"{minipod}r0", **how))
    world.recreate("g-1")
    world.settle()
    after = world.plan("g").nodes
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True, True]
    assert world.node_of("g-1") == after[1]


def test_taints_that_the_pods_tolerate() -> None:
    """A pool's own taint keeps nobody away who tolerates it."""
    taint = {"key": "pool", "value": "gpu", "effect": "NoSchedule"}
    world = World(minipods(4, 4, taints=[taint]))
    world.gang("g", 4, owner=OWNER, tolerations=[{"key": "pool", "operator": "Exists"}])
    world.settle()
    before = world.plan("g").nodes
    world.bind(*world.pods)
    world.recreate("g-1")
    world.settle()
    assert world.plan("g").nodes == before
    assert world.node_of("g-1") == before[1]


def test_a_node_that_does_not() -> None:
    """After 30 s the rank that waits for it moves."""
    world = bound()
    before = world.plan("g").nodes
    world.recreate("g-1")
    lose(world, before[1])
    world.later(30)
    world.settle()
    after = world.plan("g").nodes
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True, True]


@pytest.mark.parametrize("owner", [OWNER, None])
def test_a_released_pod_on_a_lost_node_moves(owner: tuple[str, str] | None) -> None:
    """Its rank moves, and then the pod is told of its new node, whether or not a controller would make it anew."""
    world = World()
    world.gang("g", 4, owner=owner)
    world.settle()
    where = world.plan("g").nodes[3]
    world.state.drop_node(where)
    (repair,) = world.decide().actions
    assert isinstance(repair, RepairAction)
    assert (repair.lost, "gone" in repair.why) == ((where,), True)
    world.do(world.decide())
    (told,) = world.decide().actions
    assert isinstance(told, NotifyPod)
    assert (told.pod.name, told.node) == ("g-3", world.plan("g").nodes[3])
    world.settle()
    assert world.node_of("g-3") == world.plan("g").nodes[3] != where


def test_released_pods_are_left_alone_while_no_other_node_can_be_had() -> None:
    """Strangers take nodes of a gang that fills the cluster: its pods go on there when the strangers leave."""
    world = released(8)
    before = world.plan("g").nodes
    for i, where in enumerate(before[:3]):
        world.add(pod_json(f"stranger-{i}", node=where, phase="Running"))
    world.settle()
    assert world.plan("g").nodes == before
    world.delete("stranger-0", "stranger-1", "stranger-2")
    world.settle()
    world.bind(*names(8))
    world.settle()
    assert world.phase("g") is PlanPhase.BOUND


def test_only_pods_whose_nodes_are_lost_move() -> None:
    """Strangers take two of four nodes."""
    world = released()
    before = world.plan("g").nodes
    for i, where in enumerate(before[:2]):
        world.add(pod_json(f"stranger-{i}", node=where, phase="Running"))
    world.settle()
    after = world.plan("g").nodes
    assert not {*after[:2]} & {*before}
    assert after[2:] == before[2:]
    assert [world.node_of(name) for name in names()] == list(after)


def test_pods_that_their_writer_pins() -> None:
    """All pods of a template name the same node, and somebody else took their gates off: that is said."""
    world = planned()
    field = {"key": "metadata.name", "operator": "In", "values": ["m1-3"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    for name in names():
        world.change(name, lambda pod: pod["spec"].update(schedulingGates=[], affinity=affinity))
    world.settle()
    healthy = world.plan("g").condition("Healthy")
    assert healthy is not None
    assert healthy.reason == "OffPlan"


def test_a_node_that_others_took() -> None:
    """A single pod was bound to a planned node before the plan was known: the rank that waits for it moves."""
    world = bound()
    before = world.plan("g").nodes
    world.recreate("g-2")
    world.add(pod_json("intruder", gpus=1, node=before[2], phase="Running"))
    world.settle()
    after = world.plan("g").nodes
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, True, False, True]


def test_a_predecessor_on_the_node_is_not_an_intruder() -> None:
    """The pod before is still being deleted on the node: the new one waits for it there."""
    world = bound()
    before = world.plan("g").nodes
    old = dict(world.pods["g-2"])
    world.recreate("g-2")
    old["metadata"] = {**old["metadata"], "name": "g-2-old", "deletionTimestamp": JUST_NOW}
    world.add(old)
    world.settle()
    assert world.plan("g").nodes == before
    assert world.node_of("g-2") == before[2]


def test_nodes_promised_twice() -> None:
    """Two plans name one node, as two leaders could have brought about: the gang whose rank waits moves."""
    world = World(minipods(4, 4, 4))
    world.gang("a", 4, owner=OWNER)
    world.settle()
    world.bind(*world.pods)
    world.settle()
    world.gang("b", 4, owner=OWNER)
    plan_of_a = world.plan("a")
    world.write(
        plan_of_a.replace(key=key("b"), uid="", phase=PlanPhase.PLANNED, expires=NOW + TERMS.bind, bound_pods=0)
    )
    world.settle()
    assert world.phase("b") is PlanPhase.RELEASED
    assert not {*world.plan("b").nodes} & {*plan_of_a.nodes}


# Time that runs out


def test_no_pod_is_bound_in_time() -> None:
    """The scheduler is away: the plan expires, and is told; its nodes are still free, so it takes them again."""
    world = released()
    before = world.plan("g").nodes
    world.later(300)
    (write,) = world.decide().actions
    assert isinstance(write, Write)
    assert (write.plan.phase, write.plan.reason) == (PlanPhase.EXPIRED, "Expired")
    assert "0 of 4 pods" in write.plan.message
    world.do(world.decide())
    assert world.state.fleet.promised_to(before[0]) is None
    world.settle()
    plan = world.plan("g")
    assert (plan.phase, plan.nodes, plan.expires) == (PlanPhase.RELEASED, before, NOW + timedelta(seconds=600))


def test_an_expired_plan_whose_nodes_are_taken() -> None:
    """Another gang took two nodes meanwhile: the gang is planned anew, and its released pods are moved."""
    world = released()
    before = world.plan("g").nodes
    world.later(300)
    world.do(world.decide())
    for i, where in enumerate(before[:2]):
        world.add(pod_json(f"other-{i}", node=where, phase="Running"))
    world.settle()
    after = world.plan("g").nodes
    assert not {*after} & {*before[:2]}
    assert [world.node_of(name) for name in names()] == list(after)


def test_some_pods_are_not_bound_in_time() -> None:
    """A node does not take its pod although the scheduler works: the pod gets another."""
    world = released()
    before = world.plan("g").nodes
    world.bind("g-0", "g-1", "g-2")
    world.refuse("g-3")
    world.settle()
    world.later(300)
    world.settle()
    after = world.plan("g").nodes
    assert after[:3] == before[:3]
    assert after[3] != before[3]
    assert world.node_of("g-3") == after[3]


def test_the_scheduler_was_away_in_the_middle() -> None:
    """It bound three pods and has not come to the fourth: nothing speaks against its node, so it waits on."""
    world = released()
    before = world.plan("g").nodes
    world.bind("g-0", "g-1", "g-2")
    world.settle()
    world.later(300)
    world.settle()
    plan = world.plan("g")
    assert (world.anew, plan.nodes, plan.expires) == (0, before, NOW + timedelta(seconds=600))


def test_a_full_cluster_leaves_no_choice() -> None:
    """No other node is free: the same plan once more, with new time."""
    world = released(8)
    world.bind(*names(7))
    world.refuse("g-7")
    world.settle()
    before = world.plan("g").nodes
    world.later(300)
    world.settle()
    plan = world.plan("g")
    assert (plan.nodes, plan.expires) == (before, NOW + timedelta(seconds=600))


def test_a_gang_that_lost_pods_and_time() -> None:
    """Pods are missing when time runs out: nothing to wait for, the nodes are given back."""
    world = released()
    world.bind("g-0")
    world.delete("g-3")
    world.later(300)
    world.do(world.decide())
    assert world.phase("g") is PlanPhase.EXPIRED
    world.settle()
    assert world.phase("g") is PlanPhase.WAITING


def test_a_size_that_changed_before_anything_was_released() -> None:
    """The gang is another now: planned anew."""
    world = planned()
    for name in names():
        world.change(name, lambda pod: pod["metadata"]["annotations"].update({"arnold.dev/gang-size": "5"}))
    world.add(member_json("g", 4, 5))
    world.settle()
    assert len(world.plan("g").nodes) == 5
    assert world.phase("g") is PlanPhase.RELEASED


@pytest.mark.parametrize(
    ("name", "text", "reads"),
    [
        ("microbatches", "32", lambda spec: str(spec.microbatches)),
        ("constraints", "[{family: dp, within: LEVEL}]", lambda spec: spec.holds[0].level),
        ("constraints", "[{family: dp, level: LEVEL, weight: 2}]", lambda spec: spec.counts[0].level),
    ],
)
def test_a_gang_that_asks_otherwise_before_it_starts_is_planned_anew(
    name: str, text: str, reads: Callable[[Any], str]
) -> None:
    """The plan says what is asked now."""
    world = planned()
    text = text.replace("LEVEL", MINIPOD)
    for pod_name in names():
        world.change(pod_name, lambda pod: pod["metadata"]["annotations"].update({f"arnold.dev/{name}": text}))
    world.settle()
    assert reads(world.plan("g").spec) == (MINIPOD if MINIPOD in text else text)
    assert world.phase("g") is PlanPhase.RELEASED


@pytest.mark.parametrize("name", ["level", "tp-level"])
def test_a_level_that_is_taken_away_before_the_gang_starts(name: str) -> None:
    """Then it is the cluster's: the broadest with several domains, the closest for TP groups of two nodes."""
    other, field = {"level": (RACK, "level"), "tp-level": (MINIPOD, "tp_level")}[name]
    world = World(minipods(4, 4))
    for rank in range(4):
        world.add(member_json("g", rank, 4, {"arnold.dev/parallelism": "tp=16,dp=2", f"arnold.dev/{name}": other}))
    world.do(world.decide())
    assert (world.phase("g"), getattr(world.plan("g").spec, field)) == (PlanPhase.PLANNED, other)
    for pod_name in names():
        world.change(pod_name, lambda pod: pod["metadata"]["annotations"].pop(f"arnold.dev/{name}"))
    world.settle()
    assert getattr(world.plan("g").spec, field) == {"level": MINIPOD, "tp_level": RACK}[field]
    assert world.phase("g") is PlanPhase.RELEASED


def test_a_gang_that_asks_for_another_type_before_it_starts_is_planned_anew() -> None:
    """H100 in one minipod, H200 in the other: the plan follows the annotation."""
    types = {"0": "H100", "1": "H200"}
    nodes = [
        node(one.name, labels=one.labels | {"nvidia.com/gpu.product": types[one.labels[MINIPOD][-1]]})
        for one in minipods(4, 4)
    ]
    world = World(nodes)
    kind = {one.name: one.labels["nvidia.com/gpu.product"] for one in nodes}
    members = world.gang("g", 3, {"arnold.dev/gpu-types": "H100"})
    world.do(world.decide())
    assert {kind[name] for name in world.plan("g").nodes} == {"H100"}
    for name in members:
        world.change(name, lambda pod: pod["metadata"]["annotations"].update({"arnold.dev/gpu-types": "H200"}))
    world.settle()
    assert {kind[name] for name in world.plan("g").nodes} == {"H200"}
    assert world.phase("g") is PlanPhase.RELEASED


def test_a_gang_that_takes_a_constraint_back_before_it_starts_is_planned_anew() -> None:
    """What the plan keeps is what is asked now."""
    world = World()
    members = world.gang("g", 4, {"arnold.dev/constraints": f"[{{family: dp, within: {MINIPOD}}}]"})
    world.do(world.decide())
    assert world.plan("g").spec.holds
    for name in members:
        world.change(name, lambda pod: pod["metadata"]["annotations"].pop("arnold.dev/constraints"))
    world.settle()
    assert not world.plan("g").spec.holds
    assert world.phase("g") is PlanPhase.RELEASED


def test_a_gang_made_anew_with_other_wishes() -> None:
    """All its pods are replaced, by as many that are cut into other groups: the plan before is worth nothing."""
    world = bound()
    world.delete(*names())
    for rank in range(4):
        again = member_json("g", rank, 4, {"arnold.dev/parallelism": "tp=8,pp=4", "arnold.dev/alpha": "0.25"})
        again["metadata"]["uid"] = uid(f"other-{rank}")
        world.add(again)
        world.settle()
    spec = world.plan("g").spec
    assert spec.parallelism == "tp=8,cp=1,ep=1,dp=1,pp=4"
    assert (spec.alpha, world.phase("g")) == (0.25, PlanPhase.RELEASED)


def statuses(world: World, *kinds: str) -> list[str]:
    """What the plan's conditions of some kinds say."""
    found = (world.plan("g").condition(kind) for kind in kinds)
    return ["" if one is None else one.status for one in found]


def test_a_gang_made_anew_is_awaited_whole() -> None:
    """Three of four pods came back: none is released until the fourth is there too; then all, to the nodes before."""
    world = bound()
    before = world.plan("g").nodes
    for name in names():
        world.recreate(name)
    fourth = world.pods["g-3"]
    world.delete("g-3")
    world.settle()
    assert (world.phase("g"), [world.gated(name) for name in names(3)]) == (PlanPhase.PLANNED, [True, True, True])
    assert statuses(world, "Planned", "Released", "Bound") == ["True", "False", "False"]
    world.add(fourth)
    world.settle()
    assert (world.phase("g"), tuple(world.node_of(name) for name in names())) == (PlanPhase.RELEASED, before)


def test_a_gang_made_anew_in_part_does_not_keep_its_nodes() -> None:
    """The fourth pod never comes: the nodes are given back when time is up."""
    world = bound()
    for name in names():
        world.recreate(name)
    world.delete("g-3")
    world.settle()
    world.later(300)
    world.settle()
    assert (world.phase("g"), world.plan("g").holding) == (PlanPhase.WAITING, False)
    assert statuses(world, "Planned", "Released", "Bound") == ["False", "False", "False"]


# Several gangs


def test_one_runs_whole_and_the_other_waits_whole() -> None:
    """Eight nodes, two gangs of five: the older has all its nodes, the younger none, and is told why."""
    world = World()
    world.gang("old", 5, created="2026-11-21T10:00:00Z")
    world.gang("young", 5)
    world.settle()
    assert (world.phase("old"), world.phase("young")) == (PlanPhase.RELEASED, PlanPhase.QUEUED)
    assert world.plan("young").would_fit_if_empty
    assert all(world.gated(f"young-{rank}") for rank in range(5))
    world.delete(*(f"old-{rank}" for rank in range(5)))
    world.settle()
    assert world.phase("young") is PlanPhase.RELEASED


@pytest.mark.parametrize("annotations", [None, GRID])
def test_deciding_twice_is_deciding_once(annotations: dict[str, str] | None) -> None:
    """A decision depends on what is there and on nothing else."""
    world = World()
    world.gang("g", 4, annotations)
    for _ in range(6):
        assert world.decide() == world.decide()
        world.do(world.decide())


# Pods that choose their nodes themselves


def pinned_to(node: str) -> dict[str, Any]:
    """An affinity that admits one node by name, as a release leaves it and as anybody can write it."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}
        }
    }


POD_GROUP = {"scheduling.x-k8s.io/pod-group": "jumper"}
"""A form of gangs to which no admission policy adds the gate."""


def jumpers(world: World, nodes: list[str], *, bound: bool = False) -> None:
    """A gang without gate whose pods choose these nodes; ``None`` has no choice."""
    for rank, name in enumerate(nodes):
        spec: dict[str, Any] = {"node": name} if bound and name else {"affinity": pinned_to(name)} if name else {}
        labels = {**POD_GROUP, "arnold.dev/rank": str(rank)}
        notes = {"arnold.dev/gang-size": str(len(nodes))}
        world.add(pod_json(f"jumper-{rank}", labels=labels, annotations=notes, owner=OWNER, **spec))


def test_a_gang_that_pins_itself_does_not_jump_the_queue() -> None:
    """Its pins are none that a plan made: it is told so, and no node is promised to it."""
    world = World()
    world.gang("first", 8, owner=OWNER)
    world.add(pod_json("single", node="m0-0", phase="Running"))
    world.settle()
    assert world.phase("first") is PlanPhase.QUEUED
    jumpers(world, ["m0-1", "m0-2"])
    world.settle()
    plan = world.plan("jumper")
    assert (plan.phase, plan.reason, plan.nodes) == (PlanPhase.INVALID, "ChoosesNodes", ())
    assert "jumper-0 (m0-1), jumper-1 (m0-2)" in plan.message
    assert "To fix: " in plan.message
    assert [world.state.fleet.promised_to(f"m0-{i}") for i in range(4)] == [None] * 4


def test_a_gang_that_bound_itself_is_where_it_is() -> None:
    """All pods came with a node: the plan says so, and gives nothing."""
    world = World()
    jumpers(world, ["m0-1", "m0-2"], bound=True)
    world.settle()
    assert (world.phase("jumper"), world.plan("jumper").nodes) == (PlanPhase.BOUND, ("m0-1", "m0-2"))


def test_a_pod_that_binds_itself_brings_no_others_past_the_queue() -> None:
    """It came with a node: its fellows get none while another gang waits for them, and have theirs afterwards."""
    world = World()
    world.gang("first", 8, owner=OWNER)
    world.add(pod_json("single", node="m0-0", phase="Running"))
    world.settle()
    jumpers(world, ["m0-1", ""], bound=True)
    world.settle()
    plan = world.plan("jumper")
    assert (plan.phase, plan.reason, plan.nodes) == (PlanPhase.QUEUED, "PlanLost", ())
    world.delete(*(f"first-{rank}" for rank in range(8)))
    world.settle()
    assert (world.phase("jumper"), world.plan("jumper").nodes[0]) == (PlanPhase.RELEASED, "m0-1")


def test_a_plan_that_expired_is_no_pass_for_a_pod_that_binds_itself() -> None:
    """The nodes of the plan before are remembered for pods that are on them; one on another node has none of it."""
    world = World()
    jumpers(world, ["", ""])
    world.settle()
    world.later(301)
    world.do(world.decide())
    assert world.phase("jumper") is PlanPhase.EXPIRED
    elsewhere = next(f"m0-{i}" for i in range(4) if f"m0-{i}" not in world.plan("jumper").nodes)
    world.add(pod_json("single", node="m1-3", phase="Running"))
    world.gang("first", 8, owner=OWNER)
    world.write(GangPlan(key("first"), PlanPhase.QUEUED))
    world.bind("jumper-0", node=elsewhere)
    world.settle()
    assert (world.phase("jumper"), world.plan("jumper").reason) == (PlanPhase.QUEUED, "PlanLost")


def test_two_pods_that_bind_themselves_to_one_node() -> None:
    """A gang has a node for each pod, so there is no plan to be read off these."""
    world = World()
    jumpers(world, ["m0-1", "m0-1", ""], bound=True)
    world.settle()
    assert (world.phase("jumper"), world.plan("jumper").reason) == (PlanPhase.INVALID, "ChoosesNodes")


def ungated(world: World, *, bound: int) -> tuple[str, ...]:
    """A gang of four without the gate, some of which the scheduler has bound as planned.

    :returns: the nodes of its plan.
    """
    world.gang("g", 4, gate=False, owner=OWNER)
    world.settle()
    nodes = world.plan("g").nodes
    for rank in range(bound):
        world.bind(f"g-{rank}", node=nodes[rank])
    world.settle()
    return nodes


@pytest.mark.parametrize("count", [1, 3, 4])
def test_the_plan_of_a_gang_without_the_gate_is_lost(count: int) -> None:
    """Its pods bear neither pin nor mark: those that are bound keep their nodes, the others get the best."""
    world = World()
    nodes = ungated(world, bound=count)
    world.state.drop_plan(key("g"))
    world.settle()
    plan = world.plan("g")
    assert plan.phase is (PlanPhase.BOUND if count == 4 else PlanPhase.RELEASED)
    assert plan.nodes[:count] == nodes[:count]
    # All four nodes of a minipod were proved best, and are again with any of them given.
    assert set(plan.nodes) == set(nodes)


def test_the_plan_of_a_gang_without_the_gate_is_lost_while_others_wait() -> None:
    """Its pods that have no node get none before the others, and what would help is said: not to change the pods."""
    world = World()
    ungated(world, bound=3)
    world.gang("first", 8, owner=OWNER)
    world.settle()
    assert world.phase("first") is PlanPhase.QUEUED
    world.state.drop_plan(key("g"))
    world.settle()
    plan = world.plan("g")
    assert (plan.phase, plan.reason, plan.nodes) == (PlanPhase.QUEUED, "PlanLost", ())
    assert "team/first" in plan.message
    assert says(plan.message, "To fix:", "wait", "delete all its pods")
    # What was said helps: the gang is planned as any other, and here it is small enough not to hold the first one up.
    world.delete(*names())
    world.delete(*(f"first-{rank}" for rank in range(8)))
    world.settle()
    world.gang("g", 4, gate=False, owner=OWNER)
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED


def test_a_gang_that_binds_itself_to_promised_nodes() -> None:
    """Nodes that another gang waits for are not promised a second time, whoever is on them."""
    world = released(2)
    before = world.plan("g").nodes
    jumpers(world, list(before), bound=True)
    world.do(world.decide())
    assert world.plan("jumper").phase is PlanPhase.INVALID
    assert {world.state.fleet.promised_to(node) for node in before} <= {key("g"), None}


def test_a_released_pod_brings_no_others_past_the_queue() -> None:
    """Its owner gives a pod that runs to another gang, by its labels, and makes fellows for it: they wait in turn."""
    world = World()
    world.gang("small", 1, owner=OWNER)
    world.settle()
    world.bind("small-0")
    world.gang("first", 8, owner=OWNER)
    world.settle()
    assert (world.phase("small"), world.phase("first")) == (PlanPhase.BOUND, PlanPhase.QUEUED)
    world.change("small-0", lambda pod: pod["metadata"]["labels"].update({"arnold.dev/gang": "g"}))
    world.change("small-0", lambda pod: pod["metadata"]["annotations"].update({"arnold.dev/gang-size": "4"}))
    for rank in range(1, 4):
        world.add(member_json("g", rank, 4, owner=OWNER))
    world.settle()
    plan = world.plan("g")
    assert (plan.phase, plan.reason, plan.nodes) == (PlanPhase.QUEUED, "PlanLost", ())
    assert "team/first" in plan.message
    # When nobody waits any more there is nobody to pass.
    world.delete(*(f"first-{rank}" for rank in range(8)))
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED


def test_a_single_name_that_all_pods_admit_is_a_selector() -> None:
    """A gang of one pod may ask for a node by name behind the gate; it waits for its turn, and for that node."""
    world = World()
    world.add(member_json("g", 0, 1, affinity=pinned_to("m1-2")))
    world.settle()
    assert (world.phase("g"), world.plan("g").nodes) == (PlanPhase.RELEASED, ("m1-2",))


def test_released_pods_are_recognised_when_their_plan_is_gone() -> None:
    """Half of the gates are off when the plan is lost: the nodes of these pods are taken again, by the mark on them."""
    world = planned()
    before = world.plan("g").nodes
    decision = world.decide()
    decision.actions = decision.actions[:2]
    world.do(decision)
    world.state.drop_plan(key("g"))
    world.settle()
    assert (world.phase("g"), world.plan("g").nodes[:2]) == (PlanPhase.RELEASED, before[:2])
    assert all("arnold.dev/released" in world.pods[name]["metadata"]["labels"] for name in names())


def test_a_pin_without_a_mark_is_nobodys() -> None:
    """The same pods without the mark, which only the extender may write: their nodes are not taken."""
    world = released()
    world.state.drop_plan(key("g"))
    without_mark(world)
    world.settle()
    assert (world.phase("g"), world.plan("g").reason) == (PlanPhase.INVALID, "ChoosesNodes")


# Gangs of the version before, whose pods bear a pin and no mark


def without_mark(world: World) -> None:
    """As releases were before there was a mark: each pod is pinned to its node."""
    for name in world.pods:
        field = {"key": "metadata.name", "operator": "In", "values": [world.node_of(name)]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        world.change(name, lambda pod, affinity=affinity: pod["spec"].update(affinity=affinity))
        world.change(name, lambda pod: pod["metadata"]["labels"].pop("arnold.dev/released", None))


@pytest.mark.parametrize("kept", [True, False], ids=["with its plan", "plan lost too"])
def test_a_running_gang_of_the_version_before_is_repaired(kept: bool) -> None:
    """One of its nodes is lost: that rank moves, the others, each pinned to a node of its own, stay."""
    world = bound()
    without_mark(world)
    before = world.plan("g").nodes
    if not kept:
        world.state.drop_plan(key("g"))
    world.state.drop_node(before[2])
    world.recreate("g-2")
    world.settle()
    after = world.plan("g").nodes
    assert [rank for rank in range(4) if after[rank] != before[rank]] == [2]
    assert world.node_of("g-2") == after[2]


def test_a_running_gang_of_the_version_before_that_asked_by_its_gate_alone() -> None:
    """An Indexed Job without annotations: its pods that run are its members still, and its plan goes on."""
    world = World()
    about = {"name": "train", "namespace": "team", "uid": uid("train")}
    world.state.put_owner(decode_owner({"kind": "Job", "metadata": about, "spec": {"completions": 4}}))
    for rank in range(4):
        labels = {"batch.kubernetes.io/job-completion-index": str(rank)}
        world.add(pod_json(f"train-{rank}", labels=labels, gate=True, owner=OWNER))
    world.settle()
    world.bind(*world.pods)
    world.settle()
    before = world.plan("train").nodes
    without_mark(world)
    world.settle()
    assert (world.phase("train"), world.plan("train").nodes) == (PlanPhase.BOUND, before)
