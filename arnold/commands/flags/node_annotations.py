"""``arnold flags sync``, ``apply``, ``list`` and ``clear``: annotations of the nodes of a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from arnold.commands.flags.store_commands import store_option
from arnold.console.output import answer, print_rows
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE
from arnold.options.shared_options import kubeconfig_options, yes_option
from ground.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.documents.kubernetes_answers import FlagsChangedDocument, FlagsDocument, FlagsSyncedDocument
    from extender.cluster_api.connect import WhichCluster
    from extender.node_flags import FlagChange

ANSWERS = "arnold.documents.kubernetes_answers"

SYNC_EXAMPLES = """\b
Examples:
  arnold flags sync --store flags.db
  arnold flags sync --store flags.db --kubeconfig admin.conf --json
"""

APPLY_EXAMPLES = """\b
Examples:
  arnold flags apply flags.yaml
  arnold flags apply flags.db
  arnold flags apply - --kubeconfig admin.conf --json < flags.json
"""

LIST_EXAMPLES = """\b
Examples:
  arnold flags list
  arnold flags list --json
"""

CLEAR_EXAMPLES = """\b
Examples:
  arnold flags clear n0017
  arnold flags clear 'n[0017-0020],n0042'
  arnold flags clear --all
"""


@click.command("sync", cls=JsonCommand, document=f"{ANSWERS}:FlagsSyncedDocument", epilog=SYNC_EXAMPLES)
@store_option
@yes_option
@kubeconfig_options
def sync(*, as_json: bool, store: str, yes: bool, which: WhichCluster) -> None:
    """Bring the annotations of nodes in line with a flag store, so that gangs heed it.

    What the store holds is written, what it held once and no longer does is taken off. What somebody else wrote stays,
    where it is worse, or where the store holds nothing. Each annotation carries its end: if it is not renewed, the
    flags end by themselves.
    """
    from arnold.documents.kubernetes_answers import FlagsSyncedDocument
    from extender.node_flags import on_cluster
    from topology.flag_store import open_log

    now = datetime.now(UTC)
    with open_log(store) as log:
        held, known = log.holding(now), log.slowdowns()
    changes, strangers = on_cluster(which, lambda flags: flags.sync(held, known=known, now=now), yes=yes)
    answer(FlagsSyncedDocument(tuple(changes), tuple(strangers)), _print_synced, as_json=as_json)


def _print_synced(out: Console, document: FlagsSyncedDocument) -> None:
    print_changes(out, document.changes)
    if document.strangers:
        out.print(f"flagged in the store and no nodes of the cluster: {', '.join(document.strangers[:5])}")


@click.command("apply", cls=JsonCommand, document=f"{ANSWERS}:FlagsChangedDocument", epilog=APPLY_EXAMPLES)
@click.argument("file", type=FILE)
@yes_option
@kubeconfig_options
def apply(*, as_json: bool, file: str, yes: bool, which: WhichCluster) -> None:
    """Write the flags of a file to the nodes.  FILE is a list of flags, as --flags of `arnold place`, or a flag store
    (then `arnold flags sync` also takes off what has ended); - is stdin.

    A node keeps one flag: a new one replaces it, and of two in the file the slower counts. Flags that do not hold now
    are left out. Nodes that the file does not name are left alone.
    """
    from arnold.documents.kubernetes_answers import FlagsChangedDocument
    from extender.node_flags import on_cluster
    from topology.flag_store import read_flags

    now = datetime.now(UTC)
    flags = read_flags(file, now=now)
    active = [flag for flag in flags if flag.active(now)]
    changes = on_cluster(which, lambda flags: flags.apply(active), yes=yes)
    document = FlagsChangedDocument(tuple(changes), expired=len(flags) - len(active))
    answer(document, _print_changed, as_json=as_json)


@click.command("list", cls=JsonCommand, document=f"{ANSWERS}:FlagsDocument", epilog=LIST_EXAMPLES)
@kubeconfig_options
def list_(*, as_json: bool, which: WhichCluster) -> None:
    """Show the nodes that are flagged."""
    from arnold.documents.kubernetes_answers import flags_document
    from extender.node_flags import NodeFlags, on_cluster

    document = flags_document(on_cluster(which, NodeFlags.all), datetime.now(UTC))
    answer(document, _print, as_json=as_json)


@click.command("clear", cls=JsonCommand, document=f"{ANSWERS}:FlagsChangedDocument", epilog=CLEAR_EXAMPLES)
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@click.option("--all", "everything", is_flag=True, help="Clear the flags of all nodes.")
@kubeconfig_options
def clear(*, as_json: bool, nodes: tuple[str, ...], everything: bool, which: WhichCluster) -> None:
    """Take the flags off nodes: names or Slurm hostlists."""
    from arnold.documents.kubernetes_answers import FlagsChangedDocument
    from extender.node_flags import on_cluster
    from topology.node_names import expand_hostlist

    if bool(nodes) == everything:
        raise InvalidInput(
            "name nodes, or all of them, and not both" if nodes else "no node is named",
            where="arnold flags clear",
            fix="name nodes, or say --all",
        )
    names = None if everything else [name for text in nodes for name in expand_hostlist(text, where="NODE")]
    changes = on_cluster(which, lambda flags: flags.clear(names))
    answer(FlagsChangedDocument(tuple(changes), expired=0), _print_changed, as_json=as_json)


def _print_changed(out: Console, document: FlagsChangedDocument) -> None:
    print_changes(out, document.changes)
    if document.expired:
        out.print(f"left out, as they do not hold now: {document.expired}")


def print_changes(out: Console, changes: Sequence[FlagChange]) -> None:
    """Print what was done to each node."""
    if not changes:
        out.print("nothing to do")
        return
    rows = [(change.node, change.done, change.slowdown or "-", change.until or "-") for change in changes]
    headers = ("node", "", "slowdown", "until")
    print_rows(out, headers, rows, title="Flags", left=headers, gap=False)


def _print(out: Console, document: FlagsDocument) -> None:
    if not document.flags:
        out.print(f"none of {document.nodes} nodes is flagged")
        return
    rows = [
        (flag.node, flag.slowdown or "-", flag.until or "-", flag.problem or ("" if flag.active else "has ended"))
        for flag in document.flags
    ]
    headers = ("node", "slowdown", "until", "")
    print_rows(out, headers, rows, title="Flags", left=headers, gap=False)
