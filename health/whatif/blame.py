"""What follows from an analysis, in flags and in words: which workers are slow by themselves, and what would help.

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

from health.whatif.analysis_result import Analysis, Share, TracedWorker
from health.whatif.optypes import BACKWARD, FORWARD
from health.whatif.step_replay import Replayed
from topology.flags import NodeFlag
from topology.quantities import plural

NOTICED = 1.03  # Factors and slowdowns below this are noise
# A suspect stands out from its peers by this many of their standard deviations (estimated from their median)
SPREADS = 3.0
NAMED = 4  # Most workers that a sentence names
SOURCE = "what-if"
ALL = 0.95  # A share from which on it is all
NOTHING = 1.005  # A slowdown below this rounds to 1.00
REPLAY_ERROR = 0.05  # The published error of the replay has a median of 1.3 %; from here on there is a warning
FEW = 5  # Fewer steps than this say little about persistence
# What to do about causes that no node is to blame for
INSTEAD = {
    "sequence-length": (
        "Spread long sequences evenly over microbatches and data-parallel ranks: pack by compute, which grows "
        "with the square of a sequence's length, not by tokens."
    ),
    "garbage-collection": (
        "Switch automatic garbage collection off and collect on all ranks in the same step, every few hundred "
        "steps; look for what makes garbage if memory grows meanwhile."
    ),
    "late-rank": (
        "Look at what this rank does before collectives that the others do not: its share of uneven work (embedding "
        "tables, sequence lengths, data), its host, its GPU."
    ),
}

NOT_FLAGGED = "No node is to blame, and none is flagged: replacing nodes would not help."


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
    """Return the workers with evidence against them, slowest first; none unless the cause is ``worker``.

    :param nodes: (dp rank, stage) -> node, as far as known.
    """
    found = suspects(replayed, analysis) if analysis.cause == "worker" else ()
    return tuple(replace(worker, node=(nodes or {}).get((worker.dp, worker.stage))) for worker in found)


def suspects(replayed: Replayed, analysis: Analysis) -> tuple[SlowWorker, ...]:
    """Return workers of the slowest 3 %, and others that alone slow the job, that compute longer than their peers.

    In most steps, and beyond the peers' own spread; whatever the cause, and none without peers.
    """
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
    """Return the share of steps in which one of the slowest 3 % computes longer than its peers; 0 if none does."""
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


def verdict(analysis: Analysis) -> str:
    """Return one sentence: how much slower than it could the job runs, and what explains it."""
    if analysis.cause == "none":
        amount = "nothing" if analysis.slowdown < NOTHING else "next to nothing"
        return f"this job loses {amount} to stragglers (S = {analysis.slowdown:.2f})"
    head = f"this job runs {analysis.slowdown:.2f}x slower than it could"
    match analysis.cause:
        case "worker":
            return f"{head}; {_workers(analysis)} {_part(analysis.slowest.share if analysis.slowest else None)}"
        case "last-stage":
            return f"{head}; its last pipeline stage, stage {analysis.pp - 1}, explains {_part(analysis.m_s)}"
        case "sequence-length":
            return f"{head}; microbatches of uneven sequence lengths explain it best"
        case "garbage-collection":
            return f"{head}; pauses of the garbage collector on random ranks explain it best"
    worst = max(analysis.by_optype, key=lambda name: analysis.by_optype[name])
    return f"{head}; no rule finds the cause; {worst} alone costs {analysis.by_optype[worst]:.2f}x"


def help_for(replayed: Replayed, analysis: Analysis, workers: Sequence[SlowWorker]) -> list[str]:
    """Return what would help, one sentence each."""
    match analysis.cause:
        case "none":
            return []
        case "worker":
            return [_help_with_workers(replayed, analysis, workers)]
        case "last-stage":
            return [_help_with_last_stage(replayed, analysis), *(_slow_peers(replayed, analysis) or [NOT_FLAGGED])]
        case "sequence-length" | "garbage-collection" as cause:
            return [INSTEAD[cause], NOT_FLAGGED]
        case "late-rank":
            return [INSTEAD["late-rank"]]
    advice = "Look at the timeline of the slowest step, and at the operation types that cost most."
    nobody = "No node is flagged: a job's slowness alone is no evidence against its nodes."
    return [advice, *(_slow_peers(replayed, analysis) or [nobody])]


def _slow_peers(replayed: Replayed, analysis: Analysis) -> list[str]:
    """Return a sentence on workers that compute longer than their peers, where they are not the cause; empty = none."""
    slow = suspects(replayed, analysis)
    if not slow:
        return []
    names = "; ".join(f"dp {worker.dp} / stage {worker.stage} {worker.factor:.2f}x" for worker in slow[:NAMED])
    return [
        f"These workers compute longer than their peers: {names}. The slowest 3 % do not explain the loss, so that "
        "nobody is flagged; measure their nodes."
    ]


def notes_on(replayed: Replayed, analysis: Analysis) -> list[str]:
    """Return what is worth knowing about the evidence, one sentence each."""
    trace, sizes = replayed.trace, replayed.trace.sizes
    notes = []
    if not sizes.source:
        notes.append("No --meta: the sizes are those that the rows show, and ranks that are absent go unnoticed.")
    if len(trace.dp_ranks) < sizes.dp:
        notes.append(f"{len(trace.dp_ranks)} of {sizes.dp} data-parallel ranks were judged; the others are not there.")
    notes += [f"Left out: {plural(count, 'row')}, {reason}." for reason, count in trace.dropped.items()]
    early = float(replayed.durations.early.max())
    if early > 0.0:
        notes.append(f"Clocks of the ranks disagree by at least {early * 1e3:.2g} ms; transfers count as 0 there.")
    if abs(analysis.replay_error) > REPLAY_ERROR:
        notes.append(
            f"The replay is off by {analysis.replay_error:+.0%} from the traced step time: something that is not in "
            "the trace takes that long, waiting for data for example; believe the attribution less."
        )
    if len(trace.steps) < FEW:
        notes.append(f"Only {plural(len(trace.steps), 'step')}: whether the slowness lasts is not known.")
    return notes


def _help_with_workers(replayed: Replayed, analysis: Analysis, workers: Sequence[SlowWorker]) -> str:
    saved = _saved(" A step would take", analysis.slowest, analysis, ".")
    if workers:
        return f"Replace the nodes of {worker_names(workers)}, and look at what slows them.{saved}"
    if analysis.dp == 1:
        return (
            "With one data-parallel rank a slow node cannot be told from a stage with more work: nobody is flagged. "
            "Compare the stage's layers first." + saved
        )
    if at_times := slow_at_times(replayed, analysis):
        return (
            f"These workers compute longer than their peers in {at_times:.0%} of the steps only: whether that comes "
            "back is not known.  Nobody is flagged; look at what else their nodes did then." + saved
        )
    return (
        "These workers compute as fast as their peers: the time goes into transfers, and a transfer does not say which "
        "of its ends is slow.  Nobody is flagged; look at the network of their nodes." + saved
    )


def _help_with_last_stage(replayed: Replayed, analysis: Analysis) -> str:
    seconds = compute_seconds(replayed).mean(axis=(1, 2))
    others = float(np.mean(seconds[:-1]))
    ratio = "computes alone"
    if others > 0:
        ratio = f"computes {float(seconds[-1]) / others:.2f}x as long as the others on average"
    saved = _saved(": a step would take about", analysis.last_stage, analysis, "")
    return f"The last stage {ratio}, as the loss layer makes it: give it fewer layers{saved}."


def _saved(begin: str, share: Share | None, analysis: Analysis, end: str) -> str:
    return f"{begin} {share.without_seconds:.3g} s instead of {analysis.step_seconds:.3g} s{end}" if share else ""


def _workers(analysis: Analysis) -> str:
    """Return the slowest workers, without those that S_w itself acquits, and the verb that goes with them."""
    places = analysis.places(analysis.slowest)
    chosen = [place for place in places if analysis.worker_slowdown[place] >= NOTICED] or places
    named = worker_names([TracedWorker(analysis.dp_ranks[rank], stage) for rank, stage in chosen])
    return f"one worker, {named}, explains" if len(chosen) == 1 else f"{len(chosen)} workers ({named}) explain"


def _part(share: float | None) -> str:
    return "all of it" if share is None or share >= ALL else f"{share:.0%} of it"
