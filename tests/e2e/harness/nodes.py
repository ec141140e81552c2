"""A cluster of ours made real: its nodes with topology labels and GPUs, and a tenant on each node that is not free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from tests.e2e.harness.client import Client, Object
from tests.e2e.harness.pods import pod
from topology.cluster import Cluster, Node
from topology.flags import FAULTY, HEALTHY

DOMAIN = "topology.example.com"
GPU = "nvidia.com/gpu"
TENANTS = "tenants"
"""Namespace of the pods that hold what is not free."""


def level_labels(cluster: Cluster) -> tuple[str, ...]:
    """The labels that say where a node is, from broad to close: what ``--levels`` takes."""
    return tuple(f"{DOMAIN}/{level.name}" for level in cluster.levels)


def make_real(client: Client, cluster: Cluster) -> Cluster:
    """Create the nodes of a cluster, and pods that hold the GPUs that are not free; return the cluster."""
    client.create_all(nodes_of(cluster))
    client.apply(namespace(TENANTS))
    client.create_all(tenants_of(cluster))
    return cluster


def nodes_of(cluster: Cluster) -> Iterator[Object]:
    """The nodes, Ready, with labels for all levels and the type of GPU, and flags as annotations."""
    labels = level_labels(cluster)
    for row in cluster:
        own = {"nvidia.com/gpu.product": row.gpu_type} if row.gpu_type else {}
        yield node(
            row.name, labels=own | dict(zip(labels, row.path, strict=True)), gpus=row.gpus, annotations=_flag(row)
        )


def tenants_of(cluster: Cluster) -> Iterator[Object]:
    """One bound pod on each node that is not free, holding what is not; it may not be stopped for any priority."""
    stays = {"arnold.dev/preemptible": "false"}
    for row in cluster:
        if held := row.gpus - row.free_gpus:
            yield pod(f"on-{row.name}", TENANTS, gpus=held, node=row.name, annotations=stays)


def node(
    name: str, *, labels: Mapping[str, str] | None = None, gpus: int = 8, annotations: Mapping[str, str] | None = None
) -> Object:
    """A node that is Ready."""
    resources = {GPU: str(gpus), "cpu": "128", "memory": "1Ti", "pods": "110"}
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**own, **(labels or {})}, "annotations": dict(annotations or {})},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [ready("True")]},
    }


def ready(status: str) -> Object:
    """The condition Ready of a node: True, False or Unknown."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    about = {"reason": "Test", "message": "as a test wants it", "lastTransitionTime": now}
    return {"type": "Ready", "status": status, **about}


def namespace(name: str) -> Object:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def lose(client: Client, name: str) -> None:
    """A node dies: what the node life-cycle controller writes when its heartbeats stay away."""
    client.patch("nodes", name, {"status": {"conditions": [ready("Unknown")]}}, subresource="status")
    unreachable = [
        {"key": "node.kubernetes.io/unreachable", "effect": effect} for effect in ("NoSchedule", "NoExecute")
    ]
    client.patch("nodes", name, {"spec": {"taints": unreachable}})


def _flag(row: Node) -> dict[str, str]:
    if row.slowdown == HEALTHY:
        return {}
    return {"arnold.dev/slowdown": "faulty" if row.slowdown == FAULTY else f"{row.slowdown:g}"}
