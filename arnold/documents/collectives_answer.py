"""JSON of ``arnold health collectives``: what happened, where it began, who is to blame and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from arnold.documents.json_model import JsonModel
from health.collectives import Diagnosis, verdict
from topology.flags import NodeFlag


class NamedCulprit(JsonModel):
    """A rank that may be to blame."""

    rank: int | None
    """Global rank; null = the records do not tell."""
    label: str
    """How the report calls it."""
    node: str | None
    """Node it runs on; null = unknown."""
    certainty: Literal["certain", "likely", "possible"]
    """certain: the evidence leaves it alone; likely: it points there; possible: one of several."""
    factor: float | None
    """By how much it is slow; null = it has stopped."""


class CollectiveGroup(JsonModel):
    """A communicator in which a collective stands still, or transfers have become slow."""

    group: str
    """Its name."""
    kind: str
    """dp, tp, pp, ...; empty = unknown."""
    role: Literal["origin", "victim", "other"]
    """Whether it began here, or the group waits for one where it did."""
    seq: int | None
    """Number of the collective that stands still; null = none does."""
    op: str | None
    """Its operation."""
    standing: list[str]
    """Members that launched it and wait."""
    absent: list[str]
    """Members that did not launch it."""
    since: datetime | None
    """When anything last moved in it; null = unknown."""


class WaitingFlow(JsonModel):
    """A flow of the collective that everything waits for."""

    source: str
    """Member it leads from."""
    target: str
    """Member it leads to."""
    channel: int
    """Channel."""
    total: int
    """Chunks to transfer."""
    ready: int
    """GPU_ready."""
    transmitted: int
    """RDMA_transmitted."""
    done: int
    """RDMA_done."""
    condition: Literal["complete", "not-transmitted", "not-delivered", "gpu-not-ready", "starved"]
    """What it waits for; starved = for another flow."""


class CollectivesDocument(JsonModel):
    """What ``arnold health collectives --json`` prints."""

    format: str
    """Format of the files."""
    status: Literal["healthy", "failure", "straggler"]
    """Whether the job runs, stands still, or has become slow."""
    settled: bool
    """Whether the records show that what stands still does so, and is not merely under way."""
    verdict: str
    """The same in words."""
    cause: str
    """Cause of what came first: none, not-launched, not-transmitted, not-delivered, gpu-not-ready, crossed-order,
    unreachable, late, slow-compute, slow-transfer, slow-gpu or unknown.
    """
    culprits: list[NamedCulprit]
    """Who is to blame, the surest first."""
    since: datetime | None
    """The last instant at which all was well; null = unknown."""
    seen: datetime | None
    """When the trigger saw it; null = healthy, or a snapshot."""
    localised: datetime | None
    """When the culprits were named; null = as above."""
    ranks: int
    """Ranks in the records."""
    looks: int
    """How many times the trigger looked at the job."""
    groups: list[CollectiveGroup]
    """Groups that stand still or are slow: where it began, then its victims."""
    flows: list[WaitingFlow]
    """Flows of the collective that everything waits for, where the records have counters."""
    flags: list[NodeFlag]
    """Flags that the diagnosis justifies: of what is certain only."""
    withheld: str
    """Why nobody is flagged although something is wrong; empty = not so."""
    notes: list[str]
    """What the reader had to decide or leave out."""


def collectives_document(
    diagnosis: Diagnosis, *, format: str, node_of: Mapping[int, str], flags: Sequence[NodeFlag], withheld: str
) -> CollectivesDocument:
    """Return the document of a diagnosis."""
    members = diagnosis.members
    culprits = [
        NamedCulprit(
            rank=members[culprit.member].rank,
            label=members[culprit.member].label,
            node=node_of.get(culprit.member),
            certainty=culprit.certainty,
            factor=culprit.factor,
        )
        for culprit in diagnosis.culprits
    ]
    flows = [
        WaitingFlow(
            source=members[state.flow.source].label,
            target=members[state.flow.target].label,
            channel=state.flow.channel,
            total=state.flow.total,
            ready=state.flow.ready,
            transmitted=state.flow.transmitted,
            done=state.flow.done,
            condition=state.condition,
        )
        for state in diagnosis.flows
    ]
    return CollectivesDocument(
        format=format,
        status=diagnosis.status,
        settled=diagnosis.settled,
        verdict=verdict(diagnosis),
        cause=diagnosis.cause,
        culprits=culprits,
        since=_time(diagnosis.since),
        seen=_time(diagnosis.alarm),
        localised=_time(diagnosis.localised),
        ranks=len(members),
        looks=diagnosis.looks,
        groups=_groups(diagnosis),
        flows=flows,
        flags=list(flags),
        withheld=withheld,
        notes=list(diagnosis.notes),
    )


def _groups(diagnosis: Diagnosis) -> list[CollectiveGroup]:
    stalls = {stall.group: stall for stall in diagnosis.stalls}
    order = [*diagnosis.groups, *diagnosis.victims]
    order += [group for group in stalls if group not in order]
    docs = []
    for number in dict.fromkeys(order):
        group, stall = diagnosis.all_groups[number], stalls.get(number)
        origin = number in diagnosis.groups
        docs.append(
            CollectiveGroup(
                group=group.name,
                kind=group.kind,
                role="origin" if origin else "victim" if number in diagnosis.victims else "other",
                seq=stall.seq if stall is not None else None,
                op=stall.op if stall is not None else None,
                standing=[diagnosis.members[m].label for m in sorted(stall.standing)] if stall is not None else [],
                absent=[diagnosis.members[m].label for m in sorted(stall.absent)] if stall is not None else [],
                since=_time(stall.since) if stall is not None else None,
            )
        )
    return docs


def _time(seconds: float | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None else None
