"""The cluster as the simulation goes on: which jobs wait and which have nodes, and how they start, stop and slow down.

What happens to a job puts its next event into the queue of events; time itself is the engine's.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from heapq import heapify, heappush
from math import inf
from types import MappingProxyType
from typing import Any, Protocol

from scheduler.queue.dispatch import Backlog, Dispatch
from scheduler.queue.policy import CapacityReservation, QueuePolicy, Running
from scheduler.queue.rounds import RoundDispatch
from simulator.engine.hooks import FromScratch, Pace, Recovery, StartUp, Why
from simulator.pools import Found, Pool
from simulator.sim_job import UNITS, JobState, SimJob, kind_of
from topology.cluster import IntArray

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
    ROUND = 4


class EventQueue:
    """Events in order; those of the same time and phase as they came.

    ``heap[0]`` is the next one, if there is any.
    """

    __slots__ = ("heap", "sequence")

    def __init__(self, events: Iterable[Event] = (), *, sequence: int = 0) -> None:
        self.heap = list(events)
        heapify(self.heap)
        self.sequence = sequence  # Events that were ever added

    def add(self, time: float, phase: int, number: int, version: int = 0) -> None:
        """Add an event."""
        self.sequence += 1
        heappush(self.heap, (time, phase, self.sequence, number, version))


class SimulatedCluster:
    """Jobs on a pool at an instant; as a ``ClusterState`` it is what the policy is told.

    :param start_up: what jobs wait for that have their nodes; ``None`` = they work at once.
    :param drain_seconds: how long a preempted job, which works no more, takes to give its nodes back: then the pass is
        that of a live cluster (``scheduler.queue.dispatch``); ``None`` = everything happens at once.
    :param weights: of namespaces; of others 1.
    """

    def __init__(
        self,
        jobs: Sequence[SimJob],
        pool: Pool,
        policy: QueuePolicy,
        *,
        recovery: Recovery | None = None,
        pace: Pace | None = None,
        start_up: StartUp | None = None,
        drain_seconds: float | None = None,
        weights: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.jobs, self.pool, self.policy = jobs, pool, policy
        self.usable, self.may_fit, self.compartments = pool.usable, pool.may_fit, pool.compartments
        self.domains = pool.domains
        self.recovery, self.pace = recovery or FromScratch(), pace
        self._start_up = start_up
        self._drain_seconds = drain_seconds
        self._weights = weights
        self._in_use = Counter[str]()  # Units that jobs of each namespace hold
        self.queue = EventQueue()
        kind: type[Dispatch[SimJob]] = Dispatch if policy.round_seconds is None else RoundDispatch
        self.dispatch = kind(policy, kind=kind_of, live=drain_seconds is not None)
        self.dispatch.cluster = self
        self.active: dict[int, SimJob] = {}  # Jobs that have nodes, by key, in the order in which they started
        self._ending: list[tuple[float, int, SimJob]] | None = None
        self.reservations: list[CapacityReservation] = []
        self.now = jobs[0].submitted if jobs else 0.0
        self.version = 0

    # What the policy is told

    @property
    def backlog(self) -> Backlog[SimJob]:
        """Jobs that wait."""
        return self.dispatch.backlog

    @property
    def total(self) -> IntArray:
        """Shape [nodes], units that jobs may use."""
        return self.pool.total

    @property
    def free(self) -> IntArray:
        """Shape [nodes], units that no job holds."""
        return self.pool.free

    @property
    def running(self) -> Iterable[SimJob]:
        """Jobs that have nodes, by expected end."""
        if self._ending is None:
            self._ending = sorted((job.ends, job.key, job) for job in self.active.values())
        return (job for _, _, job in self._ending)

    def unsaved(self, one: Running) -> float:
        """Return the seconds of work that a job has done since its last checkpoint; 0 of one that leaves."""
        job = self.jobs[one.key] if isinstance(one.key, int) else None
        if job is None or job.leaving:
            return 0.0
        done = self.done(job)
        return max(0.0, done - self.recovery.saved(job, done=done))

    def done(self, job: SimJob) -> float:
        """Return the seconds of work that a job has done, those of earlier attempts included that were kept."""
        now = max(0.0, self.now - job.since) / job.pace if job.state is JobState.RUNNING else 0.0
        return float(job.record.duration - job.left + now)

    def share(self, namespace: str) -> float:
        """Return the GPUs that jobs of a namespace hold, divided by its weight."""
        return self._in_use[namespace] / UNITS / self._weights.get(namespace, 1.0)

    # What happens to jobs

    def start(self, job: SimJob, found: Found) -> None:
        """Give a job its nodes; it leaves the backlog."""
        now = self.now
        self.dispatch.backlog.leave(job)
        job.state = JobState.RUNNING
        job.places, job.spread = found.places, found.spread
        job.started = now
        if job.first_start == inf:
            job.first_start = now
        job.pace = 1.0
        starting = 0.0 if self._start_up is None else self._start_up.started(job, now)
        job.delay += starting
        job.since = now + job.delay
        job.version += 1
        job.ends = now + job.predicted + starting
        self.activate(job)
        if job.reservation:
            self.lift(job.reservation)
        if self.pace is not None:
            changes = self.pace.started(job)
            job.pace = changes.get(job.key, 1.0)
            self.adjust({key: pace for key, pace in changes.items() if key != job.key})
        self.queue.add(job.since + job.left * job.pace, EventPhase.RELEASE, job.key, job.version)

    def activate(self, job: SimJob) -> None:
        """Count a job among those that have nodes, and its nodes as taken."""
        self.version += 1
        self.pool.take(job)
        self._in_use[job.namespace] += job.units
        self.active[job.key] = job
        if self._ending is not None:
            insort(self._ending, (job.ends, job.key, job))

    def stop(self, job: SimJob, why: Why) -> None:
        """Let a job work no more; it gives its nodes back, at once or after a while, and waits again."""
        if not job.leaving:
            self._work(job)
        if why == "preemption" and self._drain_seconds is not None:
            job.leaving = True
            job.version += 1
            self.version += 1
            self.queue.add(self.now + self._drain_seconds, EventPhase.RELEASE, job.key, job.version)
        else:
            self.requeue(job, why)

    def requeue(self, job: SimJob, why: Why) -> None:
        """Take a stopped job's nodes back and let it wait again, with the work that it has not lost."""
        self.leave(job)
        job.leaving = False
        job.runs.append((job.started, self.now))
        work = job.record.duration
        kept, job.delay = self.recovery.interrupted(job, done=work - job.left, why=why)
        job.left = work - min(max(kept, 0.0), work)
        job.places = ()
        job.foresee(kept)
        job.state = JobState.WAITING
        self.dispatch.join(job)

    def lift(self, name: str) -> None:
        """Give up the zone of a large job that has its nodes."""
        self.reservations = [one for one in self.reservations if one.name != name]
        self.room_given()

    def room_given(self) -> None:
        """Take note that jobs without room may have some now."""
        self.version += 1
        self.dispatch.freed = True

    def adjust(self, changes: Mapping[int, float]) -> None:
        """Let jobs run at another pace from now on."""
        for key, pace in changes.items():
            job = self.active.get(key)
            if job is None or job.leaving or job.pace == pace:
                continue
            self._work(job)
            job.pace = pace
            job.version += 1
            self.queue.add(job.since + job.left * pace, EventPhase.RELEASE, key, job.version)

    def _work(self, job: SimJob) -> None:
        """Bring up to date what work a job has left."""
        if self.now > job.since:
            job.left = max(0.0, job.left - (self.now - job.since) / job.pace)
            job.since = self.now

    def leave(self, job: SimJob) -> None:
        """Take a job's nodes back."""
        changes = self.pace.stopped(job) if self.pace is not None else None
        self.pool.give(job)
        self._in_use[job.namespace] -= job.units
        del self.active[job.key]
        if self._ending is not None:
            del self._ending[bisect_left(self._ending, (job.ends, job.key))]
        job.version += 1
        self.version += 1
        self.dispatch.freed = True
        if changes:
            self.adjust(changes)


class Observer(Protocol):
    """Measures while time passes."""

    def elapsed(self, cluster: SimulatedCluster, until: float) -> None:
        """Take note that nothing changes from ``cluster.now`` until then."""

    def state(self) -> Any:
        """Return what :meth:`restore` needs, as JSON."""

    def restore(self, state: Any) -> None:
        """Go on where :meth:`state` was asked."""
