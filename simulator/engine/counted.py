"""A cluster as a number of GPUs: no nodes, no topology; for speed, and where queues have exact answers."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

import numpy as np

from scheduler.queue.types import BoolArray, Keep, Waiting
from simulator.engine.disagreement import Disagreement
from simulator.engine.job import UNITS, SimJob
from simulator.engine.room import Found, Need
from simulator.job_record import JobRecord
from topology.cluster import Cluster, IntArray

_PLACES = (0,)


class CountedRoom:
    """All GPUs in one pool."""

    def __init__(self, cluster: Cluster) -> None:
        usable = np.isfinite(cluster.slowdown)
        self._sizes: list[int] = (np.where(usable, cluster.free_gpus, 0) * UNITS).tolist()
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
        """Its GPUs.

        :raises Disagreement: the cluster has fewer.
        """
        units = round(record.gpus * UNITS)
        if units > self.capacity:
            raise Disagreement(
                "larger than the cluster", f"{record.gpus:g} GPUs; the cluster has {self.capacity / UNITS:g}"
            )
        return Need(1, units, units)

    @property
    def trunk_of(self) -> None:
        """A pool has no trunks."""
        return

    @cached_property
    def _all(self) -> BoolArray:
        return np.ones(1, dtype=np.bool_)

    def usable(self, job: Waiting) -> BoolArray:  # noqa: ARG002
        """The pool."""
        return self._all

    def may_fit(self, job: SimJob) -> bool:
        """Whether it fits."""
        return bool(job.units <= self._free)

    def find(self, job: SimJob, keep: Keep) -> Found | None:
        """Some GPUs."""
        free = self._free if keep is None else self._free - int(keep[0])
        return _FOUND if job.units <= free else None

    def take(self, job: SimJob) -> None:
        """Fewer are free."""
        self._free -= job.units

    def give(self, job: SimJob) -> None:
        """More are free."""
        self._free += job.units

    def zone(self, job: SimJob, taken: Collection[int]) -> tuple[int, ...]:  # noqa: ARG002
        """A pool has no zones."""
        return ()

    def take_out(self, node: int) -> None:
        """A node's GPUs are no part of the pool."""
        self._total -= self._sizes[node]
        self._free -= self._sizes[node]

    def bring_back(self, node: int) -> None:
        """They are again."""
        self._total += self._sizes[node]
        self._free += self._sizes[node]

    def flag(self, node: int, slowdown: float) -> None:
        """A pool does not know where its jobs are."""


_FOUND = Found(_PLACES)
