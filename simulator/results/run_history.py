"""A finished run as columns: which job held which nodes from when to when, which waited, which nodes were away.

Everything that is drawn or exported over time comes from here, computed once the run is over; while it goes on nothing
is sampled, and what is shown is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan

import numpy as np
import numpy.typing as npt

from simulator.engine.engine import Engine
from simulator.engine.sim_job import UNITS, JobState, SimJob
from simulator.results.attempt_log import AttemptLog
from topology.cluster import Cluster, FloatArray, IntArray

ENDED, FAILURE, PREEMPTION = 0, 1, 2
"""Why an attempt was over."""

_WHY = {"failure": FAILURE, "preemption": PREEMPTION}


@dataclass(frozen=True, slots=True, eq=False)
class Attempts:
    """Times in which jobs held nodes, in no particular order.  All of shape [attempts] but the last two.

    :param job: key of the job.
    :param begin: seconds since the first submission; as all times here.
    :param works: when it began to work: after its delay.
    :param counts: until when it did work that was not lost again.
    :param end: when it gave its nodes back.
    :param gpus: GPUs in all, held.
    :param each: GPUs on each node.
    :param pace: seconds that a second of work took, mean over the attempt; NaN = it did no work.
    :param dp: DP spread; 0 = of a job on one node, or GPUs were only counted; as the next.
    :param why: how it was over.
    :param first: shape [attempts + 1], where its places begin.
    :param places: shape [places], nodes.
    """

    job: IntArray
    begin: FloatArray
    works: FloatArray
    counts: FloatArray
    end: FloatArray
    gpus: FloatArray
    each: FloatArray
    pace: FloatArray
    dp: IntArray
    pp: IntArray
    why: IntArray
    first: IntArray
    places: IntArray

    def __len__(self) -> int:
        return len(self.job)


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Intervals of something, by number: jobs that wait or have started, or nodes that are away.

    :param number: shape [spans], key of the job or index of the node; as the next two.
    """

    number: IntArray
    begin: FloatArray
    end: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class RunHistory:
    """What happened.

    :param jobs: in order of submission.
    :param cluster: the cluster at the start; ``None`` = GPUs were only counted.
    :param origin: the first submission, on the trace's clock.
    :param length: seconds from there to the end of the run.
    :param capacity: GPUs that jobs may use when nothing is away.
    :param usable: float [nodes], the same of each node.
    :param present: of each job that started, the time from its first start to its end.
    :param waits: times in which jobs waited.
    :param away: times in which no job might use a node: failed, or kept as a spare.
    """

    jobs: Sequence[SimJob]
    cluster: Cluster | None
    origin: float
    length: float
    capacity: float
    usable: FloatArray
    attempts: Attempts
    present: Spans
    waits: Spans
    away: Spans


def run_history(engine: Engine, log: AttemptLog, cluster: Cluster | None) -> RunHistory:
    """Return the history of a run that is over.

    :param cluster: as it was at the start; ``None`` = GPUs were only counted.
    """
    origin = engine.jobs[0].submitted
    end = max((job.end for job in engine.jobs if isfinite(job.end)), default=engine.now)
    usable = (
        np.where(np.isfinite(cluster.slowdown), cluster.free_gpus, 0).astype(np.float64)
        if cluster is not None
        else np.zeros(0)
    )
    return RunHistory(
        jobs=engine.jobs,
        cluster=cluster,
        origin=origin,
        length=max(end - origin, 1e-9),
        capacity=engine.pool.capacity / UNITS,
        usable=usable,
        attempts=_attempts(engine, log, origin, end, placed=cluster is not None),
        present=_present(engine.jobs, origin, end),
        waits=_waits(engine.jobs, origin, end),
        away=_away(log, origin, end),
    )


_Row = tuple[int, float, float, float, float, float, tuple[int, int], int, Sequence[int]]
"""Job, begin, works, counts, end, pace, spread, why, places."""


def _attempts(engine: Engine, log: AttemptLog, origin: float, end: float, *, placed: bool) -> Attempts:
    rows = list(_rows(engine.jobs, log, end))
    jobs = [engine.jobs[row[0]] for row in rows]
    places = [row[8] if placed else () for row in rows]
    times = np.array([row[1:5] for row in rows], dtype=np.float64).reshape(-1, 4) - origin
    return Attempts(
        job=np.array([row[0] for row in rows], dtype=np.int32),
        begin=times[:, 0],
        works=times[:, 1],
        counts=times[:, 2],
        end=times[:, 3],
        gpus=np.array([job.units for job in jobs], dtype=np.float64) / UNITS,
        each=np.array([job.gpus for job in jobs], dtype=np.float64) / UNITS,
        pace=np.array([row[5] for row in rows], dtype=np.float64),
        dp=np.array([row[6][0] for row in rows], dtype=np.int32),
        pp=np.array([row[6][1] for row in rows], dtype=np.int32),
        why=np.array([row[7] for row in rows], dtype=np.int32),
        first=np.concatenate([[0], np.cumsum([len(nodes) for nodes in places])]).astype(np.int32),
        places=np.array([node for nodes in places for node in nodes], dtype=np.int32),
    )


def _rows(jobs: Sequence[SimJob], log: AttemptLog, end: float) -> Iterator[_Row]:
    for one in log.cut_short:
        works = min(one.begin + one.delay, one.end)
        worked = one.done - one.before
        pace = (one.end - works) / worked if worked > 0 else nan
        counts = works + max(0.0, one.kept - one.before) * pace if worked > 0 else works
        spread = one.spread or (0, 0)
        yield one.key, one.begin, works, counts, one.end, pace, spread, _WHY[one.why], one.places
    for job in jobs:
        if job.state not in (JobState.DONE, JobState.RUNNING):
            continue
        until = job.end if job.state is JobState.DONE else end
        works = min(job.started + job.delay, until)
        worked = job.record.duration - log.kept(job.key) - job.left
        pace = (until - works) / worked if worked > 0 else nan
        yield job.key, job.started, works, until, until, pace, job.spread or (0, 0), ENDED, job.places


def _present(jobs: Sequence[SimJob], origin: float, end: float) -> Spans:
    return _spans([(job.key, job.first_start, min(job.end, end)) for job in jobs if isfinite(job.first_start)], origin)


def _waits(jobs: Sequence[SimJob], origin: float, end: float) -> Spans:
    rows = [(job.key, begin, until) for job in jobs for begin, until in _waits_of(job, end) if until > begin]
    return _spans(rows, origin)


def _waits_of(job: SimJob, end: float) -> Iterator[tuple[float, float]]:
    starts = [begin for begin, _ in job.runs]
    if job.state in (JobState.DONE, JobState.RUNNING):
        starts.append(job.started)
    since = job.submitted
    for number, start in enumerate(starts):
        yield since, start
        since = job.runs[number][1] if number < len(job.runs) else inf
    if job.state is JobState.WAITING:
        yield since, end


def _away(log: AttemptLog, origin: float, end: float) -> Spans:
    rows: list[tuple[int, float, float]] = []
    since: dict[int, float] = {}
    for incident in log.incidents:
        if incident.time > end:
            continue
        if incident.kind == "down":
            since.setdefault(incident.node, max(incident.time, origin))
        elif incident.kind == "up" and incident.node in since:
            rows.append((incident.node, since.pop(incident.node), incident.time))
    rows += [(node, begin, end) for node, begin in since.items()]
    return _spans(rows, origin)


def _spans(rows: Sequence[tuple[int, float, float]], origin: float) -> Spans:
    table: npt.NDArray[np.float64] = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return Spans(table[:, 0].astype(np.int32), table[:, 1] - origin, table[:, 2] - origin)
