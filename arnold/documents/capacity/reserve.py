"""What ``arnold capacity reserve --json`` prints."""

from __future__ import annotations

from pydantic import Field

from arnold.documents.capacity.common import AnswerDocument
from arnold.documents.common import Document
from simulator.capacity.reserve import Instant, PolicyRow, ReserveAnswer, assumptions
from simulator.capacity.reserve_sheet import reserve_sheet


class InstantDoc(Document):
    """One sample, of what was until then."""

    hours: float
    """Since the announcement."""
    allocation: float = Field(ge=0.0, le=1.0)
    """Share of the GPUs that jobs hold."""
    zone_held: int = Field(ge=0)
    """Nodes of the zone that others hold."""
    waiting: int = Field(ge=0)
    """Jobs in the queue."""


class PolicyDoc(Document):
    """What a policy makes of it."""

    policy: str
    """Name of the queue policy."""
    starts_hours: float | None
    """Hours after its arrival at which the large job starts; null = never."""
    allocation_before: float
    """Mean in the hour before the announcement."""
    allocation_at_arrival: float
    """When the large job arrives, before it starts."""
    zone_held_at_arrival: int
    """Nodes of the zone that others hold then."""
    idle_node_hours: float
    """That nobody held between announcement and arrival."""
    wait_hours: float
    """Mean wait of others submitted between announcement and arrival."""
    wait_hours_after: float
    """The same of those submitted after the arrival."""
    stopped: int = Field(ge=0)
    """Times that others were stopped for the large job."""
    line: list[InstantDoc]
    """Sample by sample."""


class ReserveDocument(AnswerDocument):
    """When a large job would fit, and what reserving for it costs the others."""

    cluster_nodes: int = Field(ge=1)
    """Nodes of the cluster."""
    nodes: int = Field(ge=1)
    """Nodes of the large job."""
    zone: int = Field(ge=0)
    """Nodes of its zone."""
    notice_hours: float
    """From announcement to arrival."""
    jobs: int
    """Jobs of the others."""
    load: float
    """GPU time that they ask for, as a share of the cluster's."""
    policies: list[PolicyDoc]
    """By policy."""


def reserve_document(answer: ReserveAnswer) -> ReserveDocument:
    """The document of an answer."""
    return ReserveDocument(
        verdict=reserve_sheet(answer).verdict,
        assumptions=list(assumptions(answer)),
        cluster_nodes=answer.cluster_nodes,
        nodes=answer.question.nodes,
        zone=answer.zone,
        notice_hours=answer.question.notice_hours,
        jobs=answer.jobs,
        load=answer.asked,
        policies=[_policy(row) for row in answer.rows],
    )


def _policy(row: PolicyRow) -> PolicyDoc:
    return PolicyDoc(
        policy=row.policy,
        starts_hours=row.starts,
        allocation_before=row.before,
        allocation_at_arrival=row.at_arrival,
        zone_held_at_arrival=row.zone_held,
        idle_node_hours=row.idle,
        wait_hours=row.wait,
        wait_hours_after=row.wait_after,
        stopped=row.stopped,
        line=[_instant(one) for one in row.line],
    )


def _instant(one: Instant) -> InstantDoc:
    return InstantDoc(hours=one.hours, allocation=one.allocation, zone_held=one.zone_held, waiting=one.waiting)
