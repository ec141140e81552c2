"""The analysis: replays of the graph, and the metrics that follow from them (arXiv 2505.05713, sections 4 and 5)."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from health.whatif.analysis_result import Analysis, PerStep, Share
from health.whatif.cause import MOST, cause_of
from health.whatif.optypes import OPTIMIZER, OPTYPES, reported
from health.whatif.prepare import Replayed
from health.whatif.step_replay import Scenarios
from health.whatif.trace import Trace

ATTRIBUTED = 1.03
"""Below this slowdown there is nothing to attribute."""

SLOWEST = 0.03
"""Share of workers, rounded up, that M_W asks about."""

Workers = tuple[tuple[int, int], ...]


def analyse(replayed: Replayed) -> Analysis:
    """Return slowdown, its attribution and its cause."""
    trace, scenarios = replayed.trace, replayed.scenarios
    kinds = np.array([reported(operation.optype) for operation in trace.operations])
    stage = np.array([operation.stage for operation in trace.operations])
    everything = range(len(trace.operations))
    ideal, seconds = scenarios.ideal(), scenarios.only(everything)
    names = [name for name in dict.fromkeys(map(reported, OPTYPES)) if (kinds == name).any()]
    by_optype = {name: scenarios.only(np.flatnonzero(kinds == name)) / ideal for name in names}
    stages = [np.flatnonzero(stage == s) for s in range(trace.sizes.pp)]
    by_dp = scenarios.each_rank(everything) / ideal
    by_stage = np.stack([scenarios.only(places) / ideal for places in stages])
    by_worker = np.stack([scenarios.each_rank(places).mean(axis=-1) / ideal for places in stages], axis=1)
    slowdown = float(seconds.mean()) / ideal
    m_w = slowest = last = None
    if slowdown >= ATTRIBUTED:
        approximate = np.minimum(by_dp.mean(axis=-1)[:, None], by_stage.mean(axis=-1)[None, :])
        slowest = _share(scenarios, stage, _slowest(approximate), seconds=seconds, ideal=ideal)
        m_w = slowest.share
        truly = _slowest(by_worker)
        if slowest.share < MOST and set(truly) != set(slowest.workers):
            other = _share(scenarios, stage, truly, seconds=seconds, ideal=ideal)
            slowest = replace(other, published=False) if other.share >= MOST else slowest
        if trace.sizes.pp > 1:
            workers = tuple((rank, trace.sizes.pp - 1) for rank in range(len(trace.dp_ranks)))
            last = _share(scenarios, stage, workers, seconds=seconds, ideal=ideal)
    traced = _traced_seconds(trace)
    cause, why = cause_of(replayed, slowdown=slowdown, slowest=slowest, last=last, seconds=seconds, ideal=ideal)
    return Analysis(
        dp=len(trace.dp_ranks),
        pp=trace.sizes.pp,
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
        m_w=m_w,
        m_s=last.share if last else None,
        slowest=slowest,
        last_stage=last,
        step_slowdown=seconds / ideal,
        per_step=PerStep(traced, seconds, by_optype, by_dp, by_stage),
        cause=cause,
        why=why,
    )


def _slowest(slowdown: NDArray[np.float64]) -> Workers:
    """Return the slowest 3 % of workers, rounded up; of equals, as published, those of the lowest global rank.

    The published ranking is by min(S_dp, S_pp), which also calls a healthy worker slow where a slow rank crosses a slow
    stage, and under which many workers are equal.  M_W is always that; where S_w itself finds workers that explain most
    of the loss and it does not, those are the cause.

    :param slowdown: [dp, pp].
    """
    ranks = len(slowdown)
    order = np.argsort(-slowdown.T.ravel(), kind="stable")[: ceil(SLOWEST * slowdown.size)]
    return tuple((int(i) % ranks, int(i) // ranks) for i in order)


def _share(
    scenarios: Scenarios, stage: NDArray[np.int64], workers: Workers, *, seconds: NDArray[np.float64], ideal: float
) -> Share:
    """Return what part of the loss these workers explain."""
    chosen = np.zeros(scenarios.shape[:2], dtype=np.bool_)
    for rank, s in workers:
        chosen[stage == s, rank] = True
    whole = float(seconds.mean())
    without, alone = float(scenarios.mixed(~chosen).mean()), float(scenarios.mixed(chosen).mean())
    loss = whole - ideal
    return Share(workers, without, alone, (whole - without) / loss, (alone - ideal) / loss)


def _traced_seconds(trace: Trace) -> NDArray[np.float64]:
    """Return [steps]: the latest end of an optimizer (of anything, in a trace without), as traced."""
    places = [i for i, operation in enumerate(trace.operations) if operation.optype == OPTIMIZER]
    chosen = places or list(range(len(trace.operations)))
    latest: NDArray[np.float64] = (trace.start[chosen] + trace.duration[chosen]).max(axis=(0, 1)).astype(np.float64)
    return latest
