"""The checks after every test see what they are there to see."""

from __future__ import annotations

import base64
import uuid
import zlib

from tests.e2e.harness.client import Object, path
from tests.e2e.harness.invariants import (
    half_placed,
    off_plan,
    promised_twice,
    released_in_vain,
    unneeded,
    unused,
    used_twice,
)
from tests.e2e.harness.nodes import node
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import GangPlan, all_plans
from tests.e2e.harness.pods import gang, pod
from tests.manifests.rendering import SYSTEM


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


def _released(gang_name: str, rank: int, node_name: str) -> Object:
    """A pod that was released to a node, and is not there yet."""
    made = gang(gang_name, "team", size=2, gated=False)[rank]
    made["metadata"]["labels"]["arnold.dev/released"] = "0" * 32
    made["metadata"]["uid"] = f"{gang_name}-{rank}"
    made["metadata"]["annotations"]["arnold.dev/node"] = node_name
    made["status"] = {}
    return made


def _plan(name: str, phase: str, *nodes: str, **conditions: str) -> GangPlan:
    """A plan with these nodes for the pods of its gang."""
    uids = tuple(f"{name}-{rank}" for rank in range(len(nodes)))
    status = {"conditions": [{"type": kind, "status": status} for kind, status in conditions.items()]}
    return GangPlan("team", name, phase, "", nodes, uids, status)


def test_a_released_pod_whose_node_others_have() -> None:
    """Seen while no plan, one without nodes, or one with another node says what became of it; not once it was told."""
    pods = [_released("a", 0, "n1")]
    theirs = _plan("b", "Released", "n1")
    for own in ([], [_plan("a", "Waiting")], [_plan("a", "Released", "n2")]):
        assert released_in_vain(pods, [theirs, *own]) == ["team/a: a-0 (a-0) was released to n1, which team/b has"]
    for plan in (_plan("a", "Waiting", Released="False"), _plan("a", "Expired", "n1")):
        assert released_in_vain(pods, [theirs, plan]) == []
    assert released_in_vain(pods, [_plan("a", "Released", "n1")]) == []
    assert released_in_vain(pods, [_plan("a", "Waiting")]) == []


def test_a_promised_node_that_nobody_uses() -> None:
    """By a plan whose pod is there and elsewhere, or by a released pod without a plan; not where the node is ailing."""
    nodes = [node("n1"), node("n2")]
    pods = [_released("a", 0, "n1")]
    lines = ["team/a: n1 is promised for a-0 (a-0), which is not on it"]
    assert unused(nodes, pods, [_plan("a", "Released", "n1")]) == lines
    assert unused(nodes, pods, [_plan("a", "Waiting")]) == lines
    assert unused(nodes, pods, [_plan("a", "Waiting", Released="False")]) == []
    assert unused(nodes[1:], pods, [_plan("a", "Released", "n1")]) == []
    pods[0]["spec"]["nodeName"] = "n1"
    assert unused(nodes, pods, [_plan("a", "Released", "n1", "n2")]) == []


def test_a_node_that_is_promised_for_a_rank_that_is_no_more() -> None:
    """Of a Job that has shrunk to one; not by a plan that gave its nodes back, nor of a gang without a Job."""
    job = {"metadata": {"namespace": "team", "name": "a"}, "spec": {"completions": 1}}
    lines = ["team/a: n2 is promised for rank 1 of 1"]
    assert unneeded([job], [_plan("a", "Bound", "n1", "n2"), _plan("b", "Bound", "n3", "n4")]) == lines
    assert unneeded([job], [_plan("a", "Expired", "n1", "n2")]) == unneeded([], [_plan("a", "Bound", "n1", "n2")]) == []


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
