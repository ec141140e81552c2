"""The workers with evidence against them, and the flags of their nodes.

Only where the cause is ``worker`` is there evidence against a node.  The factor is the worker's own, not the job's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from health.whatif.analysis_result import Analysis, TracedWorker
from health.whatif.peer_comparison import (
    NOTICED,
    WorkerSlowness,
    compute_seconds,
    convicted,
    factors,
    plain_ratios,
    slower_than_peers,
)
from health.whatif.step_replay import Replayed
from topology.flags import NodeFlag

NAMED = 4  # Most workers that a sentence names
SOURCE = "what-if"
ALL = 0.95  # A share from which on it is all


@dataclass(frozen=True, slots=True)
class SlowWorker(TracedWorker):
    """A worker with evidence against it."""

    factor: float
    """Its compute time over that of the other ranks of its stage; of all steps, or those since since_step, the median.
    """
    steps: float
    """Share of the steps in which it is noticeably slow."""
    since_step: int | None
    """Number of the step from which on it is slow in each, and before which it was not; null = from the first."""
    slowdown: float
    """S_w: slowdown of the job if all other workers were ideal."""
    node: str | None
    """Where it ran; null = not known."""


def slow_workers(
    replayed: Replayed, analysis: Analysis, nodes: Mapping[tuple[int, int], str] | None = None
) -> tuple[SlowWorker, ...]:
    """Return the workers with evidence against them, slowest first; none unless the cause is ``worker``.

    :param nodes: (dp rank, stage) -> node, as far as known.
    """
    found = _noticed(analysis, convicted(replayed)) if analysis.cause == "worker" else ()
    return tuple(replace(worker, node=(nodes or {}).get((worker.dp, worker.stage))) for worker in found)


def suspects(replayed: Replayed, analysis: Analysis) -> tuple[SlowWorker, ...]:
    """Return workers that are blamed or alone slow the job, and compute longer than their peers; none without peers.

    Beyond the peers' own spread, in most steps or in all since one; whatever the cause, and however many they are.
    """
    return _noticed(analysis, slower_than_peers(replayed))


def _noticed(analysis: Analysis, slow: Mapping[tuple[int, int], WorkerSlowness]) -> tuple[SlowWorker, ...]:
    """Return those that are blamed, or that alone slow the job, slowest first."""
    slowdown, blamed = analysis.worker_slowdown, analysis.places(analysis.slowest)
    found = [
        SlowWorker(
            dp=analysis.dp_ranks[rank],
            stage=stage,
            factor=slowness.factor,
            steps=slowness.steps,
            since_step=None if slowness.onset is None else analysis.steps[slowness.onset],
            slowdown=float(slowdown[rank, stage]),
            node=None,
        )
        for (rank, stage), slowness in slow.items()
        if analysis.slowest is not None and (slowdown[rank, stage] >= NOTICED or (rank, stage) in blamed)
    ]
    return tuple(sorted(found, key=lambda worker: (-worker.slowdown, worker.dp, worker.stage)))


def slow_at_times(replayed: Replayed, analysis: Analysis) -> float:
    """Return the share of steps in which one of the slowest 3 % computes longer than its peers; 0 if none does."""
    seconds = compute_seconds(replayed)
    ratio = np.minimum(factors(seconds), plain_ratios(seconds))
    own = [ratio[stage, rank] for rank, stage in analysis.places(analysis.slowest)]
    return max((float((steps >= NOTICED).mean()) for steps in own if steps.mean() >= NOTICED), default=0.0)


def flags_of(workers: Sequence[SlowWorker], analysis: Analysis, *, ended: datetime | None = None) -> list[NodeFlag]:
    """Return a flag for each known node that slow workers run on, slowest first.

    :param ended: when the last step ended, timezone-aware; a flag then says when its worker became slow.
    """
    at: dict[str, list[SlowWorker]] = defaultdict(list)
    for worker in workers:
        if worker.node is not None:
            at[worker.node].append(worker)
    flags = [_flag(node, members, analysis, ended) for node, members in at.items()]
    return sorted(flags, key=lambda flag: (-flag.slowdown, flag.node))


def worker_names(workers: Sequence[TracedWorker], separator: str = "; ") -> str:
    """Return the first workers in words, and how many more there are."""
    names = separator.join(f"dp {worker.dp} / stage {worker.stage}" for worker in workers[:NAMED])
    return names + (f" and {len(workers) - NAMED} more" if len(workers) > NAMED else "")


def _flag(node: str, workers: Sequence[SlowWorker], analysis: Analysis, ended: datetime | None) -> NodeFlag:
    slowest = max(workers, key=lambda worker: worker.factor)
    several = len(workers) > 1
    compute, whose = ("compute up to", "their") if several else ("computes", "its")
    span = f"in {slowest.steps:.0%} of {len(analysis.steps)} steps"
    if slowest.since_step is not None:
        span = f"since step {slowest.since_step} of {analysis.steps[0]} to {analysis.steps[-1]}"
    return NodeFlag(
        node=node,
        kind="straggler",
        slowdown=round(slowest.factor, 4),
        score=round(max(worker.slowdown for worker in workers), 4),
        source=SOURCE,
        since=began(analysis, slowest.since_step, ended),
        evidence=(
            f"worker{'s' if several else ''} {worker_names(workers, ', ')} {compute} {slowest.factor:.2f}x as long as "
            f"the other ranks of {whose} stage {span}; "
            f"the job runs {analysis.slowdown:.2f}x slower than it could, and {explained_by(analysis)}"
        ),
    )


def began(analysis: Analysis, since_step: int | None, ended: datetime | None) -> datetime | None:
    """Return when a step began; ``None`` where the step, or when the last one ended, is not known.

    Steps that were not traced are taken to be as long as the traced ones since then.
    """
    if since_step is None or ended is None:
        return None
    seconds = float(analysis.per_step.traced_seconds[analysis.steps.index(since_step) :].mean())
    return (ended - timedelta(seconds=seconds * (analysis.steps[-1] - since_step + 1))).replace(microsecond=0)


def explained_by(analysis: Analysis) -> str:
    """Return the slowest workers, without those that S_w itself acquits, and what part of the loss they explain."""
    places = analysis.places(analysis.slowest)
    chosen = [place for place in places if analysis.worker_slowdown[place] >= NOTICED] or places
    named = worker_names([TracedWorker(analysis.dp_ranks[rank], stage) for rank, stage in chosen])
    who = f"one worker, {named}, explains" if len(chosen) == 1 else f"{len(chosen)} workers ({named}) explain"
    return f"{who} {part(analysis.slowest.share if analysis.slowest else None)}"


def part(share: float | None) -> str:
    """Return a share of the loss in words; ``None`` and what is nearly all of it is all."""
    return "all of it" if share is None or share >= ALL else f"{share:.0%} of it"
