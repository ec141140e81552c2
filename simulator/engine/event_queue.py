"""What will happen to jobs that were submitted, and to nodes: a heap ordered by (time, phase, sequence)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from heapq import heapify, heappush

Event = tuple[float, int, int, int, int]
"""Time, phase, sequence, and two numbers that say what happens: the job or node, and which version of the job."""


class EventPhase(IntEnum):
    """What comes first at one instant: what gives room, then what takes it away.

    Submissions, which come next, stand in the trace in their order already.  Scheduling, the last, follows whenever an
    instant is over.
    """

    RELEASE = 0
    REPAIR = 1
    FAILURE = 2
    ANNOUNCEMENT = 3


class EventQueue:
    """Events in order; those of the same time and phase as they came.

    ``heap[0]`` is the next one, if there is any.
    """

    __slots__ = ("heap", "sequence")

    def __init__(self, events: Iterable[Event] = (), *, sequence: int = 0) -> None:
        self.heap = list(events)
        heapify(self.heap)
        self.sequence = sequence
        """Events that were ever added."""

    def add(self, time: float, phase: int, number: int, version: int = 0) -> None:
        """Add an event."""
        self.sequence += 1
        heappush(self.heap, (time, phase, self.sequence, number, version))
