"""What ``arnold place --json`` prints, and ``arnold repair`` reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
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
from scheduler.job import Family, Job
from scheduler.job_document import JobDocument
from scheduler.outcome import Outcome, RefusedPlacement
from scheduler.spread import job_level
from topology.cluster import Cluster, IntArray
from topology.flags import HEALTHY


class CellDoc(Document):
    """Where one node-sized cell of the job goes."""

    node: str
    """Name of the node."""
    dp: int = Field(ge=0)
    """Row of the grid: which PP group."""
    pp: int = Field(ge=0)
    """Column of the grid: which stage, and so which DP group."""
    node_rank: int = Field(ge=0)
    """Rank of the node among the job's nodes; pp * rows + dp in the default order."""


class PlaceDocument(Document):
    """A placement, or why there is none.  What belongs to a placement is null, or empty, when there is none."""

    status: Literal["optimal", "feasible", "infeasible", "timeout", "gave-up"]
    """optimal: proved; feasible: valid, with a gap; infeasible; timeout: out of time with nothing valid; gave-up: a
    heuristic found nothing and proved nothing."""
    algorithm: str
    """Name of the algorithm that made it."""
    reason: str | None = None
    """Why there is no placement."""
    would_fit_if_empty: bool | None = None
    """Whether the job would fit if no GPU of the cluster were in use; null = not asked, or not settled in time."""
    spread: SpreadDoc | None = None
    """Spread at the level that counts."""
    objective: float | None = None
    """alpha * spread.dp + beta * spread.pp, plus the soft constraints of the job."""
    bound: float | None = None
    """No placement has a smaller objective."""
    gap: float | None = Field(default=None, ge=0.0, le=1.0)
    """(objective - bound) / objective, 0 when proved."""
    alpha: float = Field(ge=0.0, le=1.0)
    """DP affinity."""
    beta: float = Field(ge=0.0, le=1.0)
    """PP affinity, 1 - alpha."""
    level: str
    """The level whose domains spread counts."""
    solve_seconds: float = Field(ge=0.0)
    """Wall time of the solver alone."""
    pareto: list[ParetoDoc] = Field(default_factory=list)
    """The trade between DP and PP spread, as far as known."""
    spread_by_level: dict[str, dict[Family, int]] = Field(default_factory=dict)
    """Largest spread of a group, for every level and family."""
    avoided: list[str] = Field(default_factory=list)
    """Flagged nodes that were otherwise usable and were left out."""
    used_flagged: list[str] = Field(default_factory=list)
    """Flagged nodes in use."""
    flags: list[NodeFlagDoc] = Field(default_factory=list)
    """Why: what is held against the nodes of both lists, by node."""
    domains: dict[str, int] = Field(default_factory=dict)
    """Cells in each domain of the level that counts; domains without cells are left out."""
    prices: list[PriceDoc] = Field(default_factory=list)
    """How slow nodes were weighed."""
    assignment: list[CellDoc] = Field(default_factory=list)
    """One row for each cell, in order of node rank."""
    notes: list[str] = Field(default_factory=list)
    """What is worth knowing about this run, one sentence each."""
    job: JobDocument
    """The job as it was understood."""
    cluster: ClusterDoc
    """The cluster as it was read."""


def place_document(
    cluster: Cluster,
    job: Job,
    outcome: Outcome,
    *,
    source: str,
    notes: Sequence[str] = (),
    would_fit_if_empty: bool | None = None,
) -> PlaceDocument:
    """The document of an outcome.

    :param source: name of the cluster's file.
    :param notes: of reading the job, before those of the algorithm.
    :raises RefusedPlacement: the evaluator refused what the algorithm proposed.
    """
    if outcome.status == "refused":
        raise RefusedPlacement(outcome)
    evaluation, nodes = outcome.evaluation, outcome.proposal.nodes
    head = PlaceDocument(
        status=outcome.status,
        algorithm=outcome.algorithm,
        reason=outcome.reason or None,
        would_fit_if_empty=would_fit_if_empty,
        alpha=job.alpha,
        beta=job.beta,
        level=job_level(cluster, job).name,
        solve_seconds=outcome.proposal.solve_seconds,
        prices=price_docs(outcome.proposal.prices),
        flags=flag_docs(cluster, job),
        notes=[*notes, *outcome.notes],
        job=job_doc(cluster, job),
        cluster=cluster_doc(cluster, source),
    )
    if evaluation is None or nodes is None:
        return head
    return head.model_copy(
        update={
            "spread": SpreadDoc(dp=evaluation.dp, pp=evaluation.pp),
            "objective": evaluation.objective,
            "bound": outcome.bound,
            "gap": outcome.gap,
            "pareto": pareto_docs(outcome.proposal.pareto),
            "spread_by_level": {name: dict(families) for name, families in evaluation.by_level.items()},
            "avoided": _avoided(cluster, job, nodes),
            "used_flagged": [cluster.names[i] for i in evaluation.flagged],
            "domains": dict(evaluation.domains),
            "assignment": assignment_docs(cluster, job, nodes),
        }
    )


def assignment_docs(cluster: Cluster, job: Job, nodes: IntArray) -> list[CellDoc]:
    """One row for each cell, in order of node rank."""
    grid = job.grid
    order = np.argsort(grid.node_rank.ravel())
    flat = nodes.ravel()
    return [
        CellDoc(
            node=cluster.names[flat[cell]], dp=int(cell) // grid.columns, pp=int(cell) % grid.columns, node_rank=rank
        )
        for rank, cell in enumerate(order)
    ]


def _avoided(cluster: Cluster, job: Job, nodes: IntArray) -> list[str]:
    """Flagged nodes that a gang could otherwise have used, and that this one does not."""
    usable = (cluster.gpus == job.gpus_per_node) & (cluster.free_gpus == cluster.gpus)
    left_out = usable & (cluster.slowdown > HEALTHY)
    left_out[nodes.ravel()] = False
    return [cluster.names[i] for i in np.flatnonzero(left_out)]
