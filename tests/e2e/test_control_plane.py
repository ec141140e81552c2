"""The control plane of the tests does what a cluster does, before anything of ours comes into it."""

from __future__ import annotations

import gc
import os
import signal
import socket
import struct
import warnings
from pathlib import Path
from select import select

import pytest

from tests.e2e.harness.certificates import LOOPBACK, Certificates
from tests.e2e.harness.client import ApiError, Client, client_context
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.pods import bound, container, pod
from tests.e2e.harness.waiting import stays, wait_until
from topology.generate import flag_some, fragment, generate


def test_versions_and_access(plane: ControlPlane) -> None:
    """The API server is a Kubernetes that has mutating admission policies, and lets nobody in who may not."""
    version = plane.admin.request("GET", "version")
    assert (int(version["major"]), int(version["minor"].rstrip("+"))) >= (1, 36)
    with pytest.raises(ApiError, match="403"):
        plane.client("somebody").all("nodes")


def test_cluster_becomes_real(plane: ControlPlane) -> None:
    """Nodes carry the topology as labels and flags as annotations; what is not free is held by tenants."""
    cluster = flag_some(fragment(generate("minipods", minipods=5, nodes=100), 0.4, seed=1), 5, seed=1)
    make_real(plane.admin, cluster)
    nodes = {node["metadata"]["name"]: node["metadata"] for node in plane.admin.all("nodes")}
    assert set(nodes) == set(cluster.names)
    labels = level_labels(cluster)
    assert all(tuple(nodes[row.name]["labels"][label] for label in labels) == row.path for row in cluster)
    # flag_some flags five nodes.
    assert sum("arnold.dev/slowdown" in node.get("annotations", {}) for node in nodes.values()) == 5
    held = {
        tenant["spec"]["nodeName"]: int(tenant["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        for tenant in plane.admin.all("pods", "tenants")
    }
    assert held == {row.name: row.gpus - row.free_gpus for row in cluster if row.gpus > row.free_gpus}


def test_scheduler_fills_the_free_nodes(plane: ControlPlane, namespace: str) -> None:
    """Of 70 pods for whole nodes, exactly as many run as nodes are free; the others wait."""
    cluster = fragment(generate("minipods", minipods=5, nodes=100), 0.4, seed=1)
    make_real(plane.admin, cluster)
    plane.admin.create_all(pod(f"pod-{number}", namespace) for number in range(70))
    # 40 of the 100 nodes are busy, at least in part.
    free = {row.name for row in cluster if row.free}
    assert len(free) == 60
    wait_until(lambda: len(bound(plane.admin, namespace)) == 60, "60 pods on nodes")
    assert set(bound(plane.admin, namespace).values()) == free
    wait_until(lambda: _phases(plane, namespace) == {"Running": 60, "Pending": 10}, "KWOK to run the bound pods")


def test_indexed_job_runs_to_its_end(plane: ControlPlane, namespace: str) -> None:
    """The controllers make a pod for each index of a Job, and complete it when its pods have finished."""
    make_real(plane.admin, generate("minipods", minipods=2, nodes=8))
    template = {"spec": {"restartPolicy": "Never", "containers": [container(8)]}}
    spec = {"completions": 6, "parallelism": 6, "completionMode": "Indexed", "template": template}
    plane.admin.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job", "namespace": namespace}, "spec": spec}
    )
    wait_until(lambda: _phases(plane, namespace) == {"Running": 6}, "6 running pods")
    pods = plane.admin.all("pods", namespace)
    ranks = [int(thing["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]) for thing in pods]
    assert sorted(ranks) == [0, 1, 2, 3, 4, 5]
    for thing in pods:
        plane.admin.patch(
            "pods", thing["metadata"]["name"], {"metadata": {"annotations": {"tests/finish": ""}}}, namespace
        )
    wait_until(lambda: plane.admin.get("jobs", "job", namespace)["status"].get("succeeded") == 6, "the job to complete")


def test_a_pod_with_time_to_end_goes_at_once(plane: ControlPlane, namespace: str) -> None:
    """KWOK plays a kubelet whose containers need none of the ten minutes that they are given."""
    cluster = generate("minipods", minipods=1, nodes=1)
    make_real(plane.admin, cluster)
    plane.admin.create(pod("ends", namespace, node=cluster.names[0]))
    wait_until(lambda: _phases(plane, namespace) == {"Running": 1}, "KWOK to run the pod")
    plane.admin.delete("pods", "ends", namespace, grace=600)
    wait_until(lambda: _phases(plane, namespace) == {}, "the pod to go")


def test_a_pod_that_is_made_anew_stays(plane: ControlPlane, namespace: str) -> None:
    """KWOK, which deletes by name, comes late to a pod that is gone: the new pod of that name is left alone.

    On a busy machine it does come late, and a test would wait in vain for a pod that nobody makes again.
    """
    cluster = generate("minipods", minipods=1, nodes=1)
    make_real(plane.admin, cluster)
    (node,) = cluster.names
    plane.admin.create(pod("again", namespace, node=node))
    wait_until(lambda: _phases(plane, namespace) == {"Running": 1}, "KWOK to run the pod")
    os.kill(plane.kwok.pid, signal.SIGSTOP)
    plane.admin.delete("pods", "again", namespace)
    new = plane.admin.create(pod("again", namespace, node=node))["metadata"]["uid"]
    os.kill(plane.kwok.pid, signal.SIGCONT)
    wait_until(lambda: _phases(plane, namespace) == {"Running": 1}, "KWOK to run the new pod", seconds=20.0)
    stays(lambda: [it["metadata"]["uid"] for it in plane.admin.all("pods", namespace)] == [new], "the new pod is there")


def test_parts_come_back_as_they_were(plane: ControlPlane, namespace: str) -> None:
    """An API server and a scheduler that are killed come back, with all objects, and go on."""
    make_real(plane.admin, generate("minipods", minipods=2, nodes=8))
    plane.scheduler.kill()
    plane.admin.create(pod("waits", namespace))
    plane.api_server.kill()
    assert not plane.admin.ready()
    plane.api_server.start()
    assert len(plane.admin.all("nodes")) == 8
    assert bound(plane.admin, namespace) == {}
    plane.scheduler.start()
    wait_until(lambda: set(bound(plane.admin, namespace)) == {"waits"}, "the pod on a node")


def test_a_service_account_has_its_own_rights(plane: ControlPlane, namespace: str) -> None:
    """The token of a service account may do what its role says, and nothing else."""
    about = {"namespace": namespace, "name": "reader"}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    rbac = "rbac.authorization.k8s.io"
    plane.admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about})
    plane.admin.create({"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": about, "rules": [rule]})
    plane.admin.create(
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": about,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", **about}],
        }
    )
    reader = plane.service_account_client("reader", namespace)
    wait_until(lambda: _allowed(reader, "pods", namespace), "the role to be known")
    assert not _allowed(reader, "pods")
    assert not _allowed(reader, "nodes")


def test_a_connection_that_is_reset_before_the_handshake_is_closed(tmp_path: Path) -> None:
    """As those to an API server that is killed: the garbage collector finds nothing open."""
    context = client_context(Certificates(tmp_path / "certificates").authority)
    with socket.create_server((LOOPBACK, 0)) as server, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        plain = socket.create_connection(server.getsockname())
        address = plain.getsockname()
        accepted, _ = server.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close at once: by a reset
        accepted.close()
        select([plain], [], [])
        with pytest.raises(ConnectionResetError):
            context.wrap_socket(plain, server_hostname=LOOPBACK)
        gc.collect()
    assert not [one for one in told if str(address) in str(one.message)]


def _allowed(reader: Client, resource: str, namespace: str | None = None) -> bool:
    try:
        reader.all(resource, namespace)
    except ApiError as error:
        if error.status != 403:
            raise
        return False
    return True


def _phases(plane: ControlPlane, namespace: str) -> dict[str, int]:
    phases = [thing["status"]["phase"] for thing in plane.admin.all("pods", namespace)]
    return {phase: phases.count(phase) for phase in phases}
