"""Small clusters whose free nodes are counted by hand."""

from __future__ import annotations

from topology.build import build_cluster
from topology.cluster import Cluster, Node


def with_free(*free: int, size: int = 8) -> Cluster:
    """Minipods of ``size`` nodes with so many of them free."""
    rows = [Node(f"n{pod}-{i}", (f"mp{pod}",), 8, 8 if i < n else 0) for pod, n in enumerate(free) for i in range(size)]
    return build_cluster(["minipod"], rows)
