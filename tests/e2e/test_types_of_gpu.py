"""Types of GPU on a real cluster: a gang lies on one of those it admits, in the groups of its own order of ranks."""

from __future__ import annotations

import pytest

from tests.e2e.harness.arnold import running
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import bound, gang
from tests.e2e.harness.waiting import wait_until
from topology.generate import generate


def test_a_gang_lies_on_a_type_that_it_admits(arnold_plane: ControlPlane, namespace: str) -> None:
    """Three minipods of 8: half A100 and half H100 in the first two, all A100 in the third.

    8 nodes of A100 alone would lie in the third, at 1.0.  On H100 four of each of the first two are all there are:
    2 stages of 4 replicas, pipelines first: ranks 2 r and 2 r + 1 are the stages of replica r.  Pipelines in one
    minipod each and DP groups over both cost 0.3 x 2 + 0.7 = 1.3.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=3, nodes=24)
    minipod = {row.name: row.path[0] for row in cluster}
    last = cluster.node(len(cluster) - 1).path[0]
    kinds = {i: "H100" if i % 2 and row.path[0] != last else "A100" for i, row in enumerate(cluster)}
    cluster = cluster.with_gpu_types(kinds)
    kind = {row.name: row.gpu_type for row in cluster}
    make_real(plane.admin, cluster)
    levels = level_labels(cluster)
    asked = {"arnold.dev/gpu-types": "H100,H200", "arnold.dev/order": "tp-cp-ep-pp-dp", "arnold.dev/alpha": "0.3"}
    asked["arnold.dev/level"] = levels[0]
    with running(plane, levels=levels), guarded(plane):
        plane.admin.create_all(gang("typed", namespace, size=8, parallelism="tp=8,pp=2,dp=4", annotations=asked))
        wait_until(lambda: len(bound(plane.admin, namespace)) == 8, "8 pods on nodes")
        plan = wait_until(lambda: plan_in(plane.admin, "typed", namespace, "Bound"), "the plan to say that it is bound")
    where = bound(plane.admin, namespace)
    of_rank = [minipod[where[f"typed-{rank}"]] for rank in range(8)]
    assert {kind[node] for node in where.values()} == {"H100"}
    pp = max(len(set(of_rank[2 * replica : 2 * replica + 2])) for replica in range(4))
    dp = max(len(set(of_rank[stage::2])) for stage in range(2))
    assert plan.status["spread"] == {"dp": dp, "pp": pp} == {"dp": 2, "pp": 1}
    assert plan.status["objective"] == pytest.approx(1.3)
    assert plan.status["gap"] == 0.0
