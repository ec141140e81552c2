"""``arnold health``: detectors of slow and faulty nodes, one command each; a new one is a row of the table."""

from __future__ import annotations

from collections.abc import Mapping

import click

from scheduler.cli.commands import CommandRow, LazyGroup

DETECTORS: Mapping[str, CommandRow] = {
    "collectives": CommandRow("scheduler.cli.health_collectives:command", "Find who makes collectives hang or slow."),
}


@click.group("health", cls=LazyGroup, table=DETECTORS)
def command() -> None:
    """Find slow and faulty nodes in what was measured, and flag them.

    Flags are evidence about nodes; `arnold place --flags FILE` reads them.
    """
