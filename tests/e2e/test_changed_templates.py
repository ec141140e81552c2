"""Gangs that run while their templates change, and pods too many: they go on as they were planned."""

from __future__ import annotations

from tests.e2e.harness.arnold import running
from tests.e2e.harness.client import Object
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in, plan_of
from tests.e2e.harness.pods import GATE, bound, container, gang
from tests.e2e.harness.waiting import wait_until
from topology.generate import generate


def _stateful_set(namespace: str, image: str, **words: str) -> Object:
    """A StatefulSet of 32 whole-node pods, all made at once."""
    notes = {"arnold.dev/parallelism": "tp=8,pp=4,dp=8", **{f"arnold.dev/{key}": text for key, text in words.items()}}
    gated = {"schedulerName": "arnold", "schedulingGates": [{"name": GATE}], "terminationGracePeriodSeconds": 0}
    template = {
        "metadata": {"labels": {"app": "t"}, "annotations": notes},
        "spec": {**gated, "containers": [{**container(8), "image": image}]},
    }
    spec = {
        "replicas": 32,
        "serviceName": "t",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "t"}},
        "template": template,
    }
    about = {"name": "t", "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": about, "spec": spec}


def test_a_rolling_update_that_changes_annotations_and_image(arnold_plane: ControlPlane, namespace: str) -> None:
    """Pod by pod comes anew with other words and another image, each on its rank's node; the plan stays in force."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=4, nodes=36)
    make_real(plane.admin, cluster)
    other = {"alpha": "0.7", "expected-duration": "36h", "microbatches": "32"}

    def images() -> set[str]:
        pods = plane.admin.all("pods", namespace)
        return {it["spec"]["containers"][0]["image"] for it in pods if it["spec"].get("nodeName")}

    with running(plane, levels=level_labels(cluster)), guarded(plane):
        plane.admin.create(_stateful_set(namespace, "train:1", alpha="0.3", microbatches="16"))
        before = wait_until(lambda: plan_in(plane.admin, "t", namespace, "Bound"), "32 pods on their nodes")
        plane.admin.apply(_stateful_set(namespace, "train:2", **other))
        wait_until(
            lambda: images() == {"train:2"} and len(bound(plane.admin, namespace)) == 32,
            "32 pods of the new template on nodes",
            seconds=300.0,
        )
        after = wait_until(lambda: plan_in(plane.admin, "t", namespace, "Bound"), "the plan to say so")
        assert after.nodes == before.nodes
        # rank 31 came first with the new words, rank 0 last: then all say the same, and not what was planned
        condition = after.condition("Healthy")
        assert (condition["status"], condition["reason"]) == ("False", "NotAsPlanned")


def test_a_pod_too_many_stops_no_repair(arnold_plane: ControlPlane, namespace: str) -> None:
    """A fifth pod beside four that run waits, and is named; rank 2 comes anew and is on its node again."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    pods = gang("t", namespace, size=4, parallelism="tp=8,pp=2,dp=2")
    (extra,) = gang("t", namespace, size=5)[4:]
    extra["metadata"]["annotations"] = pods[0]["metadata"]["annotations"]
    with running(plane, levels=level_labels(cluster)):
        plane.admin.create_all(pods)
        before = wait_until(lambda: plan_in(plane.admin, "t", namespace, "Bound"), "four pods on their nodes")
        plane.admin.create(extra)

        def named() -> bool:
            plan = plan_of(plane.admin, "t", namespace)
            conditions = [] if plan is None else plan.status["conditions"]
            return any(it["type"] == "Healthy" and extra["metadata"]["name"] in it["message"] for it in conditions)

        wait_until(named, "the pod too many to be named")
        plane.admin.delete("pods", "t-2", namespace)
        plane.admin.create(pods[2])
        there = wait_until(lambda: len(nodes := bound(plane.admin, namespace)) == 4 and nodes, "rank 2 on its node")
        assert there == {f"t-{rank}": node for rank, node in enumerate(before.nodes)}
