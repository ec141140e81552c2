"""The analysis: replays of the graph, the metrics that follow from them, and the cause (arXiv 2505.05713, 4 and 5)."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from health.whatif.analysis_result import Analysis, Cause, Floats, PerStep, Share, TracedWorker
from health.whatif.optypes import BACKWARD, FORWARD, GC, OPTIMIZER, OPTYPES, reported
from health.whatif.peer_comparison import convicted
from health.whatif.step_replay import Replayed
from health.whatif.trace import Trace

ATTRIBUTED = 1.03  # Below this slowdown there is nothing to attribute
SLOWEST = 0.03  # Share of workers, rounded up, that M_W asks about
GAIN = 0.05  # Share of the loss below which further workers explain no more
MOST = 0.5  # M_W, M_S or the share of pauses from which on they are the cause
CORRELATED = 0.9  # Correlation of forward and backward time per microbatch from which on sequence lengths are the cause
PAUSE = 1.5  # A forward pass of this many times its usual length has had a pause
STILL = 1e-12  # Relative variance below which times do not vary
Workers = tuple[tuple[int, int], ...]


def analyse(replayed: Replayed) -> Analysis:
    """Return slowdown, its attribution and its cause."""
    trace, pp = replayed.trace, replayed.trace.sizes.pp
    kinds = np.array([reported(operation.optype) for operation in trace.operations])
    stage = np.array([operation.stage for operation in trace.operations])
    ideal, seconds = replayed.ideal_step(), replayed.steps_if(stage >= 0)
    names = [name for name in dict.fromkeys(map(reported, OPTYPES)) if (kinds == name).any()]
    by_optype = {name: replayed.steps_if(kinds == name) / ideal for name in names}
    by_dp = replayed.steps_of_each_rank(stage >= 0) / ideal
    by_stage = np.stack([replayed.steps_if(stage == s) / ideal for s in range(pp)])
    by_worker = np.stack([replayed.steps_of_each_rank(stage == s).mean(axis=-1) / ideal for s in range(pp)], axis=1)
    slowdown = float(seconds.mean()) / ideal
    published = slowest = last = None
    if slowdown >= ATTRIBUTED:
        approximate = np.minimum(by_dp.mean(axis=-1)[:, None], by_stage.mean(axis=-1)[None, :])
        published, slowest = _blamed(replayed, _slowest(approximate), by_worker, seconds, ideal)
        if pp > 1:
            last = _share(replayed, tuple((rank, pp - 1) for rank in range(len(by_dp))), seconds, ideal)
    traced = _traced_seconds(trace)
    analysis = Analysis(
        dp=len(trace.dp_ranks),
        pp=pp,
        tp=trace.sizes.tp,
        vpp=trace.sizes.vpp,
        dp_ranks=trace.dp_ranks,
        steps=trace.steps,
        slowdown=slowdown,
        waste=1.0 - 1.0 / slowdown,
        step_seconds=float(seconds.mean()),
        ideal_step_seconds=ideal,
        traced_step_seconds=float(traced.mean()),
        replay_error=float(traced.mean() / seconds.mean()) - 1.0,
        by_optype={name: float(values.mean()) for name, values in by_optype.items()},
        worker_slowdown=by_worker,
        worker_slowdown_exact=True,
        dp_slowdown=by_dp.mean(axis=-1),
        stage_slowdown=by_stage.mean(axis=-1),
        m_w=published.share if published else None,
        m_s=last.share if last else None,
        slowest=slowest,
        last_stage=last,
        step_slowdown=seconds / ideal,
        per_step=PerStep(traced, seconds, by_optype, by_dp, by_stage),
        cause="none",
        why=f"S is {slowdown:.3f}, below 1.03: there is nothing to attribute",
    )
    return analysis if slowest is None else _with_cause(analysis, replayed, slowest)


def _slowest(slowdown: Floats) -> Workers:
    """Return the slowest 3 % of workers, rounded up; of equals, as published, those of the lowest global rank.

    The published ranking is by min(S_dp, S_pp), which also calls a healthy worker slow where a slow rank crosses a slow
    stage, and under which many workers are equal.  M_W is always that; where S_w itself finds workers that explain most
    of the loss and it does not, those are the cause.
    """
    order = np.argsort(-slowdown.T.ravel(), kind="stable")[: ceil(SLOWEST * slowdown.size)]
    return tuple((int(i) % len(slowdown), int(i) // len(slowdown)) for i in order)


def _blamed(
    replayed: Replayed, published: Workers, slowdown: Floats, seconds: Floats, ideal: float
) -> tuple[Share, Share]:
    """Return the share of the slowest workers as published, and of those to blame: see :func:`_slowest`.

    :param slowdown: S_w, float [dp, pp].
    """
    first = blamed = _share(replayed, published, seconds, ideal)
    truly = _slowest(slowdown)
    if first.share < MOST and set(truly) != set(published):
        other = _share(replayed, truly, seconds, ideal)
        blamed = replace(other, published=False) if other.share >= MOST else first
    several = _several(replayed, slowdown, seconds, ideal)
    return first, several if several and several.share >= max(MOST, blamed.share + GAIN) else blamed


def _several(replayed: Replayed, slowdown: Floats, seconds: Floats, ideal: float) -> Share | None:
    """Return the share of the slowest that compute longer than their peers, of the fewest that explain nearly as much
    as all of them; ``None`` where fewer than two do.

    Of workers that are equally slow, all but the last explain nothing: the set grows by S_w to the size from which on
    the share does not.
    """
    order = tuple(sorted(convicted(replayed), key=lambda worker: (-slowdown[worker], worker)))
    if len(order) < 2:
        return None
    shares = {len(order): _share(replayed, order, seconds, ideal)}
    enough = shares[len(order)].share - GAIN

    def explains(count: int) -> bool:
        shares[count] = _share(replayed, order[:count], seconds, ideal)
        return shares[count].share >= enough

    fewest = bisect_left(range(1, len(order)), True, key=explains) + 1
    return replace(shares[fewest], published=False)


def _share(replayed: Replayed, workers: Workers, seconds: Floats, ideal: float) -> Share:
    """Return what part of the loss these workers, (place of the rank, stage), explain; ``seconds`` as traced."""
    operations = replayed.trace.operations
    chosen = np.zeros((len(operations), len(replayed.trace.dp_ranks)), dtype=np.bool_)
    for rank, stage in workers:
        chosen[[operation.stage == stage for operation in operations], rank] = True
    whole = float(seconds.mean())
    without, alone = float(replayed.steps_if(~chosen).mean()), float(replayed.steps_if(chosen).mean())
    loss = whole - ideal
    named = tuple(TracedWorker(replayed.trace.dp_ranks[rank], stage) for rank, stage in workers)
    return Share(named, without, alone, (whole - without) / loss, (alone - ideal) / loss, published=True)


def _traced_seconds(trace: Trace) -> Floats:
    """Return [steps]: the latest end of an optimizer (of anything, in a trace without), as traced."""
    places = [i for i, operation in enumerate(trace.operations) if operation.optype == OPTIMIZER]
    chosen = places or slice(None)
    latest: Floats = (trace.start[chosen] + trace.duration[chosen]).max(axis=(0, 1)).astype(np.float64)
    return latest


def _with_cause(analysis: Analysis, replayed: Replayed, slowest: Share) -> Analysis:
    """Return the analysis with the cause and one sentence of numbers: each rule holds once those before do not."""

    def because(cause: Cause, why: str) -> Analysis:
        return replace(analysis, cause=cause, why=why)

    last_is_worker = analysis.dp == 1 and slowest.workers[0].stage == analysis.pp - 1
    if analysis.dp * analysis.pp > 1 and slowest.share >= MOST and not last_is_worker:
        if slowest.published:
            return because("worker", f"M_W is {slowest.share:.3f}: the slowest 3 % of workers explain most of the loss")
        if len(slowest.workers) > ceil(SLOWEST * analysis.worker_slowdown.size):
            return because(
                "worker",
                f"M_W is {analysis.m_w:.3f}; the {len(slowest.workers)} workers that compute longer than their peers "
                f"explain {slowest.share:.3f} of the loss",
            )
        return because(
            "worker",
            f"the slowest 3 % of workers, ranked by S_w itself, explain {slowest.share:.3f} of the loss; M_W, which "
            "ranks them by their rank and their stage, does not find them",
        )
    if analysis.m_s is not None and analysis.m_s >= MOST:
        return because("last-stage", f"M_S is {analysis.m_s:.3f}: the last pipeline stage explains most of the loss")
    found = f"M_W is {slowest.share:.3f}" + ("" if analysis.m_s is None else f", M_S {analysis.m_s:.3f}")
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
