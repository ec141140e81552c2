"""What queue policies (:mod:`scheduler.queue`) are told of the cluster, in numbers, and what they answer, in names."""

from __future__ import annotations

from extender.queueing.floor import Floor
from extender.queueing.jobs import Running, Waiting, key_of_pod, running_jobs, waiting_gang, waiting_pod
from extender.queueing.reserved import claimed, gang_for, reservation_for

__all__ = [
    "Floor",
    "Running",
    "Waiting",
    "claimed",
    "gang_for",
    "key_of_pod",
    "reservation_for",
    "running_jobs",
    "waiting_gang",
    "waiting_pod",
]
