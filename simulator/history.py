"""A finished run as columns: which job held which nodes from when to when, which waited, which nodes were away.

What a run forgets as it goes on is logged: a job knows its last places alone.  The log stands before what decides about
interruptions and before what happens to nodes, and passes everything on; it is an observer, so checkpoints keep it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan, nan
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.engine import Engine, SimulatedCluster
from simulator.hooks import FromScratch, Incident, Incidents, Recovery, Setback, Why
from simulator.sim_job import UNITS, JobState, SimJob
from topology.cluster import Cluster, FloatArray, IntArray
from topology.flags import FAULTY, HEALTHY


class CutShort(NamedTuple):
    """An attempt that did not end by itself."""

    key: int  # of the job
    begin: float  # when it got its nodes
    end: float  # when it lost them
    places: tuple[int, ...]  # its nodes
    spread: tuple[int, int] | None  # DP and PP spread; None of a job on one node
    delay: float  # seconds on its nodes before it worked
    before: float  # seconds of work that were safe when it started
    done: float  # seconds of work that it had done in all when it was stopped
    kept: float  # seconds of work that were safe afterwards
    why: Why


class AttemptLog:
    """Attempts that were cut short; and, where anything happens to nodes, a log of it."""

    def __init__(self, recovery: Recovery | None, incidents: Incidents | None) -> None:
        self._recovery = recovery or FromScratch()
        self.cut_short: list[CutShort] = []
        self.nodes = None if incidents is None else NodeLog(incidents)  # What passes them on to the engine
        self._kept: dict[int, float] = {}

    @property
    def incidents(self) -> Sequence[Incident]:
        """Return what happened to nodes, and at the end what would have come next."""
        return () if self.nodes is None else self.nodes.seen

    def saved(self, job: SimJob, *, done: float) -> float:
        """Return what the recovery says."""
        return self._recovery.saved(job, done=done)

    def interrupted(self, job: SimJob, *, done: float, why: Why) -> Setback:
        """Return what the recovery says, and note it."""
        setback = self._recovery.interrupted(job, done=done, why=why)
        begin, end = job.runs[-1]
        before = self._kept.get(job.key, 0.0)
        kept = self._kept[job.key] = min(max(setback.kept, 0.0), job.record.duration)
        self.cut_short.append(
            CutShort(job.key, begin, end, tuple(job.places), job.spread, job.delay, before, done, kept, why)
        )
        return setback

    def kept(self, key: int) -> float:
        """Return the seconds of work of a job that were safe when its last attempt started."""
        return self._kept.get(key, 0.0)

    def elapsed(self, cluster: SimulatedCluster, until: float) -> None:
        """Measure nothing."""

    def state(self) -> Any:
        """Return all that was noted."""
        return [list(one) for one in self.cut_short]

    def restore(self, state: Any) -> None:
        """Go on with that."""
        self.cut_short = [_cut_short(row) for row in state]
        self._kept = {one.key: one.kept for one in self.cut_short}


class NodeLog:
    """Incidents, passed on as they come."""

    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents
        self.seen: list[Incident] = []

    def next(self) -> Incident | None:
        """Return the next one, and note it."""
        incident = self._incidents.next()
        if incident is not None:
            self.seen.append(incident)
        return incident

    def state(self) -> Any:
        """Return what was seen, and the state of what stands behind."""
        seen = [[one.time, one.kind, one.node, one.slowdown] for one in self.seen]
        return {"seen": seen, "behind": self._incidents.state()}

    def restore(self, state: Any) -> None:
        """Go on with those."""
        self.seen = [Incident(*row) for row in state["seen"]]
        self._incidents.restore(state["behind"])


def _cut_short(row: list[Any]) -> CutShort:
    one = CutShort(*row)
    return one._replace(places=tuple(one.places), spread=None if one.spread is None else (one.spread[0], one.spread[1]))


ENDED, FAILURE, PREEMPTION = 0, 1, 2  # Why an attempt was over
_WHY = {"failure": FAILURE, "preemption": PREEMPTION}


@dataclass(frozen=True, slots=True, eq=False)
class Attempts:
    """Times in which jobs held nodes, in no particular order.  All of shape [attempts] but the last two."""

    job: IntArray  # key of the job
    begin: FloatArray  # seconds since the first submission; as all times here
    works: FloatArray  # when it began to work: after its delay
    counts: FloatArray  # until when it did work that was not lost again
    end: FloatArray  # when it gave its nodes back
    gpus: FloatArray  # GPUs in all, held
    each: FloatArray  # GPUs on each node
    pace: FloatArray  # seconds that a second of work took, mean over the attempt; NaN = it did no work
    dp: IntArray  # DP spread; 0 = of a job on one node, or GPUs were only counted; as the next
    pp: IntArray
    why: IntArray  # how it was over
    first: IntArray  # shape [attempts + 1], where its places begin
    places: IntArray  # shape [places], nodes

    def __len__(self) -> int:
        return len(self.job)


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Intervals of something, by number: jobs that wait or have started, or nodes that are away."""

    number: IntArray  # shape [spans], key of the job or index of the node; as the next two
    begin: FloatArray
    end: FloatArray


class SlowTime(NamedTuple):
    """A time in which the scheduler knew a node as slow; seconds since the first submission."""

    node: int
    begin: float
    end: float
    slowdown: float


@dataclass(frozen=True, slots=True, eq=False)
class RunHistory:
    """What happened."""

    jobs: Sequence[SimJob]  # in order of submission
    cluster: Cluster | None  # the cluster at the start; None = GPUs were only counted
    origin: float  # the first submission, on the trace's clock
    length: float  # seconds from there to the end of the run
    capacity: float  # GPUs that jobs may use when nothing is away
    usable: FloatArray  # float [nodes], the same of each node
    attempts: Attempts
    present: Spans  # of each job that started, the time from its first start to its end
    waits: Spans  # times in which jobs waited
    away: Spans  # times in which no job might use a node: failed, flagged as faulty, or kept as a spare
    slow: tuple[SlowTime, ...]  # by node and begin


def run_history(engine: Engine, log: AttemptLog, cluster: Cluster | None) -> RunHistory:
    """Return the history of a run that is over.

    :param cluster: as it was at the start; ``None`` = GPUs were only counted.
    """
    origin = engine.jobs[0].submitted
    end = max((job.end for job in engine.jobs if isfinite(job.end)), default=engine.clock.now)
    usable = np.zeros(0) if cluster is None else cluster.usable_gpus.astype(np.float64)
    present = [(job.key, job.first_start, min(job.end, end)) for job in engine.jobs if isfinite(job.first_start)]
    waits = [(job.key, begin, until) for job in engine.jobs for begin, until in _waits(job, end) if until > begin]
    attempts = _attempts(engine.jobs, list(_rows(engine.jobs, log, end)), origin, placed=cluster is not None)
    return RunHistory(
        jobs=engine.jobs,
        cluster=cluster,
        origin=origin,
        length=max(end - origin, 1e-9),
        capacity=engine.cluster.pool.capacity / UNITS,
        usable=usable,
        attempts=attempts,
        present=_spans(present, origin),
        waits=_spans(waits, origin),
        away=_spans(_away(log, attempts, origin, end), origin),
        slow=() if cluster is None else tuple(sorted(_slow(log, cluster, origin, end))),
    )


_Row = tuple[int, float, float, float, float, float, int, int, int, Sequence[int]]
"""Job, begin, works, counts, end, pace, DP and PP spread, why, places."""


def _attempts(jobs: Sequence[SimJob], rows: Sequence[_Row], origin: float, *, placed: bool) -> Attempts:
    # whole numbers among them are exact as floats
    table = np.array([row[:9] for row in rows], dtype=np.float64).reshape(-1, 9)
    job, dp, pp, why = table[:, (0, 6, 7, 8)].T.astype(np.int32)
    begin, works, counts, end = table[:, 1:5].T - origin
    gpus, each = (
        np.array([getattr(jobs[row[0]], name) for row in rows], dtype=np.float64) / UNITS for name in ("units", "gpus")
    )
    places = [row[9] if placed else () for row in rows]
    first = np.concatenate([[0], np.cumsum([len(nodes) for nodes in places])]).astype(np.int32)
    there = np.array([node for nodes in places for node in nodes], dtype=np.int32)
    return Attempts(job, begin, works, counts, end, gpus, each, table[:, 5], dp, pp, why, first, there)


def _rows(jobs: Sequence[SimJob], log: AttemptLog, end: float) -> Iterator[_Row]:
    for one in log.cut_short:
        works = min(one.begin + one.delay, one.end)
        pace = _pace(one.end - works, one.done - one.before)
        counts = works if isnan(pace) else works + max(0.0, one.kept - one.before) * pace
        spread = one.spread or (0, 0)
        yield one.key, one.begin, works, counts, one.end, pace, *spread, _WHY[one.why], one.places
    for job in jobs:
        if job.state not in (JobState.DONE, JobState.RUNNING):
            continue
        until = job.end if job.state is JobState.DONE else end
        works = min(job.started + job.delay, until)
        pace = _pace(until - works, job.record.duration - log.kept(job.key) - job.left)
        yield job.key, job.started, works, until, until, pace, *(job.spread or (0, 0)), ENDED, job.places


def _pace(seconds: float, worked: float) -> float:
    """Return the seconds that a second of work took; NaN = no work was done, or by rounding some in no time."""
    return seconds / worked if worked > 0 and seconds > 0 else nan


def _waits(job: SimJob, end: float) -> Iterator[tuple[float, float]]:
    starts = [begin for begin, _ in job.runs]
    if job.state in (JobState.DONE, JobState.RUNNING):
        starts.append(job.started)
    since = job.submitted
    for number, start in enumerate(starts):
        yield since, start
        since = job.runs[number][1] if number < len(job.runs) else inf
    if job.state is JobState.WAITING:
        yield since, end


def _away(log: AttemptLog, attempts: Attempts, origin: float, end: float) -> list[tuple[int, float, float]]:
    rows: list[tuple[int, float, float]] = []
    since: dict[int, float] = {}
    for incident in log.incidents:
        if incident.time > end:
            continue
        if incident.kind == "down":
            since[incident.node] = min(since.get(incident.node, inf), max(incident.time, origin))
        elif incident.kind == "drain":
            since.setdefault(incident.node, origin + _left(attempts, incident.node, max(incident.time - origin, 0.0)))
        elif incident.kind == "up" and incident.node in since:
            rows.append((incident.node, since.pop(incident.node), incident.time))
    rows += [(node, begin, end) for node, begin in since.items()]
    return [row for row in rows if row[1] < row[2]]


def _left(attempts: Attempts, node: int, time: float) -> float:
    """Return when the jobs that hold a part of a node at a time have left it."""
    there = np.repeat(np.arange(len(attempts)), np.diff(attempts.first))[attempts.places == node]
    held = there[(attempts.begin[there] <= time) & (attempts.end[there] > time)]
    return float(attempts.end[held].max(initial=time))


def _slow(log: AttemptLog, cluster: Cluster, origin: float, end: float) -> Iterator[SlowTime]:
    """Yield when nodes were flagged as slow: by the cluster at the start, then as flags came and went."""
    held = {node: (0.0, flag.slowdown) for node, flag in cluster.flags.items() if HEALTHY < flag.slowdown < FAULTY}
    for incident in log.incidents:
        if incident.kind != "flag" or incident.time > end:
            continue
        now, (since, factor) = max(incident.time - origin, 0.0), held.pop(incident.node, (0.0, HEALTHY))
        if factor > HEALTHY and since < now:
            yield SlowTime(incident.node, since, now, factor)
        if incident.slowdown > HEALTHY:
            held[incident.node] = now, incident.slowdown
    for node, (since, factor) in held.items():
        if since < end - origin:
            yield SlowTime(node, since, end - origin, factor)


def _spans(rows: Sequence[tuple[int, float, float]], origin: float) -> Spans:
    table: npt.NDArray[np.float64] = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return Spans(table[:, 0].astype(np.int32), table[:, 1] - origin, table[:, 2] - origin)
