"""The demo's cluster as Slurm and Kubernetes list it: the same nodes in the same states."""

from __future__ import annotations

import json
from typing import Any

from topology.cluster import Cluster
from topology.flags import FAULTY, HEALTHY
from topology.node_names import fold_hostlist
from topology.writers import TOPOLOGY_WRITERS

TIERS = ("fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0")  # labels of Topograph, broad to close
CORE = "core"  # the switch above all minipods: without it Slurm would run no job across them


def cluster_listings(cluster: Cluster) -> dict[str, str]:
    """Return files by name: ``topology.conf``, the table of ``sinfo`` beside it, and the list of ``kubectl``."""
    broadest = [name for name in cluster.levels[0].domains if name]
    core = f"SwitchName={CORE} Switches={fold_hostlist(broadest)}\n"
    return {
        "topology.conf": TOPOLOGY_WRITERS.load("slurm-conf").write(cluster).text + core,
        "nodes.txt": "".join(f"{name} {state} gpu:{gpus}\n" for name, state, gpus in _slurm_states(cluster)),
        "nodes.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": _objects(cluster)}) + "\n",
    }


def _slurm_states(cluster: Cluster) -> list[tuple[str, str, int]]:
    """Return name, state and GPUs of each node, as ``sinfo -N -h -o "%N %t %G"`` prints them but for GPUs alone."""
    states = ["drain" if slow == FAULTY else "idle" for slow in cluster.slowdown]
    states = [state if idle else "alloc" for state, idle in zip(states, cluster.free_gpus > 0, strict=True)]
    return list(zip(cluster.names, states, cluster.gpus.tolist(), strict=True))


def _objects(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the nodes, then a pod on each that is in use, with what Arnold reads of them."""
    nodes, pods = [], []
    for row, name in enumerate(cluster.names):
        places = [level.domains[level.domain_of[row]] for level in cluster.levels]
        slow, total = float(cluster.slowdown[row]), {"nvidia.com/gpu": str(cluster.gpus[row])}
        metadata: dict[str, Any] = {"name": name, "labels": dict(zip(TIERS, places, strict=True))}
        if slow != HEALTHY:
            metadata["annotations"] = {"arnold.dev/slowdown": "faulty" if slow == FAULTY else f"{slow:g}"}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"capacity": total, "allocatable": total, "conditions": ready}
        nodes.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
        if used := int(cluster.gpus[row] - cluster.free_gpus[row]):
            asks = {"limits": {"nvidia.com/gpu": str(used)}, "requests": {"nvidia.com/gpu": str(used)}}
            pods.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": f"busy-{name}", "namespace": "default"},
                    "spec": {"nodeName": name, "containers": [{"name": "train", "resources": asks}]},
                    "status": {"phase": "Running"},
                }
            )
    return nodes + pods
