"""Gangs that cannot start, or not as they ask: what their GangPlan says, on a real control plane."""

from __future__ import annotations

from functools import partial

from tests.e2e.harness.arnold import running
from tests.e2e.harness.client import Object
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import DOMAIN, level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import GangPlan, plan_in, plan_of
from tests.e2e.harness.pods import GATE, bound, container, gang
from tests.e2e.harness.waiting import wait_until
from tests.facts import says
from topology.generate import generate


def _gated(**more: object) -> Object:
    spec = {"schedulerName": "arnold", "schedulingGates": [{"name": GATE}], "terminationGracePeriodSeconds": 0}
    return {"spec": {**spec, **more, "containers": [container(8)]}}


def _one_by_one(namespace: str) -> list[Object]:
    """A StatefulSet that waits for each pod to run, and a Job with fewer pods at a time than there are ranks."""
    about = {"namespace": namespace}
    spec = {"replicas": 3, "serviceName": "set", "selector": {"matchLabels": {"app": "set"}}}
    template = {"metadata": {"labels": {"app": "set"}}, **_gated()}
    ordered = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {**about, "name": "set"}}
    job = {"completionMode": "Indexed", "completions": 3, "parallelism": 2, "template": _gated(restartPolicy="Never")}
    indexed = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {**about, "name": "job"}, "spec": job}
    return [{**ordered, "spec": {**spec, "template": template}}, indexed]


def test_what_gangs_are_told(arnold_plane: ControlPlane, namespace: str) -> None:
    """Pods that are made one after the other: the field to set.  Slices within slices of Kueue 0.19: kept, of the other
    wish it is said that it is not.  Degrees edited after the release: they go on as planned, and it says so.  A rank
    whose node is cordoned, with no other to be had: by name; then another node comes, and all is well.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    path = {row.name: row.path for row in cluster}

    def told(name: str, *words: str) -> GangPlan | None:
        plan = plan_of(plane.admin, name, namespace)
        return plan if plan is not None and says(f"{plan.message} {plan.status.get('conditions')}", *words) else None

    def healthy(status: str) -> bool:
        plan = plan_of(plane.admin, "llm", namespace)
        conditions = [] if plan is None else plan.status["conditions"]
        return any((it["type"], it["status"]) == ("Healthy", status) for it in conditions)

    with running(plane, levels=level_labels(cluster)), guarded(plane):
        plane.admin.create_all(_one_by_one(namespace))
        wait_until(lambda: told("set", "podManagementPolicy: Parallel"), "the field of the StatefulSet")
        wait_until(lambda: told("job", "parallelism: 3"), "the field of the Job")
        for resource in "statefulsets", "jobs", "pods":
            plane.admin.delete_all(resource, namespace)

        slices = f'[{{"topology":"{DOMAIN}/minipod","size":4}},{{"topology":"{DOMAIN}/rack","size":2}}]'
        wishes = {"podset-slice-required-topology-constraints": slices, "podset-mirrored-topology": f"{DOMAIN}/rack"}
        notes = {f"kueue.x-k8s.io/{key}": text for key, text in wishes.items()}
        plane.admin.create_all(gang("llm", namespace, size=8, annotations=notes))
        plan = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "eight pods on their nodes")
        assert all(len({path[node][0] for node in plan.nodes[i : i + 4]}) == 1 for i in (0, 4))
        assert all(len({path[node][1] for node in plan.nodes[i : i + 2]}) == 1 for i in (0, 2, 4, 6))
        assert says(plan.condition("HintsRead")["message"], "podset-mirrored-topology")

        for degrees, status in ("tp=8,pp=8,dp=1", "False"), (None, "True"):
            edited = {"metadata": {"annotations": {"arnold.dev/parallelism": degrees}}}
            for rank in range(8):
                plane.admin.patch("pods", f"llm-{rank}", edited, namespace)
            wait_until(partial(healthy, status), f"Healthy to be {status}")
            assert len(bound(plane.admin, namespace)) == 8

        plane.admin.patch("nodes", plan.nodes[3], {"spec": {"unschedulable": True}})
        plane.admin.delete("pods", "llm-3", namespace)
        again = gang("llm", namespace, size=8, annotations=notes)[3]
        plane.admin.create(again)
        wait_until(lambda: told("llm", "NoSpare", f"node {plan.nodes[3]}: cordoned"), "the rank's node to be named")
        plane.admin.patch("nodes", plan.nodes[3], {"spec": {"unschedulable": None}})
        wait_until(lambda: "llm-3" in bound(plane.admin, namespace), "the rank on its node")
