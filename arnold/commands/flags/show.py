"""``arnold flags show`` and ``why``: what a flag store knows."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from arnold.commands.flags.store_commands import factor, minute, print_events, store_option
from arnold.console.output import answer, plain, print_rows, print_sentences
from arnold.options.command import JsonCommand
from arnold.options.field_options import file_option
from arnold.options.shared_options import AT_HELP, at_option, parse_time
from ground.errors import InvalidInput, UnknownName, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.documents.store_answers import HeldFlagsDocument, WhyFlaggedDocument

ANSWERS = "arnold.documents.store_answers"

SHOW_EXAMPLES = """\b
Examples:
  arnold flags show --store flags.db
  arnold flags show --store flags.db --at 2026-11-17T14:00:00Z
  arnold flags show --store flags.db --output flags.json
"""

WHY_EXAMPLES = """\b
Examples:
  arnold flags why n0123 --store flags.db
  arnold flags why n0123 --store flags.db --at 2026-11-17
  arnold flags why n0123 --store flags.db --since 2026-11-10 --until 2026-11-17T14:00:00Z --json
"""


@click.command("show", cls=JsonCommand, document=f"{ANSWERS}:HeldFlagsDocument", epilog=SHOW_EXAMPLES)
@store_option
@at_option
@file_option("--output", written=True, help="File to write the flags to as well, for --flags of other commands.")
def show(*, as_json: bool, store: str, at: str | None, output: str | None) -> None:
    """Show the nodes that are flagged, now or at a time, with source, end and reason."""
    from arnold.documents.store_answers import HeldFlagsDocument, MergedFlag, NotedFinding
    from health.flags.ledger import track_of
    from health.flags.rules import rules_of
    from topology.flag_store import open_log
    from topology.flags import merge_by_node

    instant = datetime.now(UTC) if at is None else parse_time(at, option="--at")[1]
    with open_log(store) as log:
        if log.forgotten is not None and instant < log.forgotten:
            raise InvalidInput(
                f"what held at {minute(instant)} is not known any more: {log.opened.because}",
                where=store,
                fix="ask the archive of that time, if `arnold flags compact` was told to keep one",
            )
        standing = log.standing(instant)
        noted = {
            (event.node, event.source): track_of(log, event.node, event.source, instant).noted
            for event in log.latest(instant, "event = 'noted' AND until IS NULL")
        }
        rules, forgotten = rules_of(log, instant), log.forgotten
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
    answer(document, _print_show, as_json=as_json, file=output)


@click.command("why", cls=JsonCommand, document=f"{ANSWERS}:WhyFlaggedDocument", epilog=WHY_EXAMPLES)
@click.argument("node")
@store_option
@click.option("--at", metavar="TIME", help=f"{AT_HELP}  [default: --since to --until]")
@click.option("--since", metavar="TIME", help="Begin at this time or day.  [default: the beginning]")
@click.option("--until", metavar="TIME", help="End at this time or day.  [default: now]")
def why(*, as_json: bool, node: str, store: str, at: str | None, since: str | None, until: str | None) -> None:
    """Say why a node was avoided: each of its flags with source, evidence, begin and end."""
    from arnold.documents.store_answers import WhyFlaggedDocument, written
    from health.flags.history import history
    from topology.flag_store import open_log

    begin, end = _span(at, since, until)
    with open_log(store) as log:
        if node not in (names := log.nodes()):
            raise UnknownName(
                f"the store has never heard of node {node[:80]!r}",
                where=store,
                fix=f"{did_you_mean(node, names)}nodes without an event were never found slow or faulty",
            )
        found, opened = history(log, node, since=begin, until=end), log.opened
    reaches = opened.forgotten is not None and (begin is None or begin < opened.forgotten)
    document = WhyFlaggedDocument(
        store=store,
        node=node,
        since=begin,
        until=end,
        avoided=bool(found.spells),
        spells=found.spells,
        events=written(found.events),
        forgotten=opened.forgotten,
        gap=opened.because if reaches else "",
        torn=0,
    )
    answer(document, _print_why, as_json=as_json)


def _span(at: str | None, since: str | None, until: str | None) -> tuple[datetime | None, datetime]:
    """Return the first and last instant that are asked for; nothing is known of the future."""
    if at is not None and (since is not None or until is not None):
        raise InvalidInput("--at is a span of its own", where="--at", fix="leave out --since and --until, or --at")
    now = datetime.now(UTC)
    if at is not None:
        begin, end = parse_time(at, option="--at")
        return begin, min(end, now)
    first = None if since is None else parse_time(since, option="--since")[0]
    end = now if until is None else min(now, parse_time(until, option="--until")[1])
    if first is not None and first > end:
        raise InvalidInput("the span ends before it begins", where="--since", fix="--since lies before --until and now")
    return first, end


def _print_show(out: Console, document: HeldFlagsDocument) -> None:
    if not document.nodes:
        out.print(f"no node is flagged at {minute(document.at)}")
    else:
        rows = []
        for flag in document.nodes:
            why = f"{flag.source}: {flag.evidence}" if len(flag.sources) == 1 else flag.evidence
            rows.append((plain(flag.node), flag.kind, factor(flag), minute(flag.until), plain(why)))
        headers = ("node", "kind", "slowdown", "until", "why")
        print_rows(out, headers, rows, title=f"Flagged at {minute(document.at)}", left=headers, gap=False)
    for noted in document.noted:
        out.print(
            f"not flagged yet: {noted.node}, found {noted.findings} times by {noted.source or 'an unnamed source'}"
        )


def _print_why(out: Console, document: WhyFlaggedDocument) -> None:
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
