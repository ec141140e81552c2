"""The pool that only counts GPUs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np

from scheduler.queue.policy import Keep, Waiting
from simulator.job_record import JobRecord
from simulator.pools.pool import Disagreement, Found
from simulator.sim_job import UNITS, Need, SimJob
from topology.cluster import BoolArray, Cluster, IntArray


class GpuPool:
    """A cluster as a number of GPUs: no nodes, no topology; for speed, and where queues have exact answers."""

    domains: Sequence[IntArray] = ()

    def __init__(self, cluster: Cluster) -> None:
        self._sizes: list[int] = (cluster.usable_gpus * UNITS).tolist()
        self.capacity = sum(self._sizes)
        self._total = self._free = self.capacity

    @property
    def total(self) -> IntArray:
        """Shape [1]."""
        return np.array([self._total], dtype=np.int32)

    @property
    def free(self) -> IntArray:
        """Shape [1]."""
        return np.array([self._free], dtype=np.int32)

    def need(self, record: JobRecord) -> Need:
        """Return its GPUs; raises Disagreement where the cluster has fewer."""
        units = round(record.gpus * UNITS)
        if units > self.capacity:
            raise Disagreement(
                "larger than the cluster", f"{record.gpus:g} GPUs; the cluster has {self.capacity / UNITS:g}"
            )
        return Need(1, units, units)

    def compartments(self, *, mix_types: bool) -> None:
        """Return ``None``: without nodes there are no compartments."""

    @cached_property
    def _all(self) -> BoolArray:
        return np.ones(1, dtype=np.bool_)

    def usable(self, job: Waiting) -> BoolArray:  # noqa: ARG002
        """Shape [1]: the pool."""
        return self._all

    def possible(self, job: SimJob) -> bool:
        """Return whether there are so many GPUs."""
        return bool(job.units <= self._total)

    def may_fit(self, job: SimJob) -> bool:
        """Return whether so many GPUs are free."""
        return bool(job.units <= self._free)

    def find(self, job: SimJob, keep: Keep) -> Found | None:
        """Return the pool, if so many GPUs are free in it."""
        free = self._free if keep is None else self._free - int(keep[0])
        return _THE_POOL if job.units <= free else None

    def take(self, job: SimJob) -> None:
        """Count its GPUs as held."""
        self._free -= job.units

    def give(self, job: SimJob) -> None:
        """Count its GPUs as free."""
        self._free += job.units

    def zone(self, job: SimJob, taken: Collection[int]) -> tuple[int, ...]:  # noqa: ARG002
        """Return no nodes: there are none."""
        return ()

    def take_out(self, node: int) -> None:
        """Count a node's GPUs no more."""
        self._total -= self._sizes[node]
        self._free -= self._sizes[node]

    def bring_back(self, node: int) -> None:
        """Count a node's GPUs again."""
        self._total += self._sizes[node]
        self._free += self._sizes[node]

    def flag(self, node: int, slowdown: float) -> None:
        """Do nothing: where jobs are is not known."""


_THE_POOL = Found((0,))
