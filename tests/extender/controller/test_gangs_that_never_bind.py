"""Gangs that kube-scheduler refuses on their nodes: they give them back, rest, and come again behind the others."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.controller.pacing import Timeouts
from extender.kubernetes_names import PLANNED
from extender.plans.gang_plan import GangPlan, PlanPhase, decode_plan, encode_plan
from tests.extender.controller.world import TERMS, World
from tests.extender.things import NOW, key, minipods
from tests.facts import says

WHY = "0/8 nodes are available: 8 node(s) had volume node affinity conflict."


def refused(world: World, name: str = "g", size: int = 8) -> list[str]:
    """A gang that was released and tried in vain until its time ran out."""
    pods = world.gang(name, size)
    world.settle()
    world.refuse(*pods, message=WHY)
    world.later(300)
    world.do(world.decide())
    return pods


def refused_then_taken(world: World) -> list[str]:
    """The pods of a gang that came later and runs on all nodes of one that was refused."""
    refused(world)
    later = world.gang("later", 8)
    world.settle()
    world.bind(*later)
    world.settle()
    return later


def test_it_gives_its_nodes_back_and_says_why() -> None:
    """The message has what kube-scheduler says of the first pod, and until when the gang rests: five minutes."""
    world = World()
    refused(world)
    plan = world.plan("g")
    assert (plan.phase, plan.expiries, plan.comes_again) == (PlanPhase.EXPIRED, 1, NOW + timedelta(seconds=600))
    assert says(plan.message, "0 of 8", "g-0, g-1, g-2", "5 more", f"g-0: {WHY}")
    until = f"{NOW + timedelta(seconds=600):%Y-%m-%dT%H:%M:%SZ}"
    assert says(plan.message, until)
    assert world.state.fleet.promised_to("m0-0") is None


def test_others_have_its_nodes_while_it_rests() -> None:
    """A gang that came later gets all nodes at once; the first, when it has rested, what is left then: none, and it
    says so.
    """
    world = World()
    later = refused_then_taken(world)
    assert (world.phase("later"), world.phase("g")) == (PlanPhase.BOUND, PlanPhase.EXPIRED)
    world.later(301)
    world.settle()
    plan = world.plan("g")
    assert (plan.phase, plan.reason) == (PlanPhase.QUEUED, "NoRoom")
    world.delete(*later)
    world.settle()
    assert world.plan("g").holding


def test_it_comes_again_when_nobody_waits() -> None:
    """After its rest it has its nodes once more; refused again, it rests twice as long."""
    world = World()
    pods = refused(world)
    world.settle()
    assert world.phase("g") is PlanPhase.EXPIRED
    world.later(300)
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED
    # and its pods are told at once, as kube-scheduler would not try them again by itself
    told = [pod.probed_at(PLANNED) for pod in world.state.pods.values() if pod.name in pods]
    assert told == [world.now] * len(pods)
    world.refuse(*pods, message=WHY)
    world.later(300)
    world.do(world.decide())
    plan = world.plan("g")
    assert (plan.expiries, plan.comes_again) == (2, world.now + timedelta(seconds=600))


def test_those_that_wait_go_first() -> None:
    """Half the nodes are another's; a gang of eight that waits since before the rest ended is let pass."""
    world = World()
    refused(world, size=4)
    busy = world.gang("busy", 4)
    world.settle()
    world.bind(*busy)
    world.settle()
    world.gang("large", 8)
    world.settle()
    assert world.phase("large") is PlanPhase.QUEUED
    world.later(301)
    world.settle()
    plan = world.plan("g")
    assert (world.phase("large"), plan.phase, plan.reason) == (PlanPhase.QUEUED, PlanPhase.QUEUED, "BehindOthers")
    assert says(plan.message.splitlines()[0], "team/large")
    conditions = {kind: plan.condition(kind) for kind in ("Complete", "Planned")}
    assert {kind: one and one.status for kind, one in conditions.items()} == {"Complete": "True", "Planned": "False"}
    world.delete(*busy)
    world.settle()
    assert world.phase("large") is PlanPhase.RELEASED


def test_of_two_that_have_rested_the_first_goes_first() -> None:
    """They were refused at once, and stand behind one that waits: the one of the lesser name is before the other."""
    world = World()
    both = [*world.gang("a", 2), *world.gang("b", 2)]
    world.settle()
    world.refuse(*both, message=WHY)
    world.later(300)
    world.do(world.decide())
    busy = world.gang("busy", 4)
    world.settle()
    world.bind(*busy)
    large = world.gang("large", 8)
    world.settle()
    world.later(301)
    world.settle()
    said = {name: world.plan(name).message.splitlines()[0] for name in "ab"}
    assert says(said["a"], "team/large")
    assert not says(said["a"], "others")
    assert says(said["b"], "team/large", "others")
    world.delete(*large, *busy)
    world.settle()
    assert [world.phase(name) for name in "ab"] == [PlanPhase.RELEASED] * 2


def test_a_gang_that_no_node_takes_is_before_nobody() -> None:
    """It stays in the queue, as nodes may come that it can use; what has rested does not wait for these."""
    world = World()
    refused(world)
    world.gang("greedy", 2, asks={"cpu": "500"})
    world.settle()
    assert (world.phase("greedy"), world.plan("greedy").reason) == (PlanPhase.QUEUED, "CannotBePlanned")
    world.later(301)
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED


def test_a_gang_made_anew_behind_its_gate_stands_at_the_end() -> None:
    """Its pods come again unpinned while it rests: it is planned in the queue, after one that came in between."""
    world = World(minipods(4))
    pods = refused(world, size=4)
    for name in pods:
        world.recreate(name)
    world.settle()
    assert world.phase("g") is PlanPhase.EXPIRED
    world.gang("between", 4, created="2026-11-21T12:06:00Z")
    world.later(301)
    world.settle()
    assert (world.phase("between"), world.phase("g")) == (PlanPhase.RELEASED, PlanPhase.QUEUED)


def test_a_lost_plan_gives_it_no_nodes_of_others() -> None:
    """Its plan is deleted while others have its nodes, to which its pods were released: it gets none of these."""
    world = World()
    refused_then_taken(world)
    world.state.drop_plan(key("g"))
    world.later(301)
    world.settle()
    assert (world.phase("g"), world.plan("g").reason) == (PlanPhase.QUEUED, "NoSpare")


def test_binding_ends_it() -> None:
    """Once all pods are bound nothing is left of earlier refusals."""
    world = World()
    pods = refused(world)
    world.later(300)
    world.settle()
    world.bind(*pods)
    world.settle()
    plan = world.plan("g")
    assert (plan.phase, plan.expiries, plan.comes_again) == (PlanPhase.BOUND, 0, None)


def test_a_restart_changes_nothing() -> None:
    """What is stored is all that the decision needs: read back, the plan rests until the same moment."""
    world = World()
    refused(world)
    read: GangPlan = decode_plan(encode_plan(world.plan("g")))
    assert (read.expiries, read.comes_again) == (1, NOW + timedelta(seconds=600))
    world.state.drop_plan(key("g"))
    world.state.put_plan(read)
    world.settle()
    assert world.phase("g") is PlanPhase.EXPIRED
    world.later(301)
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED


@pytest.mark.parametrize("told", ["", "0/8 nodes are available: 8 gang team/g is Expired: 0 of 8 pods."])
def test_our_own_refusals_are_not_repeated(told: str) -> None:
    """What kube-scheduler only repeats after us says nothing: it is left out, or sentences would grow."""
    world = World()
    pods = world.gang("g", 4)
    world.settle()
    world.refuse(*pods, message=told)
    world.later(300)
    world.do(world.decide())
    assert says(world.plan("g").message, "g-0, g-1, g-2", "1 more")


def test_messages_are_bounded() -> None:
    """Anybody who may write a pod's status may write a long message: 253 bytes of it are repeated."""
    world = World()
    pods = world.gang("g", 4)
    world.settle()
    world.refuse(*pods, message="x" * 100_000)
    world.later(300)
    world.do(world.decide())
    assert 253 < len(world.plan("g").message) < 600


@given(st.integers(1, 1000))
def test_rests_grow_up_to_an_hour(expiries: int) -> None:
    """Each rest is the time to bind, doubled with each further refusal, and never above an hour."""
    rest = TERMS.rest(expiries)
    assert TERMS.bind <= rest <= timedelta(hours=1)
    assert TERMS.rest(expiries + 1) in (2 * rest, timedelta(hours=1))


def test_a_long_time_to_bind_is_the_rest() -> None:
    """Where pods have two hours to bind, the rest is as long."""
    assert Timeouts(bind=timedelta(hours=2)).rest(3) == timedelta(hours=2)
