"""``arnold health``: detectors of slow and faulty nodes, one command each; a new one is a row of the table."""

from __future__ import annotations

from collections.abc import Mapping

import click

from arnold.commands.command_table import CommandRow, LazyGroup

DETECTORS: Mapping[str, CommandRow] = {
    "peers": CommandRow("arnold.commands.health_peers:peers", "Compare a job's machines by their recorded metrics."),
    "watch": CommandRow("arnold.commands.health_watch:watch", "The same again and again, over a running Prometheus."),
    "order": CommandRow("arnold.commands.health_peers:order", "Learn from known faults which metric to ask first."),
    "collectives": CommandRow("arnold.commands.health_collectives:command", "Find who makes collectives hang or slow."),
}


@click.group("health", cls=LazyGroup, table=DETECTORS)
def command() -> None:
    """Find slow and faulty nodes in what was measured, and flag them.

    Flags are evidence about nodes; `arnold place --flags FILE` reads them.
    """
