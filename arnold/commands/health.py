"""``arnold health``: what is wrong with nodes, and what to do after a fault: one command each."""

from collections.abc import Mapping

import click

from arnold.commands.command_table import CommandRow, LazyGroup, command_row

COMMANDS: Mapping[str, CommandRow] = {
    "look": command_row("health_look:look", "Look at all files of a dead or slow job: who is it?"),
    "op-trace": command_row("stragglers:op_trace", "Convert profiles to an op trace for stragglers."),
    "peers": command_row("health_peers:peers", "Compare a job's machines by their recorded metrics."),
    "watch": command_row("health_peers:watch", "Compare machines repeatedly, by a running Prometheus."),
    "collectives": command_row("health_collectives", "Find the rank that makes collectives hang or slow."),
    "evict": command_row("health_recovery:evict", "Say which machines to evict, from stack dumps."),
    "isolate": command_row("health_recovery:isolate", "Find a silent fault by two short runs on parts."),
    "pairs": command_row("health_look:pairs", "Find a slow node or link by bandwidth tests of pairs."),
    "backups": command_row("health_recovery:backups", "Say which machine keeps whose checkpoint backup."),
}


@click.group("health", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Find slow and faulty nodes in what was measured, flag them, and decide after a fault.

    Flags are evidence about nodes; `arnold place --flags FILE` reads them.
    """
