"""Which nodes of a cluster have GPUs of the types that a job admits, worked out once for each set of types."""

from __future__ import annotations

import numpy as np

from scheduler.placement.admission import typed
from simulator.engine.pools import Disagreement
from topology.cluster import BoolArray, Cluster
from topology.errors import did_you_mean

Types = tuple[str, ...] | None  # Types of GPU that a job admits; None = any


class NodesByType:
    """Nodes of a cluster by their type of GPU."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes: dict[Types, BoolArray] = {None: np.ones(len(cluster), dtype=np.bool_)}
        self._usual: dict[Types, int] = {None: cluster.node_size}

    def check(self, types: Types) -> None:
        """Refuse types of GPU that the cluster does not have.

        :raises Disagreement: one of them is on no node.
        """
        known = [*self._cluster.nodes_of_type]
        if unknown := next((name for name in types or () if name not in known), None):
            fix = f"{did_you_mean(unknown, known)}types of this cluster: {', '.join(known) or 'none'}"
            raise Disagreement("types of GPU", f"the cluster has no GPUs of the type {unknown!r}", fix=fix)

    def of(self, types: Types) -> BoolArray:
        """Return which nodes have one of the types, shape [nodes]."""
        if types not in self._nodes:
            self._nodes[types] = typed(self._cluster, types or ())
        return self._nodes[types]

    def usual_gpus(self, types: Types) -> int:
        """Return the GPUs of the usual node among those of some types."""
        if types not in self._usual:
            self._usual[types] = self._cluster.subset(np.flatnonzero(self.of(types)).astype(np.int32)).node_size
        return self._usual[types]
