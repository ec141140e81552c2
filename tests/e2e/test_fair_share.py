"""Namespaces that share a full cluster, on a real control plane."""

from __future__ import annotations

from tests.e2e.harness.arnold import running
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.nodes import namespace as namespace_object
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import bound, gang
from tests.e2e.harness.waiting import wait_until
from topology.generate import generate

WEIGHT = "arnold.dev/fair-share-weight"
NODES = 8


def test_a_gang_of_the_smaller_share_goes_before_a_flood(arnold_plane: ControlPlane, namespace: str) -> None:
    """Of 40 gangs of one pod in one namespace 8 run; a gang of 3 that comes last, of a namespace without any, gets the
    first three nodes that come free, one by one.  A weight that is none is told, and counts as 1; with the weight 100
    the flood has less again, and gets the next node before the other namespace's next gang.
    """
    plane, flood, other = arnold_plane, namespace, f"{namespace}-b"
    cluster = generate("minipods", minipods=2, nodes=NODES)
    make_real(plane.admin, cluster)
    plane.admin.create(namespace_object(other))
    plane.admin.patch("namespaces", flood, {"metadata": {"annotations": {WEIGHT: "9" * 5_000}}})
    with running(plane, levels=level_labels(cluster), options=["--policy=fair-share"]), guarded(plane):
        plane.admin.create_all(pod for i in range(40) for pod in gang(f"f{i}", flood, size=1))
        wait_until(lambda: len(bound(plane.admin, flood)) == NODES, "a full cluster")
        plane.admin.create_all(gang("late", other, size=3))
        wait_until(lambda: plan_in(plane.admin, "late", other, "Queued"), "it to stand in line")
        for name in sorted(bound(plane.admin, flood))[:3]:
            plane.admin.delete("pods", name, flood)
        wait_until(lambda: plan_in(plane.admin, "late", other, "Bound"), "the gang that came last")
        assert len(bound(plane.admin, flood)) == NODES - 3
        told = wait_until(
            lambda: [it for it in plane.admin.all("events") if it["reason"] == "BadWeight"], "the weight to be told"
        )
        assert {it["involvedObject"]["name"] for it in told} == {flood}
        assert "so it counts as 1" in told[0]["message"]
        assert len(told[0]["message"]) < 300

        plane.admin.patch("namespaces", flood, {"metadata": {"annotations": {WEIGHT: "100"}}})
        plane.admin.create_all(gang("next", other, size=1))
        # first it is said that its turn will come, with so many before it in the pass
        wait_until(
            lambda: (
                (plan := plan_in(plane.admin, "next", other, "Queued"))
                and ("before it" in plan.message or "free" in plan.message)
            ),
            "the next gang to be told what it waits for",
        )
        before = {*bound(plane.admin, flood)}
        plane.admin.delete("pods", min(before), flood)
        wait_until(lambda: {*bound(plane.admin, flood)} - before, "another gang of the flood")
        assert plan_in(plane.admin, "next", other, "Queued")
