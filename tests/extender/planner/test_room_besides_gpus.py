"""Nodes that have the GPUs and cannot hold the pods: gangs are not planned there, and are told."""

from __future__ import annotations

import pytest

from extender.plans.gang_plan import PlanPhase
from tests.extender.controller.world import World
from tests.extender.things import Json, gang_pods, minipods, node, plan_all, pod, state_of
from tests.facts import says

CPU = {"asks": {"cpu": "100"}}


def test_a_gang_goes_where_its_cpu_is() -> None:
    """On four of eight nodes others hold 100 of 192 CPU: a gang of four pods of 100 gets the other four."""
    tenants = [pod(f"web-{i}", gpus=0, node=f"m0-{i}", asks={"cpu": "100"}) for i in range(4)]
    state = state_of(minipods(4, 4), [*gang_pods("g", 4, **CPU), *tenants])
    plan = plan_all(state)["g"].plan
    assert set(plan.nodes) == {f"m1-{i}" for i in range(4)}


def test_a_gang_that_waits_for_cpu_is_told() -> None:
    """Two nodes have GPUs in use, four have too little CPU free: two are left for three pods."""
    tenants = [pod(f"web-{i}", gpus=0, node=f"m0-{i}", asks={"cpu": "100"}) for i in range(4)]
    busy = [pod(f"busy-{i}", node=f"m1-{i}", asks={"cpu": "150"}) for i in range(2)]
    state = state_of(minipods(4, 4), [*gang_pods("g", 3, **CPU), *tenants, *busy])
    answer = plan_all(state)["g"]
    assert (answer.plan.phase, answer.plan.reason, answer.plan.would_fit_if_empty) == (PlanPhase.QUEUED, "NoRoom", True)
    assert says(answer.plan.message, "4 with less than 100 CPU free")
    assert "2 in use" in answer.plan.message
    # once they are gone it could have them: others behind it do not take them
    assert answer.usable is not None
    assert answer.usable.mask.all()


@pytest.mark.parametrize(
    ("asks", "why"),
    [
        ({"cpu": "500"}, "8 with less than 500 CPU"),
        ({"memory": "2Ti"}, "8 with less than 2Ti memory"),
        ({"ephemeral-storage": "1Gi"}, "8 with less than 1Gi ephemeral-storage"),
        ({"rdma/hca": "4"}, "8 with less than 4 rdma/hca"),
    ],
)
def test_what_no_node_has_is_said(asks: dict[str, str], why: str) -> None:
    """Nodes that lack it even when empty are no nodes for this gang, which keeps none from others."""
    answer = plan_all(state_of(minipods(4, 4), gang_pods("g", 2, asks=asks)))["g"]
    assert answer.plan.phase is PlanPhase.QUEUED
    assert says(answer.plan.message, "no node with GPUs", why)
    assert answer.usable is None


def test_extended_resources_choose_the_nodes() -> None:
    """Two nodes have network adapters; a gang of two that asks for them is there."""
    nodes = [*minipods(4), *(node(f"x{i}", "mp0", offers={"rdma/hca": "8"}) for i in range(2))]
    plan = plan_all(state_of(nodes, gang_pods("g", 2, asks={"rdma/hca": "8"})))["g"].plan
    assert set(plan.nodes) == {"x0", "x1"}


def test_gpus_are_those_that_the_pods_name() -> None:
    """Four nodes of AMD and four of NVIDIA: a gang of either is where its GPUs are, and one of five has no room."""
    nodes = [*minipods(4), *(node(f"x{i}", "mp1", gpus=0, offers={"amd.com/gpu": "8"}) for i in range(4))]
    of_amd = gang_pods("a", 4, gpus=0, asks={"amd.com/gpu": "8"})
    plans = plan_all(state_of(nodes, [*of_amd, *gang_pods("g", 4), *gang_pods("h", 5)]))
    assert set(plans["a"].plan.nodes) == {f"x{i}" for i in range(4)}
    assert set(plans["g"].plan.nodes) == {f"m0-{i}" for i in range(4)}
    assert says(plans["h"].plan.message, "4 with GPUs that are no nvidia.com/gpu")


def test_host_ports_choose_the_nodes() -> None:
    """A host port that another pod has on the first node leaves the second."""
    box: Json = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}, "ports": [{"hostPort": 8080}]}
    other = pod("web", gpus=0, node="m0-0", containers=[{"name": "c", "ports": [{"hostPort": 8080}]}])
    plan = plan_all(state_of(minipods(2), [*gang_pods("g", 1, containers=[box]), other]))["g"].plan
    assert plan.nodes == ("m0-1",)


def test_pods_that_share_a_node_share_its_cpu() -> None:
    """Two pods of 4 GPUs and 100 CPU do not fit a node of 192; one such pod alone does."""
    two = plan_all(state_of(minipods(4), gang_pods("g", 2, gpus=4, **CPU)))["g"].plan
    assert (two.phase, "4 with less than 2 x 100 CPU" in two.message) == (PlanPhase.QUEUED, True)
    one = plan_all(state_of(minipods(4), gang_pods("g", 1, gpus=4, **CPU)))["g"].plan
    assert one.phase is PlanPhase.PLANNED


def test_a_full_node_is_not_offered() -> None:
    """A node that may hold 2 pods has 2."""
    crowd = [pod(f"p{i}", gpus=0, node="full") for i in range(2)]
    nodes = [node("full", offers={"pods": "2"}), node("free", offers={"pods": "2"})]
    assert plan_all(state_of(nodes, [*gang_pods("g", 1), *crowd]))["g"].plan.nodes == ("free",)


def test_cpu_that_others_take_after_the_plan_moves_the_rank() -> None:
    """Before its pod is bound a planned node loses its CPU to others: that rank moves, and its pod with it."""
    world = World()
    world.gang("g", 4, asks={"cpu": "100"}, owner=("Job", "g"))
    world.settle()
    lost, *others = world.plan("g").nodes
    world.state.put_pod(pod("web", gpus=0, node=lost, asks={"cpu": "150"}))
    world.settle()
    moved, *stayed = world.plan("g").nodes
    assert (moved != lost, stayed) == (True, others)
    assert world.node_of("g-0") == moved


def test_the_gangs_own_pods_take_nothing_from_it() -> None:
    """Pods that are bound hold what was planned for them, and their plan goes on."""
    world = World()
    pods = world.gang("g", 4, asks={"cpu": "192"})
    world.settle()
    before = world.plan("g").nodes
    world.bind(*pods[:2])
    world.settle()
    assert (world.plan("g").nodes, world.plan("g").bound_pods) == (before, 2)
