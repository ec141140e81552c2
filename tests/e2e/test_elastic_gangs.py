"""Gangs that are resized while they run, and ranks that end: nodes promised are nodes needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.e2e.harness import peers
from tests.e2e.harness.arnold import running
from tests.e2e.harness.client import Client, Object
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane, stand_in
from tests.e2e.harness.plans import all_plans, plan_in
from tests.e2e.harness.pods import GATE, bound, container, pod
from tests.e2e.harness.waiting import wait_until
from topology.generate import generate

SETTLES = 10.0  # Seconds in which a gang that is resized is whole again, as the issue wants it


def _stateful_set(namespace: str, size: int) -> Object:
    spec = {"replicas": size, "serviceName": "t", "podManagementPolicy": "Parallel"}
    template = _template({"metadata": {"labels": {"app": "t"}}})
    spec |= {"selector": {"matchLabels": {"app": "t"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": _about(namespace), "spec": spec}


def _job(namespace: str, size: int, **more: object) -> Object:
    spec = {"completionMode": "Indexed", "completions": size, "parallelism": size, "template": _template({}), **more}
    spec["template"]["spec"]["restartPolicy"] = "Never"  # type: ignore[index]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _about(namespace), "spec": spec}


def _about(namespace: str) -> Object:
    return {"name": "t", "namespace": namespace}


def _template(more: Object) -> Object:
    spec = {"schedulerName": "arnold", "schedulingGates": [{"name": GATE}], "terminationGracePeriodSeconds": 0}
    return {**more, "spec": {**spec, "containers": [container(8)]}}


@pytest.mark.parametrize("made", [_stateful_set, _job])
def test_four_pods_become_six_and_two_and_four(
    arnold_plane: ControlPlane, namespace: str, made: Callable[[str, int], Object]
) -> None:
    """By the controller's own number: new ranks get nodes beside the old, and those that go give theirs back."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        plane.admin.create(made(namespace, 4))
        first = wait_until(lambda: plan_in(plane.admin, "t", namespace, "Bound"), "four pods on their nodes")
        for size in (6, 2, 4):
            plane.admin.apply(made(namespace, size))
            whole = partial(_whole, plane.admin, namespace, size)
            wait_until(whole, f"{size} pods, and as many nodes", seconds=SETTLES)
            after = plan_in(plane.admin, "t", namespace, "Bound")
            assert after is not None
            assert after.nodes[:2] == first.nodes[:2]


def _whole(client: Client, namespace: str, size: int) -> bool:
    """Whether a gang has just so many pods, all on nodes, and its plan these nodes."""
    plan, there = plan_in(client, "t", namespace, "Bound"), bound(client, namespace)
    return plan is not None and len(there) == size and sorted(there.values()) == sorted(plan.nodes)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_rank_that_ends_gives_its_node_back(arnold_plane: ControlPlane, namespace: str, phase: str) -> None:
    """Of eight on eight nodes one succeeds, or fails for good: another gang starts there while the others run."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    alone = _job(namespace, 1)
    alone["metadata"]["name"] = "alone"
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        plane.admin.create(_job(namespace, 8, backoffLimitPerIndex=0, maxFailedIndexes=5))
        before = wait_until(lambda: plan_in(plane.admin, "t", namespace, "Bound"), "eight pods on their nodes")
        plane.admin.create(alone)
        wait_until(lambda: plan_in(plane.admin, "alone", namespace, "Queued"), "a gang of one to wait")
        pods = {
            pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]: pod
            for pod in plane.admin.all("pods", namespace, labelSelector="job-name=t")
        }
        status = {"status": {"phase": phase}}
        plane.admin.patch("pods", pods["3"]["metadata"]["name"], status, namespace=namespace, subresource="status")
        after = wait_until(lambda: plan_in(plane.admin, "alone", namespace, "Bound"), "it to start", seconds=SETTLES)
        assert after.nodes == (before.nodes[3],)


def _pod_group(namespace: str, size: int) -> tuple[Object, list[Object]]:
    """A PodGroup of sig-scheduling, and its pods."""
    about, spec = _about(namespace), {"minMember": size}
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": about, "spec": spec}
    labels = [{"scheduling.x-k8s.io/pod-group": "t", "arnold.dev/rank": str(rank)} for rank in range(size)]
    return group, [_gated(f"t-{rank}", namespace, own) for rank, own in enumerate(labels)]


def _ray_cluster(namespace: str, size: int, *, gone: int = 0) -> tuple[Object, list[Object]]:
    """Two groups of workers, as KubeRay 1.6 makes them.

    :param gone: replicas of each group that its autoscaler has taken, the first ones.
    """
    each = size // 2
    groups = [{"groupName": name, "replicas": each, "template": _template({})} for name in ("decode", "prefill")]
    spec = {"headGroupSpec": {"template": {"spec": {"containers": [container(0)]}}}, "workerGroupSpecs": groups}
    pods = []
    for name in ("decode", "prefill"):
        for replica in range(gone, gone + each):
            of_ray = {"cluster": "t", "node-type": "worker", "group": name, "replica-host-index": "0"}
            of_ray["worker-group-replica-index"] = str(replica)
            labels = {f"ray.io/{key}": text for key, text in of_ray.items()}
            pods.append(_gated(f"t-{name}-{replica}", namespace, labels))
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": _about(namespace), "spec": spec}, pods


def _gated(name: str, namespace: str, labels: Object) -> Object:
    return pod(name, namespace, scheduler="arnold", labels=labels, gates=(GATE,))


def test_a_pod_group_of_four_becomes_six_and_two_and_four(arnold_plane: ControlPlane, namespace: str) -> None:
    """Its size says how many, and whoever makes its pods makes so many."""
    arnold_plane.define([stand_in("scheduling.x-k8s.io", "v1alpha1", "PodGroup")])
    _resize(arnold_plane, namespace, [_pod_group(namespace, size) for size in (4, 6, 2, 4)])


def test_groups_of_ray_are_scaled_at_either_end(arnold_plane: ControlPlane, namespace: str) -> None:
    """Of both groups the first replicas go and later ones come: those that stay keep their nodes."""
    arnold_plane.define([stand_in("ray.io", "v1", "RayCluster")])
    steps = [(4, 0), (6, 0), (2, 2), (4, 2)]
    _resize(arnold_plane, namespace, [_ray_cluster(namespace, size, gone=gone) for size, gone in steps])


def _resize(plane: ControlPlane, namespace: str, steps: list[tuple[Object, list[Object]]]) -> None:
    """Change what says the size of a gang, and its pods, step by step: all is whole each time, and who stays stays."""
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        before: dict[str, str] = {}
        for number, (thing, pods) in enumerate(steps):
            maker = plane.admin.apply(thing)
            owner = {"controller": True, **{key: maker["metadata"][key] for key in ("name", "uid")}}
            owner |= {"apiVersion": thing["apiVersion"], "kind": thing["kind"]}
            names = {it["metadata"]["name"] for it in pods}
            for it in plane.admin.all("pods", namespace):
                if it["metadata"]["name"] not in names:
                    plane.admin.delete("pods", it["metadata"]["name"], namespace)
            there = {it["metadata"]["name"] for it in plane.admin.all("pods", namespace)}
            for it in pods:
                if it["metadata"]["name"] not in there:
                    it["metadata"]["ownerReferences"] = [owner]
                    plane.admin.create(it)
            whole = partial(_whole, plane.admin, namespace, len(pods))
            wait_until(whole, f"{len(pods)} pods, and as many nodes", seconds=SETTLES if number else 60.0)
            after = bound(plane.admin, namespace)
            assert {name: before.get(name, node) for name, node in after.items()} == after
            before = after


def test_groups_of_a_leader_worker_set_that_is_updated(
    arnold_plane: ControlPlane, namespace: str, say: Callable[[str], None]
) -> None:
    """With one group more than it keeps (maxSurge) while it rolls; each group is a gang, whole or not there."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=12)
    make_real(plane.admin, cluster)

    def serves(replicas: int, image: str) -> Object:
        template = _template({})
        template["spec"]["containers"][0]["image"] = image
        rolls = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxSurge": 1, "maxUnavailable": 1}}
        spec = {"replicas": replicas, "rolloutStrategy": rolls}
        spec["leaderWorkerTemplate"] = {"size": 2, "workerTemplate": template}
        version = "leaderworkerset.x-k8s.io/v1"
        return {"apiVersion": version, "kind": "LeaderWorkerSet", "metadata": _about(namespace), "spec": spec}

    def settled(replicas: int, image: str) -> bool:
        pods = plane.admin.all("pods", namespace)
        images = [it["spec"]["containers"][0]["image"] for it in pods]
        plans = all_plans(plane.admin, namespace)
        nodes = sorted(node for plan in plans for node in plan.promised)
        return (
            images == [image] * 2 * replicas
            and {plan.phase for plan in plans} == {"Bound"}
            and sorted(bound(plane.admin, namespace).values()) == nodes
        )

    with (
        peers.running(peers.LEADER_WORKER_SET, plane, say),
        running(plane, levels=level_labels(cluster)),
        guarded(plane),
    ):
        plane.admin.apply(serves(2, "one"))
        wait_until(lambda: settled(2, "one"), "two groups on their nodes")
        plane.admin.apply(serves(2, "two"))
        wait_until(lambda: settled(2, "two"), "both groups made anew")
        for replicas in (3, 1, 2):
            plane.admin.apply(serves(replicas, "two"))
            wait_until(partial(settled, replicas, "two"), f"{replicas} groups", seconds=SETTLES)


def test_a_jobset_that_starts_again(arnold_plane: ControlPlane, namespace: str, say: Callable[[str], None]) -> None:
    """A pod fails, and the JobSet makes all its jobs anew: the gang is whole again, on nodes of its own."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    job = {
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
        "backoffLimit": 0,
        "template": _template({}),
    }
    job["template"]["spec"]["restartPolicy"] = "Never"  # type: ignore[index]
    spec = {"failurePolicy": {"maxRestarts": 3}}
    spec["replicatedJobs"] = [{"name": "w", "replicas": 2, "template": {"spec": job}}]  # type: ignore[assignment]
    jobset = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": _about(namespace), "spec": spec}
    with peers.running(peers.JOBSET, plane, say), running(plane, levels=level_labels(cluster)), guarded(plane):
        plane.admin.create(jobset)
        wait_until(lambda: _whole(plane.admin, namespace, 4), "four pods on their nodes")
        before = {it["metadata"]["uid"] for it in plane.admin.all("pods", namespace)}
        (failed, *_) = plane.admin.all("pods", namespace)
        status = {"status": {"phase": "Failed"}}
        plane.admin.patch("pods", failed["metadata"]["name"], status, namespace=namespace, subresource="status")

        def anew() -> bool:
            now = {it["metadata"]["uid"] for it in plane.admin.all("pods", namespace)}
            return now.isdisjoint(before) and _whole(plane.admin, namespace, 4)

        wait_until(anew, "all four made anew and on their nodes", seconds=2 * SETTLES)
