"""``arnold flags import``: what monitors of Kubernetes nodes found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from arnold.commands.command import JsonCommand
from arnold.commands.field_options import FILE
from arnold.commands.flags.options import at_option, present, stamp_of
from arnold.commands.flags.text import factor, minute
from arnold.commands.flags.writing import changed, print_recorded
from arnold.commands.output import console, emit_json, plain, table, to_json
from topology.errors import InvalidInput

if TYPE_CHECKING:
    from datetime import datetime

    from arnold.documents.store_answers import ImportDocument
    from topology.files import Source

EXAMPLES = """\b
Examples:
  kubectl get nodes,events -A -o json | arnold flags import --from nvsentinel - --store flags.db
  arnold flags import --from node-problem-detector nodes.json --output flags.json
  arnold flags import --from flag-store old.jsonl --store flags.db
"""

MONITORS = ("nvsentinel", "node-problem-detector", "nebius", "eks")
"""Names of the monitors that are known; here too, so that help needs no import."""

STORE = "flag-store"
"""Another flag store: what ``arnold flags export`` wrote, or one of an earlier version."""


@click.command("import", cls=JsonCommand, document="arnold.documents.store_answers:ImportDocument", epilog=EXAMPLES)
@click.argument("file", type=FILE)
@click.option("--from", "by", required=True, type=click.Choice((*MONITORS, STORE)), help="Whose findings to take.")
@click.option("--store", type=FILE, metavar="FILE", help="Take them into this flag store.")
@click.option("--output", type=FILE, metavar="FILE", help="Save them as a flag file.")
@at_option
def import_(*, as_json: bool, file: str, by: str, store: str | None, output: str | None, at: str | None) -> None:
    """Take what a monitor of Kubernetes nodes found: conditions of nodes, and events about them.

    FILE is what `kubectl get nodes -o json` prints, or better `kubectl get nodes,events -A -o json`; - is stdin. What
    is broken makes a node faulty; a warning is a small price. A node that the monitor finds healthy gets an all-clear.

    With --from flag-store FILE is what `arnold flags export` wrote, or a store of an earlier version (JSON lines), and
    --store a new store, which takes over all of its events.
    """
    from topology.files import read_source, write_file

    now, source = present(at), read_source(file)
    document = _of_store(source, store, now) if by == STORE else _of_monitor(source, by, store, now, stamp_of(file))
    if output is not None:
        write_file(output, to_json(document) + "\n")
    if as_json:
        emit_json(document)
    else:
        _print(document)


def _of_monitor(source: Source, by: str, store: str | None, now: datetime, stamp: str) -> ImportDocument:
    """Take what a monitor found."""
    from arnold.documents.store_answers import ImportDocument
    from health.flags.monitor_reports import read_reports

    reports = read_reports(source, by=by)
    recorded = None
    if store is not None:
        recorded = changed(store, lambda ledger: ledger.record(reports.findings(by), now=now, stamp=stamp), now=now)
    return ImportDocument(
        source=by, nodes=reports.nodes, healthy=len(reports.healthy), flags=reports.flags, recorded=recorded
    )


def _of_store(source: Source, store: str | None, now: datetime) -> ImportDocument:
    """Take over the events of another store."""
    from arnold.documents.store_answers import ImportDocument
    from health.flags.event_lines import read_event_lines
    from topology.flag_log import open_log

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


def _print(document: ImportDocument) -> None:
    out = console()
    if document.flags:
        title = f"What {document.source} holds against nodes"
        rows = table("node", "kind", "slowdown", "since", "why", title=title, left=["kind", "slowdown", "since", "why"])
        for flag in document.flags:
            rows.add_row(plain(flag.node), flag.kind, factor(flag), minute(flag.since), plain(flag.evidence))
        out.print(rows)
    out.print(
        f"{document.source}: {document.nodes} nodes, {len(document.flags)} with findings, {document.healthy} healthy, "
        f"the others not looked at"
    )
    if document.recorded is not None:
        out.print()
        print_recorded(document.recorded, as_json=False)
