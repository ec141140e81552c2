"""What ``arnold capacity grow --json`` prints."""

from __future__ import annotations

from pydantic import Field

from arnold.documents.capacity.common import AnswerDocument
from arnold.documents.common import Document
from simulator.capacity.grow import GrowAnswer, GrowRow, assumptions
from simulator.capacity.grow_sheet import grow_sheet


class GrowShapeDoc(Document):
    """One shape on one cluster."""

    shape: str
    """tp x pp."""
    most_nodes: int = Field(ge=0)
    """Nodes of the largest job, whatever its spread."""
    whole_nodes: int = Field(ge=0)
    """Nodes of the largest job with every PP group in one domain."""
    whole_proved: bool
    """No larger one fits; false = the algorithm ran out of time on a larger one."""
    job_nodes: int = Field(ge=1)
    """Nodes of the job whose objective is compared."""
    objective: float | None
    """Its objective, Eq. 2; null = nothing valid was found."""


class GrowRowDoc(Document):
    """One cluster."""

    more: int = Field(ge=0)
    """Domains that were added."""
    nodes: int = Field(ge=1)
    """Nodes in all."""
    free: int = Field(ge=0)
    """Nodes that are idle and not faulty."""
    wait_hours: float | None
    """Mean wait of the workload; null = no job started."""
    wait_hours_p95: float | None
    """95th percentile of the same."""
    shapes: list[GrowShapeDoc]
    """By shape."""


class GrowDocument(AnswerDocument):
    """What more domains buy."""

    cluster: str
    """What the cluster is called."""
    level: str
    """Level of the domains that are added."""
    added_nodes: int = Field(ge=1)
    """Nodes of each."""
    policy: str
    """Queue policy of the workload's replay."""
    jobs: int = Field(ge=0)
    """Jobs of the workload."""
    load: float
    """GPU time that they ask for, as a share of today's cluster."""
    alpha: float
    """DP affinity."""
    rows: list[GrowRowDoc]
    """Today's cluster first."""


def grow_document(answer: GrowAnswer) -> GrowDocument:
    """The document of an answer."""
    return GrowDocument(
        verdict=grow_sheet(answer).verdict,
        assumptions=list(assumptions(answer)),
        cluster=answer.source,
        level=answer.level,
        added_nodes=answer.added,
        policy=answer.question.policy,
        jobs=answer.jobs,
        load=answer.asked,
        alpha=answer.question.alpha,
        rows=[_row(row) for row in answer.rows],
    )


def _row(row: GrowRow) -> GrowRowDoc:
    return GrowRowDoc(
        more=row.more,
        nodes=row.nodes,
        free=row.free,
        wait_hours=row.wait,
        wait_hours_p95=row.wait_p95,
        shapes=[
            GrowShapeDoc(
                shape=one.shape.name,
                most_nodes=one.most,
                whole_nodes=one.whole,
                whole_proved=one.whole_proved,
                job_nodes=one.size,
                objective=one.objective,
            )
            for one in row.shapes
        ],
    )
