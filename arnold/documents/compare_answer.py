"""What ``arnold compare --json`` and ``arnold demo --json`` print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from ground.records import JsonRecord, NotNegative, record_of
from scheduler.job_files.job_file import JobDocument, job_document
from scheduler.objective import Spread
from scheduler.outcome import Instance, Outcome
from scheduler.placement.types import ALGORITHMS, Status
from topology.summary import ClusterSummary, summarise_cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedAlgorithm(JsonRecord):
    """What one algorithm made of the instance.  Numbers of a placement are null when there is none."""

    algorithm: str
    """Name of the algorithm."""
    status: Status
    """optimal, feasible, infeasible, timeout, gave-up (found, proved nothing), refused (its placement is invalid)."""
    stopped_at: float | None
    """Seconds of the time limit that stopped the algorithm, or by the clock what came after its proof; null = it ended
    by itself, or proved its answer."""
    reason: str | None
    """Why there is no placement."""
    spread: Spread | None
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
    gpu_types: tuple[str, ...]
    """Types of GPU of its nodes; empty where nothing says the types, or there is no placement."""
    solve_seconds: NotNegative
    """Wall time of the algorithm alone."""
    notes: tuple[str, ...]
    """What the algorithm has to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareDocument(JsonRecord):
    """Every algorithm on one instance, best objective first."""

    job: JobDocument
    """The job as it was understood."""
    cluster: ClusterSummary
    """The cluster as it was read."""
    level: str
    """The level whose domains spread counts."""
    best: float | None
    """Smallest objective found; null = no algorithm found a placement."""
    bound: float | None
    """Best bound that any of the algorithms proved."""
    results: tuple[ComparedAlgorithm, ...]
    """One for each algorithm."""
    notes: tuple[str, ...]
    """What is worth knowing about how the input was read."""


@dataclass(frozen=True, slots=True)
class InstalledAlgorithm(JsonRecord):
    """An installed algorithm."""

    name: str
    """Name for --algorithm."""
    summary: str
    """What it does, in one line."""


@dataclass(frozen=True, slots=True)
class AlgorithmsDocument(JsonRecord):
    """What ``arnold compare --list --json`` prints."""

    algorithms: tuple[InstalledAlgorithm, ...]
    """All installed algorithms."""


CompareOutput = CompareDocument | AlgorithmsDocument  # Either of the two


@dataclass(frozen=True, slots=True)
class DemoDocument(JsonRecord):
    """What ``arnold demo --json`` prints: what the demonstration wrote, and the comparison it shows."""

    page: str
    """The HTML page."""
    files: tuple[str, ...]
    """Files to try other commands on, with --save: cluster and job first."""
    comparison: CompareDocument
    """Every algorithm on the demonstration's instance."""


def algorithms_document() -> AlgorithmsDocument:
    """Return all installed algorithms."""
    names = ALGORITHMS.names()
    return AlgorithmsDocument(tuple(InstalledAlgorithm(name, ALGORITHMS.load(name).summary) for name in names))


def compare_document(instance: Instance, outcomes: Sequence[Outcome]) -> CompareDocument:
    """Return the document of several outcomes on one instance."""
    best = min((outcome.objective for outcome in outcomes if outcome.objective is not None), default=None)
    ordered = sorted(outcomes, key=lambda outcome: inf if outcome.objective is None else outcome.objective)
    return CompareDocument(
        job=job_document(instance),
        cluster=summarise_cluster(instance.cluster, instance.source),
        level=instance.level.name,
        best=best,
        bound=max((outcome.bound for outcome in outcomes if outcome.bound is not None), default=None),
        results=tuple(_result(outcome, best) for outcome in ordered),
        notes=instance.notes,
    )


def _result(outcome: Outcome, best: float | None) -> ComparedAlgorithm:
    worth, objective = outcome.evaluation, outcome.objective
    return record_of(
        ComparedAlgorithm,
        outcome,
        reason=outcome.reason or None,
        objective=objective,
        ratio=None if objective is None or best is None else objective / best,
        domains=len(worth.domains) if worth else None,
        used_flagged=len(worth.flagged) if worth else None,
        gpu_types=next((one.gpu_types for one in outcome.types if one.chosen), ()),
        solve_seconds=outcome.proposal.solve_seconds,
    )
