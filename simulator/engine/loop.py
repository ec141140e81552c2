"""The event loop: time goes from instant to instant, and at the end of each the production policy is asked.

All of a run is in one :class:`Engine`; nothing is kept in modules.  It decides nothing: who is asked is the policy's
business, where a job goes the room's, what happens to nodes and how fast jobs run that of the hooks.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop
from math import inf
from time import perf_counter

from scheduler.queue.types import BoolArray, CapacityReservation, QueuePolicy, Waiting
from simulator.engine.agenda import Agenda, Phase
from simulator.engine.hooks import (
    FromScratch,
    Incident,
    Incidents,
    Observer,
    Pace,
    Recovery,
)
from simulator.engine.job import SimJob, State
from simulator.engine.line import Line
from simulator.engine.making import make_job
from simulator.engine.room import Found, Room
from simulator.engine.stage import Why
from simulator.engine.turn import Turn
from simulator.job_record import JobRecord
from simulator.prediction.oracle import Oracle
from simulator.prediction.predicted_trace import predict_all
from simulator.prediction.types import Prediction
from topology.cluster import IntArray


class Engine:
    """One run, from the first submission until all jobs have ended or nothing happens any more.

    It is the ``Stage`` of its parts, and so the ``Floor`` of the policy.

    :param records: in order of submission; each fits into the room when that is empty.
    :param predictions: what the scheduler is told of run times, by id of the job; ``None`` = the truth.
    :raises Disagreement: one does not.
    """

    def __init__(
        self,
        records: Sequence[JobRecord],
        room: Room,
        policy: QueuePolicy,
        *,
        predictions: Mapping[str, Prediction] | None = None,
        recovery: Recovery | None = None,
        pace: Pace | None = None,
        incidents: Incidents | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.room, self.policy = room, policy
        self.recovery, self.pace, self.incidents = recovery or FromScratch(), pace, incidents
        self.observers = tuple(observers)
        told = predictions if predictions is not None else predict_all(records, Oracle())
        self.jobs = [make_job(key, record, room, told[record.job_id]) for key, record in enumerate(records)]
        for job in self.jobs:
            job.rank = policy.rank(job)
        self.agenda = Agenda()
        self.line = Line(sorted_by_kind=policy.passing)
        self.live: dict[int, SimJob] = {}
        self._ending: list[tuple[float, int, SimJob]] | None = None
        self.reservations: list[CapacityReservation] = []
        self.incident: Incident | None = None
        self.out: set[int] = set()
        self.flags: dict[int, float] = {}
        self.now = self.jobs[0].submitted if self.jobs else 0.0
        self.events = 0
        self.completed = 0
        self.policy_seconds = 0.0
        self.turn = Turn(self)

    # The face of a floor

    @property
    def total(self) -> IntArray:
        """Shape [nodes], units that jobs may use."""
        return self.room.total

    @property
    def free(self) -> IntArray:
        """Shape [nodes], units that no job holds."""
        return self.room.free

    @property
    def running(self) -> Iterable[SimJob]:
        """Jobs that have nodes, by expected end."""
        if self._ending is None:
            self._ending = sorted((job.ends, job.key, job) for job in self.live.values())
        return (job for _, _, job in self._ending)

    @property
    def trunk_of(self) -> IntArray | None:
        """Shape [nodes], the trunk of each; ``None`` = a job may span the cluster."""
        return self.room.trunk_of

    def usable(self, job: Waiting) -> BoolArray:
        """Shape [nodes], which could host a part of the job if the cluster were empty."""
        return self.room.usable(job)

    # Time

    def begin(self) -> None:
        """Put on the agenda what is known from the start."""
        if self.policy.reserving:
            for job in self.jobs:
                if job.record.announced is not None:
                    self.agenda.add(min(float(job.record.announced), job.submitted), Phase.ANNOUNCEMENT, job.key)
        if self.jobs:
            self.agenda.add(self.jobs[0].submitted, Phase.ARRIVAL, 0)
        self._expect()

    @property
    def over(self) -> bool:
        """Whether all jobs have ended, or nothing happens any more."""
        return self.completed == len(self.jobs) or not self.agenda.heap

    def advance(self, instants: int) -> None:
        """Go on by so many instants, or to the end."""
        heap, jobs, turn, line = self.agenda.heap, self.jobs, self.turn, self.line
        while instants and heap and self.completed < len(jobs):
            instants -= 1
            now = heap[0][0]
            if now > self.now:
                for observer in self.observers:
                    observer.elapsed(self, now)
                self.now = now
            while heap and heap[0][0] == now:
                _, phase, _, number, version = heappop(heap)
                if phase == Phase.RELEASE:
                    job = jobs[number]
                    if job.version != version:
                        continue
                    self._release(job)
                elif phase == Phase.ARRIVAL:
                    self._arrive(number)
                elif phase == Phase.ANNOUNCEMENT:
                    self._announce(jobs[number])
                else:
                    self._happen()
                self.events += 1
            if turn.fresh or (turn.opened and line.size):
                before = perf_counter()
                turn.take()
                self.policy_seconds += perf_counter() - before

    # What happens

    def _arrive(self, key: int) -> None:
        """A job is submitted; the next one is expected."""
        job = self.jobs[key]
        self._join(job)
        if key + 1 < len(self.jobs):
            self.agenda.add(self.jobs[key + 1].submitted, Phase.ARRIVAL, key + 1)

    def _join(self, job: SimJob) -> None:
        job.state = State.WAITING
        self.line.join(job)
        self.turn.fresh.append(job)

    def _release(self, job: SimJob) -> None:
        """A job ends."""
        self._leave(job)
        job.state = State.DONE
        job.left = 0.0
        job.end = self.now
        self.completed += 1

    def _leave(self, job: SimJob) -> None:
        """A job leaves its nodes."""
        changes = self.pace.stopped(job) if self.pace is not None else None
        self.room.give(job)
        del self.live[job.key]
        if self._ending is not None:
            del self._ending[bisect_left(self._ending, (job.ends, job.key))]
        job.version += 1
        self.turn.opened = True
        if changes:
            self._adjust(changes)

    def _announce(self, job: SimJob) -> None:
        """A large job is announced: a zone is found for it."""
        taken = {node for one in self.reservations for node in one.zone}
        zone = self.room.zone(job, taken)
        job.reservation = job.record.job_id
        announced = CapacityReservation(job.reservation, job.nodes, job.gpus, self.now, job.submitted, zone)
        self.reservations.append(announced)
        self.reservations.sort(key=lambda one: (one.arrives, one.name))

    def _expect(self) -> None:
        """The next incident goes on the agenda."""
        self.incident = self.incidents.next() if self.incidents is not None else None
        if self.incident is not None:
            phase = Phase.REPAIR if self.incident.gives else Phase.FAILURE
            self.agenda.add(max(self.now, float(self.incident.time)), phase, self.incident.node)

    def _happen(self) -> None:
        """Something happens to a node."""
        incident = self.incident
        assert incident is not None
        if incident.kind == "slow":
            if self.pace is not None:
                self._adjust(self.pace.slowed(incident.node, incident.slowdown))
        elif incident.kind == "flag":
            self.flags[incident.node] = incident.slowdown
            self.room.flag(incident.node, incident.slowdown)
        elif incident.kind == "up":
            if incident.node in self.out:
                self.out.remove(incident.node)
                self.room.bring_back(incident.node)
        elif incident.node not in self.out:
            for job in [job for job in self.live.values() if incident.node in job.places]:
                self.stop(job, "failure")
            self.out.add(incident.node)
            self.room.take_out(incident.node)
        self.turn.opened = True
        self._expect()

    # What the turn does

    def start(self, job: SimJob, found: Found) -> None:
        """A job gets its nodes and leaves the queue."""
        now = self.now
        self.line.leave(job)
        job.state = State.RUNNING
        job.places, job.spread = found.places, found.spread
        job.started = now
        if job.first_start == inf:
            job.first_start = now
        job.pace = 1.0
        job.since = now + job.delay
        job.version += 1
        job.ends = now + job.predicted
        self.room.take(job)
        self.enliven(job)
        if job.reservation:
            self._lift(job.reservation)
        if self.pace is not None:
            changes = self.pace.started(job)
            job.pace = changes.get(job.key, 1.0)
            self._adjust({key: pace for key, pace in changes.items() if key != job.key})
        self.agenda.add(job.since + job.left * job.pace, Phase.RELEASE, job.key, job.version)

    def enliven(self, job: SimJob) -> None:
        """A job is among those that run."""
        self.live[job.key] = job
        if self._ending is not None:
            insort(self._ending, (job.ends, job.key, job))

    def stop(self, job: SimJob, why: Why) -> None:
        """A job loses its nodes and queues again."""
        self._work(job)
        self._leave(job)
        job.runs.append((job.started, self.now))
        work = job.record.duration
        kept, job.delay = self.recovery.interrupted(job, done=work - job.left, why=why)
        job.left = work - min(max(kept, 0.0), work)
        job.places = ()
        job.foresee(kept)
        job.rank = self.policy.rank(job)
        self._join(job)

    def _lift(self, name: str) -> None:
        """A large job has its nodes: its zone is given up."""
        self.reservations = [one for one in self.reservations if one.name != name]
        self.turn.opened = True

    def _adjust(self, changes: Mapping[int, float]) -> None:
        """Jobs run at another pace from now on."""
        for key, pace in changes.items():
            job = self.live.get(key)
            if job is None or job.pace == pace:
                continue
            self._work(job)
            job.pace = pace
            job.version += 1
            self.agenda.add(job.since + job.left * pace, Phase.RELEASE, key, job.version)

    def _work(self, job: SimJob) -> None:
        """Bring up to date what work a job has left."""
        if self.now > job.since:
            job.left = max(0.0, job.left - (self.now - job.since) / job.pace)
            job.since = self.now
