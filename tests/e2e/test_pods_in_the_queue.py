"""Pods that take a whole node stand in the queue, where the component for them is applied, on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.e2e.harness.arnold import running
from tests.e2e.harness.client import Client, path
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import GATE, bound, gang, pod
from tests.e2e.harness.waiting import wait_until
from tests.manifests.rendering import read
from topology.generate import generate


@pytest.fixture
def queued_pods(arnold_plane: ControlPlane, namespace: str) -> Iterator[ControlPlane]:
    """The control plane with the component, which is heeded."""
    admin, trial = arnold_plane.admin, pod("trial", namespace)
    for thing in read("components/whole-node-pods/admission.yaml"):
        admin.apply(thing)

    def heeded() -> bool:
        spec = admin.request("POST", f"{path('pods', namespace)}?dryRun=All", trial)["spec"]
        return {"name": GATE} in spec.get("schedulingGates", [])

    wait_until(heeded, "the component's policy to be heeded")
    yield arnold_plane
    for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
        admin.request("DELETE", f"apis/admissionregistration.k8s.io/v1/{kind}/arnold-whole-node-pods")
    wait_until(lambda: not heeded(), "the component's policy to be gone")


def test_pods_of_whole_nodes_pass_no_gang(queued_pods: ControlPlane, namespace: str) -> None:
    """Two of four nodes are free, and a gang of three waits.  Two pods of a node each wait behind it; when the others
    have gone it has its nodes, and the first of the two the last.
    """
    admin = queued_pods.admin
    cluster = make_real(admin, generate("minipods", minipods=2, nodes=4))
    with running(queued_pods, levels=level_labels(cluster)), guarded(queued_pods):
        admin.create_all(gang("first", namespace, size=2))
        wait_until(lambda: plan_in(admin, "first", namespace, "Bound"), "the first gang to be bound")
        admin.create_all(gang("large", namespace, size=3))
        wait_until(lambda: plan_in(admin, "large", namespace, "Queued"), "the large gang to wait")
        for name in ("single-0", "single-1"):
            admin.create_all([pod(name, namespace)])
            wait_until(partial(_waits_for, admin, name, namespace), "the pod to wait for the large gang")
        assert bound(admin, namespace).keys() == {"first-0", "first-1"}
        for rank in range(2):
            admin.delete("pods", f"first-{rank}", namespace)
        wait_until(lambda: plan_in(admin, "large", namespace, "Bound"), "the large gang to be bound")
        wait_until(lambda: plan_in(admin, "single-0", namespace, "Bound"), "the first pod to be bound")
        assert bound(admin, namespace).keys() == {"large-0", "large-1", "large-2", "single-0"}


def _waits_for(admin: Client, name: str, namespace: str) -> bool:
    """Return whether a gang has been told that it waits for the large one."""
    plan = plan_in(admin, name, namespace, "Queued")
    return plan is not None and f"gang {namespace}/large" in plan.message and "before it" in plan.message
