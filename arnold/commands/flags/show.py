"""``arnold flags show`` and ``why``: what a flag store knows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from arnold.commands.command import JsonCommand
from arnold.commands.flags.options import at_option, parse_time, store_option
from arnold.commands.flags.text import factor, minute, print_events
from arnold.commands.instance import FILE
from arnold.commands.output import console, emit_json, plain, table, to_json
from topology.errors import InvalidInput

if TYPE_CHECKING:
    from arnold.documents.flag_store import ShowDocument, WhyDocument

SHOW_EXAMPLES = """\b
Examples:
  arnold flags show --store flags.jsonl
  arnold flags show --store flags.jsonl --at 2026-11-17T14:00:00Z
  arnold flags show --store flags.jsonl --output flags.json
"""

WHY_EXAMPLES = """\b
Examples:
  arnold flags why n0123 --store flags.jsonl
  arnold flags why n0123 --store flags.jsonl --at 2026-11-17
  arnold flags why n0123 --store flags.jsonl --since 2026-11-10 --until 2026-11-17T14:00:00Z --json
"""


@click.command("show", cls=JsonCommand, document="arnold.documents.flag_store:ShowDocument", epilog=SHOW_EXAMPLES)
@store_option
@at_option
@click.option("--output", type=FILE, metavar="FILE", help="Save it too, as a flag file for --flags.")
def show(*, as_json: bool, store: str, at: str | None, output: str | None) -> None:
    """Show the nodes that are flagged, now or at a time: who says so, until when, why."""
    from arnold.documents.flag_store import show_document
    from health.flags import FlagStore, Ledger
    from topology.files import write_file
    from topology.flag_log import FlagLog

    log = FlagStore(store).read()
    instant = datetime.now(UTC) if at is None else parse_time(at, option="--at")[1]
    if log.forgotten is not None and instant < log.forgotten:
        raise InvalidInput(
            f"what held at {minute(instant)} is not known any more: {log.lines[0].because}",
            where=store,
            fix="ask the archive of that time, if `arnold flags compact` was told to keep one",
        )
    before = Ledger(FlagLog(tuple(line for line in log.lines if line.time <= instant)))
    document = show_document(store, log, before, instant)
    if output is not None:
        write_file(output, to_json(document) + "\n")
    if as_json:
        emit_json(document)
    else:
        _print_show(document)


@click.command("why", cls=JsonCommand, document="arnold.documents.flag_store:WhyDocument", epilog=WHY_EXAMPLES)
@click.argument("node")
@store_option
@click.option("--at", metavar="TIME", help="At a time, or on a day such as 2026-11-17 (in UTC).")
@click.option("--since", metavar="TIME", help="From a time or day  [default: the beginning]")
@click.option("--until", metavar="TIME", help="Up to a time or day  [default: now]")
def why(*, as_json: bool, node: str, store: str, at: str | None, since: str | None, until: str | None) -> None:
    """Say why a node was avoided: what was held against it and when, who said so, how it ended."""
    from arnold.documents.flag_store import why_document
    from health.flags import FlagStore
    from health.flags.history import history
    from topology.errors import UnknownName, did_you_mean

    begin, end = _span(at, since, until)
    log = FlagStore(store).read()
    names = {line.node for line in log.lines if line.node}
    if node not in names:
        raise UnknownName(
            f"the store has never heard of node {node[:80]!r}",
            where=store,
            fix=f"{did_you_mean(node, names)}nodes without a line were never found slow or faulty",
        )
    document = why_document(store, history(log, node, since=begin, until=end), log)
    if as_json:
        emit_json(document)
    else:
        _print_why(document)


def _span(at: str | None, since: str | None, until: str | None) -> tuple[datetime | None, datetime]:
    """First and last instant that are asked for; nothing is known of the future."""
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


def _print_show(document: ShowDocument) -> None:
    out = console()
    if not document.nodes:
        out.print(f"no node is flagged at {minute(document.at)}")
    else:
        title = f"Flagged at {minute(document.at)}"
        rows = table("node", "kind", "slowdown", "until", "why", title=title, left=["kind", "slowdown", "until", "why"])
        for flag in document.nodes:
            why = f"{flag.source}: {flag.evidence}" if len(flag.sources) == 1 else flag.evidence
            rows.add_row(plain(flag.node), flag.kind, factor(flag), minute(flag.until), plain(why))
        out.print(rows)
    for noted in document.noted:
        out.print(
            f"not flagged yet: {noted.node}, found {noted.findings} times by {noted.source or 'somebody unnamed'}"
        )
    _tell_torn(document.torn)


def _print_why(document: WhyDocument) -> None:
    from arnold.commands.place_text import print_sentences

    out = console()
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
    _tell_torn(document.torn)


def _tell_torn(torn: int) -> None:
    if torn:
        click.echo(f"the store ends in an unfinished line of {torn} bytes, left out", err=True)
