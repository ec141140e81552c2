"""Which workers are slow by themselves, by what factor, and which nodes that makes suspects.

Only where the cause is ``worker`` is there evidence against a node.  The factor is the worker's own, not the job's: its
forward and backward time of a step over the median of the other data-parallel ranks of the same stage, which hold the
same layers and as many microbatches; of all steps, the median.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from health.whatif.analysis_result import Analysis, TracedWorker
from health.whatif.optypes import BACKWARD, FORWARD
from health.whatif.step_replay import Replayed
from topology.flags import NodeFlag

NOTICED = 1.03  # Factors and slowdowns below this are noise
SPREADS = 3.0
"""A suspect stands out from its peers by this many of their standard deviations (estimated from their median)."""

NAMED = 4  # Most workers that a sentence names
SOURCE = "what-if"


@dataclass(frozen=True, slots=True)
class SlowWorker(TracedWorker):
    """A worker with evidence against it."""

    factor: float
    """Its compute time over the median of the other ranks of its stage; of all steps the median."""
    steps: float
    """Share of the steps in which it is noticeably slow."""
    slowdown: float
    """S_w: slowdown of the job if all other workers were ideal."""
    node: str | None
    """Where it ran; null = not known."""


def slow_workers(
    replayed: Replayed, analysis: Analysis, nodes: Mapping[tuple[int, int], str] | None = None
) -> tuple[SlowWorker, ...]:
    """Return the workers with evidence against them, slowest first.

    Those of the slowest 3 %, and others that alone slow the job noticeably, as far as they compute longer than their
    peers, in most steps and beyond the peers' own spread.  None unless the cause is ``worker``; none without peers.

    :param nodes: (dp rank, stage) -> node, as far as known.
    """
    found = suspects(replayed, analysis) if analysis.cause == "worker" else ()
    return tuple(replace(worker, node=(nodes or {}).get((worker.dp, worker.stage))) for worker in found)


def suspects(replayed: Replayed, analysis: Analysis) -> tuple[SlowWorker, ...]:
    """Return workers that compute longer than their peers and cost the job something, whatever the cause."""
    if analysis.slowest is None or analysis.dp == 1:
        return ()
    noticed = np.argwhere(analysis.worker_slowdown >= NOTICED)
    looked_at = {*analysis.places(analysis.slowest), *((int(rank), int(stage)) for rank, stage in noticed)}
    times = compute_seconds(replayed)
    found = []
    for rank, stage in looked_at:
        others = np.delete(times[stage], rank, axis=0)
        usual = np.median(others, axis=0)
        if not (usual > 0).all():
            continue
        ratio = times[stage][rank] / usual
        factor = float(np.median(ratio))
        peers = np.median(others / usual, axis=1)
        # 1.4826 makes a median of deviations the standard deviation of a normal distribution
        spread = 1.4826 * float(np.median(np.abs(peers - np.median(peers))))
        if factor >= max(NOTICED, 1.0 + SPREADS * spread):
            found.append(
                SlowWorker(
                    dp=analysis.dp_ranks[rank],
                    stage=stage,
                    factor=factor,
                    steps=float((ratio >= NOTICED).mean()),
                    slowdown=float(analysis.worker_slowdown[rank, stage]),
                    node=None,
                )
            )
    return tuple(sorted(found, key=lambda worker: (-worker.slowdown, worker.dp, worker.stage)))


def slow_at_times(replayed: Replayed, analysis: Analysis) -> float:
    """Return the share of the steps in which one of the slowest 3 % computes longer than its peers.

    0 if none does on average.  For jobs of which no worker is slow in most steps.
    """
    times = compute_seconds(replayed)
    shares = [0.0]
    for rank, stage in analysis.places(analysis.slowest):
        usual = np.median(np.delete(times[stage], rank, axis=0), axis=0)
        if times[stage][rank].sum() >= NOTICED * usual.sum():
            shares.append(float((times[stage][rank] >= NOTICED * usual).mean()))
    return max(shares)


def compute_seconds(replayed: Replayed) -> NDArray[np.float64]:
    """Return [pp, dp, steps]: forward and backward time of each worker."""
    trace = replayed.trace
    seconds = np.zeros((trace.sizes.pp, len(trace.dp_ranks), len(trace.steps)))
    for place, operation in enumerate(trace.operations):
        if operation.optype in (FORWARD, BACKWARD):
            seconds[operation.stage] += replayed.durations.traced[place]
    return seconds


def flags_of(workers: Sequence[SlowWorker], analysis: Analysis) -> list[NodeFlag]:
    """Return a flag for each known node that slow workers run on, slowest first."""
    at: dict[str, list[SlowWorker]] = defaultdict(list)
    for worker in workers:
        if worker.node is not None:
            at[worker.node].append(worker)
    flags = [_flag(node, members, analysis) for node, members in at.items()]
    return sorted(flags, key=lambda flag: (-flag.slowdown, flag.node))


def worker_names(workers: Sequence[TracedWorker], separator: str = "; ") -> str:
    """Return the first workers in words, and how many more there are."""
    names = separator.join(f"dp {worker.dp} / stage {worker.stage}" for worker in workers[:NAMED])
    return names + (f" and {len(workers) - NAMED} more" if len(workers) > NAMED else "")


def _flag(node: str, workers: Sequence[SlowWorker], analysis: Analysis) -> NodeFlag:
    assert analysis.slowest is not None
    slowest = max(workers, key=lambda worker: worker.factor)
    names = worker_names(workers, ", ")
    several = len(workers) > 1
    return NodeFlag(
        node=node,
        kind="straggler",
        slowdown=round(slowest.factor, 4),
        score=round(max(worker.slowdown for worker in workers), 4),
        source=SOURCE,
        evidence=(
            f"worker{'s' if several else ''} {names} {'compute up to' if several else 'computes'} "
            f"{slowest.factor:.2f}x as long as the other ranks of {'their' if several else 'its'} stage "
            f"in {slowest.steps:.0%} of {len(analysis.steps)} steps; the job runs {analysis.slowdown:.2f}x slower than "
            f"it could, and the slowest 3 % of workers explain {analysis.slowest.share:.2f} of that"
        ),
    )
