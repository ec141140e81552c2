"""The cause of a slow job: rules in their order, after arXiv 2505.05713, section 5."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from health.whatif.analysis_result import Analysis, Cause, Floats, Share
from health.whatif.optypes import BACKWARD, FORWARD, GC
from health.whatif.peer_comparison import convicted
from health.whatif.step_replay import Replayed

MOST = 0.5  # M_W, M_S or the share of pauses from which on they are the cause
CORRELATED = 0.9  # Correlation of forward and backward time per microbatch from which on sequence lengths are the cause
PAUSE = 1.5  # A forward pass of this many times its usual length has had a pause
STILL = 1e-12  # Relative variance below which times do not vary
SLOWEST = 0.03  # Share of workers, rounded up, that M_W asks about


def with_cause(analysis: Analysis, replayed: Replayed, slowest: Share) -> Analysis:
    """Return the analysis with the cause and one sentence of numbers: each rule holds once those before do not."""

    def because(cause: Cause, why: str) -> Analysis:
        return replace(analysis, cause=cause, why=why)

    if analysis.links is not None and analysis.links.share >= MOST:
        convicts = convicted(replayed).keys() & {*analysis.places(slowest)}
        if not convicts or slowest.share < analysis.links.share:
            return because(
                "link",
                f"{_found(analysis)}; slow transfers between two workers of a rank explain "
                f"{analysis.links.share:.3f} of the loss",
            )
    last_is_worker = analysis.dp == 1 and slowest.workers[0].stage == analysis.pp - 1
    if analysis.dp * analysis.pp > 1 and slowest.share >= MOST and not last_is_worker:
        return because("worker" if analysis.dp > 1 else "stage", _why_workers(analysis, slowest))
    if analysis.m_s is not None and analysis.m_s >= MOST:
        return because("last-stage", f"M_S is {analysis.m_s:.3f}: the last pipeline stage explains most of the loss")
    found = _found(analysis)
    correlation = forward_backward_correlation(replayed)
    if correlation >= CORRELATED:
        return because(
            "sequence-length",
            f"{found}; forward and backward time of a microbatch go together (correlation {correlation:.2f}), "
            "as uneven sequence lengths make them",
        )
    found += f", correlation of forward and backward time {correlation:.2f}"
    share = _pause_share(analysis, replayed)
    if share >= MOST:
        return because(
            "garbage-collection",
            f"{found}; pauses in forward passes of many ranks, and none in backward passes, explain {share:.0%} of the "
            "loss",
        )
    return because("unknown", f"{found}: no rule fits")


def _found(analysis: Analysis) -> str:
    return f"M_W is {analysis.m_w:.3f}" + ("" if analysis.m_s is None else f", M_S {analysis.m_s:.3f}")


def _why_workers(analysis: Analysis, slowest: Share) -> str:
    """Return the numbers by which these workers explain most of the loss."""
    if slowest.published:
        return f"M_W is {slowest.share:.3f}: the slowest 3% of workers explain most of the loss"
    if len(slowest.workers) > ceil(SLOWEST * analysis.worker_slowdown.size):
        return (
            f"M_W is {analysis.m_w:.3f}; the {len(slowest.workers)} workers that compute longer than their peers "
            f"explain {slowest.share:.3f} of the loss"
        )
    return (
        f"the slowest 3% of workers, ranked by S_w itself, explain {slowest.share:.3f} of the loss; M_W, which "
        "ranks them by their rank and their stage, does not find them"
    )


def forward_backward_correlation(replayed: Replayed) -> float:
    """Return Pearson's correlation of forward and backward time of a microbatch, over microbatches, ranks and steps.

    Each worker is measured by its own mean, or slow workers would correlate too; of the stages and chunks, the median.
    0 where times do not vary.
    """
    passes: dict[str, dict[tuple[int, int, int], int]] = {FORWARD: {}, BACKWARD: {}}
    for place, operation in enumerate(replayed.trace.operations):
        if operation.optype in passes:
            passes[operation.optype][operation.stage, operation.chunk, operation.microbatch] = place
    both = sorted(passes[FORWARD].keys() & passes[BACKWARD].keys())
    found = []
    for part in dict.fromkeys(key[:2] for key in both):
        keys = [key for key in both if key[:2] == part]
        x, y = (_deviations(replayed.durations.traced[[places[key] for key in keys]]) for places in passes.values())
        scale = float(np.sqrt((x @ x) * (y @ y)))
        found.append(float(x @ y) / scale if scale > len(x) * STILL else 0.0)
    return float(np.median(found)) if found else 0.0


def _deviations(seconds: Floats) -> Floats:
    """Return [microbatches, dp, steps] -> how far each is from the mean of its rank, relative, flat."""
    mean = seconds.mean(axis=(0, 2), keepdims=True)
    relative: Floats = seconds / np.where(mean > 0, mean, 1.0) - (mean > 0)
    return relative.ravel()


def _pause_share(analysis: Analysis, replayed: Replayed) -> float:
    """Return the share of the loss that goes with pauses: (T - T without them) / (T - T_ideal).

    Pauses are operations ``gc`` of their own, and forward passes of at least :data:`PAUSE` times the usual length of
    their stage and chunk.  0 where one worker has more than half of these, or where backward passes pause too: that is
    not garbage collection, which Python runs while it launches forward passes.
    """
    operations, traced = replayed.trace.operations, replayed.durations.traced
    members: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    for place, operation in enumerate(operations):
        if operation.optype in (FORWARD, BACKWARD, GC):
            members[operation.optype, operation.stage, operation.chunk].append(place)
    shorter: dict[int, NDArray[np.float64]] = {}
    lost, backward = np.zeros((analysis.pp, analysis.dp)), 0.0
    usual = {key: 0.0 if key[0] == GC else float(np.median(traced[places])) for key, places in members.items()}
    for place, operation in enumerate(operations):
        normal = usual.get((operation.optype, operation.stage, operation.chunk))
        if normal is None:
            continue
        paused = traced[place] >= PAUSE * normal
        excess = np.where(paused, traced[place] - normal, 0.0)
        if operation.optype == BACKWARD:
            backward += float(excess.sum())
        else:
            lost[operation.stage] += excess.sum(axis=1)
            shorter[place] = np.where(paused, normal, traced[place])
    # a tenth of the loss in backward passes is taken for noise
    if not lost.any() or lost.max() > MOST * lost.sum() or backward > 0.1 * lost.sum():
        return 0.0
    whole = float(analysis.per_step.seconds.mean())
    return float(whole - replayed.steps_with(shorter).mean()) / (whole - analysis.ideal_step_seconds)
