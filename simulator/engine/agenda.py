"""What will happen: a heap ordered by (time, phase, sequence)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from heapq import heapify, heappop, heappush

Entry = tuple[float, int, int, int, int]
"""Time, phase, sequence, and two numbers that say what happens: whose it is, and which version of it."""


class Phase(IntEnum):
    """What comes first at one instant: what gives room, then what takes it away, then who wants some.

    Scheduling, the last phase, is not an entry: it follows whenever an instant is over.
    """

    RELEASE = 0
    REPAIR = 1
    FAILURE = 2
    ANNOUNCEMENT = 3
    ARRIVAL = 4


class Agenda:
    """Entries in order; those of the same time and phase as they came.

    ``heap[0]`` is the next one, if there is any.
    """

    __slots__ = ("_sequence", "heap")

    def __init__(self, entries: Iterable[Entry] = (), *, sequence: int = 0) -> None:
        self.heap = list(entries)
        heapify(self.heap)
        self._sequence = sequence

    def __len__(self) -> int:
        return len(self.heap)

    @property
    def sequence(self) -> int:
        """Entries that were ever added."""
        return self._sequence

    def add(self, time: float, phase: int, number: int, version: int = 0) -> None:
        """Add an entry."""
        self._sequence += 1
        heappush(self.heap, (time, phase, self._sequence, number, version))

    def pop(self) -> Entry:
        """Take the next one."""
        return heappop(self.heap)
