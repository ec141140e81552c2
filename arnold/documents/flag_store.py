"""JSON of the commands about a flag store: ``arnold flags record``, ``show``, ``why``, ``lift`` and ``import``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from arnold.documents.common import Document, NodeFlagDoc, flag_doc, flag_fields
from topology.flag_log import EventName, FlagLog, Line
from topology.flags import NodeFlag

if TYPE_CHECKING:
    from health.flags.history import History, Spell
    from health.flags.ledger import Ledger, Recorded


class MergedFlagDoc(NodeFlagDoc):
    """A flag of a node, merged over its sources."""

    sources: list[str]
    """Who holds something against the node, the worst first."""


class EventDoc(Document):
    """A line of the store."""

    time: datetime
    """When it was so."""
    event: EventName
    """noted, raised, renewed, lowered, cleared or expired."""
    node: str
    """Name of the node."""
    source: str
    """Who found it."""
    flag: NodeFlagDoc | None
    """What the source holds against the node from then on; null = nothing."""
    finding: NodeFlagDoc | None
    """What was found, where it is no flag yet."""
    by: str
    """Who did it, if not the store by its rules."""
    because: str
    """Why."""


class NotedDoc(Document):
    """A node of which too little was found to flag it."""

    node: str
    """Name of the node."""
    source: str
    """Who found it."""
    findings: int
    """How often, since the last flag or all-clear."""
    last: datetime
    """When last."""


class RecordDocument(Document):
    """What ``arnold flags record`` and ``arnold flags lift`` did."""

    store: str
    """The file."""
    events: list[EventDoc]
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
    """Bytes of an unfinished line at the end of the file, left by a writer that was killed, which were taken away."""
    size: int
    """Bytes of the store now."""
    most: int
    """Bytes that it may have: before that, `arnold flags compact`."""


class CompactDocument(Document):
    """What ``arnold flags compact`` did."""

    store: str
    """The file."""
    before: datetime
    """History before this may be forgotten."""
    kept: int
    """Lines that are left."""
    dropped: int
    """Lines that are gone; 0 = the file was left alone."""
    size_before: int
    """Bytes before."""
    size: int
    """Bytes now."""
    archive: str | None
    """Where the whole store as it was is; null = nowhere."""


class ShowDocument(Document):
    """What ``arnold flags show`` prints; also a flag file."""

    store: str
    """The file."""
    at: datetime
    """What follows held at this time."""
    flags: list[NodeFlagDoc]
    """What each source holds against each node, by node and source."""
    nodes: list[MergedFlagDoc]
    """The same by node: what ``arnold place`` heeds."""
    noted: list[NotedDoc]
    """Nodes of which too little was found to flag them."""
    rules: dict[str, Any]
    """When a finding becomes a flag and when it ends, times in seconds."""
    forgotten: datetime | None
    """History before this was compacted and is not whole; null = all of it is there."""
    torn: int
    """Bytes of an unfinished line at the end of the file, left out."""


class SpellDoc(Document):
    """A time in which the same was held against a node."""

    begin: datetime
    """Since when."""
    end: datetime | None
    """Until when; null = it goes on at the end of the span."""
    flag: NodeFlagDoc
    """What was held against it."""
    ended: str
    """Why it ended; empty = it did not, or something else took its place."""
    sentence: str
    """In words."""


class WhyDocument(Document):
    """What ``arnold flags why`` prints."""

    store: str
    """The file."""
    node: str
    """Name of the node."""
    since: datetime | None
    """Start of the span that was asked for; null = from the first line."""
    until: datetime
    """Its end."""
    avoided: bool
    """Whether anything was held against the node in the span."""
    spells: list[SpellDoc]
    """When, and what, in order."""
    events: list[EventDoc]
    """What was written about the node in the span, in order."""
    forgotten: datetime | None
    """History before this was compacted and is not whole; null = all of it is there."""
    gap: str
    """What that means for the answer; empty = the span does not reach so far back."""
    torn: int
    """Bytes of an unfinished line at the end of the file, left out."""


class ImportDocument(Document):
    """What ``arnold flags import`` found; also a flag file."""

    source: str
    """Whose findings were looked for."""
    nodes: int
    """Nodes in the input."""
    healthy: int
    """Of these, nodes that the source looks at and holds nothing against."""
    flags: list[NodeFlagDoc]
    """What it holds against the others."""
    recorded: RecordDocument | None
    """What the store made of it; null = no --store was given."""


def event_doc(line: Line) -> EventDoc:
    """A line for people."""
    flags = line.flags()
    finding = None if line.finding is None else flag_doc(line.finding.flag_of(line.node, line.source))
    return EventDoc(
        time=line.time,
        event=line.event,
        node=line.node,
        source=line.source,
        flag=flag_doc(flags[0]) if flags else None,
        finding=finding,
        by=line.by,
        because=line.because,
    )


def event_docs(lines: Iterable[Line]) -> list[EventDoc]:
    """The lines that are about nodes."""
    return [event_doc(line) for line in lines if line.node]


def record_document(store: str, recorded: Recorded, *, flagged: int, torn: int, size: int, most: int) -> RecordDocument:
    """What was recorded."""
    return RecordDocument(
        store=store,
        events=event_docs(recorded.lines),
        known=recorded.known,
        over=recorded.over,
        early=recorded.early,
        flagged=flagged,
        torn=torn,
        size=size,
        most=most,
    )


def show_document(store: str, log: FlagLog, ledger: Ledger, at: datetime) -> ShowDocument:
    """What held at an instant.

    :param ledger: of the lines up to then.
    """
    standing = log.standing(at)
    sources: dict[str, list[str]] = {}
    for flag in sorted(standing, key=lambda flag: -flag.slowdown):
        sources.setdefault(flag.node, []).append(flag.source)
    return ShowDocument(
        store=store,
        at=at,
        flags=[flag_doc(flag) for flag in standing],
        nodes=[MergedFlagDoc(**flag_fields(flag), sources=sources[flag.node]) for flag in log.holding(at)],
        noted=[
            NotedDoc(node=node, source=source, findings=len(track.noted), last=track.noted[-1])
            for (node, source), track in sorted(ledger.tracks.items())
            if track.noted
        ],
        rules=ledger.rules.plain(),
        forgotten=log.forgotten,
        torn=log.torn,
    )


def why_document(store: str, found: History, log: FlagLog) -> WhyDocument:
    """Why a node was avoided."""
    reaches = log.forgotten is not None and (found.since is None or found.since < log.forgotten)
    return WhyDocument(
        store=store,
        node=found.node,
        since=found.since,
        until=found.until,
        avoided=bool(found.spells),
        spells=[_spell_doc(spell) for spell in found.spells],
        events=event_docs(found.lines),
        forgotten=log.forgotten,
        gap=log.lines[0].because if reaches else "",
        torn=log.torn,
    )


def import_document(
    source: str, flags: Sequence[NodeFlag], *, nodes: int, healthy: int, recorded: RecordDocument | None
) -> ImportDocument:
    """What was imported."""
    return ImportDocument(
        source=source, nodes=nodes, healthy=healthy, flags=[flag_doc(flag) for flag in flags], recorded=recorded
    )


def _spell_doc(spell: Spell) -> SpellDoc:
    return SpellDoc(
        begin=spell.begin, end=spell.end, flag=flag_doc(spell.flag), ended=spell.ended, sentence=spell.sentence
    )
