"""Which workers compute longer than their peers, and since which step.

The peers of a worker are the other data-parallel ranks of its stage, which hold the same layers and as many
microbatches.  Its plain ratio is its forward and backward time of a step over their median.  Its factor is that ratio
over what the other stages of its rank show of the same, as a rank with longer sequences is slow in every stage and a
slow worker in one.  The factor is never noticeably more than the plain ratio: the other stages can acquit a worker,
and never convict one that computes no longer than its peers.  With two ranks and two stages the worker diagonal to a
slow one would else have the same factor, as the slow one makes its own rank look fast in the other stage.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from health.whatif.optypes import BACKWARD, FORWARD
from health.whatif.step_replay import Replayed

NOTICED = 1.03  # Factors and slowdowns below this are noise
# A slow worker stands out from its peers by this many of their standard deviations (estimated from their median)
SPREADS = 3.0
DEVIATION = 1.4826  # Makes a median of deviations the standard deviation of a normal distribution
ON_END = 3  # Slow in so many last steps on end, after steps in which it was not: it broke, and stays slow
Floats = NDArray[np.float64]


class WorkerSlowness(NamedTuple):
    """How slow a worker is beside its peers."""

    factor: float  # median over the steps, from the onset on where there is one
    steps: float  # share of all steps in which it is noticeably slow
    onset: int | None  # place of the first step from which on it is slow on end; None = slow from the beginning


def compute_seconds(replayed: Replayed) -> Floats:
    """Return [pp, dp, steps]: forward and backward time of each worker."""
    trace = replayed.trace
    seconds = np.zeros((trace.sizes.pp, len(trace.dp_ranks), len(trace.steps)))
    for place, operation in enumerate(trace.operations):
        if operation.optype in (FORWARD, BACKWARD):
            seconds[operation.stage] += replayed.durations.traced[place]
    return seconds


def plain_ratios(seconds: Floats) -> Floats:
    """Return [pp, dp, steps] -> time of each worker over that of its peers; 1 where there is nothing to compare."""
    return np.ones_like(seconds) if seconds.shape[1] == 1 else over(seconds, _median_of_others(seconds, axis=1))


def factors(seconds: Floats) -> Floats:
    """Return [pp, dp, steps] -> the factor of each worker in each step, not yet bounded by its plain ratio."""
    plain = plain_ratios(seconds)
    if 1 in plain.shape[:2]:
        return plain
    # of an even number the lower: with three stages, one other slow stage does not acquit this one
    return over(plain, _median_of_others(plain, axis=0, lower=True))


def ranks_with_more_work(replayed: Replayed) -> dict[int, float]:
    """Return place of the rank -> factor, of ranks that compute longer than the others in most of several stages."""
    seconds = compute_seconds(replayed)
    if min(seconds.shape[:2]) == 1:
        return {}
    of_stage = np.median(over(seconds, _median_of_others(seconds, axis=1)), axis=2)
    # of an even number of stages the lower: more than half are slow
    factor = np.sort(of_stage, axis=0)[(len(seconds) - 1) // 2]
    return {int(rank): float(factor[rank]) for rank in np.flatnonzero(factor >= NOTICED)}


def slower_than_peers(replayed: Replayed) -> dict[tuple[int, int], WorkerSlowness]:
    """Return (place of the rank, stage) -> how slow, of all workers that compute longer than their peers."""
    seconds = compute_seconds(replayed)
    ratio, plain = factors(seconds), plain_ratios(seconds)
    late, half = ratio[:, :, -ON_END:].min(axis=2), np.median(ratio, axis=2)
    found = {}
    for stage, rank in np.argwhere(np.maximum(late, half) >= NOTICED):
        others = np.delete(ratio[stage], rank, axis=0)
        # beside each other: beside a slow worker they look fast
        beside = over(others, np.median(others, axis=0))
        if slowness := _judged(ratio[stage, rank], plain[stage, rank], beside):
            found[int(rank), int(stage)] = slowness
    return found


def convicted(replayed: Replayed) -> dict[tuple[int, int], WorkerSlowness]:
    """Return the workers of :func:`slower_than_peers` that are few enough in their stage for its peers to tell.

    Fewer than half of its ranks, or of two the slower: from half on the median of the peers is slow itself, and uneven
    work in the stage is as good an explanation.
    """
    slow = slower_than_peers(replayed)
    of_stage = Counter(stage for _, stage in slow)
    most = max(1, (len(replayed.trace.dp_ranks) - 1) // 2)
    return {worker: slowness for worker, slowness in slow.items() if of_stage[worker[1]] <= most}


def _judged(own: Floats, plain: Floats, peers: Floats) -> WorkerSlowness | None:
    """Return how slow a worker of ``own`` [steps] is beside ``peers`` [others, steps]; ``None`` = not.

    :param plain: [steps], its plain ratios, which bound the factor.
    """
    share = float((own >= NOTICED).mean())
    onset = _onset(own, peers)
    if onset is None and share <= 0.5:  # the median of an even number of steps may be one slow step's
        return None
    first = onset or 0
    factor, bound = float(np.median(own[first:])), float(np.median(plain[first:]))
    factor = bound if factor > NOTICED * bound else factor
    if factor < max(NOTICED, 1.0 + SPREADS * spread_of(np.median(peers[:, first:], axis=1))):
        return None
    return WorkerSlowness(factor, share, onset)


def _onset(own: Floats, peers: Floats) -> int | None:
    """Return the step from which on each is slow, beyond what steps of the peers, and its own before, differ by."""
    slow = own >= max(NOTICED, 1.0 + SPREADS * spread_of(peers.ravel()))
    first = len(slow) if slow[-1] else 0
    while first and slow[first - 1]:
        first -= 1
    if not first or len(slow) - first < ON_END:
        return None
    past = float(np.median(own[:first])) + SPREADS * spread_of(own[:first])
    return first if np.median(own[:first]) < NOTICED and np.median(own[first:]) >= past else None


def over(values: Floats, usual: Any) -> Floats:
    """Return values / usual, 1 where the usual is 0."""
    ratio: Floats = np.divide(values, usual, out=np.ones_like(values), where=usual > 0)
    return ratio


def spread_of(values: Floats) -> float:
    """Return the standard deviation, estimated from the median."""
    return DEVIATION * float(np.median(np.abs(values - np.median(values))))


def _median_of_others(values: Floats, *, axis: int, lower: bool = False) -> Floats:
    """Return for each value the median of the others along an axis of at least two.

    :param lower: of an even number, the lower of the two in the middle, not their mean.
    """
    order = np.argsort(values, axis=axis, kind="stable")
    ranked, place = np.take_along_axis(values, order, axis), np.argsort(order, axis=axis, kind="stable")
    others = values.shape[axis] - 1

    def rest(i: int) -> Floats:
        return np.where(i < place, ranked.take([i], axis), ranked.take([i + 1], axis))

    low = rest((others - 1) // 2)
    return low if lower else (low + rest(others // 2)) / 2.0
