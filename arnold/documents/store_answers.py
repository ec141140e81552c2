"""Answers of commands about a flag store: ``arnold flags record``, ``lift``, ``show``, ``why``, ``import`` and
``export``; and of ``arnold health watch``, which writes to one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from arnold.console.output import Console, ErrorDetails, error_document, plain, print_rows, print_sentences
from ground.errors import InvalidInput, UnknownName, did_you_mean
from ground.files import Source
from ground.quantities import number, plural
from ground.records import AwareTime, JsonRecord, record_of
from health.flags.flag_store import MAX_STORE_BYTES, Ledger, Recorded, open_ledger, store_size, track_of
from health.flags.history import Spell, history
from health.flags.lemons import Lemon
from health.flags.rules import Rules, rules_of
from topology.flag_sources import Breaker, open_log
from topology.flags import FAULTY, EventName, FlagEvent, NodeFlag, merge_by_node
from topology.node_names import NodeNames

if TYPE_CHECKING:
    from health.peers.watch import WatchRound


class MergedFlag(NodeFlag, kw_only=True):
    """A flag of a node, merged over its sources."""

    sources: tuple[str, ...]
    """Sources that hold something against the node, the worst first."""


class WrittenEvent(JsonRecord, kw_only=True):
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


class RecordDocument(JsonRecord, kw_only=True):
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


class LostCapacity(JsonRecord, kw_only=True):
    """What flags of the same sources and age cost."""

    sources: str
    """Sources that hold them."""
    age: str
    """How long they have been held: below 1 d, 1 to 7 d, above 7 d; where no source says since when, by the store."""
    faulty: int
    """Nodes that are out of use."""
    slow: int
    """Nodes that are slower or dearer."""
    gpus: float | None
    """GPUs lost: all of a faulty node, of a slow one the part that it does less; null = --cluster is not given."""


class HeldFlagsDocument(JsonRecord, kw_only=True):
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
    capacity: tuple[LostCapacity, ...] | None = None
    """What the flags cost, the most GPUs or nodes first; null = --capacity is not given."""


class WhyFlaggedDocument(JsonRecord, kw_only=True):
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


class ImportDocument(JsonRecord, kw_only=True):
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


class ExportDocument(JsonRecord, kw_only=True):
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
    return tuple(record_of(WrittenEvent, event, flag=next(iter(event.flags), None)) for event in events if event.node)


def changed(
    store: str,
    change: Callable[[Ledger], Recorded],
    *,
    now: datetime,
    create: bool = True,
    torn: int = 0,
    breaker: Breaker | None = None,
) -> RecordDocument:
    """Change a store, and return what was done.

    :param torn: bytes of the input that were left out.
    :param breaker: what the change may take out of use; a store that would hold more stays as it was.
    """
    with open_ledger(store, now=now, create=create) as ledger:
        out = {flag.node for flag in ledger.holding(now) if flag.kind == "faulty"}
        recorded = change(ledger)
        held = ledger.holding(now)
        if breaker is not None:
            breaker.check(held, before=out & {flag.node for flag in held}, where=store)
    return record_of(
        RecordDocument,
        recorded,
        store=store,
        events=written(recorded.events),
        flagged=len(held),
        torn=torn,
        size=store_size(store),
        most=MAX_STORE_BYTES,
    )


def record_findings(store: str, flags: Iterable[NodeFlag], *, now: datetime) -> RecordDocument:
    """Return what a round found, as findings of a flag store.

    The rules of the store say how long they hold, also where the episode is over: it is evidence about the node. A
    machine that does not stand out gets no all-clear: a node that is avoided shows no symptoms.
    """
    findings = [replace(flag, until=None) for flag in flags]
    return changed(store, lambda ledger: ledger.record(findings, now=now), now=now)


def held_flags_document(
    store: str, instant: datetime, *, capacity: bool = False, gpus: Mapping[str, int] | None = None
) -> HeldFlagsDocument:
    """Return what a store holds at an instant.

    :param capacity: tell what it costs.
    :param gpus: as :func:`lost_capacity` has it.
    :raises InvalidInput: it is no store, or what held then is not known any more.
    """
    with open_log(store) as log:
        if log.forgotten is not None and instant < log.forgotten:
            problem = f"what held at {minute(instant)} is not known any more: {log.opened.because}"
            fix = "ask the archive of that time, if `arnold flags compact` was told to keep one"
            raise InvalidInput(problem, where=store, fix=fix)
        standing = log.standing(instant)
        noted = {
            (event.node, event.source): track_of(log, event.node, event.source, instant).noted
            for event in log.latest(instant, "event = 'noted' AND until IS NULL")
        }
        rules, forgotten = rules_of(log, instant), log.forgotten
        since = log.held_since(instant) if capacity else {}
    sources: dict[str, list[str]] = {}
    for flag in sorted(standing, key=lambda flag: -flag.slowdown):
        sources.setdefault(flag.node, []).append(flag.source)
    document = HeldFlagsDocument(
        store=store,
        at=instant,
        flags=tuple(standing),
        nodes=tuple(MergedFlag(**asdict(flag), sources=tuple(sources[flag.node])) for flag in merge_by_node(standing)),
        noted=tuple(NotedFinding(*track, len(times), times[-1]) for track, times in noted.items() if times),
        rules=rules,
        forgotten=forgotten,
        torn=0,
    )
    return replace(document, capacity=lost_capacity(document, since, gpus)) if capacity else document


def why_flagged_document(store: str, node: str, *, since: datetime | None, until: datetime) -> WhyFlaggedDocument:
    """Return when and why a node was flagged in a span; ``since``: ``None`` = from the first event.

    :raises UnknownName: the store has never heard of the node.
    """
    with open_log(store) as log:
        if (node := NodeNames(names := log.nodes()).any(node)) not in names:
            fix = f"{did_you_mean(node, names)}nodes without an event were never found slow or faulty"
            raise UnknownName(f"the store has never heard of node {node[:80]!r}", where=store, fix=fix)
        past, opened = history(log, node, since=since, until=until), log.opened
    reaches = opened.forgotten is not None and (since is None or since < opened.forgotten)
    return record_of(
        WhyFlaggedDocument,
        past,
        opened,
        store=store,
        node=node,
        since=since,
        until=until,
        avoided=bool(past.spells),
        events=written(past.events),
        gap=opened.because if reaches else "",
        torn=0,
    )


def taken_over(source: Source, store: str | None, now: datetime) -> ImportDocument:
    """Take over the events of another store; raise InvalidInput where no new one is named."""
    from health.flags.imports import read_event_lines

    if store is None:
        fix = "name the new store: --store FILE"
        raise InvalidInput("another flag store is taken over by a new one", where="--store", fix=fix)
    events, torn = read_event_lines(source)
    recorded = changed(store, lambda ledger: ledger.take_over(events), now=now, torn=torn)
    with open_log(store) as log:
        flags, nodes = log.standing(now), log.nodes()
    healthy = len(nodes - {flag.node for flag in flags})
    return ImportDocument(source="flag-store", nodes=len(nodes), healthy=healthy, flags=tuple(flags), recorded=recorded)


LONGEST = 60  # Most events of a table on a terminal; --json has them all


def print_events(out: Console, events: Sequence[WrittenEvent], *, title: str) -> None:
    """Print events of a store, the last ones where there are too many; nothing when there are none."""
    rows = []
    for event in events[-LONGEST:]:
        about = event.flag or event.finding
        why = event.because + (f" (by {event.by})" if event.by else "")
        if about is not None and about.evidence:
            why += f": {about.evidence}"
        what = (event.event, plain(event.node), plain(event.source), factor(about), plain(why))
        rows.append((minute(event.time), *what))
    headers = ("time", "", "node", "source", "slowdown", "why")
    print_rows(out, headers, rows, title=title, left=headers, gap=False)
    if len(events) > LONGEST:
        out.print(f"... and {len(events) - LONGEST} before; --json shows all")


def factor(flag: NodeFlag | None) -> str:
    """Return ``1.5``, ``faulty``, or a dash."""
    if flag is None:
        return "-"
    return "faulty" if flag.kind == "faulty" else f"{flag.slowdown:.4g}"


def minute(time: datetime | None) -> str:
    """Return ``2026-11-17 14:20Z``, or a dash."""
    return "-" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M}Z"


def print_recorded(out: Console, document: RecordDocument) -> None:
    """Print what was done."""
    print_events(out, document.events, title="Written")
    if not document.events:
        out.print("nothing new")
    left_out = {
        "known already": document.known,
        "left out, as they have ended": document.over,
        "left out, as they begin later": document.early,
    }
    for words, count in left_out.items():
        if count:
            out.print(f"findings {words}: {count}")
    if document.torn:
        out.print(f"left out: {document.torn} bytes of a line that a writer had not finished")
    out.print(f"nodes flagged now: {document.flagged}")
    if document.size > document.most / 2:
        share = f"{document.size / 2**20:.0f} of {document.most / 2**20:.0f} MB"
        out.print(f"the store has {share}: `arnold flags compact` forgets old history", style="yellow")


class LemonsDocument(JsonRecord, kw_only=True):
    """What ``arnold flags lemons`` found; also a flag file."""

    source: str
    """What was read."""
    runs: int
    """Runs of jobs that ended well or failed."""
    nodes: int
    """Nodes that they ran on."""
    lemons: tuple[Lemon, ...]
    """Nodes on which jobs fail too often, the worst first."""
    flags: tuple[NodeFlag, ...]
    """A warning for each."""


def print_lemons(out: Console, document: LemonsDocument) -> None:
    """Print the nodes on which jobs fail too often."""
    out.print(f"{plural(len(document.lemons), 'node')} of {document.nodes} with more failed jobs than chance explains")
    for flag in document.flags:
        out.print(f"{plain(flag.node)}: {flag.evidence}", soft_wrap=True)


AGES = ((timedelta(days=1), "below 1 d"), (timedelta(days=7), "1 to 7 d"), (timedelta.max, "above 7 d"))


def lost_capacity(
    document: HeldFlagsDocument, since: Mapping[str, datetime], gpus: Mapping[str, int] | None
) -> tuple[LostCapacity, ...]:
    """Return what the flags of nodes cost by their sources and age, the dearest first.

    :param since: node -> when the store began to hold something against it.
    :param gpus: node -> its GPUs; a node that is not there is none of the cluster; ``None`` = not known.
    """
    groups: dict[tuple[str, str], list[MergedFlag]] = {}
    for flag in document.nodes:
        held = document.at - (flag.since or since[flag.node])
        age = next(name for most, name in AGES if held < most)
        groups.setdefault((", ".join(sorted(set(flag.sources))), age), []).append(flag)
    lost = []
    for (sources, age), several in groups.items():
        faulty = sum(flag.slowdown == FAULTY for flag in several)
        of_gpus = None
        if gpus is not None:
            of_gpus = round(sum(gpus.get(flag.node, 0) * (1.0 - 1.0 / flag.slowdown) for flag in several), 2)
        lost.append(LostCapacity(sources=sources, age=age, faulty=faulty, slow=len(several) - faulty, gpus=of_gpus))
    return tuple(sorted(lost, key=lambda one: (-(one.gpus or 0.0), -one.faulty, -one.slow, one.sources, one.age)))


def print_held_flags(out: Console, document: HeldFlagsDocument) -> None:
    """Print the nodes that are flagged, and those that are not yet."""
    if not document.nodes:
        out.print(f"no node is flagged at {minute(document.at)}")
    else:
        rows = []
        for flag in document.nodes:
            why = ": ".join(filter(None, (flag.source, flag.evidence))) if len(flag.sources) == 1 else flag.evidence
            rows.append((plain(flag.node), flag.kind, factor(flag), minute(flag.until), plain(why)))
        headers = ("node", "kind", "slowdown", "until", "why")
        print_rows(out, headers, rows, title=f"Flagged at {minute(document.at)}", left=headers, gap=False)
    if document.capacity is not None:
        of_gpus = [lost.gpus for lost in document.capacity if lost.gpus is not None]
        total = f", {number(sum(of_gpus))} GPUs" if of_gpus else ""
        out.print(f"lost: {plural(sum(lost.faulty for lost in document.capacity), 'node')} out of use{total}")
        lines = [
            (plain(lost.sources), lost.age, lost.faulty, lost.slow, "-" if lost.gpus is None else number(lost.gpus))
            for lost in document.capacity
        ]
        headers = ("sources", "held for", "faulty", "slow", "GPUs lost")
        print_rows(out, headers, lines, title="Capacity lost", left=headers[:2])
    for noted in document.noted:
        out.print(
            f"not flagged yet: {noted.node}, found {noted.findings} times by {noted.source or 'an unnamed source'}"
        )


def print_why_flagged(out: Console, document: WhyFlaggedDocument) -> None:
    """Print when a node was flagged and why."""
    if document.since is None:
        span = f"up to {minute(document.until)}"
    elif document.since == document.until:
        span = f"at {minute(document.until)}"
    else:
        span = f"between {minute(document.since)} and {minute(document.until)}"
    out.print(f"{document.node} was {'' if document.avoided else 'not '}flagged {span}")
    print_sentences(out, "When", [spell.sentence for spell in document.spells])
    if document.events:
        out.print()
        print_events(out, document.events, title="What was written")
    if document.gap:
        out.print(f"Note: {document.gap}; the answer may lack what was then.")


def print_imported(out: Console, document: ImportDocument) -> None:
    """Print what a monitor found, and what the store made of it."""
    headers = ("node", "kind", "slowdown", "since", "why")
    rows = [
        (plain(flag.node), flag.kind, factor(flag), minute(flag.since), plain(flag.evidence)) for flag in document.flags
    ]
    print_rows(out, headers, rows, title=f"What {document.source} holds against nodes", left=headers, gap=False)
    out.print(
        f"{document.source}: {document.nodes} nodes, {len(document.flags)} with findings, {document.healthy} healthy, "
        f"the others not looked at"
    )
    if document.recorded is not None:
        out.print()
        print_recorded(out, document.recorded)


class WatchDocument(JsonRecord):
    """One line of what ``arnold health watch --json`` prints: one round."""

    at: AwareTime
    """When the round began."""
    verdict: str | None
    """What was found, in words; null = nothing could be judged."""
    machines: int
    """How many machines were compared."""
    flags: tuple[NodeFlag, ...]
    """All flags that hold, earlier ones that have not run out among them."""
    notes: tuple[str, ...]
    """What was left out, and what limits the verdict."""
    error: ErrorDetails | None
    """Why nothing could be judged; null = it could."""
    recorded: RecordDocument | None
    """What was written to --store; null = no such option, or nothing could be judged."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """All notes."""
        return self.notes

    @property
    def line(self) -> str:
        """The round on one line, for a person."""
        words = self.verdict if self.error is None else f"cannot judge: {self.error.where}: {self.error.message}"
        events = self.recorded.events if self.recorded else ()
        recorded = "".join(f"; {event.event} {event.node} in the store" for event in events)
        return f"{self.at:%Y-%m-%dT%H:%M:%SZ} {words}{recorded}"


def watch_document(made: WatchRound, recorded: RecordDocument | None) -> WatchDocument:
    """Return the document of a round, and of what it wrote to a flag store."""
    verdict = made.verdict
    return WatchDocument(
        at=made.at,
        verdict=verdict.verdict if verdict else None,
        machines=verdict.machines if verdict else 0,
        flags=tuple(sorted(made.flags, key=lambda flag: flag.node)),
        notes=verdict.notes if verdict else (),
        error=error_document(made.error).error if made.error else None,
        recorded=recorded,
    )
