"""The answer of ``arnold score``, as JSON and as text: what a job that runs has, and what it could have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arnold.console.output import BAD, GOOD, SO_SO, print_rows
from arnold.documents.place_answer import Frame, passed_over, print_head
from ground.quantities import decimal
from ground.records import Count, JsonRecord
from scheduler.audit import Audit
from scheduler.job import FAMILIES, Family
from scheduler.job_files.job_file import JobDocument, job_document
from scheduler.objective import TOLERANCE, Spread, slowest_in_use, step_time
from scheduler.outcome import Instance, Outcome, status_words
from scheduler.placement.types import Status
from topology.cluster import IntArray
from topology.summary import ClusterSummary, summarise_cluster

if TYPE_CHECKING:
    from rich.console import Console

WORDS = {
    "same_nodes": "its nodes, in the best order",
    "free_nodes": "nodes free now",
    "restart": "nodes free now, and its own",
    "empty_cluster": "the empty cluster",
}


@dataclass(frozen=True, slots=True)
class Possible(JsonRecord):
    """The best that could be had."""

    objective: float | None
    """Objective of the best placement known; null = there is none."""
    bound: float | None
    """No placement there has a smaller objective; null = there is none."""
    status: Status
    """optimal: proved the best; as of `arnold place`."""
    spread: Spread | None
    """Spread at the level that counts."""
    closer: Mapping[str, Spread]
    """Level -> spread there, for levels closer than the one that counts."""
    reason: str | None
    """Why there is no placement."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreDocument(JsonRecord):
    """What a job that runs has, beside what it could have."""

    objective: float
    """alpha * spread.dp + beta * spread.pp, plus the soft constraints of the job and the levels that it weighs."""
    spread: Spread
    """Spread at the level that counts."""
    level: str
    """The level whose domains spread counts."""
    spread_by_level: Mapping[str, Mapping[Family, int]]
    """Largest spread of a group, for every level and family."""
    broken: str | None
    """The rule of the job that its placement breaks; null = none."""
    step_time: float
    """Predicted step time by the job's spread_cost, 1 = no spread and no slow node."""
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
    notes: tuple[str, ...]
    """What is worth knowing about this run, one sentence each."""
    job: JobDocument
    """The job as it was understood."""
    cluster: ClusterSummary
    """The cluster as it was read."""


def score_document(instance: Instance, nodes: IntArray, audit: Audit) -> ScoreDocument:
    """Return the document of an audit; ``nodes``: shape [rows, columns], where the job is."""
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
    return ScoreDocument(
        objective=worth.objective,
        spread=worth.spread,
        level=instance.level.name,
        spread_by_level=worth.by_level,
        broken=audit.broken or None,
        step_time=step_time(job, objective=worth.objective, slowest=slowest_in_use(cluster, worth)),
        **{name: _possible(outcome) for name, outcome in audit.possible.items()},
        swap=swap,
        swaps_complete=audit.swaps_complete,
        notes=instance.notes,
        job=job_document(instance),
        cluster=summarise_cluster(cluster, instance.source),
    )


def _possible(outcome: Outcome) -> Possible:
    closer = {level: Spread(spread.dp, spread.pp) for level, spread in outcome.closer.items()}
    reason = outcome.reason or None
    return Possible(outcome.objective, outcome.bound, outcome.status, outcome.spread, closer, reason)


def print_score(out: Console, instance: Instance, document: ScoreDocument, *, then: str) -> None:
    """Print what `arnold score` says.

    :param then: the command to go on with.
    """
    job, least = instance.job, document.restart.objective
    lost = "" if least is None else f"; started anew it could have {decimal(least)}"
    colour = BAD if document.broken else GOOD if least is None or least > document.objective - TOLERANCE else SO_SO
    pair = f"DP spread {document.spread.dp}, PP spread {document.spread.pp}"
    frame = Frame(out, f"objective {decimal(document.objective)} ({pair}){lost}", colour)
    if document.broken:
        out.print(f"It breaks a rule of its job: {document.broken}")
    print_head(out, instance)
    rows: list[tuple[object, ...]] = [
        ("as it runs", decimal(document.objective), document.spread.dp, document.spread.pp, "", "", "")
    ]
    for name, words in WORDS.items():
        there: Possible = getattr(document, name)
        sure = status_words(there.status)
        if there.objective is None or there.spread is None:
            rows.append((words, None, None, None, None, None, there.reason or sure))
            continue
        bound = None if there.bound is None else decimal(there.bound)
        step = f"{100 * job.spread_cost * (there.objective - document.objective):+.1f} %"
        rows.append((words, decimal(there.objective), there.spread.dp, there.spread.pp, bound, step, sure))
    headers = ("on", "objective", "dp", "pp", "no less than", "step", "")
    print_rows(out, headers, rows, title=f"What it has and could have, by {document.level}", left=("on", ""))
    levels = [(level, *(of[family] for family in FAMILIES)) for level, of in document.spread_by_level.items()]
    if frame.shows("every level", levels):
        print_rows(out, ("largest spread at", *FAMILIES), levels, title="Every level and family")
    if document.swap is None:
        tried = "No swap of two of its nodes helps" if document.swaps_complete else "None of the swaps tried helps"
        frame.sentences("Swaps", [f"{tried}."])
    else:
        (first, second), swap = document.swap.nodes, document.swap
        closer = "".join(f", {level} {decimal(value)}" for level, value in swap.closer.items())
        best = "no other helps more" if swap.best else "not all were tried"
        gain = f"objective {decimal(document.objective)} -> {decimal(swap.objective)}{closer}"
        frame.sentences("Swaps", [f"{first} and {second}: {gain}; {best}."])
    by = f"steps by the job's spread_cost of {job.spread_cost:.3g}; `arnold calibrate` measures yours"
    frame.end([*passed_over(instance), by, *document.notes], then)
