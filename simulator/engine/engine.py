"""The simulation: time goes from instant to instant, and at the end of each the production policy is asked.

All of a run is in one :class:`Engine`, which decides nothing: which job is asked is the business of the dispatch pass,
where a job goes that of the pool, what happens to nodes and how fast jobs run that of the hooks.

Two rules say that a run diverges, both on what happened, not on a forecast:

- *backlog*: the work that waits would keep the whole cluster busy for more than so many years;
- *no progress*: so many events in a row without the end of a job: jobs are stopped again and again before they end, or
  nodes fail and return while the jobs that are left can never start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop
from math import inf
from time import monotonic, perf_counter
from types import MappingProxyType

from ground.errors import ArnoldError
from ground.quantities import DAY
from scheduler.queue.policy import CapacityReservation, QueuePolicy
from scheduler.queue.run_times import Prediction
from simulator.engine.hooks import Incident, Incidents, Pace, Recovery, StartUp
from simulator.engine.round_cluster import RoundCluster
from simulator.engine.simulated_cluster import EventPhase, Observer
from simulator.job_record import JobRecord, ShareBy
from simulator.pools import Pool
from simulator.prediction.oracle import Oracle
from simulator.prediction.predictor import predict_all
from simulator.sim_job import UNITS, JobState, SimJob

INSTANTS = 256  # Instants between two looks at the clock: some milliseconds
YEAR = 365.25 * DAY

LOOK = 10_000  # Events between two looks at the backlog: adding it up takes as long as some hundred events


@dataclass(frozen=True, slots=True)
class Watch:
    """What is to happen while a run goes on."""

    progress: Callable[[Engine], None] | None = None  # called about ten times a second
    interrupted: Callable[[], bool] = bool  # whether the run is to stop now
    save: Callable[[Engine], None] | None = None  # writes a checkpoint; None = none is written
    every: float = 60.0  # seconds of wall time between checkpoints


class Diverged(ArnoldError):
    """A run that would not come to a useful end."""

    exit_code = 3


class Overload:
    """Watches one run for signs that it diverges.

    :param years: of backlog; 0 = any.
    :param events: in a row without the end of a job; 0 = any.
    """

    def __init__(self, *, years: float = 100.0, events: int = 1_000_000) -> None:
        self._years, self._events = years, events
        self._completed = -1
        self._since = 0
        self._looked = 0

    def verdict(self, engine: Engine) -> Diverged | None:
        """Return what to tell the user; ``None`` = the run is sound."""
        if engine.completed != self._completed:
            self._completed, self._since = engine.completed, engine.events
        if self._events and engine.events - self._since > self._events:
            waiting, running = len(engine.backlog), len(engine.active)
            return Diverged(
                f"no job has ended in {self._events:,} events: {waiting:,} wait, {running:,} run",
                where="overload",
                fix="make failures rarer or checkpoints more frequent, or give the jobs a cluster that can hold them",
            )
        if self._years and engine.events - self._looked >= LOOK:
            self._looked = engine.events
            years = sum(job.units * job.left for job in engine.backlog) / max(1, engine.pool.capacity) / YEAR
            if years > self._years:
                gpus = engine.pool.capacity / UNITS
                return Diverged(
                    f"{len(engine.backlog):,} jobs wait with work for {years:,.0f} years of all {gpus:,.0f} GPUs",
                    where="overload",
                    fix="give a larger cluster, lower --scale-load, or allow more with --max-backlog-years",
                )
        return None


class Engine(RoundCluster):
    """One run, from the first submission until all jobs have ended or nothing happens any more.

    :param records: in order of submission; Disagreement is raised for one that does not fit into the empty pool.
    :param predictions: what the scheduler is told of run times, by id of the job; ``None`` = the truth.
    :param share_by: the field of a record that names its namespace.
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
        start_up: StartUp | None = None,
        drain_seconds: float | None = None,
        weights: Mapping[str, float] = MappingProxyType({}),
        share_by: ShareBy = "queue",
    ) -> None:
        told = predictions if predictions is not None else predict_all(records, Oracle())
        jobs = [
            SimJob(
                key=key, record=one, need=pool.need(one), prediction=told[one.job_id], namespace=getattr(one, share_by)
            )
            for key, one in enumerate(records)
        ]

        super().__init__(
            jobs,
            pool,
            policy,
            recovery=recovery,
            pace=pace,
            start_up=start_up,
            drain_seconds=drain_seconds,
            weights=weights,
        )
        self.incidents, self.observers = incidents, tuple(observers)
        self.incident: Incident | None = None
        self.out: set[int] = set()
        self.flags: dict[int, float] = {}
        self.begun = False
        self.arrived = 0  # Jobs that have been submitted
        self._submissions = [*(job.submitted for job in jobs), inf]  # When each is; nothing comes after the last
        self.events = 0
        self.completed = 0
        self.policy_seconds = 0.0

    def begin(self) -> None:
        """Put what is known from the start into the queue of events; nothing if that is done."""
        if self.begun:
            return
        self.begun = True
        if self.policy.round_seconds is not None:
            self.queue.add(self._arrives, EventPhase.ROUND, 0)
        if self.policy.reserving:
            for job in self.jobs:
                if job.record.announced is not None:
                    time = min(float(job.record.announced), job.submitted)
                    self.queue.add(time, EventPhase.ANNOUNCEMENT, job.key)
        self._expect()

    @property
    def _arrives(self) -> float:
        """When the next job is submitted; infinite after the last."""
        return self._submissions[self.arrived]

    @property
    def over(self) -> bool:
        """Whether all jobs have ended, or nothing happens any more."""
        self.begin()
        return self.completed == len(self.jobs) or not (self.queue.heap or self._arrives < inf)

    def peek(self) -> float:
        """Return the time of the next event; infinite when the run is over."""
        return inf if self.over else min([self._arrives, *(event[0] for event in self.queue.heap[:1])])

    def step(self, instants: int = 1) -> None:
        """Go on by so many instants, or to the end: each has its events, its submissions, then the dispatch passes."""
        heap, jobs, submissions, dispatch = self.queue.heap, self.jobs, self._submissions, self.dispatch
        release, announcement = EventPhase.RELEASE, EventPhase.ANNOUNCEMENT
        arrives = submissions[self.arrived]
        while instants and self.completed < len(jobs) and (heap or arrives < inf):
            instants -= 1
            now = arrives
            if heap and heap[0][0] < now:
                now = heap[0][0]
            if now > self.now:
                for observer in self.observers:
                    observer.elapsed(self, now)
                self.now = now
            while heap and heap[0][0] == now:
                _, phase, _, number, version = heappop(heap)
                if phase == release:
                    job = jobs[number]
                    if job.version != version:
                        continue
                    self._release(job)
                elif phase == announcement:
                    self._announce(jobs[number])
                elif phase == EventPhase.ROUND:
                    self.begin_round(arrives)
                else:
                    self._happen()
                self.events += 1
            while arrives == now < inf:
                self._arrive(jobs[self.arrived])
                arrives = submissions[self.arrived]
            while dispatch.due:
                before = perf_counter()
                for candidate in dispatch.candidates():
                    self.answer(candidate)
                self.policy_seconds += perf_counter() - before

    def run(self, watch: Watch | None = None, *, overload: Overload | None = None) -> None:
        """Go on until all jobs have ended, or nothing happens any more.

        :raises KeyboardInterrupt: the watch says so; a checkpoint was written if it saves them.
        :raises Diverged: the run does not come to an end; a checkpoint was written here too.
        """
        watch, overload = watch or Watch(), overload or Overload()
        shown = saved = monotonic()
        while not self.over:
            self.step(INSTANTS)
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

    def _arrive(self, job: SimJob) -> None:
        """Submit the next job."""
        self.events += 1
        job.state = JobState.WAITING
        self.dispatch.join(job)
        self.arrived += 1
        if job.reservation:
            mine = job.reservation
            self.reservations = [replace(one, claimed=one.claimed or one.name == mine) for one in self.reservations]

    def _release(self, job: SimJob) -> None:
        """End a job, or let go one that was stopped a while ago."""
        if job.leaving:
            self.requeue(job, "preemption")
            return
        self.leave(job)
        job.state = JobState.DONE
        job.left = 0.0
        job.end = self.now
        self.completed += 1

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
                self.adjust(self.pace.slowed(incident.node, incident.slowdown))
        elif incident.kind == "flag":
            self.flags[incident.node] = incident.slowdown
            self.pool.flag(incident.node, incident.slowdown)
        elif incident.kind == "down":
            for job in [job for job in self.active.values() if incident.node in job.places]:
                self.stop(job, "failure")
        if incident.kind == "up" and incident.node in self.out:
            self.out.remove(incident.node)
            self.pool.bring_back(incident.node)
        elif incident.kind in ("down", "drain") and incident.node not in self.out:
            self.out.add(incident.node)
            self.pool.take_out(incident.node)
        self.room_given()
        self._expect()
