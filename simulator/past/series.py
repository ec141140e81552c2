"""A run over time, bucket by bucket; each number by its formula in docs/metrics.md, cut to the bucket."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.engine.sim_job import UNITS
from simulator.past.buckets import counts, edges_of, integrals, round_step
from simulator.past.history import ENDED, FAILURE, PREEMPTION, Attempts, History
from simulator.past.work import ratio, sliding_ettr, work
from topology.cluster import FloatArray

MOST = 480
"""Buckets unless somebody says how long they are to be."""

ROUNDING = 1e-9
"""Shares below are rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Means over buckets of time, shape [buckets] each but the first; NaN = there was nothing of which to take a mean.

    :param edges: shape [buckets + 1], seconds since the first submission.
    :param held: GPUs that jobs held.
    :param away: GPUs of nodes that no job might use.
    :param allocation: held over those that jobs might use.
    :param utilization: held over all.
    :param running: jobs with nodes.
    :param waiting: jobs without.
    :param gpus_waiting: GPUs that these ask for.
    :param fragmentation: of free GPUs, the share on nodes of which another part is in use; NaN where only counted.
    :param spread: mean DP spread of running gangs.
    :param lost: share of what running jobs could do at the trace's pace that is lost to slower steps.
    :param ettr: seconds of work that counted over seconds since jobs started first, by GPUs.
    :param ettr_hour: the same over the last hour before the end of the bucket.
    :param ettr_so_far: the same from the beginning on.
    :param submitted: jobs that came.
    :param ended: jobs that ended.
    :param failures: attempts that a failure cut short.
    :param preemptions: attempts that the policy cut short.
    """

    edges: FloatArray
    held: FloatArray
    away: FloatArray
    allocation: FloatArray
    utilization: FloatArray
    running: FloatArray
    waiting: FloatArray
    gpus_waiting: FloatArray
    fragmentation: FloatArray
    spread: FloatArray
    lost: FloatArray
    ettr: FloatArray
    ettr_hour: FloatArray
    ettr_so_far: FloatArray
    submitted: FloatArray
    ended: FloatArray
    failures: FloatArray
    preemptions: FloatArray


def series(past: History, *, step: float | None = None, edges: FloatArray | None = None) -> Series:
    """The run in buckets.

    :param step: seconds of a bucket; ``None`` = a round number that makes at most :data:`MOST`.
    :param edges: of the buckets instead.
    """
    if edges is None:
        edges = edges_of(past.length, step or round_step(past.length, MOST))
    attempts, width = past.attempts, np.diff(edges)
    held = np.clip(integrals(edges, attempts.begin, attempts.end, attempts.gpus) / width, 0.0, past.capacity)
    away = _away(past, edges) / width
    asked = np.array([past.jobs[key].units for key in past.waits.number], dtype=np.float64) / UNITS
    counted, since = work(past, edges)
    return Series(
        edges=edges,
        held=held,
        away=away,
        allocation=np.minimum(ratio(held, past.capacity - away), 1.0),
        utilization=held / past.capacity,
        running=np.maximum(integrals(edges, attempts.begin, attempts.end) / width, 0.0),
        waiting=np.maximum(integrals(edges, past.waits.begin, past.waits.end) / width, 0.0),
        gpus_waiting=np.maximum(integrals(edges, past.waits.begin, past.waits.end, asked) / width, 0.0),
        fragmentation=_fragmentation(past, edges, past.capacity - held - away, width),
        spread=_spread(attempts, edges),
        lost=_lost(attempts, edges),
        ettr=np.clip(ratio(counted, since), 0.0, 1.0),
        ettr_hour=sliding_ettr(past, edges[1:]),
        ettr_so_far=np.clip(ratio(np.cumsum(counted), np.cumsum(since)), 0.0, 1.0),
        submitted=counts(edges, np.array([job.submitted - past.origin for job in past.jobs])),
        ended=counts(edges, attempts.end[attempts.why == ENDED]),
        failures=counts(edges, attempts.end[attempts.why == FAILURE]),
        preemptions=counts(edges, attempts.end[attempts.why == PREEMPTION]),
    )


def _away(past: History, edges: FloatArray) -> FloatArray:
    if past.cluster is None:
        return np.zeros(len(edges) - 1)
    weights = past.usable[past.away.number]
    return np.maximum(integrals(edges, past.away.begin, past.away.end, weights), 0.0)


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


def _fragmentation(past: History, edges: FloatArray, free: FloatArray, width: FloatArray) -> FloatArray:
    """Free GPUs on nodes of which another part is in use, over all that are free."""
    if past.cluster is None:
        return np.full(len(width), np.nan)
    whole = past.usable == past.cluster.gpus
    node, begin, end, used = _use_of_nodes(past.attempts)
    broken = integrals(edges, begin, end, np.where(whole[node], past.usable[node], 0.0) - used)
    never = ~whole
    broken += past.usable[never].sum() * width
    gone = never[past.away.number]
    weights = past.usable[past.away.number[gone]]
    broken -= integrals(edges, past.away.begin[gone], past.away.end[gone], weights)
    return np.clip(ratio(broken / width, np.where(free > 1e-6, free, 0.0)), 0.0, 1.0)


def _use_of_nodes(attempts: Attempts) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Intervals in which a node is in use: the node, begin, end, and GPUs of it that are held."""
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
