"""The cluster as a queue policy sees it: rows of the fleet's table, GPUs, seconds since 1970 UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property

import numpy as np

from extender.cluster_cache import ClusterCache as State
from extender.gangs import GangKey
from extender.queueing.jobs import Running, running_jobs
from extender.queueing.reserved import claimed
from scheduler.queue.types import BoolArray, CapacityReservation
from scheduler.queue.types import Waiting as WaitingJob
from topology.cluster import IntArray

_NOTHING: Mapping[GangKey, frozenset[str]] = {}


class Floor:
    """One look at the state; what a policy does not ask for is not computed.

    :param usable: of gangs that are blocked, names of the nodes that they could use if the cluster were empty; of the
        others that is not known.
    """

    def __init__(self, state: State, now: datetime, usable: Mapping[GangKey, frozenset[str]] = _NOTHING) -> None:
        self._state = state
        self._time = now
        self._usable = usable
        self._rows = state.fleet.table.index_of
        self._masks: dict[int, BoolArray] = {}

    @property
    def now(self) -> float:
        """The time."""
        return self._time.timestamp()

    @cached_property
    def total(self) -> IntArray:
        """Shape [nodes], GPUs of each."""
        tree = self._state.fleet.table.tree
        return np.zeros(0, dtype=np.int32) if tree is None else tree.gpus

    @cached_property
    def free(self) -> IntArray:
        """Shape [nodes], GPUs that nobody holds and that are promised to nobody."""
        occupancy = self._state.fleet.occupancy
        return np.where(occupancy.promised, 0, occupancy.free).astype(np.int32)

    @cached_property
    def running(self) -> Sequence[Running]:
        """All that has nodes."""
        return tuple(running_jobs(self._state, self._rows, self._time))

    @cached_property
    def reservations(self) -> Sequence[CapacityReservation]:
        """Those with a zone that is kept for them; one whose gang is here early arrives now."""
        held = (one for one in self._state.reservations.values() if one.held)
        due = (
            (min(one.ask.arrives, self._time) if claimed(self._state, one) else one.ask.arrives, one) for one in held
        )
        return tuple(
            CapacityReservation(
                str(one.key),
                len(one.zone),
                one.ask.gpus_per_node,
                one.announced.timestamp(),
                arrives.timestamp(),
                tuple(self._rows[name] for name in one.zone if name in self._rows),
            )
            for arrives, one in sorted(due, key=lambda pair: (pair[0], pair[1].key))
        )

    @property
    def trunk_of(self) -> None:
        """Nodes of Kubernetes are all joined."""
        return

    def usable(self, job: WaitingJob) -> BoolArray:
        """Shape [nodes], those that a job could use, all where it is not known; jobs with the same share one array."""
        names = self._usable.get(job.key) if isinstance(job.key, GangKey) else None
        mask = self._masks.get(id(names))
        if mask is None:
            mask = np.full(len(self.total), names is None, dtype=np.bool_)
            mask[[self._rows[name] for name in names or () if name in self._rows]] = True
            self._masks[id(names)] = mask
        return mask
