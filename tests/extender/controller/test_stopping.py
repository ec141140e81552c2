"""Gangs that are stopped for another: their nodes are given back first, then their pods go, whatever fails between."""

from __future__ import annotations

from extender.controller.actions import Evict, Write
from extender.controller.decide import decide
from extender.plans.gang_plan import PlanPhase
from tests.extender.controller.world import TERMS, World
from tests.extender.things import key

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
