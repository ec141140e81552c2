"""What a run was like: over time, bucket by bucket; in a few numbers, in all and by size; and what it drew.

Each number is by its formula in metrics.md of the docs, cut to the bucket.  A quantity is a sum of intervals with
weights, integrated over buckets exactly, without stepping through events.  With G(x) = sum of w max(0, x - begin) - sum
of w max(0, x - end), the integral over a bucket is the difference of G at its edges; sorted prefix sums give G at all
edges in O((n + m) log n).

ETTR, the effective training time ratio, is GPU-seconds of work that counted over those since jobs first started
(ByteRobust, arXiv 2509.16293).  What one job may expect by formula is :mod:`simulator.failures.ettr`.

A replay lasts for days and a step for seconds: power is looked at in full in two windows, when most GPUs are held and
at the largest change.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil, floor, fsum, isfinite, isnan, log10
from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from ground.errors import InvalidInput
from ground.quantities import DAY, HOUR, MINUTE
from ground.records import JsonRecord, NotNegative
from simulator.history import ENDED, FAILURE, PREEMPTION, RunHistory
from simulator.power_file import PowerFigures, PowerSettings
from simulator.sim_job import UNITS, JobState, SimJob
from simulator.site_power import PowerLoad, SitePower, loads_of
from topology.cluster import FloatArray, IntArray

MOST = 480  # Buckets unless somebody says how long they are to be
MOST_BUCKETS = 1_000_000  # And if somebody does
ROUNDING = 1e-9  # Shares below are rounding
STEPS = (
    *(step * 1.0 for step in (1, 2, 5, 10, 15, 30)),
    *(step * MINUTE for step in (1, 2, 5, 10, 15, 30)),
    *(step * HOUR for step in (1, 2, 3, 6, 12)),
    *(step * DAY for step in (1, 2, 7, 14, 28)),
)
"""Lengths of buckets that people like, seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class TimeSeries:
    """Means over buckets of time, shape [buckets] each but the first; NaN = nothing to take a mean of.  Their names are
    those of the columns of ``--series-out``.
    """

    edges: FloatArray  # shape [buckets + 1], seconds since the first submission
    gpus_held: FloatArray  # GPUs that jobs held
    gpus_away: FloatArray  # GPUs of nodes that no job might use
    nodes_slow: FloatArray  # nodes that were flagged as slow
    allocation: FloatArray  # held over those that jobs might use
    utilization: FloatArray  # held over all
    jobs_running: FloatArray  # jobs with nodes
    jobs_waiting: FloatArray  # jobs without
    gpus_waiting: FloatArray  # GPUs that these ask for
    # of free GPUs, the share on nodes of which another part is in use; NaN where only counted
    fragmentation: FloatArray
    dp_spread: FloatArray  # mean DP spread of running gangs
    throughput_lost: FloatArray  # share of what running jobs could do at the trace's pace that is lost to slower steps
    ettr: FloatArray  # seconds of work that counted over seconds since jobs started first, by GPUs
    ettr_hour: FloatArray  # the same over the last hour before the end of the bucket
    ettr_so_far: FloatArray  # the same from the beginning on
    jobs_submitted: FloatArray  # jobs that came
    jobs_ended: FloatArray  # jobs that ended
    failures: FloatArray  # attempts that a failure cut short
    preemptions: FloatArray  # attempts that the policy cut short


def time_series(
    history: RunHistory, *, step: float | None = None, most: int = MOST, edges: FloatArray | None = None
) -> TimeSeries:
    """Return the run in buckets.

    :param step: seconds of a bucket; ``None`` = a round number that makes at most ``most`` buckets.
    :param edges: of the buckets instead.
    :raises InvalidInput: the step makes more than :data:`MOST_BUCKETS`.
    """
    if step is not None and history.length / step > MOST_BUCKETS:
        problem = f"{step:g} seconds make {history.length / step:,.0f} buckets"
        fix = f"give at least {ceil(history.length / MOST_BUCKETS)} seconds"
        raise InvalidInput(problem, where="--series-step", fix=fix)
    if edges is None:
        edges = edges_of(history.length, step or bucket_length(history.length, most))
    attempts, width = history.attempts, np.diff(edges)
    held = np.clip(integrals(edges, attempts.begin, attempts.end, attempts.gpus) / width, 0.0, history.capacity)
    away = np.zeros(len(width))
    if history.cluster is not None:
        usable = history.usable[history.away.number]
        away = np.maximum(integrals(edges, history.away.begin, history.away.end, usable), 0.0) / width
    gang = attempts.dp > 0
    begin, end = attempts.begin[gang], attempts.end[gang]
    spread = ratio(integrals(edges, begin, end, attempts.dp[gang]), integrals(edges, begin, end))
    worked = np.isfinite(attempts.pace)
    begin, end, gpus = attempts.works[worked], attempts.end[worked], attempts.gpus[worked]
    done = integrals(edges, begin, end, gpus / np.maximum(attempts.pace[worked], 1e-12))
    lost = np.clip(1.0 - ratio(done, integrals(edges, begin, end, gpus)), 0.0, 1.0)
    asked = np.array([history.jobs[key].units for key in history.waits.number], dtype=np.float64) / UNITS
    counted, since = work(history, edges)
    slow_times = np.array(history.slow, dtype=np.float64).reshape(-1, 4).T[1:3]
    return TimeSeries(
        edges=edges,
        gpus_held=held,
        gpus_away=away,
        nodes_slow=np.maximum(integrals(edges, *slow_times) / width, 0.0),
        allocation=np.minimum(ratio(held, history.capacity - away), 1.0),
        utilization=held / history.capacity,
        jobs_running=np.maximum(integrals(edges, attempts.begin, attempts.end) / width, 0.0),
        jobs_waiting=np.maximum(integrals(edges, history.waits.begin, history.waits.end) / width, 0.0),
        gpus_waiting=np.maximum(integrals(edges, history.waits.begin, history.waits.end, asked) / width, 0.0),
        fragmentation=_fragmentation(history, edges, history.capacity - held - away, width),
        dp_spread=spread,
        throughput_lost=np.where(lost < ROUNDING, 0.0, lost),
        ettr=np.clip(ratio(counted, since), 0.0, 1.0),
        ettr_hour=sliding_ettr(history, edges[1:]),
        ettr_so_far=np.clip(ratio(np.cumsum(counted), np.cumsum(since)), 0.0, 1.0),
        jobs_submitted=counts(edges, np.array([job.submitted - history.origin for job in history.jobs])),
        jobs_ended=counts(edges, attempts.end[attempts.why == ENDED]),
        failures=counts(edges, attempts.end[attempts.why == FAILURE]),
        preemptions=counts(edges, attempts.end[attempts.why == PREEMPTION]),
    )


def _fragmentation(history: RunHistory, edges: FloatArray, free: FloatArray, width: FloatArray) -> FloatArray:
    """Return free GPUs on nodes of which another part is in use, over all that are free."""
    if history.cluster is None:
        return np.full(len(width), np.nan)
    whole = history.usable == history.cluster.gpus
    # intervals in which a node is in use, and GPUs of it that are held: attempts on it add up from turn to turn
    attempts, sizes = history.attempts, np.diff(history.attempts.first)
    node = np.concatenate([attempts.places, attempts.places])
    time = np.concatenate([np.repeat(attempts.begin, sizes), np.repeat(attempts.end, sizes)])
    each = np.repeat(attempts.each, sizes)
    change = np.concatenate([each, -each])
    order = np.lexsort((change, time, node))
    node, time = node[order], time[order]
    used = np.cumsum(change[order])
    busy = np.append(node[1:] == node[:-1], False) & (used > 1e-6)
    begin, end = time[busy], np.append(time[1:], 0.0)[busy]
    node, used = node[busy], used[busy]
    broken = integrals(edges, begin, end, np.where(whole[node], history.usable[node], 0.0) - used)
    never = ~whole
    broken += history.usable[never].sum() * width
    gone = never[history.away.number]
    weights = history.usable[history.away.number[gone]]
    broken -= integrals(edges, history.away.begin[gone], history.away.end[gone], weights)
    return np.clip(ratio(broken / width, np.where(free > 1e-6, free, 0.0)), 0.0, 1.0)


def work(history: RunHistory, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return GPU-seconds of work that counted, and of jobs from first start to end; shape [buckets] each."""
    attempts = history.attempts
    worked = np.isfinite(attempts.pace)
    rate = attempts.gpus[worked] / np.maximum(attempts.pace[worked], 1e-12)
    counted = integrals(edges, attempts.works[worked], attempts.counts[worked], rate)
    present = history.present
    gpus = np.array([history.jobs[key].units for key in present.number], dtype=np.float64) / UNITS
    return np.maximum(counted, 0.0), np.maximum(integrals(edges, present.begin, present.end, gpus), 0.0)


def sliding_ettr(history: RunHistory, at: FloatArray, *, window: float = HOUR) -> FloatArray:
    """Return ETTR of the window in seconds before each instant; until the first window is over, of the time so far.

    :param at: shape [instants], seconds since the first submission, above 0.
    :returns: shape [instants]; NaN = no job was between its first start and its end.
    """
    since = np.maximum(at - window, 0.0)
    edges = np.unique(np.concatenate([[0.0], since, at]))
    sums = [np.concatenate([[0.0], np.cumsum(part)]) for part in work(history, edges)]
    last, first = np.searchsorted(edges, at), np.searchsorted(edges, since)
    counted, present = (total[last] - total[first] for total in sums)
    return np.clip(ratio(counted, present), 0.0, 1.0)


def ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return part over whole; NaN where the whole is nothing but rounding."""
    scale = float(np.max(np.abs(whole), initial=0.0))
    sound = whole > max(1e-9 * scale, 1e-150)  # a smaller whole may be a denormal number, by which nothing divides
    ratios: FloatArray = np.divide(part, whole, out=np.full(part.shape, np.nan), where=sound)
    return ratios


def integrals(edges: FloatArray, begin: FloatArray, end: FloatArray, weight: npt.ArrayLike = 1.0) -> FloatArray:
    """Return the integral of the sum of weights over each bucket, shape [buckets], in units of weight times seconds.

    Of a single bucket it is rounded once, so that what fills the bucket is neither more nor less than the bucket.

    :param edges: shape [buckets + 1], ascending.
    :param begin: shape [intervals], as ``weight``, which may be one for all, and ``end``, which is not before it.
    """
    weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), begin.shape)
    if len(edges) == 2:
        # Differences of prefix sums would round by as much as the whole sum; fsum does not round on the way.
        until, since = weights * np.clip(end, *edges), weights * np.clip(begin, *edges)
        return np.array([fsum(chain(until.tolist(), (-since).tolist()))])
    return np.diff(_ramps(edges, begin, weights) - _ramps(edges, end, weights))


def counts(edges: FloatArray, times: FloatArray) -> FloatArray:
    """Return how many of some times lie in each bucket; the last one has its end too."""
    return np.histogram(times, edges)[0].astype(np.float64)


def _ramps(x: FloatArray, at: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the sum of w * max(0, x - at), for each x."""
    order = np.argsort(at, kind="stable")
    at, weight = at[order], weight[order]
    passed = np.searchsorted(at, x, side="right")
    weights = np.concatenate([[0.0], np.cumsum(weight)])[passed]
    moments = np.concatenate([[0.0], np.cumsum(weight * at)])[passed]
    ramps: FloatArray = weights * x - moments
    return ramps


def bucket_length(length: float, most: int) -> float:
    """Return the least length of bucket that people like and of which a time in seconds has at most so many."""
    least = length / most
    for step in STEPS:
        if step >= least:
            return step if least > 0.2 else 10.0 ** floor(log10(least) + 1)
    return float(np.ceil(least / STEPS[-1]) * STEPS[-1])


def edges_of(length: float, step: float) -> FloatArray:
    """Return the edges of buckets from 0 to the length; the last bucket may be shorter."""
    # A length of 112 steps of 0.01 is 1.12, of which arange makes 113; nine places are more than any step is told with.
    buckets = max(ceil(round(length / step, 9)), int(length > 0))
    return np.append(step * np.arange(buckets, dtype=np.float64), length)


def run_ettr(jobs: Iterable[SimJob]) -> float | None:
    """Return ETTR, the effective training time ratio, of all jobs that ended; ``None`` = none did.

    It is 1 at most: ends are rounded, and GPUs may be faster than those of the trace.
    """
    worked, wall = gpu_seconds_worked(jobs)
    return min(1.0, worked / wall) if wall else None


def gpu_seconds_worked(jobs: Iterable[SimJob]) -> tuple[float, float]:
    """Return GPU-seconds of work of jobs that ended, at the trace's pace, and those from first start to end."""
    ended = [job for job in jobs if job.state is JobState.DONE]
    wall = fsum(job.units * (job.end - job.first_start) for job in ended)
    return fsum(job.units * job.record.duration for job in ended) / UNITS, wall / UNITS


def worst_ettr(history: RunHistory, *, window: float = HOUR) -> float | None:
    """Return the least :func:`sliding_ettr` of any whole window inside the run, or of a shorter run.

    Between two instants at which either end of the window meets a begin or an end, the ratio of two linear functions
    only rises or only falls: the least is at one of these instants.  ``None`` = no job ever started.
    """
    attempts = history.attempts
    turns = np.unique(np.concatenate([attempts.works, attempts.counts, history.present.begin, history.present.end]))
    first = min(window, history.length)
    inside = np.clip(np.concatenate([turns, turns + window]), first, history.length)
    ettr = sliding_ettr(history, np.unique(np.append(inside, history.length)), window=window)
    return None if np.isnan(ettr).all() else float(np.nanmin(ettr))


LIMITS = (1.0, 8.0, 64.0, 512.0)  # Largest number of GPUs of each class of size but the last
NAMES = ("1 GPU or less", "2 to 8 GPUs", "9 to 64 GPUs", "65 to 512 GPUs", "over 512 GPUs")
"""Of the classes of size, in which waits are told and nodes are coloured."""


class Distribution(JsonRecord):
    """Seconds over jobs; percentiles are linear between the two nearest ranks, numpy's default."""

    mean: float
    """Mean over all jobs."""
    p50: float
    """Half of the jobs have at most this."""
    p95: float
    """95 % of the jobs have at most this."""
    p99: float
    """99 % of the jobs have at most this."""
    max: float
    """The most that a job has."""


def distribution(values: npt.ArrayLike) -> Distribution | None:
    """Return the distribution of some values; ``None`` = there are none."""
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        return None
    p50, p95, p99 = np.percentile(array, (50, 95, 99)).tolist()
    return Distribution(float(array.mean()), p50, p95, p99, float(array.max()))


def wait_distribution(jobs: Iterable[SimJob]) -> Distribution | None:
    """Return seconds from submission to the first start, over jobs that started; ``None`` = none did."""
    return distribution([job.first_start - job.submitted for job in jobs if isfinite(job.first_start)])


def size_class(gpus: npt.ArrayLike) -> IntArray:
    """Return the class of a number of GPUs, from 0."""
    return np.searchsorted(LIMITS, np.asarray(gpus, dtype=np.float64), side="left").astype(np.int32)


@dataclass(frozen=True, slots=True)
class SizeWaits:
    """Waits of the jobs of one class of size that started."""

    name: str  # of the class
    jobs: int
    waited: float  # share of jobs that waited at all
    wait: Distribution  # seconds from submission to the first start


def waits_by_size(jobs: Iterable[SimJob]) -> tuple[SizeWaits | None, ...]:
    """Return the waits of each class of size; ``None`` = no job of it started."""
    started = [job for job in jobs if isfinite(job.first_start)]
    classes = size_class([job.record.gpus for job in started])
    waits = np.array([job.first_start - job.submitted for job in started])
    by_class = [(name, waits[classes == i]) for i, name in enumerate(NAMES)]
    return tuple(
        None if wait is None else SizeWaits(name, len(own), float((own > 0).mean()), wait)
        for name, own in by_class
        for wait in [distribution(own)]
    )


class MeanSpread(JsonRecord):
    """Mean over gangs of the largest number of domains that a group touches."""

    dp: Annotated[float, Ge(1)]
    """Mean over gangs of the DP spread."""
    pp: Annotated[float, Ge(1)]
    """Mean over gangs of the PP spread."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run was like; the formulas are in metrics.md (docs).  ``None`` = there was nothing of which to say it.

    Fields are called as in the answer of ``arnold simulate``, which says more of them
    (``arnold.documents.simulate_answer``), and as the columns of a study.
    """

    jobs: int
    completed: int
    makespan_seconds: float | None
    wait_seconds: Distribution | None
    trace_wait_seconds: Distribution | None
    jct_seconds: Distribution | None
    utilization: float | None
    allocation: float | None
    fragmentation: float | None
    goodput: float | None
    ettr: float | None
    ettr_worst_hour: float | None
    throughput_lost: float | None
    spread: MeanSpread | None
    failures: int  # attempts that a failure cut short
    preemptions: int  # attempts that the policy cut short
    waits_by_size: tuple[SizeWaits | None, ...]  # of each class of size; None = no job of it started


def run_summary(history: RunHistory) -> RunSummary:
    """Return the summary of a run that is over: what only jobs know, and its series with a single bucket."""
    jobs, ended = history.jobs, [job for job in history.jobs if job.state is JobState.DONE]
    gangs = [job.spread for job in ended if job.spread is not None]
    spread = MeanSpread(*(sum(each) / len(gangs) for each in zip(*gangs, strict=True))) if gangs else None
    worked, _ = gpu_seconds_worked(jobs)
    whole = time_series(history, edges=np.array([0.0, history.length]))
    means = whole.allocation[0], whole.fragmentation[0], whole.throughput_lost[0]
    allocation, fragmentation, lost = (None if isnan(mean) else float(mean) for mean in means)
    return RunSummary(
        jobs=len(jobs),
        completed=len(ended),
        makespan_seconds=history.length if ended else None,
        wait_seconds=wait_distribution(jobs),
        trace_wait_seconds=distribution([job.record.waited for job in jobs if job.record.waited is not None]),
        jct_seconds=distribution([job.end - job.submitted for job in ended]),
        utilization=float(whole.utilization[0]) if ended else None,
        allocation=allocation,
        fragmentation=fragmentation,
        goodput=worked / (history.capacity * history.length) if ended else None,
        ettr=run_ettr(jobs),
        ettr_worst_hour=worst_ettr(history),
        throughput_lost=lost,
        spread=spread,
        failures=int(whole.failures[0]),
        preemptions=int(whole.preemptions[0]),
        waits_by_size=waits_by_size(jobs),
    )


WINDOW = 120.0  # Seconds that are looked at in full


class PowerMoment(JsonRecord):
    """The power of the site, or of one power domain, around one moment of a replay."""

    moment: str
    """Name of the moment."""
    seconds: NotNegative
    """Seconds since the first submission."""
    domain: str
    """What draws the power: `site`, or the power domain that swings most."""
    figures: PowerFigures
    """What is drawn."""
    within: bool
    """Whether it is within the specification, which is of the site."""


def replayed_power(history: RunHistory, settings: PowerSettings, *, seed: int) -> tuple[PowerMoment, ...]:
    """Return the power of a finished run around two moments; nothing of a run in which no job started.

    :param history: of a run whose jobs have places.
    :param seed: of the phases of steps.
    """
    attempts, cluster = history.attempts, history.cluster
    if cluster is None or not len(attempts):
        return ()
    times, where = np.unique(np.concatenate([attempts.begin, attempts.end]), return_inverse=True)
    change = np.bincount(where, np.concatenate([attempts.gpus, -attempts.gpus]))
    moments = {"most GPUs held": int(np.cumsum(change).argmax()), "largest change": int(np.abs(change).argmax())}
    phases = np.random.default_rng(seed).random(len(attempts))
    powers: list[PowerMoment] = []
    for name, turn in moments.items():
        at = float(times[turn])
        power = SitePower(cluster=cluster, settings=settings, seconds=WINDOW, begin=at - WINDOW / 2)
        # what runs in the window: steps as slow as the pace of each attempt, phases drawn
        loads: list[PowerLoad] = []
        there = (attempts.begin < power.begin + WINDOW) & (attempts.end + settings.stop_seconds > power.begin)
        for i in np.flatnonzero(there).tolist():
            nodes = attempts.places[attempts.first[i] : attempts.first[i + 1]]
            pace = float(attempts.pace[i]) if np.isfinite(attempts.pace[i]) else 1.0
            job = history.jobs[int(attempts.job[i])].record.job_id
            begin, end, phase = (float(values[i]) for values in (attempts.begin, attempts.end, phases))
            for load in loads_of(cluster, nodes, settings, job=job):
                part = float(attempts.each[i] / cluster.gpus[load.nodes[0]])
                loads.append(replace(load, begin=begin, end=end, step=pace * load.step, phase=phase, part=part))
        drawn = [("site", power.drawn(loads)), *([power.worst(power.level, loads)] if power.level else [])]
        within = power.figures(drawn[0][1]).within(settings)
        powers += [PowerMoment(name, at, domain, power.figures(watts), within) for domain, watts in drawn]
    return tuple(powers)
