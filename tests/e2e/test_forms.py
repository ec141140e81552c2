"""Gangs in the words of other projects, from their pods to their nodes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.harness import peers
from tests.e2e.harness.arnold import running
from tests.e2e.harness.client import Object
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import GATE, container, native_group, pod
from tests.e2e.harness.waiting import wait_until
from topology.generate import generate

SIZE = {"arnold.dev/gang-size": "4"}
KUBEFLOW = "training.kubeflow.org"
WORKER = "leaderworkerset.sigs.k8s.io/worker-index"


def _of_a_pytorchjob(namespace: str) -> list[Object]:
    """A master and three workers, as the training operator labels them."""
    roles = [("worker", 0), ("worker", 1), ("worker", 2), ("master", 0)]
    pods = [_gated(f"llm-{role}-{index}", namespace) for role, index in roles]
    for one, (role, index) in zip(pods, roles, strict=True):
        one["metadata"]["labels"] = {
            f"{KUBEFLOW}/job-name": "llm",
            f"{KUBEFLOW}/replica-type": role,
            f"{KUBEFLOW}/replica-index": str(index),
        }
    return pods


def _of_a_sig_group(namespace: str) -> list[Object]:
    """Pods of a PodGroup of sig-scheduling, numbered by our label."""
    pods = [_gated(f"llm-{rank}", namespace) for rank in range(4)]
    for rank, one in enumerate(pods):
        one["metadata"]["labels"] = {"arnold.dev/rank": str(rank), "scheduling.x-k8s.io/pod-group": "llm"}
    return pods


def _of_a_native_group(namespace: str) -> list[Object]:
    """Pods that name a PodGroup of Kubernetes itself, which says how many there are."""
    return native_group("llm", namespace, size=4)


def _stateful_set(namespace: str) -> list[Object]:
    """Its controller numbers the pods."""
    template = {
        "metadata": {"labels": {"app": "llm"}, "annotations": SIZE},
        "spec": {"schedulerName": "arnold", "schedulingGates": [{"name": GATE}], "containers": [container(8)]},
    }
    spec = {
        "replicas": 4,
        "serviceName": "llm",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "llm"}},
        "template": template,
    }
    about = {"name": "llm", "namespace": namespace}
    return [{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": about, "spec": spec}]


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (_of_a_pytorchjob, ["llm-master-0", "llm-worker-0", "llm-worker-1", "llm-worker-2"]),
        (_of_a_sig_group, ["llm-0", "llm-1", "llm-2", "llm-3"]),
        (_of_a_native_group, ["llm-0", "llm-1", "llm-2", "llm-3"]),
        (_stateful_set, ["llm-0", "llm-1", "llm-2", "llm-3"]),
    ],
    ids=["PyTorchJob", "PodGroup of sig-scheduling", "native PodGroup", "StatefulSet"],
)
def test_every_rank_is_bound_to_its_node(
    arnold_plane: ControlPlane, namespace: str, made: Callable[[str], list[Object]], names: list[str]
) -> None:
    """Four pods, in the order of ranks of their form; the plan's nodes are theirs."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        for thing in made(namespace):
            plane.admin.create(thing)
        plan = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "four pods on their nodes")
        on = {it["metadata"]["name"]: it["spec"]["nodeName"] for it in plane.admin.all("pods", namespace)}
        assert [on[name] for name in names] == list(plan.nodes)


@pytest.mark.parametrize("made", [_of_a_native_group, _stateful_set], ids=["native PodGroup", "StatefulSet"])
def test_what_was_there_before_the_extender(
    arnold_plane: ControlPlane, namespace: str, made: Callable[[str], list[Object]]
) -> None:
    """Lists of the API server's own kinds do not say the kind of each object: it is known all the same."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    for thing in made(namespace):
        plane.admin.create(thing)
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "four pods on their nodes")


def test_a_group_of_a_leader_worker_set(arnold_plane: ControlPlane, namespace: str, say: Callable[[str], None]) -> None:
    """Made by the real controller, leader first: the leader is rank 0, worker i rank i."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    template = {
        "metadata": {"annotations": SIZE},
        "spec": {"schedulerName": "arnold", "schedulingGates": [{"name": GATE}], "containers": [container(8)]},
    }
    workers = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "llm", "namespace": namespace},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 4, "workerTemplate": template}},
    }
    with (
        peers.running(peers.LEADER_WORKER_SET, plane, say),
        running(plane, levels=level_labels(cluster)),
        guarded(plane),
    ):
        plane.admin.create(workers)
        plan = wait_until(lambda: plan_in(plane.admin, "llm-0", namespace, "Bound"), "four pods on their nodes")
        pods = plane.admin.all("pods", namespace)
        on = {int(it["metadata"]["labels"][WORKER]): it["spec"]["nodeName"] for it in pods}
        assert on == dict(enumerate(plan.nodes))


def _gated(name: str, namespace: str) -> Object:
    return pod(name, namespace, scheduler="arnold", annotations=SIZE, gates=(GATE,))
