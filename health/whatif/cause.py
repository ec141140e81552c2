"""What slows the job: the rules of arXiv 2505.05713, each valid once those before it are ruled out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from health.whatif.analysis_result import Cause, Share
from health.whatif.optypes import BACKWARD, FORWARD, GC
from health.whatif.prepare import Replayed

MOST = 0.5
"""M_W, M_S or the share of pauses from which on they are the cause."""

CORRELATED = 0.9
"""Correlation of forward and backward time per microbatch from which on sequence lengths are the cause."""

PAUSE = 1.5
"""A forward pass of this many times its usual length has had a pause."""

STILL = 1e-12
"""Relative variance below which times do not vary."""

Array = NDArray[np.float64]


def cause_of(
    replayed: Replayed, *, slowdown: float, slowest: Share | None, last: Share | None, seconds: Array, ideal: float
) -> tuple[Cause, str]:
    """Return the cause and one sentence with the numbers that led to it."""
    if slowest is None:
        return "none", f"S is {slowdown:.3f}, below 1.03: there is nothing to attribute"
    ranks, stages = len(replayed.trace.dp_ranks), replayed.trace.sizes.pp
    last_is_worker = ranks == 1 and slowest.workers[0][1] == stages - 1
    if ranks * stages > 1 and slowest.share >= MOST and not last_is_worker:
        if slowest.published:
            return "worker", f"M_W is {slowest.share:.3f}: the slowest 3 % of workers explain most of the loss"
        return "worker", (
            f"the slowest 3 % of workers, ranked by S_w itself, explain {slowest.share:.3f} of the loss; M_W, which "
            "ranks them by their rank and their stage, does not find them"
        )
    if last is not None and last.share >= MOST:
        return "last-stage", f"M_S is {last.share:.3f}: the last pipeline stage explains most of the loss"
    found = f"M_W is {slowest.share:.3f}" + ("" if last is None else f", M_S {last.share:.3f}")
    correlation = forward_backward_correlation(replayed)
    if correlation >= CORRELATED:
        return (
            "sequence-length",
            f"{found}; forward and backward time of a microbatch go together (correlation {correlation:.2f}), "
            "as uneven sequence lengths make them",
        )
    found += f", correlation of forward and backward time {correlation:.2f}"
    share = pause_share(replayed, seconds=seconds, ideal=ideal)
    if share >= MOST:
        return (
            "garbage-collection",
            f"{found}; pauses in forward passes of many ranks, and none in backward passes, explain {share:.0%} of the "
            "loss",
        )
    return "unknown", f"{found}: no rule fits"


def forward_backward_correlation(replayed: Replayed) -> float:
    """Return pearson's correlation of forward and backward time of a microbatch, over microbatches, ranks and steps.

    Each worker is measured by its own mean, or slow workers would correlate too; of the stages and chunks, the median.
    0 where times do not vary.
    """
    passes: dict[str, dict[tuple[int, int, int], int]] = {FORWARD: {}, BACKWARD: {}}
    for place, operation in enumerate(replayed.trace.operations):
        if operation.optype in passes:
            passes[operation.optype][operation.stage, operation.chunk, operation.microbatch] = place
    both = sorted(passes[FORWARD].keys() & passes[BACKWARD].keys())
    found = []
    for stage, chunk in dict.fromkeys(key[:2] for key in both):
        keys = [key for key in both if key[:2] == (stage, chunk)]
        x, y = (
            _deviations(replayed.durations.traced[[passes[optype][key] for key in keys]])
            for optype in (FORWARD, BACKWARD)
        )
        scale = float(np.sqrt((x @ x) * (y @ y)))
        found.append(float(x @ y) / scale if scale > len(x) * STILL else 0.0)
    return float(np.median(found)) if found else 0.0


def _deviations(seconds: Array) -> Array:
    """Return [microbatches, dp, steps] -> how far each is from the mean of its rank, relative, flat."""
    mean = seconds.mean(axis=(0, 2), keepdims=True)
    relative: Array = seconds / np.where(mean > 0, mean, 1.0) - (mean > 0)
    return relative.ravel()


def pause_share(replayed: Replayed, *, seconds: Array, ideal: float) -> float:
    """Share of the loss that goes with pauses for garbage collection: (T - T without them) / (T - T_ideal).

    Pauses are operations ``gc`` of their own, and forward passes of at least :data:`PAUSE` times the usual length of
    their stage and chunk.  0 where one worker has more than half of these, or where backward passes pause too: that is
    not garbage collection, which Python runs while it launches forward passes.
    """
    trace, traced = replayed.trace, replayed.durations.traced
    shorter: dict[int, Array] = {}
    lost = np.zeros((trace.sizes.pp, len(trace.dp_ranks)))
    backward = 0.0
    usual = _usual(replayed)
    for place, operation in enumerate(trace.operations):
        if operation.optype == GC:
            excess, kept = traced[place], np.zeros_like(traced[place])
        elif operation.optype in (FORWARD, BACKWARD):
            normal = usual[operation.optype, operation.stage, operation.chunk]
            paused = traced[place] >= PAUSE * normal
            excess = np.where(paused, traced[place] - normal, 0.0)
            kept = np.where(paused, normal, traced[place])
            if operation.optype == BACKWARD:
                backward += float(excess.sum())
                continue
        else:
            continue
        lost[operation.stage] += excess.sum(axis=1)
        shorter[place] = kept
    if not lost.any() or lost.max() > MOST * lost.sum() or backward > 0.1 * lost.sum():
        return 0.0
    without = replayed.scenarios.replaced(shorter)
    return float(seconds.mean() - without.mean()) / (float(seconds.mean()) - ideal)


def _usual(replayed: Replayed) -> dict[tuple[str, int, int], float]:
    """Return median duration of the passes of a stage and chunk."""
    places: dict[tuple[str, int, int], list[int]] = {}
    for place, operation in enumerate(replayed.trace.operations):
        if operation.optype in (FORWARD, BACKWARD):
            places.setdefault((operation.optype, operation.stage, operation.chunk), []).append(place)
    return {key: float(np.median(replayed.durations.traced[members])) for key, members in places.items()}
