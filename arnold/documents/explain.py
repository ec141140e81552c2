"""What ``arnold explain --json`` prints."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from arnold.documents.common import (
    ClusterDoc,
    Document,
    NodeFlagDoc,
    ParetoDoc,
    PriceDoc,
    SpreadDoc,
    cluster_doc,
    flag_docs,
    job_doc,
    pareto_docs,
    price_docs,
)
from arnold.documents.words import option_sentence, verdict
from scheduler.avoidance import Option, Way
from scheduler.explain import CheaperPair, maximal
from scheduler.job import Job
from scheduler.job_document import JobDocument
from scheduler.outcome import Outcome, Status
from scheduler.remedies import Change, ChangeKind, Constraint, Diagnosis
from scheduler.spread import job_level
from topology.cluster import Cluster


class CheaperDoc(Document):
    """A pair of spreads that would cost less than the placement found."""

    dp: int = Field(ge=1)
    """DP spread S."""
    pp: int = Field(ge=1)
    """PP spread R."""
    objective: float
    """What it would cost."""
    refuted: SpreadDoc | None
    """The pair that was refuted, at least as large in both, and rules this one out with it; null = not settled."""
    refuted_by: str | None
    """The bound or search that refuted it."""
    sentence: str | None
    """The reason in words."""
    maximal: bool
    """No other cheaper pair is at least as large in both: ruling out these rules out all."""


class ChangeDoc(Document):
    """A change that makes the job fit, verified by solving the changed instance."""

    kind: ChangeKind
    """smaller-dp, free-nodes, admit-flagged, drop-constraint or other-node-size."""
    sentence: str
    """What to do."""
    spread: SpreadDoc
    """Spread of the placement that the change allows."""
    objective: float
    """Objective of the same."""
    dp: int | None
    """The smaller data parallelism, for smaller-dp."""
    free: list[str]
    """Nodes to free, for free-nodes."""


class DiagnosisDoc(Document):
    """Why the job does not fit."""

    constraint: Constraint
    """What binds: nodes (too few), hold (a hard constraint although there are enough nodes), unknown."""
    reason: str
    """The same in words."""
    would_fit_if_empty: bool | None
    """Whether the job would fit if no GPU of the cluster were in use; null = not settled in time."""
    changes: list[ChangeDoc]
    """Smallest changes that would help, each of them alone."""


class OptionDoc(Document):
    """One way to treat slow nodes, solved."""

    way: Way
    """avoid: no slow node; use: any, as if they were healthy; some: only those up to a slowdown, where the job's own
    placement is neither."""
    chosen: bool
    """Whether the job's placement is this one."""
    status: Status
    """Of the exact solver; infeasible when the job does not fit this way."""
    spread: SpreadDoc | None
    """Spread of the placement; null = there is none."""
    objective: float | None
    """Its objective."""
    bound: float | None
    """No placement of this way has a smaller one."""
    step_time: float | None
    """Predicted step time, 1 = no spread and no slow node."""
    slowest: float | None
    """Slowdown of the slowest node in use, 1 = none is slow."""
    used: list[str]
    """Flagged nodes in use."""
    left_out: list[str]
    """Flagged nodes that could be used and are not."""
    sentence: str
    """The option in words."""


class ExplainDocument(Document):
    """Why a placement cannot be better, or why there is none."""

    status: Status
    """Of the exact solver: optimal, feasible, infeasible or timeout."""
    verdict: str
    """The answer in one sentence."""
    alpha: float
    """DP affinity."""
    beta: float
    """PP affinity."""
    level: str
    """The level whose domains spread counts."""
    spread: SpreadDoc | None
    """Spread of the placement found."""
    objective: float | None
    """Its objective."""
    bound: float | None
    """No placement has a smaller objective."""
    gap: float | None
    """(objective - bound) / objective."""
    cheaper: list[CheaperDoc]
    """Every pair that would cost less, dearest first, with what rules it out."""
    pareto: list[ParetoDoc]
    """The trade between DP and PP spread, as far as known."""
    prices: list[PriceDoc]
    """How slow nodes were weighed."""
    options: list[OptionDoc]
    """To avoid slow nodes against to use them, each solved; empty where no node that the job could use is slow."""
    flags: list[NodeFlagDoc]
    """Why: the flags of the nodes that the options name, and of faulty ones that are idle, by node."""
    diagnosis: DiagnosisDoc | None
    """Why the job does not fit; null when it does."""
    solve_seconds: float
    """Wall time of the solver on the instance itself."""
    notes: list[str]
    """What is worth knowing about this run."""
    job: JobDocument
    """The job as it was understood."""
    cluster: ClusterDoc
    """The cluster as it was read."""


def explain_document(
    cluster: Cluster,
    job: Job,
    outcome: Outcome,
    *,
    pairs: Sequence[CheaperPair],
    options: Sequence[Option],
    diagnosis: Diagnosis | None,
    source: str,
    notes: Sequence[str] = (),
) -> ExplainDocument:
    """The document of an explanation."""
    evaluation, proposal = outcome.evaluation, outcome.proposal
    return ExplainDocument(
        status=outcome.status,
        verdict=verdict(outcome),
        alpha=job.alpha,
        beta=job.beta,
        level=job_level(cluster, job).name,
        spread=None if evaluation is None else SpreadDoc(dp=evaluation.dp, pp=evaluation.pp),
        objective=outcome.objective,
        bound=outcome.bound,
        gap=outcome.gap,
        cheaper=_cheaper_docs(pairs),
        pareto=pareto_docs(proposal.pareto),
        prices=price_docs(proposal.prices),
        options=[_option_doc(cluster, option) for option in options],
        flags=flag_docs(cluster, job),
        diagnosis=None if diagnosis is None else _diagnosis_doc(diagnosis),
        solve_seconds=proposal.solve_seconds,
        notes=[*notes, *outcome.notes],
        job=job_doc(cluster, job),
        cluster=cluster_doc(cluster, source),
    )


def _cheaper_docs(pairs: Sequence[CheaperPair]) -> list[CheaperDoc]:
    decisive = set(maximal(pairs))
    return [
        CheaperDoc(
            dp=pair.dp,
            pp=pair.pp,
            objective=pair.objective,
            refuted=None
            if pair.refutation is None
            else SpreadDoc(dp=pair.refutation.pair[0], pp=pair.refutation.pair[1]),
            refuted_by=None if pair.refutation is None else pair.refutation.by,
            sentence=None if pair.refutation is None else pair.refutation.sentence,
            maximal=pair in decisive,
        )
        for pair in pairs
    ]


def _option_doc(cluster: Cluster, option: Option) -> OptionDoc:
    outcome, evaluation = option.outcome, option.outcome.evaluation
    return OptionDoc(
        way=option.way,
        chosen=option.chosen,
        status=outcome.status,
        spread=None if evaluation is None else SpreadDoc(dp=evaluation.dp, pp=evaluation.pp),
        objective=outcome.objective,
        bound=outcome.bound,
        step_time=option.step_time,
        slowest=option.slowest,
        used=[cluster.names[i] for i in option.used],
        left_out=[cluster.names[i] for i in option.left_out],
        sentence=option_sentence(option),
    )


def _diagnosis_doc(diagnosis: Diagnosis) -> DiagnosisDoc:
    return DiagnosisDoc(
        constraint=diagnosis.constraint,
        reason=diagnosis.reason,
        would_fit_if_empty=diagnosis.would_fit_if_empty,
        changes=[doc for change in diagnosis.changes if (doc := _change_doc(change)) is not None],
    )


def _change_doc(change: Change) -> ChangeDoc | None:
    evaluation = change.outcome.evaluation
    if evaluation is None:
        return None
    return ChangeDoc(
        kind=change.kind,
        sentence=change.sentence,
        spread=SpreadDoc(dp=evaluation.dp, pp=evaluation.pp),
        objective=evaluation.objective,
        dp=change.dp,
        free=list(change.free),
    )
