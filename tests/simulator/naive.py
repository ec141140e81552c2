"""A simulator that anybody can check: GPUs in a pool, lists, everything looked at again at every instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf


@dataclass(eq=False)
class Naive:
    """A job; ``end`` is infinite until it starts."""

    number: int
    submit: float
    duration: float
    gpus: int
    priority: int = 0
    preemptible: bool = False
    namespace: str = ""
    estimate: float | None = None
    start: float = inf
    end: float = inf

    @property
    def expected(self) -> float:
        """How long its user says that it runs; the truth if he says nothing."""
        return self.duration if self.estimate is None else self.estimate

    def expected_end(self, now: float) -> float:
        """When it ends by what its user says; now, if it is overdue."""
        return max(now, self.start + self.expected)


def replay(jobs: Sequence[Naive], gpus: int, policy: str, weights: Mapping[str, float] | None = None) -> list[float]:
    """When each job starts (last, if it was stopped), on so many GPUs.

    :param weights: of all namespaces, for fair-share.
    """
    now, waiting, running = -inf, list[Naive](), list[Naive]()
    coming = list(jobs)
    while coming or running:
        now = min([job.submit for job in coming] + [job.end for job in running])
        running = [job for job in running if job.end > now]
        waiting += [job for job in coming if job.submit <= now]
        coming = [job for job in coming if job.submit > now]
        queue = sorted(waiting, key=ORDER[policy])
        if policy == "fair-share":
            in_turn(queue, running, gpus, now, weights or {})
        else:
            STARTING[policy](queue, running, gpus, now)
        waiting = [job for job in waiting if job not in running]
        for job in [job for job in jobs if job.submit <= now and job.end == inf and job not in waiting]:
            waiting.append(job)
    return [job.start for job in jobs]


ORDER = {
    "fifo": lambda job: (job.submit, job.number),
    "fifo-backfill": lambda job: (job.submit, job.number),
    "conservative-backfill": lambda job: (job.submit, job.number),
    "shortest-first": lambda job: (job.duration, job.submit, job.number),
    "priority-preempt": lambda job: (-job.priority, job.submit, job.number),
    "fair-share": lambda job: (-job.priority, job.submit, job.number),
}


def launch(job: Naive, running: list[Naive], now: float) -> None:
    """A job starts."""
    job.start, job.end = now, now + job.duration
    running.append(job)


def free(running: list[Naive], gpus: int) -> int:
    """GPUs that nobody has."""
    return gpus - sum(job.gpus for job in running)


def in_order(queue: list[Naive], running: list[Naive], gpus: int, now: float) -> None:
    """One after the other until one does not fit."""
    for job in queue:
        if job.gpus > free(running, gpus):
            return
        launch(job, running, now)


def in_turn(queue: list[Naive], running: list[Naive], gpus: int, now: float, weights: Mapping[str, float]) -> None:
    """The first of the namespace with least for its weight, again and again until one does not fit."""
    pending = list(queue)

    def share(job: Naive) -> float:
        return sum(other.gpus for other in running if other.namespace == job.namespace) / weights[job.namespace]

    while pending:
        job = min(pending, key=share)
        if job.gpus > free(running, gpus):
            return
        pending.remove(job)
        launch(job, running, now)


def easy(queue: list[Naive], running: list[Naive], gpus: int, now: float) -> None:
    """In order; then those behind the first that waits, if by its shadow time they are over or not in its way."""
    in_order(queue, running, gpus, now)
    queue = [job for job in queue if job not in running]
    for job in queue[1:]:
        head = queue[0]
        held = sorted((other.expected_end(now), other.gpus) for other in running)
        shadow = next(t for t, _ in held if head.gpus <= gpus - sum(n for end, n in held if end > t))
        spare = gpus - sum(n for end, n in held if end > shadow) - head.gpus
        if job.gpus <= free(running, gpus) and (now + job.expected <= shadow or job.gpus <= spare):
            launch(job, running, now)


def conservative(queue: list[Naive], running: list[Naive], gpus: int, now: float) -> None:
    """Each in order at the first instant from which on it has room for all its time, beside all before it."""
    taken = [(now, other.expected_end(now), other.gpus) for other in running]
    for job in queue:
        for start in sorted({now, *(end for _, end, _ in taken)}):
            end = start + job.expected
            instants = {start, *(begin for begin, _, _ in taken if start < begin < end)}
            if all(job.gpus + sum(n for a, b, n in taken if a <= t < b) <= gpus for t in instants):
                break
        taken.append((start, end, job.gpus))
        if start == now and job.gpus <= free(running, gpus):
            launch(job, running, now)


def preempting(queue: list[Naive], running: list[Naive], gpus: int, now: float) -> None:
    """In order; who does not fit stops those below it, cheapest first, if that is enough."""
    pending = list(queue)
    while pending:
        job = pending.pop(0)
        if job.gpus > free(running, gpus):
            below = [o for o in running if o.preemptible and o.priority < job.priority]
            below.sort(key=lambda o: (o.priority, -o.start, o.number))
            stopped = list[Naive]()
            while below and free(running, gpus) + sum(o.gpus for o in stopped) < job.gpus:
                stopped.append(below.pop(0))
            if free(running, gpus) + sum(o.gpus for o in stopped) < job.gpus:
                return
            for other in sorted(stopped, key=lambda o: (-o.priority, o.start, o.number)):
                if free(running, gpus) + sum(o.gpus for o in stopped) - other.gpus >= job.gpus:
                    stopped.remove(other)
            for other in stopped:
                running.remove(other)
                other.start = other.end = inf
                pending.append(other)
            pending.sort(key=ORDER["priority-preempt"])
        launch(job, running, now)


STARTING = {
    "fifo": in_order,
    "shortest-first": in_order,
    "fifo-backfill": easy,
    "conservative-backfill": conservative,
    "priority-preempt": preempting,
}
