"""Gangs whose GangPlan was deleted while some of their pods had no node, and others wait for the nodes they hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from extender.controller.actions import release_mark
from extender.plans.gang_plan import PlanPhase
from tests.extender.controller.world import TERMS, World
from tests.extender.things import NOW, key, member_json, minipods, pod_json
from topology.kubernetes.pods import RELEASED

OWNER = ("Job", "train")


def cut_off(*, on_nodes: int, size: int = 4) -> World:
    """A gang of which so many pods are on nodes, the others anew behind the gate, and a larger one waits for its nodes.

    There is room for the smaller gang alone, and the larger one came after it.
    """
    world = World()
    pods = world.gang("g", size, owner=OWNER)
    world.settle()
    world.bind(*pods)
    world.settle()
    world.gang("first", 8, owner=OWNER)
    world.settle()
    assert (world.phase("g"), world.phase("first")) == (PlanPhase.BOUND, PlanPhase.QUEUED)
    for name in pods[on_nodes:]:
        world.recreate(name)
    world.state.drop_plan(key("g"))
    return world


@pytest.mark.parametrize("on_nodes", [1, 3])
def test_a_gang_that_holds_nodes_goes_on_before_those_that_wait_for_them(on_nodes: int) -> None:
    """Nobody would ever end: the pods of it that have no node wait for others, which wait for its nodes."""
    world = cut_off(on_nodes=on_nodes)
    before = [world.node_of(f"g-{rank}") for rank in range(on_nodes)]
    world.settle()
    assert (world.phase("g"), world.phase("first")) == (PlanPhase.RELEASED, PlanPhase.QUEUED)
    assert list(world.plan("g").nodes[:on_nodes]) == before
    world.bind(*(f"g-{rank}" for rank in range(on_nodes, 4)))
    world.settle()
    assert world.phase("g") is PlanPhase.BOUND


def test_released_halfway() -> None:
    """Half of the gates are off when the plan is lost, no pod is bound: their nodes are kept for it all the same."""
    world = World()
    world.gang("g", 4, owner=OWNER)
    world.do(world.decide())
    decision = world.decide()
    decision.actions = decision.actions[:2]
    world.do(decision)
    world.gang("first", 8, owner=OWNER)
    world.do(world.decide())
    assert world.phase("first") is PlanPhase.QUEUED
    world.state.drop_plan(key("g"))
    world.settle()
    assert (world.phase("g"), world.phase("first")) == (PlanPhase.RELEASED, PlanPhase.QUEUED)


def test_no_room_for_the_rest() -> None:
    """It keeps what it has, and goes on as soon as nodes come free; the one that waits is not before it."""
    world = cut_off(on_nodes=2)
    held = {world.node_of(f"g-{rank}") for rank in range(2)}
    free = [name for m in (0, 1) for i in range(4) if (name := f"m{m}-{i}") not in held]
    others = [world.add(pod_json(f"on-{name}", node=name, phase="Running")) for name in free]
    world.settle()
    assert (world.phase("g"), world.plan("g").reason) == (PlanPhase.QUEUED, "NoSpare")
    assert {world.state.fleet.promised_to(name) for name in held} == {key("g")}
    world.delete(*others)
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED


def released_and_lost() -> World:
    """Gang a of six is released on eight nodes, none of its pods is bound; then its GangPlan is deleted."""
    world = World()
    world.gang("a", 6, owner=OWNER)
    world.settle()
    assert world.phase("a") is PlanPhase.RELEASED
    world.state.drop_plan(key("a"))
    return world


def promised(world: World, name: str) -> set[str]:
    """Nodes that are promised to a gang."""
    nodes = (f"m{m}-{i}" for m in (0, 1) for i in range(4))
    return {node for node in nodes if world.state.fleet.promised_to(node) == key(name)}


def test_no_node_is_promised_twice_while_a_released_pod_is_missing() -> None:
    """Gang b of six comes while a has five pods released and no GangPlan but one that says that a pod is missing."""
    world = released_and_lost()
    nodes = {world.node_of(f"a-{rank}") for rank in range(5)}
    world.delete("a-5")
    world.settle()
    assert (world.phase("a"), world.plan("a").nodes) == (PlanPhase.WAITING, ())
    world.gang("b", 6, owner=OWNER)
    world.settle()
    # three of eight nodes are left
    assert (promised(world, "a"), promised(world, "b")) == (nodes, set())
    world.add(member_json("a", 5, 6, owner=OWNER))
    world.settle()
    assert (world.phase("a"), world.phase("b")) == (PlanPhase.RELEASED, PlanPhase.QUEUED)
    assert promised(world, "a") == set(world.plan("a").nodes) > nodes
    world.bind(*(f"a-{rank}" for rank in range(6)))
    world.settle()
    assert (world.phase("a"), world.phase("b")) == (PlanPhase.BOUND, PlanPhase.QUEUED)


def missing(world: World) -> None:
    """One of its pods is gone."""
    world.delete("a-5")


def held_by_others(world: World) -> None:
    """One of its pods comes anew, with a gate of somebody else."""
    world.recreate("a-5")
    gates = [{"name": "arnold.dev/gang"}, {"name": "example.com/quota"}]
    world.change("a-5", lambda pod: pod["spec"].update(schedulingGates=gates))


def contradicting(world: World) -> None:
    """All pods say something that cannot be read."""
    for rank in range(6):
        world.change(f"a-{rank}", lambda pod: pod["metadata"]["annotations"].update({"arnold.dev/avoid": "prize"}))


def without_a_spare(world: World) -> None:
    """One of its pods comes anew, and no node is left for it."""
    free = {f"m{m}-{i}" for m in (0, 1) for i in range(4)} - {world.node_of(f"a-{rank}") for rank in range(5)}
    world.recreate("a-5")
    for name in free:
        world.add(pod_json(f"on-{name}", node=name, phase="Running"))


TROUBLES = [missing, held_by_others, contradicting, without_a_spare]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_only_a_plan_with_nodes_takes_the_place_of_a_release(trouble: Callable[[World], None]) -> None:
    """Whatever else a GangPlan says of the gang, the nodes of its released pods stay its own."""
    world = released_and_lost()
    trouble(world)
    world.settle()
    released = [pod for pod in world.pods.values() if RELEASED in pod["metadata"]["labels"]]
    assert len(released) >= 5
    assert world.phase("a") in (PlanPhase.WAITING, PlanPhase.INVALID, PlanPhase.QUEUED)
    assert promised(world, "a") == {world.node_of(pod["metadata"]["name"]) for pod in released}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_a_release_promises_ends_as_a_plan_does(trouble: Callable[[World], None]) -> None:
    """Pods that are not bound within five minutes keep nodes from nobody any more, and it is said once."""
    world = released_and_lost()
    trouble(world)
    world.settle()
    later = world.plan("a").expires
    assert later == NOW + TERMS.bind
    assert world.decide().wake == later
    world.later(300)
    world.settle()
    assert promised(world, "a") == set()
    condition = world.plan("a").condition("Released")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "Expired")
    world.gang("b", 2, owner=OWNER)
    world.settle()
    # where a is whole it waits as any other, before b
    assert world.phase("b") is (PlanPhase.QUEUED if trouble is without_a_spare else PlanPhase.RELEASED)
    assert world.decide().actions == []


def test_pods_whose_nodes_others_have_by_then_are_moved() -> None:
    """Released, lost, not whole in time: others have their nodes, and the released pods go to what comes free."""
    world = World()
    pods = world.gang("a", 6)
    world.settle()
    nodes = [world.node_of(name) for name in pods]
    world.state.drop_plan(key("a"))
    world.delete("a-5")
    world.settle()
    world.later(301)
    world.settle()
    strangers = [world.add(pod_json(f"on-{node}", node=node, phase="Running")) for node in nodes]
    world.add(member_json("a", 5, 6))
    world.settle()
    assert world.phase("a") is PlanPhase.QUEUED
    world.delete(*strangers[:4])
    world.settle()
    assert world.phase("a") is PlanPhase.RELEASED
    assert [world.node_of(f"a-{rank}") for rank in range(6)] == list(world.plan("a").nodes)


def test_a_pod_of_another_gang_is_no_pass() -> None:
    """A pod that was released as one of a small gang, given to a larger one by its labels, brings nobody with it: not
    under another name, and not under its own.
    """
    for name in ("small", "other"):
        world = World()
        world.gang("small", 2, owner=OWNER)
        world.settle()
        world.bind("small-0", "small-1")
        world.gang("first", 8, owner=OWNER)
        world.settle()
        world.state.drop_plan(key("small"))
        for pod in ("small-0", "small-1"):
            world.change(pod, lambda it, name=name: it["metadata"]["labels"].update({"arnold.dev/gang": name}))
            world.change(pod, lambda it: it["metadata"]["annotations"].update({"arnold.dev/gang-size": "4"}))
        for rank in (2, 3):
            world.add(member_json(name, rank, 4, owner=OWNER))
        world.settle()
        plan = world.plan(name)
        assert (plan.phase, plan.reason, plan.nodes) == (PlanPhase.QUEUED, "PlanLost", ())


def test_a_gang_that_rested_and_holds_nodes_is_behind_nobody() -> None:
    """It was refused, rested, was bound in part, and its time ran out while a pod was missing: it goes on."""
    world = World(minipods(4))
    pods = world.gang("g", 4, owner=OWNER)
    world.settle()
    world.refuse(*pods, message="0/4 nodes are available")
    world.later(300)
    world.do(world.decide())
    assert world.phase("g") is PlanPhase.EXPIRED
    world.later(301)
    world.settle()
    world.bind(*pods[:3])
    world.settle()
    world.delete(pods[3])
    world.later(301)
    world.do(world.decide())
    assert world.phase("g") is PlanPhase.EXPIRED
    world.gang("first", 4, owner=OWNER, created="2026-11-21T11:30:00Z")
    world.do(world.decide())
    assert world.phase("first") is PlanPhase.QUEUED
    world.later(1)
    world.add(member_json("g", 3, 4, owner=OWNER))
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED


def test_the_mark_names_gang_and_size() -> None:
    """It is a label value, other for each gang and size, and is on the pods that were released."""
    marks = {release_mark(key(name), size) for name in ("g", "g1", "h") for size in (1, 2, 12)}
    assert len(marks) == 9
    assert all(len(mark) <= 63 and mark.isalnum() for mark in marks)
    world = World()
    world.gang("g", 4, owner=OWNER)
    world.settle()
    assert {pod["metadata"]["labels"][RELEASED] for pod in world.pods.values()} == {release_mark(key("g"), 4)}
