"""``arnold flags import``: what monitors of Kubernetes nodes found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from arnold.commands.command import JsonCommand
from arnold.commands.flags.options import at_option, present, stamp_of
from arnold.commands.flags.text import factor, minute
from arnold.commands.flags.writing import changed, print_recorded
from arnold.commands.instance import FILE
from arnold.commands.output import console, emit_json, plain, table, to_json

if TYPE_CHECKING:
    from arnold.documents.flag_store import ImportDocument
    from health.flags import Ledger, Recorded

EXAMPLES = """\b
Examples:
  kubectl get nodes,events -A -o json | arnold flags import --from nvsentinel - --store flags.jsonl
  arnold flags import --from node-problem-detector nodes.json --output flags.json
"""

MONITORS = ("nvsentinel", "node-problem-detector", "nebius", "eks")
"""Names of the monitors that are known; here too, so that help needs no import."""


@click.command("import", cls=JsonCommand, document="arnold.documents.flag_store:ImportDocument", epilog=EXAMPLES)
@click.argument("file", type=FILE)
@click.option("--from", "by", required=True, type=click.Choice(MONITORS), help="Whose conditions and events to take.")
@click.option("--store", type=FILE, metavar="FILE", help="Take them into this flag store.")
@click.option("--output", type=FILE, metavar="FILE", help="Save them as a flag file.")
@at_option
def import_(*, as_json: bool, file: str, by: str, store: str | None, output: str | None, at: str | None) -> None:
    """Take what a monitor of Kubernetes nodes found: conditions of nodes, and events about them.

    FILE is what `kubectl get nodes -o json` prints, or better `kubectl get nodes,events -A -o json`; - is stdin. What
    is broken makes a node faulty; a warning is a small price. A node that the monitor finds healthy gets an all-clear.
    """
    from arnold.documents.flag_store import import_document
    from health.flags.conditions import read_reports
    from topology.files import read_source, write_file

    now = present(at)
    reports = read_reports(read_source(file), by=by)
    recorded = None
    if store is not None:
        stamp = stamp_of(file)

        def change(ledger: Ledger) -> Recorded:
            return ledger.record(reports.findings(by), now=now, stamp=stamp)

        recorded = changed(store, change, now=now)
    document = import_document(by, reports.flags, nodes=reports.nodes, healthy=len(reports.healthy), recorded=recorded)
    if output is not None:
        write_file(output, to_json(document) + "\n")
    if as_json:
        emit_json(document)
    else:
        _print(document)


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
