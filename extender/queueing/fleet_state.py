"""The cluster as a queue policy sees it: rows of the fleet's table, GPUs, seconds since 1970 UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np

from extender.cluster_cache import ClusterCache
from extender.fleet.fleet_table import FleetTable
from extender.gangs.types import GangKey
from extender.queueing.queue_entries import RunningEntry, claimed, running_jobs
from scheduler.queue.types import BoolArray, CapacityReservation, Waiting
from topology.cluster import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class UsableRows:
    """The nodes that a gang could use if the cluster were empty: shape [nodes], by row of a table."""

    table: FleetTable
    mask: BoolArray

    def of(self, table: FleetTable) -> BoolArray:
        """Shape [nodes], the same nodes as rows of another table."""
        if table is self.table:
            return self.mask
        mask = np.zeros(len(table.hosts), dtype=np.bool_)
        names = (self.table.hosts[row].name for row in np.flatnonzero(self.mask))
        mask[[table.index_of[name] for name in names if name in table.index_of]] = True
        return mask


_UNKNOWN: Mapping[GangKey, UsableRows] = {}


class FleetState:
    """One look at the cluster cache, as a ``ClusterState``; what a policy does not ask for is not computed."""

    def __init__(self, state: ClusterCache, now: datetime, usable: Mapping[GangKey, UsableRows] = _UNKNOWN) -> None:
        self._state = state
        self._time = now
        self._usable = usable
        self._table = state.fleet.table
        self._masks: dict[int, BoolArray] = {}

    @property
    def version(self) -> int:
        """Of the fleet."""
        return self._state.fleet.version

    @property
    def now(self) -> float:
        """The time."""
        return self._time.timestamp()

    @cached_property
    def total(self) -> IntArray:
        """Shape [nodes], GPUs of each."""
        tree = self._table.tree
        return np.zeros(0, dtype=np.int32) if tree is None else tree.gpus

    @cached_property
    def free(self) -> IntArray:
        """Shape [nodes], GPUs that no pod holds and that are promised to no gang."""
        return self._state.fleet.occupancy.available

    @cached_property
    def running(self) -> Sequence[RunningEntry]:
        """All that has nodes, by expected end."""
        found = running_jobs(self._state, self._table.index_of, self._time)
        return sorted(found, key=lambda one: (one.ends, one.key))

    @cached_property
    def reservations(self) -> Sequence[CapacityReservation]:
        """Those with a zone that is kept for them; when its gang is here early, a reservation arrives now."""
        rows = self._table.index_of
        found = []
        for one in self._state.reservations.values():
            if one.held:
                here = claimed(self._state, one)
                arrives = min(one.ask.arrives, self._time) if here else one.ask.arrives
                zone = tuple(rows[name] for name in one.zone if name in rows)
                reservation = CapacityReservation(
                    name=str(one.key),
                    nodes=len(one.zone),
                    gpus=one.ask.gpus_per_node,
                    announced=one.announced.timestamp(),
                    arrives=arrives.timestamp(),
                    zone=zone,
                    claimed=here,
                )
                found.append((arrives, one.key, reservation))
        return tuple(reservation for _, _, reservation in sorted(found, key=lambda row: row[:2]))

    @property
    def trunk_of(self) -> None:
        """``None``: nodes of Kubernetes are all joined."""
        return

    def usable(self, job: Waiting) -> BoolArray:
        """Shape [nodes], those that a job could use, or where that is not known all on which new pods may come."""
        known = self._usable.get(job.key) if isinstance(job.key, GangKey) else None
        about = id(None if known is None else known.mask)
        if about not in self._masks:
            if known is None:
                hosts = (self._state.fleet.host(host.name) for host in self._table.hosts)
                self._masks[about] = np.array([host is not None and not host.fault for host in hosts], dtype=np.bool_)
            else:
                self._masks[about] = known.of(self._table)
        return self._masks[about]

    def may_fit(self, job: Waiting) -> bool:  # noqa: ARG002
        """Say yes: each gang is asked about, so that it can be told why it waits."""
        return True
