"""When a job starts behind those that wait: the replay of a live queue, from the state that the cluster is in.

The engine of all replays (:mod:`simulator.engine`) goes on from jobs that run and wait until the job in question
starts, under any policy; by default EASY backfilling, which Slurm's and most queues resemble.  The scheduler is told
what it is told there: time limits.  When jobs really end is for the caller to say, or to draw.  Not known, and so not
in it: jobs that have yet to come, and may pass.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

import numpy as np

from ground.errors import InvalidJob
from ground.groups import grouped
from ground.quantities import HOUR
from scheduler.algorithm_run import fits
from scheduler.job import Job
from scheduler.job_on_cluster import at_no_time
from scheduler.placement.types import ALGORITHMS, Limits, PlacementAlgorithm
from scheduler.queue.policy import POLICIES, Keep
from scheduler.queue.run_times import Likeness, Prediction, RunTimeHistory
from scheduler.start_times import Future, without
from scheduler.work_clock import cut_short, interrupted, spend
from simulator.engine import Engine, EventClock, Held
from simulator.failures.cluster_failures import IncidentStream
from simulator.hooks import Incident
from simulator.job_record import JobRecord
from simulator.pools import Disagreement, Found, NodePool
from simulator.sim_job import UNITS, Need, SimJob
from topology.cluster import Cluster
from topology.running_jobs import LiveJob

ASKED = "the job that is asked about"
STEP = 1e-4  # Seconds of work that an instant of a replay counts as


def run_times_of(records: Iterable[JobRecord]) -> RunTimeHistory:
    """Return what jobs that ended took, by owner, group (where a trace has none, queue) and GPUs."""
    history = RunTimeHistory()
    for record in records:
        history.learn(Likeness(record.user, record.group or record.queue, record.gpus), record.duration)
    return history


class QueuePool(NodePool):
    """Nodes on which one job is placed as ``arnold place`` does, with all that its file asks, and others as in replays.

    :param needs: of jobs that have nodes already, and of the one in question, by id.
    :param solver: that places the one in question; where others go, whose grids are hardly known, is not searched for.
    """

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        needs: Mapping[str, Need],
        future: Future,
        *,
        solver: PlacementAlgorithm,
        limits: Limits,
    ) -> None:
        # what is faulty for a while is a part of the cluster: `find` looks at the time
        timeless, begun = at_no_time(cluster), cluster.flags.values()
        lasting = [flag for flag in timeless.upcoming if flag.until is None and flag in begun]
        passing = tuple(flag for flag in timeless.upcoming if flag not in lasting)
        cluster = timeless.replace(upcoming=passing).with_flags(lasting)
        super().__init__(cluster, algorithm=ALGORITHMS.load("gpu-packing"), limits=limits, given=needs)
        self._asked, self._solver = job, solver
        self._fits: dict[tuple[bytes, int], bool] = {}
        self.future = future
        self.clock: EventClock

    def may_fit(self, job: SimJob) -> bool:
        """Return whether enough nodes have enough free."""
        return job.record.job_id == ASKED or super().may_fit(job)

    def find(self, job: SimJob, keep: Keep) -> Found | None:
        """Return nodes for the job; for the one in question, with which the replay ends, any where it has room."""
        now = self.clock.now
        if job.record.job_id != ASKED:
            away = self.future.away(now, job.predicted)
            if away:
                keep = np.zeros_like(self.free) if keep is None else keep.copy()
                keep[away] = self.free[away]
            return super().find(job, keep)
        free = (self.free if keep is None else np.maximum(0, self.free - keep)) // UNITS
        key = free.tobytes(), self.future.period(now)
        if key not in self._fits:
            cluster = self.future.then(self.cluster.replace(free_gpus=free.astype(self.cluster.free_gpus.dtype)), now)
            self._fits[key] = bool(fits(cluster, self._asked, solver=self._solver, limits=self._limits))
        return Found(np.flatnonzero(free)[: job.nodes].tolist()) if self._fits[key] else None


class _Part(NamedTuple):
    """The part of a running job that has so many GPUs on each of its nodes."""

    job: LiveJob
    record: JobRecord
    need: Need
    places: Sequence[int]


class QueueForecast:
    """The start of a job behind others, for any ends of those that run.

    :param cluster: with the GPUs of the running jobs in use.
    :param waiting: in the order of the queue.
    :param place: of the job, before which so many have their turn; ``None`` = the last.
    :param now: seconds since 1970.
    :param policy: of the queue, by name.
    """

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        running: Sequence[LiveJob],
        waiting: Sequence[LiveJob],
        *,
        now: float,
        solver: PlacementAlgorithm,
        limits: Limits,
        place: int | None = None,
        policy: str = "fifo-backfill",
    ) -> None:
        future = Future(cluster, job, running, now)
        self._now, self._policy = now, POLICIES.load(policy)
        self._held = [part for other in running for part in _parts(cluster, other, now)]
        needs = {held.record.job_id: held.need for held in self._held}
        nodes, units = job.grid.cells, job.gpus_per_node * UNITS
        needs[ASKED] = Need(nodes, units, nodes * units)
        self._pool = QueuePool(without(cluster, running), job, needs, future, solver=solver, limits=limits)
        self.waiting: list[LiveJob] = []  # Those that wait for the same nodes
        self.elsewhere: list[str] = []
        """Names of those that could not run on these nodes if they were empty, so that others are meant."""
        self.before = 0
        """How many have their turn before the job."""
        records = list[JobRecord]()
        for turn, other in enumerate(waiting):
            gpus = other.gpus if isinstance(other.gpus, int) else self._pool.cluster.node_size
            name = f"{len(self.waiting)} {other.name}"
            record = JobRecord(name, now, inf, gpus * other.wanted, other.wanted)
            try:
                self._pool.need(record)
            except (Disagreement, InvalidJob):
                self.elsewhere.append(other.name)
            else:
                self.waiting.append(other)
                records.append(record)
                self.before += place is None or turn < place
        limited = [inf if other.seconds is None else other.seconds for other in self.waiting]
        hours = inf if job.expected_hours is None else job.expected_hours
        records.insert(self.before, JobRecord(ASKED, now, inf, nodes * job.gpus_per_node, nodes))
        limited.insert(self.before, hours * HOUR)
        self._queue = [*zip(records, limited, strict=True)]

    def start(self, ends: Mapping[str, float], lengths: Sequence[float]) -> float:
        """Return when the job starts, seconds since 1970; infinite = not before a job ends of which no end is known,
        or before the clock ended the replay.

        :param ends: of running jobs by name, seconds since 1970; one that is missing never ends.
        :param lengths: seconds that each of :attr:`waiting` will run; infinite = for ever.
        """
        durations = [*lengths[: self.before], inf, *lengths[self.before :]]
        queue = [
            replace(record, duration=max(1.0, seconds))
            for (record, _), seconds in zip(self._queue, durations, strict=True)
        ]
        told = {held.record.job_id: _believed(held.job) - self._now for held in self._held}
        told |= {record.job_id: seconds for record, seconds in self._queue}
        engine = Engine(
            [*(held.record for held in self._held), *queue],
            self._pool,
            self._policy,
            predictions={name: Prediction(seconds, 0.0, seconds) for name, seconds in told.items()},
            # the queue is asked anew whenever a flag of a node begins or ends: room that is given back, whichever's
            incidents=IncidentStream(
                lambda: (Incident(time, "up", 0) for time in self._pool.future.changes if time > self._now)
            ),
        )
        self._pool.clock = engine.clock
        engine.go_on_from(
            [Held(part.places, ends.get(part.job.name, inf), _believed(part.job)) for part in self._held], now=self._now
        )
        asked = engine.jobs[len(self._held) + self.before]
        while asked.first_start == inf and engine.peek() < inf and not (cut_short() or interrupted()):
            engine.step()
            spend(STEP)
        for job in engine.cluster.active.values():
            self._pool.vacate(job)
        return asked.first_start


def _believed(job: LiveJob) -> float:
    """Return when the scheduler expects its end."""
    return inf if job.ends is None else job.ends


def _parts(cluster: Cluster, job: LiveJob, now: float) -> Iterator[_Part]:
    """Yield what a running job has: a part for each number of GPUs."""
    by_gpus = zip(job.gpus_on(cluster).tolist(), (cluster.index_of[name] for name in job.nodes), strict=True)
    for gpus, nodes in grouped(by_gpus).items():
        record = JobRecord(f"runs: {job.name}, {gpus}", now, inf, gpus * len(nodes), len(nodes))
        yield _Part(job, record, Need(len(nodes), gpus * UNITS, gpus * UNITS * len(nodes)), nodes)
