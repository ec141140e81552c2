"""The answer of ``arnold score``, as JSON and as text: what a job that runs has, and what it could have."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arnold.console.output import BAD, GOOD, SO_SO, Console, print_rows
from arnold.documents.answer_frame import Frame, passed_over, print_head
from arnold.documents.place_answer import PlacementAnswer
from ground.errors import ArnoldError, some
from ground.quantities import decimal, percent, plural
from ground.records import AtLeastOne, Count, JsonRecord, record_of
from scheduler.affinity import Gains
from scheduler.audit import Audit
from scheduler.job import Family
from scheduler.job_files.job_file import JobDocument, job_document
from scheduler.objective import TOLERANCE, Evaluation, Spread, slowest_in_use, step_time
from scheduler.outcome import Instance, status_words
from scheduler.placement.types import Status
from topology.cluster import IntArray
from topology.flags import HEALTHY
from topology.load import LoadedTopology
from topology.running_jobs import LiveJob
from topology.summary import ClusterSummary, summarise_cluster

WORDS = {
    "same_nodes": "its nodes, in the best order",
    "free_nodes": "nodes free now",
    "restart": "nodes free now, and its own",
    "empty_cluster": "the empty cluster",
}


class Possible(PlacementAnswer, JsonRecord):
    """The best that could be had."""

    objective: float | None
    """Objective of the best placement known; null = there is none."""
    bound: float | None
    """No placement there has a smaller objective; null = there is none."""
    status: Status
    """optimal: proved the best; as of `arnold place`."""
    spread: Spread | None
    closer: Mapping[str, Spread]
    """Level -> spread there, for levels closer than the one that counts."""
    step_time: float | None
    """Predicted step time of that placement, as that of the job, on faster GPUs less; null = there is none."""
    reason: str | None


class StepLost(JsonRecord):
    """What a placement costs beside the best, as a share of the step."""

    share: float
    """By the job's spread_cost and the slowest of its nodes."""
    low: float | None
    """The least by the 95 % interval of the measured gains (--records); null = nothing was measured."""
    high: float | None
    """The most by it."""


class SwapAnswer(JsonRecord):
    """Two nodes of the job that change their ranks."""

    nodes: tuple[str, str]
    """Names of the nodes."""
    node_ranks: tuple[Count, Count]
    """Their node ranks before the swap."""
    objective: float
    """Objective after it."""
    spread: Spread
    """Spread at the level that counts, after it."""
    closer: Mapping[str, float]
    """Level -> alpha * dp + beta * pp there after it, for levels closer than the one that counts."""
    best: bool
    """No other swap is better; false = not all that could help were tried."""


class Score(PlacementAnswer, JsonRecord, kw_only=True):
    """What a job that runs has, beside what it could have."""

    objective: float
    spread: Spread
    level: str
    spread_by_level: Mapping[str, Mapping[Family, int]]
    broken: str | None
    """The rule of the job that its placement breaks; null = none."""
    step_time: float
    """Predicted step time by the job's spread_cost, 1 = no spread and no slow node."""
    step_lost: StepLost | None
    """Share of a step that the best placement on the empty cluster would save; null = there is none."""
    same_nodes: Possible
    """The best on the nodes that it has, in another order."""
    free_nodes: Possible
    """The best on the nodes that are free now."""
    restart: Possible
    """The best on these and its own: what starting it anew could give."""
    empty_cluster: Possible
    """The best if no GPU of the cluster were in use."""
    swap: SwapAnswer | None
    """The swap of two of its nodes that helps most; null = none helps."""
    swaps_complete: bool
    """Whether all swaps that could help were tried."""


class ScoreDocument(Score, kw_only=True):
    """What a job that runs has, beside what it could have."""

    notes: tuple[str, ...]
    job: JobDocument
    cluster: ClusterSummary


class ScoredJob(Score, kw_only=True):
    """What one of the running jobs has."""

    name: str
    """Its name."""
    owner: str | None
    """Whose it is; null = not said."""
    group: str | None
    """Its account or namespace; null = not said."""
    gpus: AtLeastOne
    """GPUs that it has in all."""
    ranked: bool
    """Whether the order of its ranks is known; else they are taken in the order of its nodes."""


class UnscoredJob(JsonRecord):
    """A running job without a score."""

    name: str
    """Its name."""
    gpus: AtLeastOne
    """GPUs that it has in all."""
    reason: str
    """Why it has none."""
    where: str | None
    """File and line that say so; null = no one place does."""
    fix: str | None
    """What can be done."""


class ScoresDocument(PlacementAnswer, JsonRecord, kw_only=True):
    """What all running jobs have, beside what each could have."""

    jobs: tuple[ScoredJob, ...]
    """Those with a score; those that lose most GPUs first."""
    not_scored: tuple[UnscoredJob, ...]
    """Those without."""
    gpus_lost: float
    """GPUs that would do the work that spread and slow nodes cost the scored jobs: GPUs times the share of a step."""
    notes: tuple[str, ...]
    cluster: ClusterSummary


ScoreOutput = ScoreDocument | ScoresDocument  # Of one job, or of all


def score_document(
    instance: Instance, nodes: IntArray, audit: Audit, *, records: Sequence[Gains] = ()
) -> ScoreDocument:
    """Return the document of an audit.

    :param nodes: shape [rows, columns], where the job is.
    :param records: own measurements, for the range of what is lost.
    """
    return ScoreDocument(
        **_score(instance, nodes, audit, records),
        notes=instance.notes,
        job=job_document(instance),
        cluster=summarise_cluster(instance.cluster, instance.source),
    )


def scored_job(
    live: LiveJob, instance: Instance, nodes: IntArray, audit: Audit, *, records: Sequence[Gains] = ()
) -> ScoredJob:
    """Return the part of the document that is about one of several jobs; as :func:`score_document`."""
    return ScoredJob(
        **_score(instance, nodes, audit, records),
        name=live.name,
        owner=live.owner or None,
        group=live.group or None,
        gpus=int(live.gpus_on(instance.cluster).sum()),
        ranked=live.ranked,
    )


def scores_document(
    loaded: LoadedTopology, scored: Sequence[ScoredJob], left_out: Mapping[str, ArnoldError]
) -> ScoresDocument:
    """Return the document of all running jobs; ``left_out``: why a job has no score, by its name."""
    running = () if loaded.jobs is None else loaded.jobs.running
    unscored = tuple(
        UnscoredJob(
            live.name, int(live.gpus_on(loaded.cluster).sum()), error.message, error.where or None, error.fix or None
        )
        for live in running
        if (error := left_out.get(live.name)) is not None
    )
    return ScoresDocument(
        jobs=tuple(sorted(scored, key=lambda job: (-_gpus_lost(job), job.name))),
        not_scored=unscored,
        gpus_lost=sum(map(_gpus_lost, scored)),
        notes=loaded.notes,
        cluster=summarise_cluster(loaded.cluster, loaded.source),
    )


def _gpus_lost(job: ScoredJob) -> float:
    return 0.0 if job.step_lost is None else job.gpus * job.step_lost.share


def _score(instance: Instance, nodes: IntArray, audit: Audit, records: Sequence[Gains]) -> dict[str, Any]:
    """Return the fields of :class:`Score`."""
    cluster, job, worth = instance.cluster, instance.job, audit.evaluation
    swap = None
    if audit.swap is not None:
        after = audit.swap.evaluation
        first, second = audit.swap.cells
        swap = SwapAnswer(
            (cluster.names[nodes[first]], cluster.names[nodes[second]]),
            (int(job.grid.node_rank[first]), int(job.grid.node_rank[second])),
            after.objective, after.spread, after.closer, audit.swaps_complete,
        )  # fmt: skip
    # what was found about its nodes since it started does not make its placement invalid, and slows it all the same
    slow = cluster.slowdown[nodes]
    slowest, best = float(slow[np.isfinite(slow)].max(initial=HEALTHY)), audit.possible["empty_cluster"]
    lost = None

    def step_there(there: Evaluation, cost: float) -> float:
        """Return the step time there, by the pace of healthy GPUs as those that it has."""
        priced, faster = job.replace(spread_cost=cost), job.speed_on(there.gpu_types) / job.speed_on(worth.gpu_types)
        return step_time(priced, objective=there.objective, slowest=slowest_in_use(cluster, there)) / faster

    if (least := best.evaluation) is not None:

        def share(cost: float) -> float:
            now = step_time(job.replace(spread_cost=cost), objective=worth.objective, slowest=slowest)
            return max(0.0, 1.0 - step_there(least, cost) / now)

        bands = (gains.spread_cost_band for gains in records if gains.spread_cost == job.spread_cost)
        low, high = next((band for band in bands if band is not None), (None, None))
        lost = StepLost(
            share(job.spread_cost),
            None if low is None else share(max(0.0, low)),
            None if high is None else share(max(0.0, high)),
        )
    return {
        "objective": worth.objective,
        "spread": worth.spread,
        "level": instance.level.name,
        "spread_by_level": worth.by_level,
        "broken": audit.broken or None,
        "step_time": step_time(job, objective=worth.objective, slowest=slowest),
        "step_lost": lost,
        **{
            name: record_of(
                Possible,
                outcome,
                closer={level: Spread(spread.dp, spread.pp) for level, spread in outcome.closer.items()},
                step_time=None if outcome.evaluation is None else step_there(outcome.evaluation, job.spread_cost),
                reason=outcome.reason or None,
            )
            for name, outcome in audit.possible.items()
        },
        "swap": swap,
        "swaps_complete": audit.swaps_complete,
    }


def print_score(out: Console, *, instance: Instance, document: ScoreDocument, then: str) -> None:
    """Print what `arnold score` says; ``then`` is the command to go on with."""
    job, least, now = instance.job, document.restart.objective, document.step_time
    best_step = now if document.restart.step_time is None else document.restart.step_time
    lost = "" if least is None else f"; started anew it could have {decimal(least)}"
    if best_step < now - TOLERANCE:
        lost += f", and a step {percent(1 - best_step / now)} shorter"
    colour = BAD if document.broken else SO_SO if best_step < now - TOLERANCE else GOOD
    pair = f"DP spread {document.spread.dp}, PP spread {document.spread.pp}"
    frame = Frame(out, f"objective {decimal(document.objective)} ({pair}){lost}", colour)
    if document.broken:
        out.print(f"It breaks a rule of its job: {document.broken}")
    step_lost = _lost_words(document.step_lost)
    better = [] if step_lost is None else [f"{step_lost} of each step is lost beside the best on the empty cluster"]
    if document.swap is None:
        better.append("no swap of two nodes helps" if document.swaps_complete else "none of the swaps tried helps")
    else:
        (first, second), swap = document.swap.nodes, document.swap
        closer = "".join(f", {level} {decimal(value)}" for level, value in swap.closer.items())
        best = "no other swap helps more" if swap.best else "not all swaps were tried"
        gain = f"objective {decimal(document.objective)} -> {decimal(swap.objective)}{closer}"
        better.append(f"swap {first} and {second}: {gain}; {best}")
    out.print("; ".join(better))
    print_head(out, instance)
    rows: list[tuple[object, ...]] = [
        ("as it runs", decimal(document.objective), document.spread.dp, document.spread.pp, "", "", "")
    ]
    for name, words in WORDS.items():
        there: Possible = getattr(document, name)
        sure = status_words(there.status)
        if there.objective is None or there.spread is None or there.step_time is None:
            rows.append((words, None, None, None, None, None, there.reason or sure))
            continue
        bound = None if there.bound is None else decimal(there.bound)
        step = f"{100 * (there.step_time / now - 1):+.1f} %"
        rows.append((words, decimal(there.objective), there.spread.dp, there.spread.pp, bound, step, sure))
    headers = ("on", "objective", "dp", "pp", "bound", "step", "")
    title = f"What it has and could have, by {document.level}" if frame.whole else ""
    print_rows(out, headers, rows, title=title, left=("on", ""))
    frame.levels(document.spread_by_level)
    by = f"steps by the job's spread_cost of {job.spread_cost:.3g}; `arnold calibrate` measures yours"
    frame.end([*passed_over(instance), by, *document.notes], then)


def print_scores(out: Console, document: ScoresDocument) -> None:
    """Print what `arnold score --all` says."""
    jobs = document.jobs
    gpus = sum(job.gpus for job in jobs)
    all_gpus = gpus + sum(job.gpus for job in document.not_scored)
    lost = "nothing of it is known to be lost" if not jobs else f"{document.gpus_lost:,.1f} of {gpus:,} GPUs lost"
    colour = GOOD if jobs and document.gpus_lost < 0.005 * gpus else SO_SO
    frame = Frame(out, f"{plural(len(jobs), 'running job')} scored: {lost} to spread and slow nodes", colour)
    out.print(f"{document.cluster.source}: {gpus:,} of {all_gpus:,} GPUs of running jobs are of jobs with a score")
    out.print(
        "reordered: the least objective on its own nodes; anew: on these and free ones; empty: on the empty cluster"
    )
    rows = [
        (
            job.name, job.group or job.owner, job.gpus, decimal(job.objective),
            *(None if there.objective is None else decimal(there.objective)
              for there in (job.same_nodes, job.restart, job.empty_cluster)),
            _lost_words(job.step_lost),
            "" if job.swap is None else f"{job.swap.nodes[0]} and {job.swap.nodes[1]}: {decimal(job.swap.objective)}",
        )
        for job in jobs
    ]  # fmt: skip
    headers = ("job", "of", "GPUs", "objective", "reordered", "anew", "empty", "step lost", "best swap")
    frame.rows(headers, rows, title="Jobs: objective as it runs, and what it could be", left=("of", "best swap"))
    reasons: dict[tuple[str, str | None], list[UnscoredJob]] = {}
    for unscored in document.not_scored:
        reasons.setdefault((unscored.reason, unscored.fix), []).append(unscored)
    left_out = []
    for (reason, fix), alike in reasons.items():
        names = alike[0].name if len(alike) == 1 else some([job.name for job in alike])
        where = "" if alike[0].where is None else f"{alike[0].where}: "
        cure = "" if fix is None else f". To fix: {fix}"
        left_out.append(f"{names}, {plural(sum(job.gpus for job in alike), 'GPU')}: {where}{reason}{cure}")
    frame.sentences("Not scored", left_out)
    unordered = [job.name for job in jobs if not job.ranked]
    order = [f"ranks taken in the order of the nodes, as srun numbers them: {some(unordered)}"] if unordered else []
    by = "what is lost is beside the best on the empty cluster, by each job's spread_cost"
    frame.end([by, *order, *document.notes], "")


def _lost_words(lost: StepLost | None) -> str | None:
    if lost is None:
        return None
    between = "" if lost.low is None else f" ({percent(lost.low)} to {percent(lost.high)})"
    return percent(lost.share) + between
