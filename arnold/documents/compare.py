"""What ``arnold compare --json`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from pydantic import Field

from arnold.documents.common import ClusterDoc, Document, SpreadDoc, cluster_doc, job_doc
from scheduler.job import Job
from scheduler.job_document import JobDocument
from scheduler.outcome import Outcome, Status
from scheduler.spread import job_level
from topology.cluster import Cluster


class ResultDoc(Document):
    """What one algorithm made of the instance.  Numbers of a placement are null when there is none."""

    algorithm: str
    """Name of the algorithm."""
    status: Status
    """optimal, feasible, infeasible, timeout, gave-up (found, proved nothing), refused (its placement is invalid)."""
    stopped_at: float | None
    """Seconds of the time limit that stopped the algorithm; null = it ended by itself, or proved its answer."""
    reason: str | None
    """Why there is no placement."""
    spread: SpreadDoc | None
    """Spread at the level that counts."""
    objective: float | None
    """Eq. 2 plus soft constraints."""
    bound: float | None
    """What this algorithm proved: no placement has a smaller objective."""
    gap: float | None
    """(objective - bound) / objective."""
    ratio: float | None
    """Objective over the best objective of all algorithms here; 1 = the best."""
    domains: int | None
    """Number of domains in use."""
    used_flagged: int | None
    """Number of flagged nodes in use."""
    solve_seconds: float = Field(ge=0.0)
    """Wall time of the algorithm alone."""
    notes: list[str]
    """What the algorithm has to say."""


class CompareDocument(Document):
    """Every algorithm on one instance, best objective first."""

    job: JobDocument
    """The job as it was understood."""
    cluster: ClusterDoc
    """The cluster as it was read."""
    level: str
    """The level whose domains spread counts."""
    best: float | None
    """Smallest objective found; null = no algorithm found a placement."""
    bound: float | None
    """Best bound that any of the algorithms proved."""
    results: list[ResultDoc]
    """One for each algorithm."""
    notes: list[str]
    """What is worth knowing about how the input was read."""


class AlgorithmDoc(Document):
    """An installed algorithm."""

    name: str
    """Name for --algorithm and --algorithms."""
    summary: str
    """What it does, in one line."""


class AlgorithmsDocument(Document):
    """What ``arnold compare --list --json`` prints."""

    algorithms: list[AlgorithmDoc]
    """All installed algorithms."""


CompareOutput = CompareDocument | AlgorithmsDocument
"""Either of the two."""


def compare_document(
    cluster: Cluster, job: Job, outcomes: Sequence[Outcome], *, source: str, notes: Sequence[str] = ()
) -> CompareDocument:
    """The document of several outcomes on one instance."""
    best = min((outcome.objective for outcome in outcomes if outcome.objective is not None), default=None)
    ordered = sorted(outcomes, key=lambda outcome: inf if outcome.objective is None else outcome.objective)
    return CompareDocument(
        job=job_doc(cluster, job),
        cluster=cluster_doc(cluster, source),
        level=job_level(cluster, job).name,
        best=best,
        bound=max((outcome.bound for outcome in outcomes if outcome.bound is not None), default=None),
        results=[_result(outcome, best) for outcome in ordered],
        notes=list(notes),
    )


def _result(outcome: Outcome, best: float | None) -> ResultDoc:
    evaluation, objective = outcome.evaluation, outcome.objective
    return ResultDoc(
        algorithm=outcome.algorithm,
        status=outcome.status,
        stopped_at=outcome.stopped_at,
        reason=outcome.reason or None,
        spread=None if evaluation is None else SpreadDoc(dp=evaluation.dp, pp=evaluation.pp),
        objective=objective,
        bound=outcome.bound,
        gap=outcome.gap,
        ratio=None if objective is None or best is None else objective / best,
        domains=None if evaluation is None else len(evaluation.domains),
        used_flagged=None if evaluation is None else len(evaluation.flagged),
        solve_seconds=outcome.proposal.solve_seconds,
        notes=list(outcome.notes),
    )
