"""Labels of nodes that change while a gang is planned or runs: a pod that comes anew is sent where constraints hold."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from extender.plans.gang_plan import PlanPhase, PlanSpec
from tests.extender.controller.world import World
from tests.extender.things import MINIPOD, node, pod_json
from tests.facts import says

WITHIN = {"arnold.dev/constraints": f"[{{family: dp, within: {MINIPOD}}}]"}


def running(size: int, annotations: dict[str, str] | None = None) -> World:
    """A gang whose DP group is held in one minipod runs on m0-0, m0-1, ...: m0 is the first of two of four nodes."""
    world = World()
    world.bind(*_planned(world, size, WITHIN if annotations is None else annotations))
    world.settle()
    assert world.plan("g").nodes == tuple(f"m0-{rank}" for rank in range(size))
    return world


def _planned(world: World, size: int, annotations: dict[str, str]) -> list[str]:
    members = world.gang("g", size, annotations)
    world.settle()
    return members


def moved(world: World, name: str, minipod: str) -> None:
    """The label of a node says another minipod."""
    world.state.put_node(node(name, minipod, f"{minipod}r0"))
    world.settle()


def said_broken(world: World) -> bool:
    """Whether the plan says that m0-1 is where a constraint does not have it."""
    healthy = world.plan("g").condition("Healthy")
    return healthy is not None and healthy.status == "False" and says(healthy.message, "m0-1", "mp1", "dp")


def test_a_pod_that_comes_anew_stays_with_its_group() -> None:
    """m0-1 has moved to the other minipod: rank 1 gets m0-3, which is free, and nobody else moves."""
    world = running(3)
    assert not said_broken(world)
    moved(world, "m0-1", "mp1")
    assert world.plan("g").nodes == ("m0-0", "m0-1", "m0-2"), "who runs is left alone"
    assert said_broken(world)
    world.recreate("g-1")
    world.settle()
    assert world.plan("g").nodes == ("m0-0", "m0-3", "m0-2")
    assert world.node_of("g-1") == "m0-3"
    world.bind("g-1")
    world.settle()
    assert world.phase("g") is PlanPhase.BOUND
    assert not said_broken(world)


def test_it_waits_while_no_node_keeps_the_constraint() -> None:
    """All of m0 is taken, so rank 1 has nowhere to go; its own node is right again as soon as its label is."""
    world = running(4)
    moved(world, "m0-1", "mp1")
    world.recreate("g-1")
    world.settle()
    assert world.gated("g-1")
    moved(world, "m0-1", "mp0")
    assert world.node_of("g-1") == "m0-1"


def test_without_a_constraint_it_keeps_its_node() -> None:
    """Spread is what was promised to nobody: to move would cost more than a domain."""
    world = running(3, {})
    moved(world, "m0-1", "mp1")
    world.recreate("g-1")
    world.settle()
    assert world.node_of("g-1") == "m0-1"


def test_a_gang_that_lies_apart_already_keeps_its_nodes() -> None:
    """Rank 2 runs on a node that has moved: no node is in one minipod with all the others, so rank 1 keeps its own."""
    world = running(3)
    moved(world, "m0-2", "mp1")
    world.recreate("g-1")
    world.settle()
    assert world.node_of("g-1") == "m0-1"


def test_a_gang_that_has_not_begun_is_planned_anew() -> None:
    """A node of its plan moves before any pod is released: all go where the constraint holds."""
    world = World()
    world.add(pod_json("tenant", node="m1-0", phase="Running"))
    world.gang("g", 4, WITHIN)
    world.do(world.decide())
    assert {*world.plan("g").nodes} == {f"m0-{i}" for i in range(4)}
    moved(world, "m0-1", "mp1")
    # m0 has three nodes now, and m1 four that are free: its own but one, and m0-1
    assert {*world.plan("g").nodes} == {"m0-1", "m1-1", "m1-2", "m1-3"}
    assert world.phase("g") is PlanPhase.RELEASED


def test_parts_of_a_wide_group_stay_together() -> None:
    """TP groups of two nodes lie in one rack each, with no word of the gang's: rank 1 gets the other node of its rack's
    that is free, and not m0-1, which is in another rack now.
    """
    world = running(2, {"arnold.dev/parallelism": "tp=16"})
    world.state.put_node(node("m0-1", "mp0", "mp0r9"))
    world.recreate("g-1")
    world.settle()
    assert world.plan("g").nodes[0] == "m0-0"
    assert world.plan("g").nodes[1] in ("m0-2", "m0-3")


def test_the_plan_says_what_its_nodes_are_worth_now() -> None:
    """A gang of one DP group in one minipod runs; one of its nodes is in another one now, and then again in its own."""
    world = running(3, {})
    assert (world.plan("g").spread, world.plan("g").objective) == ((1, 1), 1.0)
    moved(world, "m0-1", "mp1")
    # alpha is 0.3: 0.3 x 2 + 0.7; m0-3 is free, so that it could have 1
    assert (world.plan("g").spread, world.plan("g").objective) == ((2, 1), pytest.approx(1.3))
    assert world.plan("g").gap == pytest.approx(0.3 / 1.3)
    assert world.decide().actions == []
    moved(world, "m0-1", "mp0")
    assert (world.plan("g").spread, world.plan("g").gap) == ((1, 1), 0.0)
    assert world.plan("g").nodes == ("m0-0", "m0-1", "m0-2")


@pytest.mark.parametrize(("pods", "gpus"), [(2, 8), (4, 8), (3, 0)])
def test_a_plan_of_another_size_than_its_job_keeps_no_gang_waiting(pods: int, gpus: int) -> None:
    """Somebody has edited it: what its nodes are worth is left as it is, and another gang is planned."""
    world = running(3, {})
    plan = world.plan("g")
    job = plan.spec.job("g")
    assert job is not None
    other = job.replace(parallelism=replace(job.parallelism, dp=pods))
    spec = PlanSpec.of(other, dialect=plan.spec.dialect, priority=plan.spec.priority)
    world.write(plan.replace(spec=msgspec.structs.replace(spec, gpus_per_pod=gpus)))
    world.gang("later", 1)
    world.settle()
    assert world.plan("g").nodes == plan.nodes
    assert len(world.plan("later").nodes) == 1


@pytest.mark.parametrize("bad", [{"alpha": 2.0}, {"spread_cost": -1.0}, {"microbatches": 0}])
def test_a_plan_whose_job_cannot_be_keeps_no_gang_waiting(bad: dict[str, float]) -> None:
    """Somebody has edited it past what a job may be, as a server without our schema lets him: nobody else waits."""
    world = running(3, {})
    plan = world.plan("g")
    world.write(plan.replace(spec=msgspec.structs.replace(plan.spec, **bad)))
    world.gang("later", 1)
    world.settle()
    assert world.plan("g").nodes == plan.nodes
    assert len(world.plan("later").nodes) == 1
