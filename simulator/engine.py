"""The event engine: time goes from instant to instant, and at the end of each the production scheduler decides.

An :class:`Engine` has three parts, in this order below.  The *clock* holds the time and what will happen.  The
*cluster* is the state: jobs that wait and run (:mod:`simulator.sim_job`) on what a pool gives them; what happens to one
puts its next event into the clock.  The *driver* answers the questions of the dispatch pass
(:mod:`scheduler.queue.dispatch`), which decides which job is asked when.  The engine takes one event after the other
(peek, step, run), decides nothing itself, and says when a run diverges.  Paces, incidents and start-ups come in by
:mod:`simulator.hooks`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from heapq import heappop, heappush
from math import inf
from time import monotonic, perf_counter
from types import MappingProxyType
from typing import NamedTuple

from ground.errors import ArnoldError, InvalidInput
from ground.quantities import DAY
from scheduler.queue.dispatch import Allocation, Backlog, Candidate, Dispatch
from scheduler.queue.policy import CapacityReservation, QueuePolicy, Running
from scheduler.queue.rounds import RoundDispatch
from scheduler.queue.run_times import Prediction
from simulator.hooks import FromScratch, Incident, Incidents, Kept, Pace, Recovery, Why
from simulator.job_record import JobRecord, ShareBy
from simulator.pools import Found, NodePool, Pool
from simulator.prediction import Oracle, predict_all
from simulator.sim_job import UNITS, JobState, SimJob, kind_of
from topology.cluster import IntArray

INSTANTS = 256  # Instants between two looks at the wall clock: some milliseconds
YEAR = 365.25 * DAY

LOOK = 10_000  # Events between two looks at the backlog: adding it up takes as long as some hundred events

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


class EventClock:
    """The time, and the events to come in order; those of the same time and phase as they were added.

    ``heap[0]`` is the next one, if there is any.
    """

    __slots__ = ("heap", "now", "sequence")

    def __init__(self, now: float) -> None:
        self.now = now
        self.heap: list[Event] = []
        self.sequence = 0  # Events that were ever added

    def add(self, time: float, phase: int, number: int, version: int = 0) -> None:
        """Add an event."""
        self.sequence += 1
        heappush(self.heap, (time, phase, self.sequence, number, version))


class SimulatedCluster:
    """Jobs on a pool at an instant; as a ``ClusterState``, or a ``RoundState``, it is what the policy is told.

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
        clock: EventClock,
        *,
        recovery: Recovery | None = None,
        pace: Pace | None = None,
        start_up: Callable[[SimJob, float], float] | None = None,
        drain_seconds: float | None = None,
        weights: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.jobs, self.pool, self.policy, self.clock = jobs, pool, policy, clock
        self.usable, self.may_fit, self.compartments = pool.usable, pool.may_fit, pool.compartments
        self.domains = pool.domains
        self.recovery, self.pace = recovery or FromScratch(), pace
        self._start_up = start_up
        self._drain_seconds = drain_seconds
        self._weights = weights
        self._in_use = Counter[str]()  # Units that jobs of each namespace hold
        kind: type[Dispatch[SimJob]] = Dispatch if policy.round_seconds is None else RoundDispatch
        self.dispatch = kind(policy, kind=kind_of, live=drain_seconds is not None)
        self.dispatch.cluster = self
        self.active: dict[int, SimJob] = {}  # Jobs that have nodes, by key, in the order in which they started
        self._ending: list[tuple[float, int, SimJob]] | None = None
        self.reservations: list[CapacityReservation] = []
        self.out: set[int] = set()  # Nodes that no job may use
        self.flags: dict[int, float] = {}  # Slowdowns that the scheduler knows of, by node
        self.version = 0

    # What the policy is told

    @property
    def now(self) -> float:
        """The time."""
        return self.clock.now

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

    def unsaved(self, running: Running) -> float:
        """Return the seconds of work that a job has done since its last checkpoint; 0 of one that leaves."""
        job = self.jobs[running.key] if isinstance(running.key, int) else None
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

    # What a policy in rounds is told besides

    @cached_property
    def _nodes(self) -> NodePool:
        """The pool, which places."""
        if not isinstance(self.pool, NodePool) or not self.pool.cluster.nodes_of_type:
            problem = f"{self.policy.name} chooses types of GPU, and this run has none"
            fix = "choose an --algorithm that places, and give the nodes of the cluster a gpu_type"
            raise InvalidInput(problem, where=f"--policy {self.policy.name}", fix=fix)
        return self.pool

    @property
    def nodes_by_type(self) -> Mapping[str, Sequence[int]]:
        """Nodes of each type of GPU."""
        return self._nodes.types.by_name

    @property
    def units_by_type(self) -> Mapping[str, int]:
        """Units that jobs may use, by type of GPU."""
        return {name: int(self.total[nodes].sum()) for name, nodes in self._nodes.types.by_name.items()}

    def allocations(self, job: SimJob) -> Mapping[str, Sequence[Allocation]]:
        """Return how a job may lie by type of GPU, on fewest nodes first."""
        return self._nodes.types.allocations(job.record, self._nodes.need)

    def work_left(self, job: SimJob) -> float:
        """Return the seconds of work that it is predicted to have left; one that is overdue has a second."""
        return max(1.0, job.prediction.seconds - self.done(job))

    def starting(self, job: SimJob) -> bool:
        """Return whether a job has nodes and has not worked on them as long as its start takes."""
        return job.state is JobState.RUNNING and self.now < job.started + 2.0 * job.delay

    def owe(self, shares: Mapping[Hashable, Mapping[str, float]]) -> None:
        """Add a round's shares to what jobs were owed."""
        seconds = self.policy.round_seconds or 0.0
        for key, by_type in shares.items():
            owed = self.jobs[key].owed if isinstance(key, int) else {}
            for name, share in by_type.items():
                owed[name] = owed.get(name, 0.0) + share * seconds

    # What happens to jobs

    def submit(self, job: SimJob) -> None:
        """Let a job wait; a zone that was made for it is no longer for one that has not come."""
        job.state = JobState.WAITING
        self.dispatch.join(job)
        if job.reservation:
            self.reservations = [
                replace(zone, claimed=zone.claimed or zone.name == job.reservation) for zone in self.reservations
            ]

    def announce(self, job: SimJob) -> None:
        """Find a zone for a large job that will come."""
        zone = self.pool.zone(job, {node for reservation in self.reservations for node in reservation.zone})
        job.reservation = job.record.job_id
        announced = CapacityReservation(job.reservation, job.nodes, job.gpus, self.now, job.submitted, zone)
        self.reservations.append(announced)
        self.reservations.sort(key=lambda reservation: (reservation.arrives, reservation.name))
        self.version += 1

    def start(self, job: SimJob, room: Found) -> None:
        """Give a job its nodes; it leaves the backlog, and the zone of a large job is given up."""
        now = self.clock.now
        self.dispatch.backlog.leave(job)
        job.state = JobState.RUNNING
        job.places, job.spread = room.places, room.spread
        job.started = now
        if job.first_start == inf:
            job.first_start = now
        job.pace = 1.0
        starting = 0.0 if self._start_up is None else self._start_up(job, now)
        job.delay += starting
        job.since = now + job.delay
        job.version += 1
        job.ends = now + job.predicted + starting
        self.activate(job)
        if job.reservation:
            self.reservations = [zone for zone in self.reservations if zone.name != job.reservation]
            self._give_room()
        if self.pace is not None:
            changes = self.pace.started(job)
            job.pace = changes.get(job.key, 1.0)
            self._adjust({key: pace for key, pace in changes.items() if key != job.key})
        self.clock.add(job.since + job.left * job.pace, EventPhase.RELEASE, job.key, job.version)

    def activate(self, job: SimJob) -> None:
        """Count a job among those that have nodes, and its nodes as taken."""
        self.version += 1
        self.pool.occupy(job)
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
            self.clock.add(self.now + self._drain_seconds, EventPhase.RELEASE, job.key, job.version)
        else:
            self._requeue(job, why)

    def release(self, job: SimJob) -> bool:
        """Return whether a job that gives its nodes back has ended; one that was stopped a while ago waits again."""
        if job.leaving:
            self._requeue(job, "preemption")
            return False
        self._leave(job)
        job.state = JobState.DONE
        job.left = 0.0
        job.end = self.clock.now
        return True

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
        job.state = JobState.WAITING
        self.dispatch.join(job)

    def _leave(self, job: SimJob) -> None:
        """Take a job's nodes back."""
        if self.policy.round_seconds is not None:
            job.count_held(self.now)
        changes = self.pace.stopped(job) if self.pace is not None else None
        self.pool.vacate(job)
        self._in_use[job.namespace] -= job.units
        del self.active[job.key]
        if self._ending is not None:
            del self._ending[bisect_left(self._ending, (job.ends, job.key))]
        job.version += 1
        self._give_room()
        if changes:
            self._adjust(changes)

    def _adjust(self, changes: Mapping[int, float]) -> None:
        """Let jobs run at another pace from now on."""
        for key, pace in changes.items():
            job = self.active.get(key)
            if job is None or job.leaving or job.pace == pace:
                continue
            self._work(job)
            job.pace = pace
            job.version += 1
            self.clock.add(job.since + job.left * pace, EventPhase.RELEASE, key, job.version)

    def _work(self, job: SimJob) -> None:
        """Bring up to date what work a job has left."""
        now = self.clock.now
        if now > job.since:
            job.left = max(0.0, job.left - (now - job.since) / job.pace)
            job.since = now

    def _give_room(self) -> None:
        """Take note that jobs without room may have some now."""
        self.version += 1
        self.dispatch.freed = True

    def happen(self, incident: Incident) -> None:
        """Let something happen to a node, and to the jobs on it."""
        node = incident.node
        if incident.kind == "slow":
            if self.pace is not None:
                self._adjust(self.pace.slowed(node, incident.slowdown))
        elif incident.kind == "flag":
            self.flags[node] = incident.slowdown
            self.pool.flag(node, incident.slowdown)
        elif incident.kind == "down":
            for job in [job for job in self.active.values() if node in job.places]:
                self.stop(job, "failure")
        if incident.kind == "up" and node in self.out:
            self.out.remove(node)
            self.pool.bring_back(node)
        elif incident.kind in ("down", "drain") and node not in self.out:
            self.out.add(node)
            self.pool.take_out(node)
        self._give_room()


class Driver:
    """Drives the dispatch passes of a cluster: what becomes of their questions, and when a round begins."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.seconds = 0.0  # Wall time of all passes

    def begin_round(self, arrives: float) -> None:
        """Let a round begin, and put the next one into the clock: where all is idle, when a job comes.

        :param arrives: when the next job is submitted; infinite after the last.
        """
        cluster, dispatch = self.cluster, self.cluster.dispatch
        for job in cluster.active.values():
            job.count_held(cluster.now)
        if isinstance(dispatch, RoundDispatch):
            dispatch.begins = True
        following = cluster.now + (cluster.policy.round_seconds or inf)
        if not cluster.active and not len(cluster.backlog):
            following = max(following, arrives)
        if following < inf:
            cluster.clock.add(following, EventPhase.ROUND, 0)

    def decide(self) -> None:
        """Make the pass that is due."""
        before = perf_counter()
        for candidate in self.cluster.dispatch.candidates():
            self.answer(candidate)
        self.seconds += perf_counter() - before

    def answer(self, candidate: Candidate[SimJob]) -> None:
        """Place a job if there is room for it now, or once others are stopped."""
        cluster, job, live = self.cluster, candidate.job, self.cluster.dispatch.live
        pool = cluster.pool
        victims = [victim for victim in candidate.victims if isinstance(victim, SimJob)] if candidate.victims else ()
        for victim in victims:
            pool.vacate(victim)
        room, allocation = self._room(candidate)
        for victim in victims:
            pool.occupy(victim)
        candidate.found, candidate.objective = room is not None, inf if room is None else room.objective
        if room is not None and not candidate.trial:
            for victim in victims:
                wanted = victim is job or not set(victim.places).isdisjoint(room.places)
                if wanted and not victim.leaving:
                    cluster.stop(victim, "preemption")
            if allocation is not None:
                job.allocation = allocation
            if not (victims and live):
                cluster.start(job, room)
        elif live:
            candidate.possible = pool.possible(job)

    def _room(self, candidate: Candidate[SimJob]) -> tuple[Found | None, Allocation | None]:
        """Return where a job has room, and in rounds also how it lies there; what it holds now stays as it is."""
        job, pool = candidate.job, self.cluster.pool
        for keep in candidate.offers:
            if (room := pool.find(job, keep)) is not None:
                return room, None
        before = job.nodes, job.gpus, job.gpu_types, job.mix_types
        try:
            for allocation in candidate.allocations:
                job.allocation = allocation
                if (room := pool.find(job, None)) is not None:
                    return room, allocation
        finally:
            job.nodes, job.gpus, job.gpu_types, job.mix_types = before
        return None, None


class Engine:
    """One run, from the first submission until all jobs have ended or nothing happens any more.

    :param records: in order of submission; Disagreement is raised for one that does not fit into the empty pool.
    :param predictions: what the scheduler is told of run times, by id of the job; ``None`` = the truth.
    :param kept: what checkpoints keep besides the engine and what it is handed.
    :param share_by: the field of a record that names its namespace.

    The others are as :class:`SimulatedCluster` has them.
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
        kept: Sequence[Kept] = (),
        start_up: Callable[[SimJob, float], float] | None = None,
        drain_seconds: float | None = None,
        weights: Mapping[str, float] = MappingProxyType({}),
        share_by: ShareBy = "queue",
    ) -> None:
        if predictions is None:
            predictions = predict_all(records, Oracle())
        self.jobs = [
            SimJob(
                key=key,
                record=record,
                need=pool.need(record),
                prediction=predictions[record.job_id],
                namespace=getattr(record, share_by),
            )
            for key, record in enumerate(records)
        ]
        self.clock = EventClock(self.jobs[0].submitted if self.jobs else 0.0)
        self.cluster = SimulatedCluster(
            self.jobs,
            pool,
            policy,
            self.clock,
            recovery=recovery,
            pace=pace,
            start_up=start_up,
            drain_seconds=drain_seconds,
            weights=weights,
        )
        self.driver = Driver(self.cluster)
        self.incidents, self.kept = incidents, tuple(kept)
        # they measure while time passes: told that nothing changes from ``now`` of the cluster until a time
        self.observers: tuple[Callable[[SimulatedCluster, float], None], ...] = ()
        self.incident: Incident | None = None  # The one that is expected
        self.seen: list[Incident] = []  # All so far, and it
        self.begun = False
        self.arrived = 0  # Jobs that have been submitted
        self._submissions = [*(job.submitted for job in self.jobs), inf]  # Nothing comes after the last
        self.events = 0
        self.completed = 0

    def begin(self) -> None:
        """Put what is known from the start into the clock; nothing if that is done."""
        if self.begun:
            return
        self.begun = True
        policy = self.cluster.policy
        if policy.round_seconds is not None:
            self.clock.add(self._submissions[0], EventPhase.ROUND, 0)
        if policy.reserving:
            for job in self.jobs:
                if job.record.announced is not None:
                    time = min(float(job.record.announced), job.submitted)
                    self.clock.add(time, EventPhase.ANNOUNCEMENT, job.key)
        self._expect()

    def go_on_from(self, held: Sequence[Held], *, now: float) -> None:
        """Begin at an instant with nodes that the first jobs have already."""
        self.clock.now = now
        self.arrived = len(held)
        for job, has in zip(self.jobs, held, strict=False):
            job.places, job.state = has.places, JobState.RUNNING
            job.started = job.since = job.first_start = now
            job.ends = max(now, has.expected)
            self.cluster.activate(job)
            if has.end < inf:
                self.clock.add(max(now, has.end), EventPhase.RELEASE, job.key, job.version)

    @property
    def over(self) -> bool:
        """Whether all jobs have ended, or nothing happens any more."""
        self.begin()
        coming = self.clock.heap or self._submissions[self.arrived] < inf
        return self.completed == len(self.jobs) or not coming

    def peek(self) -> float:
        """Return the time of the next event; infinite when the run is over."""
        if self.over:
            return inf
        return min([self._submissions[self.arrived], *(event[0] for event in self.clock.heap[:1])])

    def step(self, instants: int = 1) -> None:
        """Go on by so many instants, or to the end: each has its events, its submissions, then the dispatch passes."""
        clock, cluster, jobs, submissions = self.clock, self.cluster, self.jobs, self._submissions
        heap, dispatch = clock.heap, cluster.dispatch
        release, announcement = EventPhase.RELEASE, EventPhase.ANNOUNCEMENT
        arrives = submissions[self.arrived]
        while instants and self.completed < len(jobs) and (heap or arrives < inf):
            instants -= 1
            now = arrives
            if heap and heap[0][0] < now:
                now = heap[0][0]
            if now > clock.now:
                for observer in self.observers:
                    observer(cluster, now)
                clock.now = now
            while heap and heap[0][0] == now:
                _, phase, _, number, version = heappop(heap)
                if phase == release:
                    job = jobs[number]
                    if job.version != version:
                        continue
                    self.completed += cluster.release(job)
                elif phase == announcement:
                    cluster.announce(jobs[number])
                elif phase == EventPhase.ROUND:
                    self.driver.begin_round(arrives)
                elif self.incident is not None:
                    cluster.happen(self.incident)
                    self._expect()
                self.events += 1
            while arrives == now < inf:
                cluster.submit(jobs[self.arrived])
                self.events += 1
                self.arrived += 1
                arrives = submissions[self.arrived]
            while dispatch.due:
                self.driver.decide()

    def _expect(self) -> None:
        """Put the next incident into the clock."""
        self.incident = self.incidents.next() if self.incidents is not None else None
        if self.incident is not None:
            self.seen.append(self.incident)
            phase = EventPhase.REPAIR if self.incident.gives else EventPhase.FAILURE
            self.clock.add(max(self.clock.now, float(self.incident.time)), phase, self.incident.node)

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


class Held(NamedTuple):
    """What a job has that is at work when a run begins."""

    places: Sequence[int]
    end: float  # when it ends; infinite = not in this run
    expected: float  # when the scheduler expects that


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
    """Watches one run for signs that it diverges, by what happened and not by a forecast.

    :param years: of backlog, work that waits and would keep the whole cluster busy for so long; 0 = any.
    :param events: in a row without the end of a job: jobs are stopped again and again before they end, or nodes fail
        and return while the jobs that are left can never start; 0 = any.
    """

    def __init__(self, *, years: float = 100.0, events: int = 1_000_000) -> None:
        self._years, self._events = years, events
        self._completed = -1
        self._since = 0
        self._looked = 0

    def verdict(self, engine: Engine) -> Diverged | None:
        """Return what to tell the user; ``None`` = the run is sound."""
        cluster = engine.cluster
        if engine.completed != self._completed:
            self._completed, self._since = engine.completed, engine.events
        if self._events and engine.events - self._since > self._events:
            waiting, running = len(cluster.backlog), len(cluster.active)
            return Diverged(
                f"no job has ended in {self._events:,} events: {waiting:,} wait, {running:,} run",
                where="overload",
                fix="make failures rarer or checkpoints more frequent, or give the jobs a cluster that can hold them",
            )
        if self._years and engine.events - self._looked >= LOOK:
            self._looked = engine.events
            years = sum(job.units * job.left for job in cluster.backlog) / max(1, cluster.pool.capacity) / YEAR
            if years > self._years:
                gpus = cluster.pool.capacity / UNITS
                return Diverged(
                    f"{len(cluster.backlog):,} jobs wait with work for {years:,.0f} years of all {gpus:,.0f} GPUs",
                    where="overload",
                    fix="give a larger cluster, lower --scale-load, or allow more with --max-backlog-years",
                )
        return None
