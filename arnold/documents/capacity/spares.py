"""What ``arnold capacity spares --json`` prints."""

from __future__ import annotations

from pydantic import Field

from arnold.documents.capacity.common import AnswerDocument
from arnold.documents.common import Document
from simulator.capacity.spares import SparesAnswer, assumptions
from simulator.capacity.spares_sheet import spares_sheet
from simulator.failures.rates import MEASURED_MTTF_HOURS


class RateDoc(Document):
    """How often a node fails."""

    name: str
    """Name of a published rate, or the number given."""
    per_thousand_node_days: float = Field(ge=0.0)
    """Failures in 1,000 days of a node."""
    source: str
    """Who measured it."""


class SparesRowDoc(Document):
    """What a number of spares is worth."""

    spares: int = Field(ge=0)
    """Spare nodes."""
    waiting: float = Field(ge=0.0, le=1.0)
    """Share of time in which the job waits for a repair, by formula."""
    formula: float = Field(ge=0.0, le=1.0)
    """First-order ETTR."""
    exact: float = Field(ge=0.0, le=1.0)
    """ETTR of failures that come at random."""
    simulated: float = Field(ge=0.0, le=1.0)
    """Mean ETTR of the Monte Carlo."""
    half_width: float = Field(ge=0.0)
    """Half of its 95 % interval."""
    apart: float = Field(ge=0.0)
    """|formula - simulated| / simulated."""


class SparesDocument(AnswerDocument):
    """Spares for a target ETTR."""

    nodes: int = Field(ge=1)
    """Nodes of the job."""
    target: float
    """ETTR to reach."""
    rate: RateDoc
    """The rate of failures that was assumed."""
    restart_seconds: float = Field(ge=0.0)
    """From a failure to training again, with a spare at hand."""
    checkpoint_interval: float
    """Productive seconds between checkpoints."""
    checkpoint_write: float
    """Seconds that a checkpoint takes."""
    repair_hours: float
    """Until a failed node is back, on average."""
    mttf_hours: float
    """Mean time to failure of the job by the rate."""
    mttf_hours_at_1024_gpus: float
    """The same of a job of 1,024 GPUs, to be read beside what was measured."""
    measured_mttf_hours_at_1024_gpus: float
    """What jobs of that size on RSC-1 measured."""
    nodes_away: float
    """Nodes in repair on average."""
    standby: int = Field(ge=0)
    """P99 of a day's failures at this rate."""
    needed: int | None
    """The fewest spares that reach the target; null = no number does."""
    ettr_with_unlimited_spares: float
    """First-order ETTR that no number of spares exceeds."""
    exact_ettr_with_unlimited_spares: float
    """The same, exact for failures that come at random."""
    rows: list[SparesRowDoc]
    """By number of spares."""


def spares_document(answer: SparesAnswer) -> SparesDocument:
    """The document of an answer."""
    q = answer.question
    return SparesDocument(
        verdict=spares_sheet(answer).verdict,
        assumptions=list(assumptions(answer)),
        nodes=q.nodes,
        target=q.target,
        rate=RateDoc(name=q.rate.name, per_thousand_node_days=q.rate.per_thousand_node_days, source=q.rate.source),
        restart_seconds=q.restart,
        checkpoint_interval=answer.interval,
        checkpoint_write=q.write,
        repair_hours=q.repair_hours,
        mttf_hours=answer.mttf_hours,
        mttf_hours_at_1024_gpus=answer.published_mttf_hours,
        measured_mttf_hours_at_1024_gpus=MEASURED_MTTF_HOURS,
        nodes_away=answer.away,
        standby=answer.standby,
        needed=answer.needed,
        ettr_with_unlimited_spares=answer.unlimited,
        exact_ettr_with_unlimited_spares=answer.exact_unlimited,
        rows=[
            SparesRowDoc(
                spares=row.spares,
                waiting=row.waiting,
                formula=row.formula,
                exact=row.exact,
                simulated=row.simulated.mean,
                half_width=row.simulated.half_width,
                apart=row.apart,
            )
            for row in answer.rows
        ],
    )
