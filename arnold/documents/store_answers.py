"""JSON of ``arnold flags record``, ``lift``, ``show``, ``why``, ``import`` and ``export``: what a flag store says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ground.records import AwareTime, JsonRecord, record_of
from health.flags.history import Spell
from health.flags.rules import Rules
from topology.flags import EventName, FlagEvent, NodeFlag


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedFlag(NodeFlag):
    """A flag of a node, merged over its sources."""

    sources: tuple[str, ...]
    """Sources that hold something against the node, the worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenEvent(JsonRecord):
    """An event of the store, without what only the store needs."""

    time: AwareTime
    """When it was so."""
    event: EventName
    """noted, raised, renewed, lowered, cleared or expired."""
    node: str
    """Name of the node."""
    source: str
    """Name of the detector that found it."""
    flag: NodeFlag | None
    """What the source holds against the node from then on; null = nothing."""
    finding: NodeFlag | None
    """What was found, where it is no flag yet."""
    by: str
    """Name of the person that did it, if not the store by its rules."""
    because: str
    """Why."""


@dataclass(frozen=True, slots=True)
class NotedFinding(JsonRecord):
    """A node of which too little was found to flag it."""

    node: str
    """Name of the node."""
    source: str
    """Name of the detector that found it."""
    findings: int
    """How often, since the last flag or all-clear."""
    last: AwareTime
    """When last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDocument(JsonRecord):
    """What ``arnold flags record`` and ``arnold flags lift`` did."""

    store: str
    """The file."""
    events: tuple[WrittenEvent, ...]
    """What was written, in order: what had ended since the last time, and what was found."""
    known: int
    """Findings that had been taken in before."""
    over: int
    """Findings left out, as they ended before now."""
    early: int
    """Findings left out, as they begin later than now."""
    flagged: int
    """Nodes that are flagged now."""
    torn: int
    """Bytes of an unfinished line at the end of imported JSON lines, which were left out; 0 otherwise."""
    size: int
    """Bytes of the store now."""
    most: int
    """Bytes that it may have: before that, `arnold flags compact`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFlagsDocument(JsonRecord):
    """What ``arnold flags show`` prints; also a flag file."""

    store: str
    """The file."""
    at: AwareTime
    """What follows held at this time."""
    flags: tuple[NodeFlag, ...]
    """What each source holds against each node, by node and source."""
    nodes: tuple[MergedFlag, ...]
    """What all sources together hold against each node, which `arnold place` uses."""
    noted: tuple[NotedFinding, ...]
    """Nodes of which too little was found to flag them."""
    rules: Rules
    """When a finding becomes a flag and when it ends, times in seconds."""
    forgotten: AwareTime | None
    """History before this was compacted and is not whole; null = all of it is there."""
    torn: int
    """Always 0: an SQLite file has no unfinished lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyFlaggedDocument(JsonRecord):
    """What ``arnold flags why`` prints."""

    store: str
    """The file."""
    node: str
    """Name of the node."""
    since: AwareTime | None
    """Start of the span that was asked for; null = from the first event."""
    until: AwareTime
    """Its end."""
    avoided: bool
    """Whether anything was held against the node in the span."""
    spells: tuple[Spell, ...]
    """When, and what, in order."""
    events: tuple[WrittenEvent, ...]
    """What was written about the node in the span, in order."""
    forgotten: AwareTime | None
    """History before this was compacted and is not whole; null = all of it is there."""
    gap: str
    """What that means for the answer; empty = the span does not reach so far back."""
    torn: int
    """Always 0: an SQLite file has no unfinished lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportDocument(JsonRecord):
    """What ``arnold flags import`` found; also a flag file."""

    source: str
    """Name of the monitor whose findings were looked for; flag-store: of another store."""
    nodes: int
    """Nodes in the input."""
    healthy: int
    """Nodes of the input that the source looks at and holds nothing against."""
    flags: tuple[NodeFlag, ...]
    """What it holds against the others."""
    recorded: RecordDocument | None
    """What the store made of it; null = no --store was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportDocument(JsonRecord):
    """What ``arnold flags export --json`` prints."""

    store: str
    """The file."""
    events: int
    """Events in it, one a line."""
    output: str | None
    """The file that was written; null = none, the text is here."""
    text: str | None
    """The events as JSON lines; null = they are in the file."""


def written(events: Iterable[FlagEvent]) -> tuple[WrittenEvent, ...]:
    """Return the events that are about nodes, as they are printed."""
    return tuple(
        record_of(
            WrittenEvent,
            event,
            flag=next(iter(event.flags), None),
        )
        for event in events
        if event.node
    )
