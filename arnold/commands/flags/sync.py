"""``arnold flags sync``: what a flag store holds, as annotations of the nodes of a Kubernetes cluster."""

from __future__ import annotations

import click

from arnold.commands.command import JsonCommand
from arnold.commands.flags.annotations import cluster_options, print_changes
from arnold.commands.flags.options import store_option
from arnold.commands.output import console, emit_json

EXAMPLES = """\b
Examples:
  arnold flags sync --store flags.jsonl
  arnold flags sync --store flags.jsonl --kubeconfig admin.conf --json
"""


@click.command("sync", cls=JsonCommand, document="arnold.documents.flags:FlagsSyncedDocument", epilog=EXAMPLES)
@store_option
@cluster_options
def sync(*, as_json: bool, store: str, kubeconfig: str | None, context: str | None) -> None:
    """Bring the annotations of nodes in line with a flag store, so that gangs heed it.

    What the store holds is written, what it held once and no longer does is taken off. What somebody else wrote stays,
    where it is worse, or where the store holds nothing. Each annotation carries its end: if nobody syncs any more, the
    flags end by themselves.
    """
    from datetime import UTC, datetime

    from arnold.documents.flags import sync_document
    from extender.node_flags import sync_flags
    from health.flags import FlagStore

    log, now = FlagStore(store).read(), datetime.now(UTC)
    known: dict[str, set[float]] = {}
    for line in log.lines:
        for step in line.steps:
            known.setdefault(line.node, set()).add(step.factor)
    changes, strangers = sync_flags(kubeconfig, context, log.holding(now), known=known, now=now)
    document = sync_document(changes, strangers)
    if as_json:
        emit_json(document)
        return
    out = console()
    print_changes(out, document.changes)
    if strangers:
        out.print(f"flagged in the store and no nodes of the cluster: {', '.join(strangers[:5])}")
