"""Gangs that are stopped for another: their nodes are given back first, then their pods go, whatever fails between."""

from __future__ import annotations

import pytest

from extender.controller.actions import Evict, Write
from extender.controller.decide import decide
from extender.planner.round import PlanningRound
from extender.plans.gang_plan import GangPlan, PlanPhase, PlanSpec, uids_of
from tests.extender.controller.world import TERMS, World
from tests.extender.things import key, node

STOP = {"arnold.dev/preemptible": "true"}
WHY = "makes room for gang team/llm"


def bound_gang(annotations: dict[str, str]) -> tuple[World, list[str]]:
    """A gang on its nodes, and the names of its pods."""
    world = World()
    pods = world.gang("g", 2, annotations, owner=("Job", "g"))
    world.settle()
    world.bind(*pods)
    world.settle()
    assert world.phase("g") is PlanPhase.BOUND
    return world, pods


def unwanted(world: World) -> list[object]:
    """What is decided about the gang when it is to be stopped."""
    return list(decide(world.state, world.now, TERMS, unwanted={key("g"): WHY}).actions)


def test_its_nodes_are_given_back_before_its_pods_go() -> None:
    """The plan says why; from then on it says that the pods have to go, also to a controller that has just started."""
    world, _ = bound_gang(STOP)
    (write,) = unwanted(world)
    assert isinstance(write, Write)
    assert (write.plan.phase, write.plan.reason, write.plan.message, write.plan.nodes) == (
        "Queued",
        "Preempted",
        WHY,
        (),
    )
    world.write(write.plan)
    evicted = [action for action in world.decide().actions if isinstance(action, Evict)]
    assert [(one.pod.name, one.why) for one in evicted] == [("g-0", WHY), ("g-1", WHY)]


def test_whoever_is_left_has_to_go() -> None:
    """After a failure half-way: those that leave already are not deleted again, those that are left are."""
    world, pods = bound_gang(STOP)
    (write,) = unwanted(world)
    assert isinstance(write, Write)
    world.write(write.plan)
    world.change(pods[0], lambda pod: pod["metadata"].update(deletionTimestamp="2026-11-21T12:00:00Z"))
    assert [action.pod.name for action in world.decide().actions if isinstance(action, Evict)] == ["g-1"]


def test_it_waits_as_any_other_afterwards() -> None:
    """Its controller makes the pods anew, behind the gate; complete again, it is planned as soon as there is room."""
    world, pods = bound_gang(STOP)
    (write,) = unwanted(world)
    assert isinstance(write, Write)
    world.write(write.plan)
    world.recreate(pods[0])
    assert [action.pod.name for action in world.decide().actions if isinstance(action, Evict)] == ["g-1"]
    world.recreate(pods[1])
    assert world.decide().unplaced == [key("g")]
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED


def test_a_gang_that_does_not_say_so_is_never_stopped() -> None:
    """Whoever wants it: the annotation of all its pods is what allows it."""
    world, pods = bound_gang({})
    assert unwanted(world) == []
    world, pods = bound_gang(STOP)
    world.change(pods[0], lambda pod: pod["metadata"]["annotations"].pop("arnold.dev/preemptible"))
    assert unwanted(world) == []


def test_a_word_taken_back_in_time_keeps_the_gang() -> None:
    """Its nodes were given back already, and none of its pods is gone: it takes them again."""
    world, pods = bound_gang(STOP)
    nodes = world.plan("g").nodes
    (write,) = unwanted(world)
    assert isinstance(write, Write)
    world.write(write.plan)
    world.change(pods[0], lambda pod: pod["metadata"]["annotations"].pop("arnold.dev/preemptible"))
    world.settle()
    assert (world.phase("g"), world.plan("g").nodes) == (PlanPhase.BOUND, nodes)


def preempting() -> tuple[World, list[str]]:
    """Gang g on its two nodes, and gang p, whose plan names it as a victim and has not got its nodes yet."""
    world, pods = bound_gang({})
    world.gang("p", 2, priority=5, owner=("Job", "p"))
    gang = world.state.gang(key("p"))
    assert gang is not None
    assert gang.job is not None
    plan = GangPlan(key("p"), PlanPhase.QUEUED, spec=PlanSpec.of(gang.job, dialect=gang.dialect, priority=5))
    plan = plan.replace(nodes=world.plan("g").nodes, pods=uids_of(gang), victims=(str(key("g")),))
    world.write(plan)
    return world, pods


def step(world: World, name: str) -> list[Evict]:
    """What is decided about one gang is done, but for evictions, which are returned."""
    decision = decide(world.state, world.now, TERMS, keys=(key(name),))
    evicted = [action for action in decision.actions if isinstance(action, Evict)]
    decision.actions = [action for action in decision.actions if not isinstance(action, Evict)]
    world.do(decision)
    return evicted


def test_nodes_go_from_one_gang_to_the_other_and_to_no_third() -> None:
    """In any order of looks: given back first, while its pods hold them; then promised; then the pods are evicted."""
    world, _ = preempting()
    nodes = {*world.plan("g").nodes}
    assert step(world, "p") == []
    assert world.phase("p") is PlanPhase.QUEUED
    assert step(world, "g") == []
    assert (world.phase("g"), world.plan("g").reason) == (PlanPhase.QUEUED, "PreemptedByPriority")
    assert step(world, "g") == []
    assert step(world, "p") == []
    assert ({*world.plan("p").promised}, world.phase("p")) == (nodes, PlanPhase.PLANNED)
    assert [action.pod.name for action in step(world, "g")] == ["g-0", "g-1"]
    assert all(world.gated(name) for name in ("p-0", "p-1"))
    world.delete("g-0", "g-1")
    world.settle()
    assert (world.phase("p"), {*world.plan("p").nodes}, world.plan("p").victims) == (PlanPhase.RELEASED, nodes, ())


def test_those_behind_it_wait_until_it_has_its_nodes() -> None:
    """Gang q would fit, on nodes that the gang before it may be about to get besides those of its victims."""
    world, _ = preempting()
    world.gang("q", 2, owner=("Job", "q"))
    assert PlanningRound().next(world.state, world.now) is None
    for name in ("g", "p"):
        step(world, name)
    assert world.phase("p") is PlanPhase.PLANNED
    world.settle()
    assert world.phase("q") is PlanPhase.RELEASED
    assert {*world.plan("q").nodes}.isdisjoint(world.plan("p").nodes)


@pytest.mark.parametrize("given_back", [False, True])
@pytest.mark.parametrize("trouble", ["gone", "changed", "node lost", "too late"])
def test_nobody_is_stopped_for_a_gang_that_cannot_come(trouble: str, *, given_back: bool) -> None:
    """Before anybody was evicted the gang goes, asks otherwise, a node of the two is lost, or it takes too long: the
    victim has its nodes as before.
    """
    world, _ = preempting()
    nodes = world.plan("g").nodes
    if given_back:
        step(world, "g")
    if trouble == "gone":
        world.delete("p-0", "p-1")
    elif trouble == "changed":
        world.recreate("p-0")
    elif trouble == "too late":
        world.write(world.plan("p").replace(expires=world.now))
    else:
        world.state.put_node(node(str(nodes[0]), unschedulable=True))
    for name in ("p", "g", "p", "g"):
        assert step(world, name) == []
    world.settle()
    assert (world.phase("g"), world.plan("g").nodes) == (PlanPhase.BOUND, nodes)
