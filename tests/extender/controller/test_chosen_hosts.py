"""Gangs whose pods select a host each, as Kueue's topology-aware scheduling writes it: they go where these say."""

from __future__ import annotations

from typing import Any

import pytest

from extender.plans.gang_plan import PlanPhase
from tests.extender.controller.world import World
from tests.extender.things import member_json, pod_json
from tests.facts import says
from topology.kubernetes.labels import HOSTNAME

HOSTS = ("m0-0", "m0-1", "m0-2", "m0-3")
KUEUE_GATE = {"name": "kueue.x-k8s.io/topology"}


def bound() -> World:
    """A gang of four runs where its pods say."""
    world = World()
    for rank, host in enumerate(HOSTS):
        world.add(member_json("g", rank, 4, nodeSelector={HOSTNAME: host}))
    world.settle()
    world.bind(*(f"g-{rank}" for rank in range(4)))
    world.settle()
    assert (world.phase("g"), world.plan("g").nodes) == (PlanPhase.BOUND, HOSTS)
    return world


def made_anew(world: World, rank: int, *, host: str | None) -> None:
    """A pod goes and comes again: behind Kueue's gate, too, until that has a host for it."""
    world.recreate(f"g-{rank}")
    gates = world.pods[f"g-{rank}"]["spec"]["schedulingGates"]
    spec: dict[str, Any] = {"nodeSelector": {HOSTNAME: host}} if host else {"schedulingGates": [KUEUE_GATE, *gates]}
    if host is None:
        spec["nodeSelector"] = {}
    world.change(f"g-{rank}", lambda pod: pod["spec"].update(spec))


def admitted(world: World, rank: int, host: str) -> None:
    """Kueue lifts its gate."""
    gates = [gate for gate in world.pods[f"g-{rank}"]["spec"]["schedulingGates"] if gate != KUEUE_GATE]
    world.change(f"g-{rank}", lambda pod: pod["spec"].update(schedulingGates=gates, nodeSelector={HOSTNAME: host}))


def healthy(world: World) -> str:
    """What the condition of the gang says of what is not well."""
    condition = world.plan("g").condition("Healthy")
    return "" if condition is None or condition.status == "True" else condition.message


def test_a_rank_follows_the_host_that_is_selected_in_place_of_a_lost_node() -> None:
    """While Kueue has none for its new pod, it waits by name; then it goes there, the others stay, and all is well."""
    world = bound()
    world.state.drop_node("m0-2")
    made_anew(world, 2, host=None)
    world.settle()
    assert world.gated("g-2")
    assert says(healthy(world), "rank 2", KUEUE_GATE["name"])
    admitted(world, 2, "m1-3")
    world.settle()
    plan = world.plan("g")
    assert plan.nodes == ("m0-0", "m0-1", "m1-3", "m0-3")
    assert plan.spread == (2, 1)
    assert (world.gated("g-2"), world.node_of("g-2")) == (False, "m1-3")
    world.bind("g-2")
    world.settle()
    assert (world.phase("g"), healthy(world)) == (PlanPhase.BOUND, "")


def test_hosts_that_change_places() -> None:
    """Both nodes are fine; two pods come again, and each selects the other's: on their own they could not start."""
    world = bound()
    for rank in 1, 2:
        made_anew(world, rank, host=None)
    for rank in 1, 2:
        admitted(world, rank, HOSTS[3 - rank])
    world.settle()
    assert world.plan("g").nodes == ("m0-0", "m0-2", "m0-1", "m0-3")
    assert (world.node_of("g-1"), world.node_of("g-2")) == ("m0-2", "m0-1")


def test_released_pods_that_never_started_follow_too() -> None:
    """A node is lost before the binding, and its pod made anew for another: no other rank moves."""
    world = World()
    for rank, host in enumerate(HOSTS):
        world.add(member_json("g", rank, 4, nodeSelector={HOSTNAME: host}))
    world.settle()
    world.bind("g-0", "g-1")
    world.state.drop_node("m0-3")
    made_anew(world, 3, host="m1-1")
    world.settle()
    assert world.plan("g").nodes == (*HOSTS[:3], "m1-1")
    assert (world.node_of("g-2"), world.node_of("g-3")) == ("m0-2", "m1-1")


@pytest.mark.parametrize(
    ("host", "why"), [("m1-0", "m1-0: 8 GPUs in use"), ("m0-2", "m0-2"), ("gone", "gone"), ("m0-1", "another rank")]
)
def test_a_host_that_cannot_be_had(host: str, why: str) -> None:
    """Others are on it, it is the lost node, there is none of that name, or it is another rank's: the gang keeps what
    it has, and says so; when another is selected, it goes on.
    """
    world = bound()
    world.add({**pod_json("other", node="m1-0"), "status": {"phase": "Running"}})
    world.state.drop_node("m0-2")
    made_anew(world, 2, host=host)
    world.settle()
    assert (world.plan("g").nodes, world.gated("g-2")) == (HOSTS, True)
    assert says(healthy(world), "rank 2", "its pod selects", why)
    world.change("g-2", lambda pod: pod["spec"].update(nodeSelector={HOSTNAME: "m1-1"}))
    world.settle()
    assert (world.node_of("g-2"), healthy(world)) == ("m1-1", "")
