"""The queue, sorted at all times: joining at the end and leaving at the front cost next to nothing."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import islice
from math import inf
from operator import attrgetter

from simulator.engine.job import SimJob

rank_of = attrgetter("rank")
"""The place of a job in the queue."""

_COMPACT = 1024
"""Places in front that may be empty before they are given back."""

Kind = tuple[int, int, bool, str]
"""What a policy's offers and a room look at, besides the predicted times."""


def kind_of(job: SimJob) -> Kind:
    """The kind of a job."""
    return job.nodes, job.gpus, job.preemptible, job.reservation


class Lane:
    """Jobs of one kind, by rank; and their predicted times, the least first."""

    def __init__(self) -> None:
        self.jobs: list[SimJob] = []
        self._predicted: list[float] = []
        self._high: list[float] = []

    def join(self, job: SimJob) -> None:
        """A job comes."""
        insort(self.jobs, job, key=rank_of)
        insort(self._predicted, job.predicted)
        insort(self._high, job.predicted_high)

    def leave(self, job: SimJob) -> None:
        """A job goes."""
        del self.jobs[bisect_left(self.jobs, job.rank, key=rank_of)]
        del self._predicted[bisect_left(self._predicted, job.predicted)]
        del self._high[bisect_left(self._high, job.predicted_high)]

    @property
    def shortest(self) -> tuple[float, float]:
        """The least predicted time, and the least that will hardly be exceeded; of two jobs, maybe.  There is one."""
        return self._predicted[0], self._high[0]

    def next_shorter(self, place: int, predicted: float, high: float) -> int | None:
        """From a place on, the first job that is predicted to run shorter, by either measure; ``None`` = there is none.

        :param predicted: shorter than that; infinite = whoever it is.
        """
        jobs = self.jobs
        if predicted == inf:
            return place if place < len(jobs) else None
        for i in range(place, len(jobs)):
            if jobs[i].predicted < predicted or jobs[i].predicted_high < high:
                return i
        return None


class Line:
    """Jobs that wait, by rank.  Ranks are distinct, since each ends with the key of its job.

    :param sorted_by_kind: whether :attr:`lanes` are kept.
    """

    def __init__(self, *, sorted_by_kind: bool = False) -> None:
        self._jobs: list[SimJob] = []
        self._front = 0
        self.size = 0
        self._sorted_by_kind = sorted_by_kind
        self.lanes: dict[Kind, Lane] = {}

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[SimJob]:
        return islice(self._jobs, self._front, None)

    @property
    def first(self) -> SimJob:
        """The job of the least rank; there is one."""
        return self._jobs[self._front]

    def join(self, job: SimJob) -> None:
        """A job comes."""
        jobs = self._jobs
        self.size += 1
        if self.size == 1 or jobs[-1].rank < job.rank:
            jobs.append(job)
        else:
            insort(jobs, job, lo=self._front, key=rank_of)
        if self._sorted_by_kind:
            kind = kind_of(job)
            if kind not in self.lanes:
                self.lanes[kind] = Lane()
            self.lanes[kind].join(job)

    def leave(self, job: SimJob) -> None:
        """A job goes."""
        jobs = self._jobs
        self.size -= 1
        if jobs[self._front] is job:
            self._front += 1
            if self._front > _COMPACT and 2 * self._front > len(jobs):
                del jobs[: self._front]
                self._front = 0
        else:
            del jobs[bisect_left(jobs, job.rank, lo=self._front, key=rank_of)]
        if self._sorted_by_kind:
            kind = kind_of(job)
            self.lanes[kind].leave(job)
            if not self.lanes[kind].jobs:
                del self.lanes[kind]
