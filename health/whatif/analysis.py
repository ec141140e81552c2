"""The analysis: replays of the graph, the metrics that follow from them, and the cause (arXiv 2505.05713, 4 and 5)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from math import ceil

import numpy as np

from health.whatif.analysis_result import Analysis, Floats, PerStep, Share, TracedWorker
from health.whatif.cause import MOST, SLOWEST, with_cause
from health.whatif.optypes import OPTIMIZER, OPTYPES, reported
from health.whatif.peer_comparison import convicted
from health.whatif.slow_links import share_of_links
from health.whatif.step_replay import Replayed
from health.whatif.trace import Trace

ATTRIBUTED = 1.03  # Below this slowdown there is nothing to attribute
GAIN = 0.05  # Share of the loss below which further workers explain no more
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
    published = slowest = last = links = None
    if slowdown >= ATTRIBUTED:
        approximate = np.minimum(by_dp.mean(axis=-1)[:, None], by_stage.mean(axis=-1)[None, :])
        published, slowest = _blamed(replayed, _slowest(approximate), by_worker, seconds, ideal)
        links = share_of_links(replayed, float(seconds.mean()), ideal)
        if pp > 1:
            last = _share(replayed, tuple((rank, pp - 1) for rank in range(len(by_dp))), seconds, ideal)
    traced = traced_seconds(trace)
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
        links=links,
        step_slowdown=seconds / ideal,
        per_step=PerStep(traced, seconds, by_optype, by_dp, by_stage),
        cause="none",
        why=f"S is {slowdown:.3f}, below 1.03: there is nothing to attribute",
    )
    return analysis if slowest is None else with_cause(analysis, replayed, slowest)


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


def traced_seconds(trace: Trace) -> Floats:
    """Return [steps]: the latest end of an optimizer (of anything, in a trace without), as traced."""
    places = [i for i, operation in enumerate(trace.operations) if operation.optype == OPTIMIZER]
    chosen = places or slice(None)
    latest: Floats = (trace.start[chosen] + trace.duration[chosen]).max(axis=(0, 1)).astype(np.float64)
    return latest
