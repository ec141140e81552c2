"""Nodes of a live cluster that offer GPUs in parts: no gang is planned on them, and a pod alone may have its part."""

from __future__ import annotations

import json

from extender.fleet.fleet import Fleet
from extender.verbs import decode_filter, encode, filter_nodes
from scheduler.queue.arnold import Arnold
from tests.extender.things import (
    GRID,
    MINIPOD,
    NOW,
    RACK,
    SPACE,
    gang_pods,
    minipods,
    node,
    plan_all,
    pod,
    pod_json,
    state_of,
)

SLICED = {
    MINIPOD: "mp0",
    RACK: "mp0r0",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
}


def test_a_node_has_the_gpus_that_are_there() -> None:
    """As in a file: eight that are shared, of which none is free for a gang; slices of MIG likewise."""
    cut = node("cut", gpus=0, offers={"nvidia.com/mig-1g.10gb": "56"})
    fleet = Fleet([MINIPOD])
    for one in (node("a", gpus=32, labels=SLICED), cut, node("whole")):
        fleet.put_node(one)
    view = fleet.view(frozenset(), NOW, counted=frozenset()).cluster
    assert view is not None
    found = [(row.name, row.gpus, row.sharing, row.free) for row in view]
    assert found == [
        ("a", 8, "time-slicing x4", False),
        ("cut", 8, "MIG 1g.10gb", False),
        ("whole", 8, "", True),
    ]
    assert fleet.occupancy.idle.tolist() == [False, False, True]


def test_a_gang_is_planned_on_whole_nodes_alone() -> None:
    """Eight nodes of 8 beside two time-sliced ones are enough; seven are not, and the reason names the shared ones."""
    shared = [node(f"s{i}", gpus=32, labels=SLICED) for i in range(2)]
    for whole, fits in ((8, True), (7, False)):
        state = state_of([*minipods(whole), *shared], gang_pods("llm", 8, GRID))
        plan = plan_all(state)["llm"].plan
        assert bool(plan.nodes) == fits
        assert not {*plan.node_names} & {"s0", "s1"}
    assert "2 with shared GPUs: time-slicing x4" in plan.message


def test_a_pod_alone_gets_a_part_where_no_whole_gpu_is_left() -> None:
    """The scheduler has counted the parts; while a whole GPU is free, that comes first."""
    nodes = [*minipods(1), node("s", gpus=32, labels=SLICED)]
    body = json.dumps({"Pod": pod_json("p", gpus=1), "Nodes": None, "NodeNames": ["m0-0", "s"]}).encode()
    for busy, wanted in (([], ["m0-0"]), ([pod("b", node="m0-0", phase="Running")], ["s"])):
        answer = filter_nodes(state_of(nodes, busy), decode_filter(body), NOW, Arnold()).answer
        assert json.loads(encode(answer))["NodeNames"] == wanted


def test_a_namespace_holds_gpus_not_shares() -> None:
    """Six shares of four a GPU are two GPUs of it, at most."""
    state = state_of([node("s", gpus=32, labels=SLICED)], [pod("p", gpus=6, node="s", phase="Running")])
    assert state.fleet.gpus_of(SPACE) == 2
