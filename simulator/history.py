"""A finished run as columns: which job held which nodes from when to when, which waited, which nodes were away.

What a run forgets as it goes on is logged: a job knows its last places alone.  The log stands before what decides about
interruptions, and passes everything on; checkpoints keep it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan, nan
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ground.records import read_json
from simulator.engine import Engine
from simulator.hooks import FlagSpan, FromScratch, Incident, Recovery, Setback, Why
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
    """Attempts that were cut short."""

    def __init__(self, recovery: Recovery | None) -> None:
        self._recovery = recovery or FromScratch()
        self.cut_short: list[CutShort] = []
        self._kept: dict[int, float] = {}

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

    def state(self) -> Any:
        """Return all that was noted."""
        return [list(cut) for cut in self.cut_short]

    def restore(self, state: Any) -> None:
        """Go on with that."""
        self.cut_short = read_json(list[CutShort], state)
        self._kept = {cut.key: cut.kept for cut in self.cut_short}


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

    def left(self, node: int, time: float) -> float:
        """Return when the jobs that hold a part of a node at a time have left it."""
        there = np.repeat(np.arange(len(self)), np.diff(self.first))[self.places == node]
        held = there[(self.begin[there] <= time) & (self.end[there] > time)]
        return float(self.end[held].max(initial=time))


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Intervals of something, by number: jobs that wait or have started, or nodes that are away."""

    number: IntArray  # shape [spans], key of the job or index of the node; as the next two
    begin: FloatArray
    end: FloatArray

    @classmethod
    def of(cls, rows: Sequence[tuple[int, float, float]], origin: float) -> Self:
        """Return rows of number, begin and end, on the trace's clock, as spans since the first submission."""
        table: npt.NDArray[np.float64] = np.array(rows, dtype=np.float64).reshape(-1, 3)
        return cls(table[:, 0].astype(np.int32), table[:, 1] - origin, table[:, 2] - origin)


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
    slow: tuple[FlagSpan, ...]  # times in which the scheduler knew a node as slow, by node and begin


def run_history(engine: Engine, log: AttemptLog, cluster: Cluster | None) -> RunHistory:
    """Return the history of a run that is over.

    :param cluster: as it was at the start; ``None`` = GPUs were only counted.
    """
    jobs, origin = engine.jobs, engine.jobs[0].submitted
    end = max((job.end for job in jobs if isfinite(job.end)), default=engine.clock.now)
    waits = []
    for job in jobs:
        since = job.submitted
        for start, stop in job.runs:
            waits.append((job.key, since, start))
            since = stop
        if job.state in (JobState.DONE, JobState.RUNNING):
            waits.append((job.key, since, job.started))
        elif job.state is JobState.WAITING:
            waits.append((job.key, since, end))
    attempts = _attempts(jobs, log, origin, end, placed=cluster is not None)
    present = [(job.key, job.first_start, min(job.end, end)) for job in jobs if isfinite(job.first_start)]
    return RunHistory(
        jobs=jobs,
        cluster=cluster,
        origin=origin,
        length=max(end - origin, 1e-9),
        capacity=engine.cluster.pool.capacity / UNITS,
        usable=np.zeros(0) if cluster is None else cluster.usable_gpus.astype(np.float64),
        attempts=attempts,
        present=Spans.of(present, origin),
        waits=Spans.of([wait for wait in waits if wait[2] > wait[1]], origin),
        away=Spans.of(_away(engine.seen, attempts, origin, end), origin),
        slow=() if cluster is None else tuple(sorted(_slow(engine.seen, cluster, origin, end))),
    )


def _away(
    incidents: Iterable[Incident], attempts: Attempts, origin: float, end: float
) -> list[tuple[int, float, float]]:
    """Return when no job might use a node: the node, from and until when, on the trace's clock.

    A node that is drained is away as soon as all jobs that hold a part of it have left it.
    """
    rows: list[tuple[int, float, float]] = []
    since: dict[int, float] = {}
    for incident in incidents:
        if incident.time > end:
            continue
        if incident.kind == "down":
            since[incident.node] = min(since.get(incident.node, inf), max(incident.time, origin))
        elif incident.kind == "drain":
            left = attempts.left(incident.node, max(incident.time - origin, 0.0))
            since.setdefault(incident.node, origin + left)
        elif incident.kind == "up" and incident.node in since:
            rows.append((incident.node, since.pop(incident.node), incident.time))
    rows += [(node, begin, end) for node, begin in since.items()]
    return [row for row in rows if row[1] < row[2]]


def _slow(incidents: Iterable[Incident], cluster: Cluster, origin: float, end: float) -> Iterator[FlagSpan]:
    """Yield when nodes were flagged as slow: by the cluster at the start, then as flags came and went."""
    held = {node: (0.0, flag.slowdown) for node, flag in cluster.flags.items() if HEALTHY < flag.slowdown < FAULTY}
    for incident in incidents:
        if incident.kind != "flag" or incident.time > end:
            continue
        now, (since, factor) = max(incident.time - origin, 0.0), held.pop(incident.node, (0.0, HEALTHY))
        if factor > HEALTHY and since < now:
            yield FlagSpan(incident.node, since, now, factor)
        if incident.slowdown > HEALTHY:
            held[incident.node] = now, incident.slowdown
    for node, (since, factor) in held.items():
        if since < end - origin:
            yield FlagSpan(node, since, end - origin, factor)


def _attempts(jobs: Sequence[SimJob], log: AttemptLog, origin: float, end: float, *, placed: bool) -> Attempts:
    """Return all attempts of a run: those that were cut short, then the last of each job that started."""

    def pace_of(seconds: float, worked: float) -> float:
        """Return the seconds that a second of work took; NaN = no work was done, or by rounding some in no time."""
        return seconds / worked if worked > 0 and seconds > 0 else nan

    # of each attempt: job, begin, works, counts, end, pace, DP and PP spread, why
    rows: list[tuple[float, ...]] = []
    places: list[Sequence[int]] = []
    for cut in log.cut_short:
        works = min(cut.begin + cut.delay, cut.end)
        pace = pace_of(cut.end - works, cut.done - cut.before)
        counts = works if isnan(pace) else works + max(0.0, cut.kept - cut.before) * pace
        rows.append((cut.key, cut.begin, works, counts, cut.end, pace, *(cut.spread or (0, 0)), _WHY[cut.why]))
        places.append(cut.places if placed else ())
    for run in jobs:
        if run.state not in (JobState.DONE, JobState.RUNNING):
            continue
        until = run.end if run.state is JobState.DONE else end
        works = min(run.started + run.delay, until)
        pace = pace_of(until - works, run.record.duration - log.kept(run.key) - run.left)
        rows.append((run.key, run.started, works, until, until, pace, *(run.spread or (0, 0)), ENDED))
        places.append(run.places if placed else ())
    # whole numbers among them are exact as floats
    table = np.array(rows, dtype=np.float64).reshape(-1, 9)
    job, dp, pp, why = table[:, (0, 6, 7, 8)].T.astype(np.int32)
    begin, works_at, counts_until, ends = table[:, 1:5].T - origin
    gpus, each = (
        np.array([getattr(jobs[key], name) for key in job], dtype=np.float64) / UNITS for name in ("units", "gpus")
    )
    first = np.concatenate([[0], np.cumsum([len(nodes) for nodes in places])]).astype(np.int32)
    there = np.array([node for nodes in places for node in nodes], dtype=np.int32)
    return Attempts(job, begin, works_at, counts_until, ends, gpus, each, table[:, 5], dp, pp, why, first, there)
