"""A run over time, bucket by bucket; each number by its formula in metrics.md of the docs, cut to the bucket.

A quantity is a sum of intervals with weights, integrated over buckets exactly, without stepping through events.  With
G(x) = sum of w max(0, x - begin) - sum of w max(0, x - end), the integral over a bucket is the difference of G at its
edges; sorted prefix sums give G at all edges in O((n + m) log n).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import floor, fsum, log10

import numpy as np
import numpy.typing as npt

from ground.errors import InvalidInput
from ground.quantities import DAY, HOUR, MINUTE
from simulator.results.run_history import ENDED, FAILURE, PREEMPTION, Attempts, RunHistory
from simulator.sim_job import UNITS
from topology.cluster import FloatArray

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
    """Means over buckets of time, shape [buckets] each but the first; NaN = nothing to take a mean of."""

    edges: FloatArray  # shape [buckets + 1], seconds since the first submission
    held: FloatArray  # GPUs that jobs held
    away: FloatArray  # GPUs of nodes that no job might use
    slow: FloatArray  # nodes that were flagged as slow
    allocation: FloatArray  # held over those that jobs might use
    utilization: FloatArray  # held over all
    running: FloatArray  # jobs with nodes
    waiting: FloatArray  # jobs without
    gpus_waiting: FloatArray  # GPUs that these ask for
    # of free GPUs, the share on nodes of which another part is in use; NaN where only counted
    fragmentation: FloatArray
    spread: FloatArray  # mean DP spread of running gangs
    lost: FloatArray  # share of what running jobs could do at the trace's pace that is lost to slower steps
    ettr: FloatArray  # seconds of work that counted over seconds since jobs started first, by GPUs
    ettr_hour: FloatArray  # the same over the last hour before the end of the bucket
    ettr_so_far: FloatArray  # the same from the beginning on
    submitted: FloatArray  # jobs that came
    ended: FloatArray  # jobs that ended
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
        raise InvalidInput(
            f"{step:g} seconds make {history.length / step:,.0f} buckets",
            where="--series-step",
            fix=f"give at least {history.length / MOST_BUCKETS:.3g} seconds",
        )
    if edges is None:
        edges = edges_of(history.length, step or bucket_length(history.length, most))
    attempts, width = history.attempts, np.diff(edges)
    held = np.clip(integrals(edges, attempts.begin, attempts.end, attempts.gpus) / width, 0.0, history.capacity)
    away = _away(history, edges) / width
    asked = np.array([history.jobs[key].units for key in history.waits.number], dtype=np.float64) / UNITS
    counted, since = work(history, edges)
    return TimeSeries(
        edges=edges,
        held=held,
        away=away,
        slow=np.maximum(integrals(edges, *np.array(history.slow, dtype=np.float64).reshape(-1, 4).T[1:3]) / width, 0.0),
        allocation=np.minimum(ratio(held, history.capacity - away), 1.0),
        utilization=held / history.capacity,
        running=np.maximum(integrals(edges, attempts.begin, attempts.end) / width, 0.0),
        waiting=np.maximum(integrals(edges, history.waits.begin, history.waits.end) / width, 0.0),
        gpus_waiting=np.maximum(integrals(edges, history.waits.begin, history.waits.end, asked) / width, 0.0),
        fragmentation=_fragmentation(history, edges, history.capacity - held - away, width),
        spread=_spread(attempts, edges),
        lost=_lost(attempts, edges),
        ettr=np.clip(ratio(counted, since), 0.0, 1.0),
        ettr_hour=sliding_ettr(history, edges[1:]),
        ettr_so_far=np.clip(ratio(np.cumsum(counted), np.cumsum(since)), 0.0, 1.0),
        submitted=counts(edges, np.array([job.submitted - history.origin for job in history.jobs])),
        ended=counts(edges, attempts.end[attempts.why == ENDED]),
        failures=counts(edges, attempts.end[attempts.why == FAILURE]),
        preemptions=counts(edges, attempts.end[attempts.why == PREEMPTION]),
    )


def _away(history: RunHistory, edges: FloatArray) -> FloatArray:
    if history.cluster is None:
        return np.zeros(len(edges) - 1)
    weights = history.usable[history.away.number]
    return np.maximum(integrals(edges, history.away.begin, history.away.end, weights), 0.0)


def _spread(attempts: Attempts, edges: FloatArray) -> FloatArray:
    gang = attempts.dp > 0
    begin, end = attempts.begin[gang], attempts.end[gang]
    return ratio(integrals(edges, begin, end, attempts.dp[gang]), integrals(edges, begin, end))


def _lost(attempts: Attempts, edges: FloatArray) -> FloatArray:
    worked = np.isfinite(attempts.pace)
    begin, end, gpus = attempts.works[worked], attempts.end[worked], attempts.gpus[worked]
    done = integrals(edges, begin, end, gpus / np.maximum(attempts.pace[worked], 1e-12))
    lost = np.clip(1.0 - ratio(done, integrals(edges, begin, end, gpus)), 0.0, 1.0)
    return np.where(lost < ROUNDING, 0.0, lost)


def _fragmentation(history: RunHistory, edges: FloatArray, free: FloatArray, width: FloatArray) -> FloatArray:
    """Return free GPUs on nodes of which another part is in use, over all that are free."""
    if history.cluster is None:
        return np.full(len(width), np.nan)
    whole = history.usable == history.cluster.gpus
    node, begin, end, used = _use_of_nodes(history.attempts)
    broken = integrals(edges, begin, end, np.where(whole[node], history.usable[node], 0.0) - used)
    never = ~whole
    broken += history.usable[never].sum() * width
    gone = never[history.away.number]
    weights = history.usable[history.away.number[gone]]
    broken -= integrals(edges, history.away.begin[gone], history.away.end[gone], weights)
    return np.clip(ratio(broken / width, np.where(free > 1e-6, free, 0.0)), 0.0, 1.0)


def _use_of_nodes(attempts: Attempts) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return intervals in which a node is in use: the node, begin, end, and GPUs of it that are held."""
    sizes = np.diff(attempts.first)
    node = np.concatenate([attempts.places, attempts.places])
    time = np.concatenate([np.repeat(attempts.begin, sizes), np.repeat(attempts.end, sizes)])
    each = np.repeat(attempts.each, sizes)
    change = np.concatenate([each, -each])
    order = np.lexsort((change, time, node))
    node, time = node[order], time[order]
    used = np.cumsum(change[order])
    same = np.append(node[1:] == node[:-1], False)
    busy = same & (used > 1e-6)
    following = np.append(time[1:], 0.0)
    return node[busy], time[busy], following[busy], used[busy]


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
    found: FloatArray = np.divide(part, whole, out=np.full(part.shape, np.nan), where=sound)
    return found


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
    edges = np.arange(0.0, length, step, dtype=np.float64)
    return np.append(edges, length)
