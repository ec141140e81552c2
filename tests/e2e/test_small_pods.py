"""Pods with fewer GPUs than the nodes, on a real cluster: several of consecutive ranks on each node."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.e2e.harness.arnold import running
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in, spread
from tests.e2e.harness.pods import bound, gang, pod
from tests.e2e.harness.waiting import wait_until
from topology.generate import generate


def by_node_rank(where: dict[str, str], name: str, pods: int) -> Sequence[str]:
    """The node of each two pods of 4 GPUs in turn, which both are on it."""
    nodes = [where[f"{name}-{rank}"] for rank in range(pods)]
    assert all(nodes[rank] == nodes[rank // 2 * 2] for rank in range(pods))
    return nodes[::2]


def test_two_pods_to_a_node(arnold_plane: ControlPlane, namespace: str) -> None:
    """Three minipods with three free nodes of 8 GPUs each, and two gangs of pods of 4 GPUs.

    *llm*: 8 pods are 2 stages of 2 replicas of 8 GPUs on 4 nodes, which no minipod has: pipelines in one minipod each
    and the data-parallel groups over two cost 0.3 x 2 + 0.7 = 1.3, the other way round 0.3 + 0.7 x 2.  *part*: 5 pods
    take 3 nodes, the last in part, and lie in the minipod that is left whole.  What they leave of the last node nobody
    gets.  A pod that is made anew while the extender is away comes back to its node, beside the other that runs there.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=3, nodes=12)
    minipod = {row.name: row.path[0] for row in cluster}
    first: dict[str, int] = {}
    for i, row in enumerate(cluster):
        first.setdefault(row.path[0], i)
    cluster = cluster.with_busy(first.values())
    make_real(plane.admin, cluster)
    levels = level_labels(cluster)
    asked = {"arnold.dev/alpha": "0.3", "arnold.dev/level": levels[0]}
    llm = gang("llm", namespace, size=8, gpus=4, parallelism="tp=8,pp=2,dp=2", annotations=asked)
    with running(plane, levels=levels), guarded(plane):
        plane.admin.create_all(llm)
        wait_until(lambda: len(bound(plane.admin, namespace)) == 8, "8 pods on nodes")
        plan = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "the plan to say that it is bound")
        plane.admin.create_all(gang("part", namespace, size=5, gpus=4, annotations={"arnold.dev/level": levels[0]}))
        part = wait_until(lambda: plan_in(plane.admin, "part", namespace, "Bound"), "the second gang to be bound")
        plane.admin.create_all([pod("single", namespace, gpus=4, scheduler="arnold")])
        wait_until(lambda: len(bound(plane.admin, namespace)) == 14, "a pod without a gang on a node")
    where = bound(plane.admin, namespace)
    of_llm, of_part = by_node_rank(where, "llm", 8), by_node_rank(where, "part", 5)
    assert (plan.nodes, plan.pods_per_node) == (tuple(where[f"llm-{rank}"] for rank in range(8)), 2)
    assert (part.nodes, part.pods_per_node) == (tuple(where[f"part-{rank}"] for rank in range(5)), 2)
    assert (len(set(of_llm)), len(set(of_part))) == (4, 3)
    assert not {*of_llm} & {*of_part}
    assert where["single"] not in {*of_llm, *of_part}, "there is room for it on the last node, which is the gang's"

    # ranks of nodes: stage n div 2, replica n mod 2
    dp, pp = spread([minipod[name] for name in of_llm], dp=2)
    assert plan.status["spread"] == {"dp": dp, "pp": pp} == {"dp": 2, "pp": 1}
    assert (plan.status["objective"], plan.status["gap"]) == (pytest.approx(1.3), 0.0)
    assert part.status["spread"] == {"dp": len({minipod[name] for name in of_part}), "pp": 1} == {"dp": 1, "pp": 1}

    plane.admin.delete("pods", "llm-3", namespace)
    plane.admin.create_all([llm[3]])
    with running(plane, levels=levels), guarded(plane):
        wait_until(lambda: bound(plane.admin, namespace) == where, "the pod on its rank's node again")
