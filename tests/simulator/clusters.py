"""Small clusters for tests of the simulator."""

from __future__ import annotations

from topology.build import build_cluster
from topology.cluster import Cluster, Node


def racks(nodes: int, *, per_rack: int = 4, racks_per_pod: int = 4, gpus: int = 8) -> Cluster:
    """Equal nodes in racks, racks in pods; the last of each may be smaller."""
    return build_cluster(
        ["pod", "rack"],
        [Node(f"n{i}", (f"p{i // (per_rack * racks_per_pod)}", f"r{i // per_rack}"), gpus, gpus) for i in range(nodes)],
    )
