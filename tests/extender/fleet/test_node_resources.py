"""What nodes have left besides GPUs: kept pod by pod, it is what a count from the beginning gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from extender.fleet.hosts import demands_of
from extender.fleet.resources import NodeResources, PodRequest, tenant_of
from tests.case_counts import examples
from tests.extender.things import NOW, node, pod, state_of
from topology.kubernetes.pods import Pod

OFFER = {"cpu": 8000, "pods": 4}
NAMES = ("a", "b")


def short(resources: NodeResources, request: PodRequest, pods: Sequence[int]) -> dict[str, list[bool]]:
    """What nodes lack, by node."""
    each = np.array(pods, dtype=np.int32)
    return {one.why: one.rows.tolist() for one in resources.shortages(request, each) if one.rows.any()}


def tenant(name: str, cpu: int, owner: str = "", port: int = 0) -> Pod:
    """A pod of no GPUs."""
    made = (owner, "maker") if owner else None
    box = {"name": "c", "resources": {"requests": {"cpu": str(cpu)}}, "ports": [{"hostPort": port}] if port else []}
    return pod(name, gpus=0, owner=made, containers=[box])


def filled(*pods: tuple[Pod, str]) -> NodeResources:
    """Two nodes with such pods."""
    found = NodeResources()
    found.place(NAMES, [OFFER, OFFER])
    for one, where in pods:
        found.put(one.uid, tenant_of(one, where))
    return found


def test_what_others_take_is_missing() -> None:
    """Of 8 CPU a pod of another holds 5 on the first node: 4 are not free, and will be when it goes."""
    resources = filled((tenant("x", 5), "a"))
    request = PodRequest((("cpu", 4000), ("pods", 1)))
    (shortage,) = [one for one in resources.shortages(request, np.ones(2, dtype=np.int32)) if one.rows.any()]
    assert (shortage.why, shortage.rows.tolist(), shortage.passing) == (
        "with less than 4 CPU free",
        [True, False],
        True,
    )


def test_what_daemons_take_never_comes_back() -> None:
    """Pods of a DaemonSet, and static ones, come back to their node: no wait frees what they have."""
    resources = filled((tenant("x", 5, owner="DaemonSet"), "a"), (tenant("y", 5, owner="Node"), "b"))
    assert short(resources, PodRequest((("cpu", 4000),)), [1, 1]) == {"with less than 4 CPU": [True, True]}


def test_pods_that_share_a_node_are_counted_together() -> None:
    """Two pods of 5 CPU do not fit into 8, one does; five pods find four places."""
    resources = filled()
    assert short(resources, PodRequest((("cpu", 5000),)), [1, 2]) == {"with less than 2 x 5 CPU": [False, True]}
    assert short(resources, PodRequest((("pods", 1),)), [4, 5]) == {"with less than 5 places for pods": [False, True]}


def test_host_ports_and_pods_that_are_alone() -> None:
    """A port of the node is for one pod, another address apart; two pods with one do not share a node."""
    resources = filled((tenant("x", 0, port=80), "a"))
    wants = PodRequest(ports=(("10.0.0.1", "TCP", 80),))
    assert short(resources, wants, [1, 1]) == {"whose host port 80 is taken": [True, False]}
    resources.drop(tenant("x", 0).uid)
    assert not short(resources, wants, [1, 1])
    shared = "that several of its pods would share, which may not be on one node"
    assert short(resources, wants, [1, 2]) == {shared: [False, True]}
    assert short(resources, PodRequest(alone=True), [1, 2]) == {shared: [False, True]}


def test_own_pods_are_no_others() -> None:
    """For a gang that is on a node already, its own pods leave what they hold; others do not."""
    resources = filled((tenant("own", 5), "a"), (tenant("other", 2), "a"))
    request = PodRequest((("cpu", 6000),))
    lacking = resources.lacking("a", OFFER, request, pods=1, own=[tenant("own", 0).uid])
    assert (lacking, resources.lacking("b", OFFER, request, pods=1, own=())) == ("", "")
    assert resources.lacking("a", OFFER, request, pods=1, own=()) == "others leave less than 6 CPU"


Step = tuple[int, int, int, bool]
STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 6), st.booleans()), max_size=20)


@given(STEPS, st.integers(0, 9), st.integers(1, 2))
@examples(200)
def test_step_by_step_is_as_from_the_beginning(steps: list[Step], cpu: int, pods: int) -> None:
    """However pods come, go, move and change, the columns are those of a count of all that are left."""
    request, each = PodRequest((("cpu", cpu * 1000), ("pods", 1))), [pods, pods]
    kept, there = filled(), dict[int, tuple[Pod, str]]()
    short(kept, request, each)  # makes the columns
    for number, where, held, daemon in steps:
        if where < len(NAMES):
            there[number] = tenant(f"p{number}", held, "DaemonSet" if daemon else ""), NAMES[where]
            kept.drop(there[number][0].uid)
            kept.put(there[number][0].uid, tenant_of(*there[number]))
        elif (old := there.pop(number, None)) is not None:
            kept.drop(old[0].uid)
        for row in range(len(NAMES)):
            kept.recount(row, OFFER)
    assert short(kept, request, each) == short(filled(*there.values()), request, each)


def test_pods_without_gpus_change_the_fleet_where_there_are_gpus() -> None:
    """A pod that holds CPU of a node with GPUs concerns plans, one elsewhere does not; what it frees is free again."""
    state = state_of([node("n"), node("plain", gpus=0)])
    greedy = demands_of([pod("g", asks={"cpu": "190"})])

    def free() -> list[int]:
        view = state.fleet.view(greedy, NOW, counted=frozenset())
        assert view.cluster is not None
        return list(view.cluster.free_gpus)

    before = state.fleet.version
    state.put_pod(pod("web", gpus=0, node="plain", asks={"cpu": "100"}))
    assert (state.fleet.version, free()) == (before, [8])
    web = pod("web2", gpus=0, node="n", asks={"cpu": "100"})
    state.put_pod(web)
    assert free() == [0]
    state.drop_pod(web.uid)
    assert free() == [8]
