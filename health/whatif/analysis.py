"""The analysis: replays of the graph, the metrics that follow from them, and the cause (arXiv 2505.05713, 4 and 5).

First it is asked which workers compute longer than their peers, and since which step.  The peers of a worker are the
other data-parallel ranks of its stage, which hold the same layers and as many microbatches.  Its plain ratio is its
forward and backward time of a step over their median.  Its factor is that ratio over what the other stages of its rank
show of the same, as a rank with longer sequences is slow in every stage and a slow worker in one.  The factor is never
noticeably more than the plain ratio: the other stages can acquit a worker, and never convict one that computes no
longer than its peers.  With two ranks and two stages the worker diagonal to a slow one would else have the same factor,
as the slow one makes its own rank look fast in the other stage.

Then which links between two workers are slow by themselves: a transfer does not say which of its ends is to blame.  The
peers of a link are those of the other data-parallel ranks between the same two stages, which carry as many bytes.

Last the cause, by rules in their order.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from math import ceil, comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from health.whatif.analysis_result import Analysis, Cause, Floats, LinkShare, PerStep, Share, SlowLink, TracedWorker
from health.whatif.optypes import BACKWARD, FORWARD, GC, OPTIMIZER, OPTYPES, SENDS, WEIGHT, reported
from health.whatif.replay import Replayed
from health.whatif.trace import Trace

NOTICED = 1.03  # Factors and slowdowns below this are noise
# A slow worker stands out from its peers by this many of their standard deviations (estimated from their median)
SPREADS = 3.0
DEVIATION = 1.4826  # Makes a median of deviations the standard deviation of a normal distribution
CHANCE = 0.05  # That noise makes the slower of two slow in as many steps
ON_END = 3  # Slow in so many last steps on end, after steps in which it was not: it broke, and stays slow


class WorkerSlowness(NamedTuple):
    """How slow a worker is beside its peers."""

    factor: float  # median over the steps, from the onset on where there is one
    steps: float  # share of all steps in which it is noticeably slow
    onset: int | None  # place of the first step from which on it is slow on end; None = slow from the beginning
    lost: float  # seconds that it computes longer in such a step


def compute_seconds(replayed: Replayed) -> Floats:
    """Return [pp, dp, steps]: forward and backward time of each worker."""
    trace = replayed.trace
    seconds = np.zeros((trace.sizes.pp, len(trace.dp_ranks), len(trace.steps)))
    for place, operation in enumerate(trace.operations):
        if operation.optype in (FORWARD, BACKWARD, WEIGHT):
            seconds[operation.stage] += replayed.durations.traced[place]
    return seconds


def plain_ratios(seconds: Floats) -> Floats:
    """Return [pp, dp, steps] -> time of each worker over that of its peers; 1 where there is nothing to compare."""
    return np.ones_like(seconds) if seconds.shape[1] == 1 else ratio_to(seconds, _median_of_others(seconds, axis=1))


def factors(seconds: Floats) -> Floats:
    """Return [pp, dp, steps] -> the factor of each worker in each step, not yet bounded by its plain ratio."""
    plain = plain_ratios(seconds)
    if 1 in plain.shape[:2]:
        return plain
    # of an even number the lower: with three stages, one other slow stage does not acquit this one
    return ratio_to(plain, _median_of_others(plain, axis=0, lower=True))


def ranks_with_more_work(replayed: Replayed) -> dict[int, float]:
    """Return place of the rank -> factor, of ranks that compute longer than the others in most of several stages."""
    seconds = compute_seconds(replayed)
    if min(seconds.shape[:2]) == 1:
        return {}
    of_stage = np.median(ratio_to(seconds, _median_of_others(seconds, axis=1)), axis=2)
    # of an even number of stages the lower: more than half are slow
    factor = np.sort(of_stage, axis=0)[(len(seconds) - 1) // 2]
    return {int(rank): float(factor[rank]) for rank in np.flatnonzero(factor >= NOTICED)}


def slower_than_peers(replayed: Replayed) -> dict[tuple[int, int], WorkerSlowness]:
    """Return (place of the rank, stage) -> how slow, of all workers that compute longer than their peers."""
    seconds = compute_seconds(replayed)
    ratio, plain = factors(seconds), plain_ratios(seconds)
    longer = seconds * (1.0 - 1.0 / plain)
    late, half = ratio[:, :, -ON_END:].min(axis=2), np.median(ratio, axis=2)
    slower = {}
    for stage, rank in np.argwhere(np.maximum(late, half) >= NOTICED):
        others = np.delete(ratio[stage], rank, axis=0)
        # beside each other: beside a slow worker they look fast
        beside = ratio_to(others, np.median(others, axis=0))
        if slowness := _judged(ratio[stage, rank], plain[stage, rank], beside):
            lost = float(np.median(longer[stage, rank, slowness.onset or 0 :]))
            slower[int(rank), int(stage)] = slowness._replace(lost=lost)
    return slower


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
    # one peer has no spread: then noise, by which either is the slower one, must not explain as many slow steps
    slow, steps = int((np.minimum(own, plain) >= NOTICED).sum()), len(own)
    by_chance = slow < steps and sum(comb(steps, k) for k in range(slow, steps + 1)) > CHANCE * 2**steps
    if onset is None and len(peers) == 1 and by_chance:
        return None
    first = onset or 0
    factor, bound = float(np.median(own[first:])), float(np.median(plain[first:]))
    factor = bound if factor > NOTICED * bound else factor
    if factor < max(NOTICED, 1.0 + SPREADS * spread_of(np.median(peers[:, first:], axis=1))):
        return None
    return WorkerSlowness(factor, share, onset, 0.0)


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


def ratio_to(values: Floats, usual: Any) -> Floats:
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


SLOW = 1.5  # Transfers of so many times the usual length are more than noise
Stages = tuple[int, int]
MINOR = 0.1  # Links that lose less than this part of what the worst one loses are not named beside it


def share_of_links(replayed: Replayed, seconds: float, ideal: float) -> LinkShare | None:
    """Return the slow links and what part of the loss they explain together; ``None`` where none is slow.

    :param seconds: mean step time as traced.
    :param ideal: ideal step time.
    """
    # each slow link with its operations and the seconds that it loses in a step, at the median
    traced, ranks = replayed.durations.traced, replayed.trace.dp_ranks
    factor: dict[Stages, Floats] = defaultdict(lambda: np.ones(len(ranks)))
    lost_by: dict[Stages, Floats] = defaultdict(lambda: np.zeros(len(ranks)))
    places_of: dict[Stages, list[int]] = defaultdict(list)
    # two stages, the lower first, and the type of the send -> the pairs of a send and its receive
    transfers: dict[tuple[Stages, str], list[tuple[int, ...]]] = defaultdict(list)
    operations = replayed.trace.operations
    for group in replayed.graph.groups:
        ends = sorted({operations[i].stage for i in group.members})
        sends = [operations[i].optype for i in group.members if operations[i].optype in SENDS]
        if sends and len(ends) == 2:
            transfers[(ends[0], ends[1]), sends[0]].append(group.members)
    for (stages, _), pairs in transfers.items() if len(ranks) > 1 else ():
        # a send may end once it is buffered: the slower end says how long the link took
        took = np.median([traced[list(pair)].max(axis=0) for pair in pairs], axis=(0, 2))
        places_of[stages] += [place for pair in pairs for place in pair]
        for rank in range(len(ranks)):
            others = np.delete(took, rank)
            usual = np.median(others)
            ratio = ratio_to(took, usual)
            if ratio[rank] >= max(SLOW, 1.0 + SPREADS * spread_of(np.delete(ratio, rank))):
                factor[stages][rank] = max(factor[stages][rank], ratio[rank])
                lost_by[stages][rank] += (took[rank] - usual) * len(pairs)
    slow_links = [
        (SlowLink(dp=ranks[rank], stages=stages, factor=float(factor[stages][rank])), places_of[stages], float(loss))
        for stages, losses in sorted(lost_by.items())
        for rank, loss in enumerate(losses)
        if loss > 0.0
    ]
    if not slow_links:
        return None
    worst = max(lost for _, _, lost in slow_links)
    named = [(link, places) for link, places, lost in slow_links if lost >= MINOR * worst]
    chosen = np.zeros(replayed.durations.traced.shape[:2], dtype=np.bool_)
    for link, places in named:
        chosen[places, replayed.trace.dp_ranks.index(link.dp)] = True
    without = float(replayed.steps_if(~chosen).mean())
    return LinkShare(tuple(link for link, _ in named), without, (seconds - without) / (seconds - ideal))


def with_nodes(share: LinkShare | None, nodes: Mapping[tuple[int, int], str]) -> LinkShare | None:
    """Return the same with the nodes that the ends ran on, as far as known: (dp rank, stage) -> node."""
    if share is None:
        return None
    named = [
        replace(link, nodes=(nodes.get((link.dp, link.stages[0])), nodes.get((link.dp, link.stages[1]))))
        for link in share.links
    ]
    return replace(share, links=tuple(named))


MOST = 0.5  # M_W, M_S or the share of pauses from which on they are the cause
CORRELATED = 0.9  # Correlation of forward and backward time per microbatch from which on sequence lengths are the cause
FEWEST_MICROBATCHES = 4  # Of fewer it is not known whether their lengths are uneven
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
    numbers = _found(analysis)
    correlation = forward_backward_correlation(replayed)
    microbatches = {operation.microbatch for operation in replayed.trace.operations if operation.optype == FORWARD}
    if correlation >= CORRELATED and len(microbatches) >= FEWEST_MICROBATCHES:
        return because(
            "sequence-length",
            f"{numbers}; forward and backward time of a microbatch go together (correlation {correlation:.2f}), "
            "as uneven sequence lengths make them",
        )
    numbers += f", correlation of forward and backward time {correlation:.2f}"
    share = _pause_share(analysis, replayed)
    if share >= MOST:
        return because(
            "garbage-collection",
            f"{numbers}; pauses in forward passes of many ranks, and none in backward passes, explain {share:.0%} of "
            "the loss",
        )
    return because("unknown", f"{numbers}: no rule fits")


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
    correlations = []
    for part in dict.fromkeys(key[:2] for key in both):
        keys = [key for key in both if key[:2] == part]
        deviations = []  # of each pass, how far it is from the mean of its rank, relative
        for places in passes.values():
            seconds = replayed.durations.traced[[places[key] for key in keys]]
            mean = seconds.mean(axis=(0, 2), keepdims=True)
            deviations.append((seconds / np.where(mean > 0, mean, 1.0) - (mean > 0)).ravel())
        x, y = deviations
        scale = float(np.sqrt((x @ x) * (y @ y)))
        correlations.append(float(x @ y) / scale if scale > len(x) * STILL else 0.0)
    return float(np.median(correlations)) if correlations else 0.0


def _pause_share(analysis: Analysis, replayed: Replayed) -> float:
    """Return the share of the loss that goes with pauses: (T - T without them) / (T - T_ideal).

    Pauses are operations ``gc`` of their own, and forward passes of at least :data:`PAUSE` times the usual length of
    their stage and chunk.  0 where one worker has more than half of these, or where backward passes pause too: that is
    not garbage collection, which Python runs while it launches forward passes.
    """
    operations, traced = replayed.trace.operations, replayed.durations.traced
    members: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    for place, operation in enumerate(operations):
        if operation.optype in (FORWARD, BACKWARD, WEIGHT, GC):
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
        # the share of the slowest workers as published, and of those to blame
        by_both = _slowest(approximate)
        first = blamed = _share(replayed, by_both, seconds, ideal)
        truly = _slowest(by_worker)
        if first.share < MOST and set(truly) != set(by_both):
            other = _share(replayed, truly, seconds, ideal)
            blamed = replace(other, published=False) if other.share >= MOST else first
        several = _several(replayed, by_worker, seconds, ideal)
        published, slowest = first, several if several and several.share >= max(MOST, blamed.share + GAIN) else blamed
        links = share_of_links(replayed, float(seconds.mean()), ideal)
        if pp > 1 and not trace.sizes.v_schedule:  # whose last part is on the first rank
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
