"""Gangs that are resized while they run, and ranks that end: nodes promised are nodes needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.e2e.harness.arnold import running
from tests.e2e.harness.client import Client, Object
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import GATE, bound, container
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
