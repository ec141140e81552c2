"""The simulation: time goes from instant to instant, and at the end of each the production policy is asked.

All of a run is in one :class:`Engine`; nothing is kept in modules.  It decides nothing: which job is asked is the
business of the dispatch pass and its policy, where a job goes that of the pool, what happens to nodes and how fast jobs
run that of the hooks.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop
from math import inf
from time import monotonic, perf_counter

from scheduler.queue.backlog import Backlog
from scheduler.queue.dispatch import Ask, Dispatch
from scheduler.queue.types import BoolArray, CapacityReservation, QueuePolicy, Waiting
from simulator.engine.event_queue import EventPhase, EventQueue
from simulator.engine.hooks import FromScratch, Incident, Incidents, Observer, Pace, Recovery, Why
from simulator.engine.pools import Found, Pool
from simulator.engine.sim_job import JobState, SimJob, kind_of
from simulator.engine.supervision import Overload, Watch
from simulator.prediction.beforehand import predict_all
from simulator.prediction.told import Oracle
from simulator.prediction.types import Prediction
from simulator.records import JobRecord
from topology.cluster import IntArray

INSTANTS = 256
"""Instants between two looks at the clock: some milliseconds."""


class Engine:
    """One run, from the first submission until all jobs have ended or nothing happens any more.

    As a ``ClusterState`` it is what the policy is told.

    :param records: in order of submission; each fits into the pool when that is empty.
    :param predictions: what the scheduler is told of run times, by id of the job; ``None`` = the truth.
    :param drain_seconds: how long a preempted job, which works no more, takes to give its nodes back: then the pass is
        that of a live cluster (``scheduler.queue.dispatch``); ``None`` = everything happens at once.
    :raises Disagreement: one does not.
    """

    def __init__(
        self,
        records: Sequence[JobRecord],
        pool: Pool,
        policy: QueuePolicy,
        *,
        predictions: Mapping[str, Prediction] | None = None,
        recovery: Recovery | None = None,
        pace: Pace | None = None,
        incidents: Incidents | None = None,
        observers: Sequence[Observer] = (),
        drain_seconds: float | None = None,
    ) -> None:
        self.pool, self.policy = pool, policy
        self.recovery, self.pace, self.incidents = recovery or FromScratch(), pace, incidents
        self.observers = tuple(observers)
        self._drain_seconds = drain_seconds
        told = predictions if predictions is not None else predict_all(records, Oracle())
        self.jobs = [_job(key, record, pool, told[record.job_id]) for key, record in enumerate(records)]
        self.queue = EventQueue()
        self.dispatch: Dispatch[SimJob] = Dispatch(policy, kind=kind_of, live=drain_seconds is not None)
        self.dispatch.cluster = self
        self.active: dict[int, SimJob] = {}
        self._ending: list[tuple[float, int, SimJob]] | None = None
        self.reservations: list[CapacityReservation] = []
        self.incident: Incident | None = None
        self.out: set[int] = set()
        self.flags: dict[int, float] = {}
        self.now = self.jobs[0].submitted if self.jobs else 0.0
        self.begun = False
        self.version = 0
        self.events = 0
        self.completed = 0
        self.policy_seconds = 0.0

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

    @property
    def trunk_of(self) -> IntArray | None:
        """Shape [nodes], the trunk of each; ``None`` = a job may span the cluster."""
        return self.pool.trunk_of

    def usable(self, job: Waiting) -> BoolArray:
        """Shape [nodes], which could host a part of the job if the cluster were empty."""
        return self.pool.usable(job)

    def may_fit(self, job: SimJob) -> bool:
        """Whether enough is free."""
        return self.pool.may_fit(job)

    # Time

    def begin(self) -> None:
        """Put what is known from the start into the queue of events; nothing if that is done."""
        if self.begun:
            return
        self.begun = True
        if self.policy.reserving:
            for job in self.jobs:
                if job.record.announced is not None:
                    time = min(float(job.record.announced), job.submitted)
                    self.queue.add(time, EventPhase.ANNOUNCEMENT, job.key)
        if self.jobs:
            self.queue.add(self.jobs[0].submitted, EventPhase.ARRIVAL, 0)
        self._expect()

    @property
    def over(self) -> bool:
        """Whether all jobs have ended, or nothing happens any more."""
        self.begin()
        return self.completed == len(self.jobs) or not self.queue.heap

    def peek(self) -> float:
        """Return the time of the next event; infinite when the run is over."""
        return inf if self.over else self.queue.heap[0][0]

    def step(self) -> None:
        """Go on by one instant: all its events, then the dispatch pass.  The run is not over."""
        heap, jobs, dispatch = self.queue.heap, self.jobs, self.dispatch
        now = heap[0][0]
        if now > self.now:
            for observer in self.observers:
                observer.elapsed(self, now)
            self.now = now
        while heap and heap[0][0] == now:
            _, phase, _, number, version = heappop(heap)
            if phase == EventPhase.RELEASE:
                job = jobs[number]
                if job.version != version:
                    continue
                self._release(job)
            elif phase == EventPhase.ARRIVAL:
                self._arrive(number)
            elif phase == EventPhase.ANNOUNCEMENT:
                self._announce(jobs[number])
            else:
                self._happen()
            self.events += 1
        if dispatch.due:
            before = perf_counter()
            while dispatch.due:
                for ask in dispatch.asks():
                    self._answer(ask)
            self.policy_seconds += perf_counter() - before

    def run(self, watch: Watch | None = None, *, overload: Overload | None = None) -> None:
        """Go on until all jobs have ended, or nothing happens any more.

        :raises KeyboardInterrupt: the watch says so; a checkpoint was written if it saves them.
        :raises Diverged: the run does not come to an end; a checkpoint was written here too.
        """
        watch, overload = watch or Watch(), overload or Overload()
        shown = saved = monotonic()
        while not self.over:
            for _ in range(INSTANTS):
                self.step()
                if self.over:
                    break
            now = monotonic()
            if watch.progress is not None and now >= shown + 0.1:
                watch.progress(self)
                shown = now
            diverged, interrupted = overload.verdict(self), watch.interrupted()
            if watch.save is not None and (diverged or interrupted or now >= saved + watch.every):
                watch.save(self)
                saved = monotonic()
            if diverged is not None:
                raise diverged
            if interrupted:
                raise KeyboardInterrupt

    # What happens

    def _arrive(self, key: int) -> None:
        """Submit a job, and expect the next one."""
        job = self.jobs[key]
        self._join(job)
        if job.reservation:
            mine = job.reservation
            self.reservations = [replace(one, claimed=one.claimed or one.name == mine) for one in self.reservations]
        if key + 1 < len(self.jobs):
            self.queue.add(self.jobs[key + 1].submitted, EventPhase.ARRIVAL, key + 1)

    def _join(self, job: SimJob) -> None:
        job.state = JobState.WAITING
        self.dispatch.join(job)

    def _release(self, job: SimJob) -> None:
        """End a job, or let go one that was stopped a while ago."""
        if job.leaving:
            self._requeue(job, "preemption")
            return
        self._leave(job)
        job.state = JobState.DONE
        job.left = 0.0
        job.end = self.now
        self.completed += 1

    def _leave(self, job: SimJob) -> None:
        """Take a job's nodes back."""
        changes = self.pace.stopped(job) if self.pace is not None else None
        self.pool.give(job)
        del self.active[job.key]
        if self._ending is not None:
            del self._ending[bisect_left(self._ending, (job.ends, job.key))]
        job.version += 1
        self._room_given()
        if changes:
            self._adjust(changes)

    def _announce(self, job: SimJob) -> None:
        """Find a zone for a large job that is announced."""
        taken = {node for one in self.reservations for node in one.zone}
        zone = self.pool.zone(job, taken)
        job.reservation = job.record.job_id
        announced = CapacityReservation(job.reservation, job.nodes, job.gpus, self.now, job.submitted, zone)
        self.reservations.append(announced)
        self.reservations.sort(key=lambda one: (one.arrives, one.name))
        self.version += 1

    def _expect(self) -> None:
        """Put the next incident into the queue of events."""
        self.incident = self.incidents.next() if self.incidents is not None else None
        if self.incident is not None:
            phase = EventPhase.REPAIR if self.incident.gives else EventPhase.FAILURE
            self.queue.add(max(self.now, float(self.incident.time)), phase, self.incident.node)

    def _happen(self) -> None:
        """Let the expected incident happen to its node."""
        incident = self.incident
        assert incident is not None
        if incident.kind == "slow":
            if self.pace is not None:
                self._adjust(self.pace.slowed(incident.node, incident.slowdown))
        elif incident.kind == "flag":
            self.flags[incident.node] = incident.slowdown
            self.pool.flag(incident.node, incident.slowdown)
        elif incident.kind == "up":
            if incident.node in self.out:
                self.out.remove(incident.node)
                self.pool.bring_back(incident.node)
        elif incident.node not in self.out:
            for job in [job for job in self.active.values() if incident.node in job.places]:
                self.stop(job, "failure")
            self.out.add(incident.node)
            self.pool.take_out(incident.node)
        self._room_given()
        self._expect()

    # What the dispatch pass decides

    def _answer(self, ask: Ask[SimJob]) -> None:
        """Place a job if there is room for it now, or once others are stopped."""
        job, live = ask.job, self.dispatch.live
        victims = [self.active[one.key] for one in ask.victims if isinstance(one, SimJob)]
        for victim in victims:
            self.pool.give(victim)
        found = next(filter(None, (self.pool.find(job, keep) for keep in ask.offers)), None)
        for victim in victims:
            self.pool.take(victim)
        ask.found = found is not None
        if found is not None and not ask.trial:
            for victim in victims:
                if not victim.leaving:
                    self.stop(victim, "preemption")
            if not (victims and live):
                self.start(job, found)
        elif live:
            ask.possible = self.pool.possible(job)

    def start(self, job: SimJob, found: Found) -> None:
        """Give a job its nodes; it leaves the backlog."""
        now = self.now
        self.backlog.leave(job)
        job.state = JobState.RUNNING
        job.places, job.spread = found.places, found.spread
        job.started = now
        if job.first_start == inf:
            job.first_start = now
        job.pace = 1.0
        job.since = now + job.delay
        job.version += 1
        job.ends = now + job.predicted
        self.activate(job)
        if job.reservation:
            self._lift(job.reservation)
        if self.pace is not None:
            changes = self.pace.started(job)
            job.pace = changes.get(job.key, 1.0)
            self._adjust({key: pace for key, pace in changes.items() if key != job.key})
        self.queue.add(job.since + job.left * job.pace, EventPhase.RELEASE, job.key, job.version)

    def activate(self, job: SimJob) -> None:
        """Count a job among those that have nodes, and its nodes as taken."""
        self.version += 1
        self.pool.take(job)
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
            self._requeue(job, why)

    def _requeue(self, job: SimJob, why: Why) -> None:
        """Take a stopped job's nodes back and let it wait again, with the work that it has not lost."""
        self._leave(job)
        job.leaving = False
        job.runs.append((job.started, self.now))
        work = job.record.duration
        kept, job.delay = self.recovery.interrupted(job, done=work - job.left, why=why)
        job.left = work - min(max(kept, 0.0), work)
        job.places = ()
        job.foresee(kept)
        self._join(job)

    def _lift(self, name: str) -> None:
        """Give up the zone of a large job that has its nodes."""
        self.reservations = [one for one in self.reservations if one.name != name]
        self._room_given()

    def _room_given(self) -> None:
        """Take note that jobs without room may have some now."""
        self.version += 1
        self.dispatch.freed = True

    def _adjust(self, changes: Mapping[int, float]) -> None:
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


def _job(key: int, record: JobRecord, pool: Pool, prediction: Prediction) -> SimJob:
    """Return the job of a record.

    :param key: its number, in order of submission.
    :param prediction: what the scheduler is told of its run time.
    :raises Disagreement: the pool could not hold it even if it were empty.
    """
    need = pool.need(record)
    return SimJob(
        record=record,
        key=key,
        nodes=need.nodes,
        gpus=need.gpus,
        units=need.units,
        submitted=float(record.submit),
        priority=record.priority,
        preemptible=record.preemptible,
        prediction=prediction,
        predicted=prediction.seconds,
        predicted_high=prediction.high,
        left=float(record.duration),
    )
