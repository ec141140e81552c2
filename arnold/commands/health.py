"""``arnold health``: what is wrong with nodes, and what to do after a fault: one command each."""

from __future__ import annotations

from collections.abc import Mapping

import click

from arnold.commands.command_table import CommandRow, LazyGroup

COMMANDS: Mapping[str, CommandRow] = {
    "op-trace": CommandRow(
        "arnold.commands.health_op_trace:command", "Convert profiles to an op trace for stragglers."
    ),
    "peers": CommandRow("arnold.commands.health_peers:peers", "Compare a job's machines by their recorded metrics."),
    "watch": CommandRow("arnold.commands.health_watch:watch", "Compare machines repeatedly, by a running Prometheus."),
    "order": CommandRow("arnold.commands.health_peers:order", "Learn from known faults which metric to ask first."),
    "collectives": CommandRow(
        "arnold.commands.health_collectives:command", "Find the rank that makes collectives hang or slow."
    ),
    "evict": CommandRow("arnold.commands.health_evict:command", "Say which machines to evict, from stack dumps."),
    "isolate": CommandRow("arnold.commands.health_isolate:command", "Find a silent fault by two short runs on parts."),
    "backups": CommandRow("arnold.commands.health_backups:command", "Say which machine keeps whose checkpoint backup."),
}


@click.group("health", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Find slow and faulty nodes in what was measured, flag them, and decide after a fault.

    Flags are evidence about nodes; `arnold place --flags FILE` reads them.
    """
