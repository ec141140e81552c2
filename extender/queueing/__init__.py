"""What queue policies (:mod:`scheduler.queue`) are told of the cluster, in rows of the fleet's table."""

from __future__ import annotations

from extender.queueing.fleet_state import FleetState, UsableRows
from extender.queueing.queue_entries import RunningEntry, key_of_pod, running_jobs, waiting_gang, waiting_pod
from extender.queueing.reserved import claimed, gang_for, reservation_for

__all__ = [
    "FleetState",
    "RunningEntry",
    "UsableRows",
    "claimed",
    "gang_for",
    "key_of_pod",
    "reservation_for",
    "running_jobs",
    "waiting_gang",
    "waiting_pod",
]
