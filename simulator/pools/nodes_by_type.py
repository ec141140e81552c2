"""Which nodes have GPUs of the types that a job admits, and how it may lie on each type, worked out once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from ground.errors import did_you_mean
from scheduler.placement.admission import typed
from scheduler.queue.dispatch import Allocation
from simulator.job_record import JobRecord
from simulator.pools.pool import Disagreement
from simulator.sim_job import UNITS, Need
from topology.cluster import BoolArray, Cluster

Types = tuple[str, ...] | None  # Types of GPU that a job admits; None = any


class NodesByType:
    """Nodes of a cluster by their type of GPU."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes: dict[Types, BoolArray] = {None: np.ones(len(cluster), dtype=np.bool_)}
        self._usual: dict[Types, int] = {None: cluster.node_size}
        self._ways: dict[object, dict[str, tuple[Allocation, ...]]] = {}

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

    @cached_property
    def by_name(self) -> dict[str, list[int]]:
        """Nodes of each type of GPU that is said."""
        return {name: np.flatnonzero(self.of((name,))).tolist() for name in self._cluster.nodes_of_type}

    def allocations(self, record: JobRecord, need: Callable[[JobRecord], Need]) -> dict[str, tuple[Allocation, ...]]:
        """Return how a job may lie by type of GPU: together, or in equal parts on more nodes, fewest first, where its
        speed there is known and nothing is said of its nodes.

        :param need: what a job asks the pool for; a type for which it raises Disagreement is left out.
        """
        key = record.gpus, record.nodes, record.asks, record.speed, record.speed_apart
        if key not in self._ways:
            names = self._cluster.nodes_of_type if record.gpu_types is None else record.gpu_types
            ways = {name: tuple(self._ways_on(name, record, need)) for name in names}
            self._ways[key] = {name: found for name, found in ways.items() if found}
        return self._ways[key]

    def _ways_on(self, name: str, record: JobRecord, need: Callable[[JobRecord], Need]) -> Iterator[Allocation]:
        try:
            least = need(replace(record, gpu_types=(name,)))
        except Disagreement:
            return
        yield Allocation((name,), least.nodes, least.gpus, record.speed_on((name,)))
        fixed = record.nodes is not None or record.parallelism is not None or record.holds or record.counts
        gpus = 0 if fixed or name not in {one.gpu_type for one in record.speed_apart} else least.units // UNITS
        for nodes in range(least.nodes + 1, min(gpus, len(self.by_name[name])) + 1):
            if gpus % nodes == 0:
                speed = record.speed_on((name,), apart=True)
                yield Allocation((name,), nodes, gpus // nodes * UNITS, speed)
