"""Rounds of bandwidth tests as Jobs: ``arnold health pairs plan`` of a live cluster, its manifest applied as it is."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.e2e.harness.arnold import PROGRAM
from tests.e2e.harness.client import Object
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.waiting import wait_until
from tests.e2e.test_live_reading import answer
from topology.generate import generate


def test_pairs_are_tested_by_jobs_of_the_cluster(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """Twelve nodes, two of them in use: the other ten have a pod each, with all GPUs of its node, on its node, although
    one has a taint and one is cordoned, as suspects are; partners find each other by the Service, and the Jobs end.
    """
    cluster = make_real(plane.admin, generate("minipods", minipods=3, nodes=12).with_busy([0, 5]))
    tainted, cordoned = cluster.names[3], cluster.names[7]
    plane.admin.patch("nodes", tainted, {"spec": {"taints": [{"key": "tested", "effect": "NoSchedule"}]}})
    plane.admin.patch("nodes", cordoned, {"spec": {"unschedulable": True}})
    manifest = tmp_path / "pairs.yaml"
    command = (PROGRAM, "health", "pairs", "plan", "--cluster", "kube:", "--levels", ",".join(level_labels(cluster)))
    planned = answer(plane, *command, "--tolerate", "tested", "--output", manifest)
    nodes = {node for pairs in planned["rounds"] for pair in pairs for node in pair}
    assert nodes == {row.name for row in cluster if row.free}

    for thing in yaml.safe_load(manifest.read_text())["items"]:
        plane.admin.request("POST", _home(thing, namespace), thing)
    pods = wait_until(lambda: _running(plane, namespace, len(nodes)), "a pod on each node")
    assert {_node_of(pod): pod["spec"]["nodeName"] for pod in pods} == {node: node for node in nodes}
    for pod in pods:
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}
        # what its partners call it: HOSTNAME.SUBDOMAIN, where the subdomain is a Service without an address
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (_node_of(pod), "arnold-pairs")
    service = plane.admin.request("GET", f"api/v1/namespaces/{namespace}/services/arnold-pairs")
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)

    for pod in pods:
        done = {"metadata": {"annotations": {"tests/finish": ""}}}
        plane.admin.patch("pods", pod["metadata"]["name"], done, namespace)
    wait_until(lambda: _completed(plane, namespace) == len(nodes), "all Jobs to be complete")


def _home(thing: Object, namespace: str) -> str:
    """Where an object of the manifest is created."""
    group = "api/v1" if thing["apiVersion"] == "v1" else f"apis/{thing['apiVersion']}"
    return f"{group}/namespaces/{namespace}/{thing['kind'].lower()}s"


def _running(plane: ControlPlane, namespace: str, count: int) -> list[Object]:
    """The pods of the Jobs, once all run; none before."""
    pods = plane.admin.all("pods", namespace, labelSelector="app=arnold-pairs")
    return pods if len(pods) == count and all(pod["status"].get("phase") == "Running" for pod in pods) else []


def _completed(plane: ControlPlane, namespace: str) -> int:
    """How many Jobs are complete."""
    jobs = plane.admin.all("jobs", namespace)
    done = ({it["type"] for it in job["status"].get("conditions", []) if it["status"] == "True"} for job in jobs)
    return sum("Complete" in conditions for conditions in done)


def _node_of(pod: Object) -> str:
    """The node whose GPUs a pod is to test."""
    (node,) = (it["value"] for it in pod["spec"]["containers"][0]["env"] if it["name"] == "NODE")
    return str(node)
