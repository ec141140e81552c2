"""What ``arnold explain --json`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ground.records import JsonRecord, record_of
from scheduler.explanation import (
    AvoidanceOption,
    CheaperPair,
    Misfit,
    TypeBinding,
    cheaper_pairs,
    left_over,
    what_binds,
)
from scheduler.job_files.job_file import JobDocument, job_document
from scheduler.objective import Spread
from scheduler.outcome import Instance, Outcome, TypeOption
from scheduler.placement.types import ParetoPoint, PriceOption, Status
from topology.flags import NodeFlag
from topology.summary import ClusterSummary, summarise_cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainDocument(JsonRecord):
    """Why a placement cannot be better, or why there is none."""

    status: Status
    """Status of the exact solver: optimal, feasible, infeasible or timeout."""
    stopped_at: float | None
    """Seconds of the time limit that stopped it, or by the clock what came after a proof; null = it ended by itself, or
    proved its answer."""
    verdict: str
    """The answer in one sentence."""
    alpha: float
    """DP affinity."""
    beta: float
    """PP affinity."""
    level: str
    """The level whose domains spread counts."""
    spread: Spread | None
    """Spread of the placement found."""
    objective: float | None
    """Its objective."""
    bound: float | None
    """No placement has a smaller objective, slow nodes and all."""
    gap: float | None
    """(objective - bound) / objective."""
    step_time: float | None
    """Predicted step time, 1 = no spread and no slow node; null = slow nodes have no price, or there are none that the
    job might have."""
    step_time_bound: float | None
    """No placement on the chosen types of GPU has a shorter predicted step."""
    cheaper: tuple[CheaperPair, ...]
    """Every pair that would cost less, dearest first, with what rules it out."""
    pareto: tuple[ParetoPoint, ...]
    """The trade between DP and PP spread, as far as known."""
    prices: tuple[PriceOption, ...]
    """How slow nodes were weighed."""
    types: tuple[TypeOption, ...]
    """What each type of GPU that the job may be on would give, each solved; the pairs and the trade are those of the
    chosen one.  Empty where nothing says the types of nodes."""
    binding: tuple[TypeBinding, ...]
    """What binds on each of these types; empty where there is nothing to choose."""
    options: tuple[AvoidanceOption, ...]
    """To avoid slow nodes against to use them, each solved; empty where no node that the job could use is slow."""
    flags: tuple[NodeFlag, ...]
    """Why: the flags of the nodes that the options name, and of faulty ones that are idle, by node."""
    diagnosis: Misfit | None
    """Why the job does not fit; null when it does."""
    solve_seconds: float
    """Wall time of the solver on the instance itself."""
    notes: tuple[str, ...]
    """What is worth knowing about this run."""
    job: JobDocument
    """The job as it was understood."""
    cluster: ClusterSummary
    """The cluster as it was read."""


def explain_document(
    instance: Instance, outcome: Outcome, *, options: Sequence[AvoidanceOption], diagnosis: Misfit | None
) -> ExplainDocument:
    """Return the document of an explanation."""
    return record_of(
        ExplainDocument,
        outcome,
        alpha=instance.job.alpha,
        beta=instance.job.beta,
        level=instance.level.name,
        cheaper=cheaper_pairs(instance.cluster, instance.job, outcome),
        pareto=outcome.proposal.corners,
        prices=outcome.proposal.prices,
        binding=what_binds(instance.cluster, outcome),
        options=tuple(options),
        flags=instance.flags,
        diagnosis=diagnosis,
        solve_seconds=outcome.proposal.solve_seconds,
        notes=(*instance.notes, *outcome.notes, *(f"{one}." for one in left_over(instance.cluster, instance.job))),
        job=job_document(instance),
        cluster=summarise_cluster(instance.cluster, instance.source),
    )
