"""What follows from an analysis: workers with evidence against them, flags of their nodes, and all of it in words.

Only where the cause is ``worker`` is there evidence against a node.  The factor of a flag is the worker's own, not the
job's.  The words are the verdict, what would help, and how far to believe it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from ground.errors import few
from ground.groups import grouped
from ground.quantities import duration, plural
from health.whatif.analysis import (
    NOTICED,
    WorkerSlowness,
    compute_seconds,
    convicted,
    factors,
    plain_ratios,
    ranks_with_more_work,
    slower_than_peers,
)
from health.whatif.analysis_result import Analysis, Share, TracedWorker
from health.whatif.replay import Replayed
from topology.flags import FALSE_ALARMS, NodeFlag

NAMED = 4  # Most workers that a sentence names
SOURCE = "what-if"
ALL = 0.95  # A share from which on it is all


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
    noticed = _noticed(analysis, convicted(replayed)) if analysis.cause == "worker" else ()
    return tuple(replace(worker, node=(nodes or {}).get((worker.dp, worker.stage))) for worker in noticed)


def suspects(replayed: Replayed, analysis: Analysis) -> tuple[SlowWorker, ...]:
    """Return workers that are blamed or alone slow the job, and compute longer than their peers; none without peers.

    Beyond the peers' own spread, in most steps or in all since one; whatever the cause, and however many they are.
    """
    return _noticed(analysis, slower_than_peers(replayed))


def _noticed(analysis: Analysis, slow: Mapping[tuple[int, int], WorkerSlowness]) -> tuple[SlowWorker, ...]:
    """Return those that are blamed, or that alone slow the job, by as much as they compute longer, slowest first."""
    slowdown, blamed = analysis.worker_slowdown, analysis.places(analysis.slowest)
    least = (NOTICED - 1.0) * analysis.step_seconds
    noticed = [
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
        if analysis.slowest is not None
        and ((slowdown[rank, stage] >= NOTICED and slowness.lost >= least) or (rank, stage) in blamed)
    ]
    return tuple(sorted(noticed, key=lambda worker: (-worker.slowdown, worker.dp, worker.stage)))


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
    at = grouped((worker.node, worker) for worker in workers if worker.node is not None)
    flags = []
    for node, members in at.items():
        slowest = max(members, key=lambda worker: worker.factor)
        several = len(members) > 1
        compute, whose = ("compute up to", "their") if several else ("computes", "its")
        span = f"in {slowest.steps:.0%} of {len(analysis.steps)} steps"
        if slowest.since_step is not None:
            span = f"since step {slowest.since_step} of {analysis.steps[0]} to {analysis.steps[-1]}"
        flags.append(
            NodeFlag(
                node=node,
                kind="straggler",
                slowdown=round(slowest.factor, 4),
                score=round(max(worker.slowdown for worker in members), 4),
                source=SOURCE,
                since=began(analysis, slowest.since_step, ended),
                probability=FALSE_ALARMS[SOURCE].probability,
                evidence=(
                    f"worker{'s' if several else ''} {worker_names(members, ', ')} {compute} {slowest.factor:.2f}x as "
                    f"long as the other ranks of {whose} stage {span}; "
                    f"the job runs {analysis.slowdown:.2f}x slower than it could, and {explained_by(analysis)}"
                ),
            )
        )
    return sorted(flags, key=lambda flag: (-flag.slowdown, flag.node))


def worker_names(workers: Sequence[TracedWorker], separator: str = "; ") -> str:
    """Return the first workers in words, and how many more there are."""
    return few((f"dp {worker.dp} / stage {worker.stage}" for worker in workers), most=NAMED, separator=separator)


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


NOTHING = 1.005  # A slowdown below this rounds to 1.00
REPLAY_ERROR = 0.05  # The published error of the replay has a median of 1.3 %; from here on there is a warning
LONGEST_STEP = 600.0  # Seconds; published steps take 2 to 47, which as milliseconds are 2,000 and more
FEW = 5  # Fewer steps than this say little about persistence
LEAST_WORKERS = 4  # Of fewer it is open which is the odd one, as in health.peers.comparison.LEAST_MACHINES
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

ALONE = (
    "No node is flagged: with one data-parallel rank a slow node cannot be told from a stage with more work. Trace a "
    "second rank, or run the stage on another node, to tell."
)
NOT_FLAGGED = "No node is to blame, and none is flagged: replacing nodes would not help."


def verdict(analysis: Analysis) -> str:
    """Return one sentence: how much slower than it could the job runs, and what explains it."""
    if analysis.cause == "none":
        amount = "nothing" if analysis.slowdown < NOTHING else "next to nothing"
        return f"this job loses {amount} to stragglers (S = {analysis.slowdown:.2f})"
    head = f"this job runs {analysis.slowdown:.2f}x slower than it could"
    match analysis.cause:
        case "worker":
            return f"{head}; {explained_by(analysis)}"
        case "link":
            # the slow links by both ends, and what part of the loss they explain
            links = analysis.links.links if analysis.links else ()
            ends = (" and ".join(f"dp {link.dp} / stage {stage}" for stage in link.stages) for link in links)
            named = few(ends, most=NAMED, separator="; ")
            which = f"one link, between {named}, explains"
            if len(links) != 1:
                which = f"{len(links)} links ({named}) explain"
            return f"{head}; {which} {part(analysis.links.share if analysis.links else None)}"
        case "stage":
            share = part(analysis.slowest.share if analysis.slowest else None)
            return (
                f"{head}; stage {_stage_of(analysis)} explains {share}, and whether by more work or by a slow node "
                "cannot be told from one data-parallel rank"
            )
        case "last-stage":
            return f"{head}; its last pipeline stage, stage {analysis.pp - 1}, explains {part(analysis.m_s)}"
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
        case "link":
            # a link has two ends, and links that share one point at it
            assert analysis.links is not None
            links = analysis.links.links
            ends = Counter((link.dp, stage) for link in links for stage in link.stages)
            (rank, stage), most = max(ends.items(), key=lambda item: item[1])
            where = "both ends"
            if len(links) > 1 and most == len(links):
                where = f"dp {rank} / stage {stage} first, where they meet, then the other ends"
            slow = ", ".join(f"{link.factor:.3g}x" for link in links[:NAMED])
            return [
                f"Transfers take {slow} as long as those of the other ranks: look at the network interfaces and cables "
                f"of {where}. No node is flagged, since a transfer does not say which of its ends is slow. A step "
                f"would take {analysis.links.without_seconds:.3g} s instead of {analysis.step_seconds:.3g} s."
            ]
        case "stage":
            saved = _saved(" A step would take", analysis.slowest, analysis, ".")
            return [f"Compare the layers of stage {_stage_of(analysis)} with those of the others first.{saved}", ALONE]
        case "last-stage" if analysis.dp == 1:
            return [_help_with_last_stage(replayed, analysis), ALONE]
        case "last-stage":
            return [_help_with_last_stage(replayed, analysis), *(_slow_peers(replayed, analysis) or [NOT_FLAGGED])]
        case "sequence-length" | "garbage-collection" as cause:
            return [INSTEAD[cause], NOT_FLAGGED]
        case "late-rank":
            return [INSTEAD["late-rank"]]
    advice = "Look at the timeline of the slowest step, and at the operation types that cost most."
    nobody = "No node is flagged: a job's slowness alone is no evidence against its nodes."
    more = _more_work(replayed, analysis)
    return [advice, *([more] if more else _slow_peers(replayed, analysis) or [nobody])]


def _more_work(replayed: Replayed, analysis: Analysis) -> str:
    """Return a sentence on the slowest rank that is slow in most of its stages; empty = none is."""
    ranks = ranks_with_more_work(replayed)
    if not ranks:
        return ""
    rank = max(ranks, key=lambda place: ranks[place])
    return (
        f"dp {analysis.dp_ranks[rank]} computes {ranks[rank]:.2f}x as long as the other ranks in most of its stages, "
        "as longer sequences make it.  No node is flagged; compare what the ranks are given."
    )


def _slow_peers(replayed: Replayed, analysis: Analysis) -> list[str]:
    """Return a sentence on workers that compute longer than their peers, where they are not the cause; empty = none."""
    slow = suspects(replayed, analysis)
    if not slow:
        return []
    names = "; ".join(f"dp {worker.dp} / stage {worker.stage} {worker.factor:.2f}x" for worker in slow[:NAMED])
    return [
        f"These workers compute longer than their peers: {names}. They do not explain the loss, or are half of a "
        "stage, so that no node is flagged; measure their nodes."
    ]


def notes_on(replayed: Replayed, analysis: Analysis) -> list[str]:
    """Return what is worth knowing about the evidence, one sentence each."""
    trace, sizes = replayed.trace, replayed.trace.sizes
    notes = []
    if not sizes.source:
        notes.append("No --meta: the sizes are those that the rows show, and ranks that are absent go unnoticed.")
    if len(trace.dp_ranks) < sizes.dp:
        notes.append(f"{len(trace.dp_ranks)} of {sizes.dp} data-parallel ranks were judged; the others are not there.")
    if trace.filled is not None:
        notes.append(
            f"Filled: {plural(int(trace.filled.sum()), 'row')} that are missing, with the usual of their type."
        )
    notes += [f"Left out: {plural(count, 'row')}, {reason}." for reason, count in trace.dropped.items()]
    early = float(replayed.durations.early.max())
    if early > 0.0:
        notes.append(f"Clocks of the ranks disagree by at least {early * 1e3:.2g} ms; transfers count as 0 there.")
    if abs(analysis.replay_error) > REPLAY_ERROR:
        notes.append(
            f"The replay is off by {analysis.replay_error:+.0%} from the traced step time: something that is not in "
            "the trace takes that long, waiting for data for example; believe the attribution less."
        )
    if analysis.traced_step_seconds > LONGEST_STEP:
        notes.append(
            f"A step lasts {duration(analysis.traced_step_seconds)}: start_ts and duration are taken as seconds; where "
            "they are milliseconds or less, divide them."
        )
    if len(trace.steps) < FEW:
        notes.append(f"Only {plural(len(trace.steps), 'step')}: whether the slowness lasts is not known.")
    return notes


def _help_with_workers(replayed: Replayed, analysis: Analysis, workers: Sequence[SlowWorker]) -> str:
    saved = _saved(" A step would take", analysis.slowest, analysis, ".")
    if workers and analysis.dp * analysis.pp < LEAST_WORKERS:
        return (
            f"Of so few workers it is not known which is unusual: {worker_names(workers)} may be slow, or the rest "
            f"fast. Run it on another node, and measure both, before any is replaced.{saved}"
        )
    if workers:
        return f"Replace the nodes of {worker_names(workers)}, and look at what slows them.{saved}"
    if more := _more_work(replayed, analysis):
        return more + saved
    if at_times := slow_at_times(replayed, analysis):
        return (
            f"These workers compute longer than their peers in {at_times:.0%} of the steps only: whether that comes "
            "back is not known.  No node is flagged; look at what else their nodes did then." + saved
        )
    return (
        "These workers compute as fast as their peers: the time goes into transfers, and a transfer does not say which "
        "of its ends is slow.  No node is flagged; look at the network of their nodes." + saved
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


def _stage_of(analysis: Analysis) -> int:
    """Return the stage that is the cause."""
    return analysis.slowest.workers[0].stage if analysis.slowest else 0
