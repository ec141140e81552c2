"""Gangs that are stopped for another: their nodes are given back first, then their pods go, whatever fails between."""

from __future__ import annotations

import pytest

from extender.controller.actions import Evict
from extender.controller.decide import decide, taking
from extender.planner.round import PlanningRound
from extender.plans.gang_plan import GangPlan, PlanPhase, PlanSpec, uids_of
from tests.extender.controller.world import TERMS, World
from tests.extender.things import key, node
from tests.facts import says

STOP = {"arnold.dev/preemptible": "true"}


def bound_gang(annotations: dict[str, str]) -> tuple[World, list[str]]:
    """A gang on its nodes, and the names of its pods."""
    world = World()
    pods = world.gang("g", 2, annotations, owner=("Job", "g"))
    world.settle()
    world.bind(*pods)
    world.settle()
    assert world.phase("g") is PlanPhase.BOUND
    return world, pods


def wanted_by(priority: int, annotations: dict[str, str]) -> tuple[World, list[str]]:
    """Gang g on its two nodes, and gang p of a priority, whose plan names it as a victim and has not got its nodes."""
    world, pods = bound_gang(annotations)
    world.gang("p", 2, priority=priority, owner=("Job", "p"))
    gang = world.state.gang(key("p"))
    assert gang is not None
    assert gang.job is not None
    plan = GangPlan(key("p"), PlanPhase.QUEUED, spec=PlanSpec.of(gang.job, dialect=gang.dialect, priority=priority))
    plan = plan.replace(nodes=world.plan("g").nodes, pods=uids_of(gang))
    world.write(taking(plan, [key("g")], world.now, TERMS))
    return world, pods


def given_up() -> tuple[World, list[str]]:
    """One that may be stopped has given its nodes to an announced one, of no higher priority, and goes."""
    world, pods = wanted_by(0, STOP)
    for name in ("g", "p"):
        assert step(world, name) == []
    assert world.phase("p") is PlanPhase.PLANNED
    return world, pods


def test_it_says_why_also_to_a_controller_that_has_just_started() -> None:
    """All follows from the two plans: whose nodes they are, who goes, and for whom."""
    world, _ = given_up()
    plan = world.plan("g")
    assert (plan.phase, plan.reason, plan.nodes) == (PlanPhase.QUEUED, "Preempted", ())
    assert says(plan.message, "makes room for gang team/p", "evicted at")
    assert [(it.pod.name, it.why) for it in step(world, "g")] == [("g-0", plan.message), ("g-1", plan.message)]


def test_whoever_is_left_has_to_go() -> None:
    """After a failure half-way: those that leave already are not deleted again, those that are left are."""
    world, pods = given_up()
    world.change(pods[0], lambda pod: pod["metadata"].update(deletionTimestamp="2026-11-21T12:00:00Z"))
    assert [action.pod.name for action in step(world, "g")] == ["g-1"]


def test_it_waits_as_any_other_afterwards() -> None:
    """Its controller makes the pods anew, behind the gate; complete again, it is planned as soon as there is room."""
    world, pods = given_up()
    world.recreate(pods[0])
    assert [action.pod.name for action in step(world, "g")] == ["g-1"]
    world.recreate(pods[1])
    world.settle()
    assert (world.phase("p"), world.phase("g")) == (PlanPhase.RELEASED, PlanPhase.RELEASED)
    assert {*world.plan("p").nodes}.isdisjoint(world.plan("g").nodes)


@pytest.mark.parametrize("annotations", [{}, {"arnold.dev/preemptible": "false"}])
def test_a_gang_that_does_not_say_so_is_never_stopped(annotations: dict[str, str]) -> None:
    """Whoever wants it, unless that has a higher priority: the annotation of all its pods is what allows it."""
    world, _ = wanted_by(0, annotations)
    for _ in range(2):
        assert step(world, "g") == step(world, "p") == []
    assert (world.phase("g"), world.phase("p")) == (PlanPhase.BOUND, PlanPhase.QUEUED)


@pytest.mark.parametrize("late", [False, True])
def test_a_word_taken_back_in_time_keeps_the_gang(*, late: bool) -> None:
    """None of its pods is gone, though its nodes may have been given away already: it has them again."""
    world, pods = given_up() if late else wanted_by(0, STOP)
    nodes = world.state.plans[key("p")].nodes
    world.change(pods[0], lambda pod: pod["metadata"]["annotations"].pop("arnold.dev/preemptible"))
    for name in ("p", "g") * 3:
        assert step(world, name) == []
    assert (world.phase("g"), {*world.plan("g").nodes}) == (PlanPhase.BOUND, {*nodes})


def preempting() -> tuple[World, list[str]]:
    """A gang of higher priority is to have the nodes of one that has not said that it may be stopped."""
    return wanted_by(5, {})


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
    assert (world.phase("g"), world.plan("g").reason) == (PlanPhase.QUEUED, "Preempted")
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
