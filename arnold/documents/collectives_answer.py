"""The answer of ``arnold health collectives``: what happened, where it began, what is to blame and how sure that is."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from arnold.console.output import BAD, GOOD, SO_SO, Console, print_rows
from ground.errors import few
from ground.records import JsonRecord, record_of
from health.collectives.diagnosis import Certainty, Diagnosis, Status, verdict
from health.collectives.flagging import withheld
from health.collectives.stalls import Condition
from topology.flags import NodeFlag


class NamedCulprit(JsonRecord):
    """A rank that may be to blame."""

    rank: int | None
    """Global rank; null = the records do not tell."""
    label: str
    """Name of it in the report."""
    node: str | None
    """Node it runs on; null = unknown."""
    certainty: Certainty
    """certain: the evidence leaves it alone; likely: it points there; possible: one of several."""
    factor: float | None
    """Times as long as usual that it takes; null = it has stopped."""
    cause: str
    """Its cause, where several ranks have stopped for different ones."""


class CollectiveGroup(JsonRecord):
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
    standing: tuple[str, ...]
    """Members that launched it and wait."""
    absent: tuple[str, ...]
    """Members that did not launch it."""
    since: datetime | None
    """When anything last moved in it; null = unknown."""


class WaitingFlow(JsonRecord):
    """A flow of the collective that everything waits for."""

    source: str
    """Member it leads from."""
    target: str
    """Member it leads to."""
    channel: int
    """Number of the channel."""
    total: int
    """Chunks to transfer."""
    ready: int
    """Chunks that the GPU has made ready (GPU_ready)."""
    transmitted: int
    """Chunks that were transmitted (RDMA_transmitted)."""
    done: int
    """Chunks that were delivered (RDMA_done)."""
    condition: Condition
    """What it waits for; starved = for another flow."""


class CollectivesDocument(JsonRecord):
    """What ``arnold health collectives --json`` prints."""

    format: str
    """Format of the files."""
    status: Status
    """Whether the job runs, stands still, or has become slow."""
    settled: bool
    """Whether the records show that what stands still does so, and is not merely under way."""
    verdict: str
    """The finding in words."""
    cause: str
    """Cause of what came first: none, not-launched, not-completed, not-transmitted, not-delivered, gpu-not-ready,
    crossed-order, other-size, unreachable, no-record, late, slow-compute, slow-transfer, slow-gpu or unknown.
    """
    culprits: tuple[NamedCulprit, ...]
    """Ranks to blame, the surest first."""
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
    groups: tuple[CollectiveGroup, ...]
    """Groups that stand still or are slow: where it began, then its victims."""
    flows: tuple[WaitingFlow, ...]
    """Flows of the collective that everything waits for, where the records have counters."""
    flags: tuple[NodeFlag, ...]
    """Flags that the diagnosis justifies: of what is certain only."""
    withheld: str
    """Why no node is flagged although something is wrong; empty = not so."""
    notes: tuple[str, ...]
    """What the reader had to decide or leave out."""


def collectives_document(
    diagnosis: Diagnosis, *, format: str, node_of: Mapping[int, str], flags: Sequence[NodeFlag]
) -> CollectivesDocument:
    """Return the document of a diagnosis."""

    def time_of(seconds: float | None) -> datetime | None:
        return datetime.fromtimestamp(seconds, UTC) if seconds is not None else None

    labels = [member.label for member in diagnosis.members]
    # where it began, the victims, and other groups that stand still
    groups, stalls = [], {stall.group: stall for stall in diagnosis.stalls}
    for number in dict.fromkeys((*diagnosis.groups, *diagnosis.victims, *stalls)):
        group, stall = diagnosis.all_groups[number], stalls.get(number)
        role: Literal["origin", "victim", "other"] = "victim" if number in diagnosis.victims else "other"
        groups.append(
            CollectiveGroup(
                group=group.name,
                kind=group.kind,
                role="origin" if number in diagnosis.groups else role,
                seq=None if stall is None else stall.seq,
                op=None if stall is None else stall.op,
                standing=() if stall is None else tuple(labels[member] for member in sorted(stall.standing)),
                absent=() if stall is None else tuple(labels[member] for member in sorted(stall.absent)),
                since=None if stall is None else time_of(stall.since),
            )
        )
    return record_of(
        CollectivesDocument,
        diagnosis,
        format=format,
        verdict=verdict(diagnosis),
        culprits=tuple(
            NamedCulprit(
                diagnosis.members[culprit.member].rank,
                labels[culprit.member],
                node_of.get(culprit.member),
                culprit.certainty,
                culprit.factor,
                culprit.cause or diagnosis.cause,
            )
            for culprit in diagnosis.culprits
        ),
        since=time_of(diagnosis.since),
        seen=time_of(diagnosis.alarm),
        localised=time_of(diagnosis.localised),
        ranks=len(labels),
        groups=tuple(groups),
        flows=tuple(
            record_of(WaitingFlow, flow, source=labels[flow.source], target=labels[flow.target], condition=condition)
            for flow, condition in diagnosis.flows
        ),
        flags=tuple(flags),
        withheld=withheld(diagnosis, node_of),
    )


STYLES = {"healthy": GOOD, "straggler": SO_SO, "failure": BAD}
ROLES = {"origin": "began here", "victim": "waits", "other": "-"}
CONDITIONS = ("gpu-not-ready", "not-delivered", "not-transmitted", "starved", "complete")  # In the order of the text
MOST_FLOWS = 24  # Flows shown as text; --json has all


def print_collectives(out: Console, document: CollectivesDocument) -> None:
    """Print what happened, the groups, the flows that all wait for, and the flags."""
    out.print(document.verdict, style=STYLES[document.status])
    if document.seen is not None and document.localised is not None and document.since is not None:
        after = (document.seen - document.since).total_seconds()
        named = (document.localised - document.since).total_seconds()
        well = f"{document.since:%Y-%m-%d %H:%M:%S} UTC"
        out.print(f"All was well until {well}; seen {after:.1f} s later, judged {named:.1f} s later")
    rows = []
    for group in document.groups:
        absent = few(group.absent, most=3) or "-"
        rows.append((group.group, ROLES[group.role], group.seq, group.op or "-", len(group.standing), absent))
    headers = ("group", "role", "number", "operation", "waiting", "absent")
    print_rows(out, headers, rows, title="Groups, where it began first", left=["role", "operation", "absent"])
    flows = sorted(document.flows, key=lambda flow: (CONDITIONS.index(flow.condition), flow.done))
    counted = [
        (flow.source, flow.target, flow.channel, flow.ready, flow.transmitted, flow.done, flow.total, flow.condition)
        for flow in flows[:MOST_FLOWS]
    ]
    columns = ("from", "to", "channel", "ready", "transmitted", "done", "of", "state")
    title = "Flows of the collective that all wait for, in chunks"
    print_rows(out, columns, counted, title=title, left=["to", "state"])
    if len(flows) > MOST_FLOWS:
        out.print(f"and {len(flows) - MOST_FLOWS} more, in --json")
    flags = []
    for flag in document.flags:
        until = "-" if flag.until is None else f"{flag.until:%Y-%m-%d %H:%M} UTC"
        flags.append((flag.node, flag.kind, "-" if flag.kind == "faulty" else f"{flag.slowdown:.2f}", until))
    print_rows(out, ("node", "kind", "slowdown", "until"), flags, title="Flags", left=["kind", "until"])
    for note in [document.withheld, *document.notes]:
        if note:
            out.print(f"Note: {note}")
