"""``arnold flags export``: all that a flag store holds, as text."""

from __future__ import annotations

import click

from arnold.commands.cluster_options import FILE
from arnold.commands.command import Command
from arnold.commands.flags.options import store_option

EXAMPLES = """\b
Examples:
  arnold flags export --store flags.db | jq 'select(.event == "raised")'
  arnold flags export --store flags.db --output flags.jsonl
  arnold flags import --from flag-store flags.jsonl --store copy.db
"""


@click.command("export", cls=Command, epilog=EXAMPLES)
@store_option
@click.option("--output", type=FILE, metavar="FILE", help="Write them here instead of to stdout.")
def export(*, store: str, output: str | None) -> None:
    """Write all events of a flag store, in order: one JSON object a line, after one that says what the file is.

    `arnold flags import --from flag-store` makes the same store of it again.
    """
    from topology.files import write_file
    from topology.flag_log import open_log

    with open_log(store) as log:
        if output is not None:
            write_file(output, "".join(f"{line}\n" for line in log.lines()))
            return
        for line in log.lines():
            click.echo(line)
