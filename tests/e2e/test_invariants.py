"""The checks after every test see what they are there to see."""

from __future__ import annotations

import base64
import uuid
import zlib

from tests.e2e.harness.arnold import SYSTEM
from tests.e2e.harness.client import Object, path
from tests.e2e.harness.invariants import half_placed, off_plan, promised_twice, used_twice
from tests.e2e.harness.nodes import node
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import all_plans
from tests.e2e.harness.pods import gang, pod


def test_a_node_that_is_used_twice(plane: ControlPlane, namespace: str) -> None:
    """Two pods of eight GPUs that bypass the scheduler onto a node of eight are seen."""
    plane.admin.create(node("n1"))
    plane.admin.create(pod("one", namespace, node="n1"))
    assert used_twice(plane.admin) == []
    plane.admin.create(pod("two", namespace, node="n1"))
    assert used_twice(plane.admin) == ["n1: 16 GPUs in use, 8 there"]


def test_a_gang_that_is_half_placed(plane: ControlPlane, namespace: str) -> None:
    """A gang of two is seen while one of its pods has a node and the other has not."""
    plane.admin.create(node("n1"))
    first, second = gang("llm", namespace, size=2, gated=False)
    first["spec"]["nodeName"] = "n1"
    plane.admin.create_all([first, second])
    assert half_placed(plane.admin) == [f"{namespace}/llm: 1 of 2"]


def test_promises(arnold_plane: ControlPlane, namespace: str) -> None:
    """A node that two plans promise is seen, and a pod that is elsewhere; an expired plan promises nothing."""
    admin = arnold_plane.admin
    admin.create_all(node(name) for name in ("n1", "n2"))
    astray = admin.create(pod("astray", namespace, node="n2"))
    _write_plan(arnold_plane, namespace, "first", "Bound", {"n1": astray["metadata"]["uid"]})
    _write_plan(arnold_plane, namespace, "second", "Expired", {"n1": str(uuid.uuid4())})
    assert promised_twice(all_plans(admin)) == []
    assert off_plan(admin) == ["astray is on n2; its plan says n1"]
    _write_plan(arnold_plane, namespace, "third", "Planned", {"n1": str(uuid.uuid4())})
    assert promised_twice(all_plans(admin)) == [f"n1: promised to {namespace}/first[0], {namespace}/third[0]"]
    admin.delete_all("gangplans")


def _write_plan(plane: ControlPlane, namespace: str, name: str, phase: str, pod_of: dict[str, str]) -> None:
    """A plan that gives each of some nodes to a pod."""
    nodes = base64.b64encode(zlib.compress("\n".join(pod_of).encode())).decode()
    pods = base64.b64encode(b"".join(uuid.UUID(uid).bytes for uid in pod_of.values())).decode()
    about = {
        "apiVersion": "arnold.dev/v1alpha1",
        "kind": "GangPlan",
        "metadata": {"name": name, "namespace": namespace},
    }
    extender = plane.service_account_client("arnold-extender", SYSTEM)
    made = extender.create({**about, "spec": {"gang": name}})
    status: Object = {"phase": phase, "boundPods": 0, "conditions": [], "assignment": {"nodes": nodes, "pods": pods}}
    extender.request("PUT", f"{path('gangplans', namespace)}/{name}/status", {**made, "status": status})
