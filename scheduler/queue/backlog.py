"""The jobs that wait, sorted at all times: joining at the end and leaving at the front cost next to nothing."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator
from itertools import islice
from math import inf
from typing import Generic, TypeVar

from scheduler.queue.queue_policy import Rank, Waiting

J = TypeVar("J", bound=Waiting)

_COMPACT = 1024  # Places in front that may be empty before they are given back


class KindQueue(Generic[J]):
    """Jobs of one kind, by rank; and their predicted times, the least first."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Rank, J, tuple[float, float]]] = []
        """Rank, job, and its predicted seconds with those that it will hardly exceed; infinite where unknown."""
        self._predicted: list[float] = []
        self._high: list[float] = []

    def join(self, rank: Rank, job: J) -> None:
        """Add a job."""
        predicted = inf if job.predicted is None else job.predicted
        high = inf if job.predicted_high is None else job.predicted_high
        insort(self.jobs, (rank, job, (predicted, high)))
        insort(self._predicted, predicted)
        insort(self._high, high)

    def leave(self, rank: Rank) -> None:
        """Remove the job of that rank."""
        _, _, (predicted, high) = self.jobs.pop(bisect_left(self.jobs, (rank,)))
        del self._predicted[bisect_left(self._predicted, predicted)]
        del self._high[bisect_left(self._high, high)]

    @property
    def shortest(self) -> tuple[float, float]:
        """The least predicted time, and the least that will hardly be exceeded, maybe of two jobs; of at least one."""
        return self._predicted[0], self._high[0]

    def has_shorter(self, predicted: tuple[float, float]) -> bool:
        """Return whether any job is predicted to run shorter, by either measure."""
        return self._predicted[0] < predicted[0] or self._high[0] < predicted[1]

    def next_shorter(self, place: int, predicted: float, high: float) -> int | None:
        """Return from a place on the first job predicted to run shorter, by either measure; infinite = any job."""
        jobs = self.jobs
        if predicted == inf:
            return place if place < len(jobs) else None
        for i in range(place, len(jobs)):
            mine, mine_high = jobs[i][2]
            if mine < predicted or mine_high < high:
                return i
        return None


class Backlog(Generic[J]):
    """Jobs that wait, by rank.  Ranks are distinct, since each ends with the key of its job.

    What a rank and a kind follow from does not change while a job waits.

    :param rank: of a job; the least is first.
    :param kind: jobs of one kind differ in nothing but their predicted times, for the policy's offers and for the
        cluster; ``None`` = :attr:`queues` are not kept.
    :param group: jobs of which have their own queues.
    """

    def __init__(
        self,
        rank: Callable[[J], Rank],
        *,
        kind: Callable[[J], Hashable] | None = None,
        group: Callable[[J], str] = lambda _: "",
    ) -> None:
        self.rank = rank
        self._kind, self._group = kind, group
        self._jobs: list[tuple[Rank, J]] = []
        self._front = 0
        self.queues: dict[str, dict[Hashable, KindQueue[J]]] = {}  # by group and kind; none is empty
        self.firsts: dict[str, Rank] = {}  # the least rank in the queues of each group

    def __len__(self) -> int:
        return len(self._jobs) - self._front

    def __iter__(self) -> Iterator[J]:
        return (job for _, job in islice(self._jobs, self._front, None))

    @property
    def first(self) -> J | None:
        """The job of the least rank; ``None`` = none waits."""
        return self._jobs[self._front][1] if self._front < len(self._jobs) else None

    def ahead(self, job: J, *, most: int | None) -> tuple[J, ...]:
        """Return the first jobs of lower rank than a job, so many at the most; ``None`` = all."""
        end = bisect_left(self._jobs, (self.rank(job),), lo=self._front)
        if most is not None:
            end = min(end, self._front + most)
        return tuple(other for _, other in islice(self._jobs, self._front, end))

    def join(self, job: J) -> None:
        """Add a job."""
        jobs, rank = self._jobs, self.rank(job)
        if self._front == len(jobs) or jobs[-1][0] < rank:
            jobs.append((rank, job))
        else:
            insort(jobs, (rank, job), lo=self._front)
        if self._kind is not None:
            group, kind = self._group(job), self._kind(job)
            queues = self.queues.setdefault(group, {})
            self.firsts[group] = min(rank, self.firsts.get(group, rank))
            if kind not in queues:
                queues[kind] = KindQueue()
            queues[kind].join(rank, job)

    def leave(self, job: J) -> None:
        """Remove a job."""
        jobs = self._jobs
        if jobs[self._front][1] is job:
            self._front += 1
            if self._front > _COMPACT and 2 * self._front > len(jobs):
                del jobs[: self._front]
                self._front = 0
        else:
            del jobs[bisect_left(jobs, (self.rank(job),), lo=self._front)]
        if self._kind is not None:
            group, kind, rank = self._group(job), self._kind(job), self.rank(job)
            queues = self.queues[group]
            queues[kind].leave(rank)
            if not queues[kind].jobs:
                del queues[kind]
            if not queues:
                del self.queues[group], self.firsts[group]
            elif self.firsts[group] == rank:
                self.firsts[group] = min(queue.jobs[0][0] for queue in queues.values())

    def __contains__(self, job: J) -> bool:
        place = bisect_left(self._jobs, (self.rank(job),), lo=self._front)
        return place < len(self._jobs) and self._jobs[place][1] is job
