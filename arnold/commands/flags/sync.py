"""``arnold flags sync``: what a flag store holds, as annotations of the nodes of a Kubernetes cluster."""

from __future__ import annotations

import click

from arnold.commands.command import JsonCommand
from arnold.commands.flags.node_annotations import cluster_options, print_changes
from arnold.commands.flags.options import store_option
from arnold.commands.output import console, emit_json

EXAMPLES = """\b
Examples:
  arnold flags sync --store flags.db
  arnold flags sync --store flags.db --kubeconfig admin.conf --json
"""


@click.command(
    "sync", cls=JsonCommand, document="arnold.documents.annotation_answers:FlagsSyncedDocument", epilog=EXAMPLES
)
@store_option
@cluster_options
def sync(*, as_json: bool, store: str, kubeconfig: str | None, context: str | None) -> None:
    """Bring the annotations of nodes in line with a flag store, so that gangs heed it.

    What the store holds is written, what it held once and no longer does is taken off. What somebody else wrote stays,
    where it is worse, or where the store holds nothing. Each annotation carries its end: if nobody syncs any more, the
    flags end by themselves.
    """
    from datetime import UTC, datetime

    from arnold.documents.annotation_answers import FlagsSyncedDocument
    from extender.node_flags import on_cluster
    from topology.flag_log import open_log

    now = datetime.now(UTC)
    with open_log(store) as log:
        held, known = log.holding(now), log.slowdowns()
    changes, strangers = on_cluster(kubeconfig, context, lambda flags: flags.sync(held, known=known, now=now))
    document = FlagsSyncedDocument(tuple(changes), tuple(strangers))
    if as_json:
        emit_json(document)
        return
    out = console()
    print_changes(out, document.changes)
    if strangers:
        out.print(f"flagged in the store and no nodes of the cluster: {', '.join(strangers[:5])}")
