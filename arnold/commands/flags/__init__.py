"""``arnold flags``: slow and faulty nodes, in a store that remembers and on the nodes of a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Mapping

import click

from arnold.commands.command_table import CommandRow, LazyGroup, own_row

COMMANDS: Mapping[str, CommandRow] = {
    name: own_row(f"flags.{target}", words)
    for name, target, words in (
        ("record", "record:record", "Take findings of detectors into a flag store."),
        ("import", "imports:import_", "Take findings of monitors, or of another store."),
        ("export", "imports:export", "Write all events of a flag store as JSON lines."),
        ("show", "show:show", "Show the flags that hold now, or held at a time."),
        ("why", "show:why", "Say why a node was avoided, and when."),
        ("lift", "record:lift", "End the flags of nodes at once."),
        ("compact", "record:compact", "Forget old history, so that a store stays small."),
        ("sync", "node_annotations:sync", "Bring the annotations of nodes in line with a flag store."),
        ("apply", "node_annotations:apply", "Write the flags of a file to the nodes."),
        ("list", "node_annotations:list_", "Show the nodes that are flagged."),
        ("clear", "node_annotations:clear", "Take the flags off nodes."),
    )
}


@click.group(cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Flag slow and faulty nodes, where gangs and `arnold place` see them.

    A flag store is a file that remembers what detectors found, merges their findings, lets flags end in good time, and
    knows why a node was avoided. It is itself a flag file (--flags). sync, apply, list and clear are about a Kubernetes
    cluster: annotations of its nodes.
    """
