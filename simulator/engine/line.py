"""The queue, sorted at all times: joining at the end and leaving at the front cost nothing."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import islice
from typing import Any

from scheduler.queue.types import Rank
from simulator.engine.job import SimJob

Entry = tuple[Rank, SimJob]
_COMPACT = 1024
"""Places in front that may be empty before they are given back."""


class Line:
    """Jobs that wait, by rank.  Ranks are distinct, since each ends with the key of its job."""

    def __init__(self) -> None:
        self._entries: list[tuple[Any, ...]] = []
        self._front = 0

    def __len__(self) -> int:
        return len(self._entries) - self._front

    def __iter__(self) -> Iterator[SimJob]:
        return (job for _, job in islice(self._entries, self._front, None))

    @property
    def first(self) -> SimJob:
        """The job of the least rank; there is one."""
        job: SimJob = self._entries[self._front][1]
        return job

    def join(self, rank: Rank, job: SimJob) -> bool:
        """A job comes.

        :returns: whether it is the last now.
        """
        entries, entry = self._entries, (rank, job)
        if len(entries) == self._front or entries[-1][0] < rank:
            entries.append(entry)
            return True
        insort(entries, entry, lo=self._front, key=_rank)
        return False

    def leave(self, rank: Rank) -> None:
        """A job goes."""
        entries = self._entries
        if entries[self._front][0] == rank:
            self._front += 1
            if self._front > _COMPACT and 2 * self._front > len(entries):
                del entries[: self._front]
                self._front = 0
            return
        del entries[bisect_left(entries, rank, lo=self._front, key=_rank)]


def _rank(entry: tuple[Any, ...]) -> Any:
    return entry[0]
