"""``arnold flags import`` and ``export``: what monitors of Kubernetes nodes found, and flag stores as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from arnold.commands.flags.store_commands import (
    changed,
    factor,
    minute,
    print_recorded,
    stamp_of,
    store_option,
)
from arnold.console.output import answer, emit_json, plain, print_rows
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE, file_option
from arnold.options.shared_options import STORE_HELP, at_option, present, yes_option
from ground.errors import InvalidInput
from ground.files import read_source, write_file

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import Console

    from arnold.documents.store_answers import ImportDocument
    from ground.files import Source

ANSWERS = "arnold.documents.store_answers"

IMPORT_EXAMPLES = """\b
Examples:
  kubectl get nodes,events -A -o json | arnold flags import --from nvsentinel - --store flags.db
  arnold flags import --from node-problem-detector nodes.json --output flags.json
  arnold flags import --from flag-store old.jsonl --store flags.db
"""

EXPORT_EXAMPLES = """\b
Examples:
  arnold flags export --store flags.db | jq 'select(.event == "raised")'
  arnold flags export --store flags.db --output flags.jsonl
  arnold flags import --from flag-store flags.jsonl --store copy.db
"""

MONITORS = ("nvsentinel", "node-problem-detector", "nebius", "eks")
"""Names of the monitors that are known; here too, so that help needs no import."""

STORE = "flag-store"  # Another flag store: what arnold flags export wrote, or one of an earlier version


@click.command("import", cls=JsonCommand, document=f"{ANSWERS}:ImportDocument", epilog=IMPORT_EXAMPLES)
@click.argument("file", type=FILE)
@click.option("--from", "by", required=True, type=click.Choice((*MONITORS, STORE)), help="Tool that the input is from.")
@file_option("--store", help=STORE_HELP)
@file_option("--output", written=True, help="File to write the flags to, for --flags of other commands.")
@yes_option
@at_option
def import_(
    *, as_json: bool, file: str, by: str, store: str | None, output: str | None, yes: bool, at: str | None
) -> None:
    """Take what a monitor of Kubernetes nodes found: conditions of nodes, and events about them.

    FILE is what `kubectl get nodes -o json` prints, or better `kubectl get nodes,events -A -o json`; - is stdin. What
    is broken makes a node faulty; a warning is a small price. A node that the monitor finds healthy gets an all-clear.

    With --from flag-store FILE is what `arnold flags export` wrote, or a store of an earlier version (JSON lines), and
    --store a new store, which takes over all of its events.
    """
    now, source = present(at), read_source(file)
    if by == STORE:
        document = _of_store(source, store, now)
    else:
        document = _of_monitor(source, by, store, now, stamp_of(file), yes=yes)
    answer(document, _print, as_json=as_json, file=output)


def _of_monitor(source: Source, by: str, store: str | None, now: datetime, stamp: str, *, yes: bool) -> ImportDocument:
    """Take what a monitor found; of the nodes that it names a share at most, unless ``yes``."""
    from arnold.documents.store_answers import ImportDocument
    from health.flags.imports import read_reports
    from topology.flag_store import Breaker

    reports, recorded = read_reports(source, by=by), None
    breaker = None if yes else Breaker(reports.nodes or None)
    if store is not None:
        recorded = changed(
            store, lambda ledger: ledger.record(reports.findings(by), now=now, stamp=stamp), now=now, breaker=breaker
        )
    elif breaker is not None:
        breaker.check(reports.flags, where=source.name)
    return ImportDocument(
        source=by, nodes=reports.nodes, healthy=len(reports.healthy), flags=reports.flags, recorded=recorded
    )


def _of_store(source: Source, store: str | None, now: datetime) -> ImportDocument:
    """Take over the events of another store."""
    from arnold.documents.store_answers import ImportDocument
    from health.flags.imports import read_event_lines
    from topology.flag_store import open_log

    if store is None:
        raise InvalidInput(
            "another flag store is taken over by a new one", where="--store", fix="name the new store: --store FILE"
        )
    events, torn = read_event_lines(source)
    recorded = changed(store, lambda ledger: ledger.take_over(events), now=now, torn=torn)
    with open_log(store) as log:
        flags, nodes = log.standing(now), log.nodes()
    healthy = len(nodes - {flag.node for flag in flags})
    return ImportDocument(source=STORE, nodes=len(nodes), healthy=healthy, flags=tuple(flags), recorded=recorded)


def _print(out: Console, document: ImportDocument) -> None:
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


@click.command("export", cls=JsonCommand, document=f"{ANSWERS}:ExportDocument", epilog=EXPORT_EXAMPLES)
@store_option
@file_option("--output", written=True, help="File to write to.  [default: standard output]")
def export(*, as_json: bool, store: str, output: str | None) -> None:
    """Write all events of a flag store, in order: one JSON object a line, after one that says what the file is.

    `arnold flags import --from flag-store` makes the same store of it again.
    """
    from arnold.documents.store_answers import ExportDocument
    from topology.flag_store import open_log

    with open_log(store) as log:
        if output is None and not as_json:
            for line in log.lines():
                click.echo(line)
            return
        lines = [f"{line}\n" for line in log.lines()]
    text = "".join(lines)
    if output is not None:
        write_file(output, text)
    if as_json:
        left = text if output is None else None
        emit_json(ExportDocument(store=store, events=len(lines), output=output, text=left))
