"""``arnold flags export``: all that a flag store holds, as text."""

from __future__ import annotations

import click

from arnold.commands.command import JsonCommand
from arnold.commands.field_options import FILE
from arnold.commands.flags.options import store_option
from arnold.commands.output import emit_json

EXAMPLES = """\b
Examples:
  arnold flags export --store flags.db | jq 'select(.event == "raised")'
  arnold flags export --store flags.db --output flags.jsonl
  arnold flags import --from flag-store flags.jsonl --store copy.db
"""


@click.command("export", cls=JsonCommand, document="arnold.documents.store_answers:ExportDocument", epilog=EXAMPLES)
@store_option
@click.option("--output", type=FILE, metavar="FILE", help="Write them here instead of to stdout.")
def export(*, as_json: bool, store: str, output: str | None) -> None:
    """Write all events of a flag store, in order: one JSON object a line, after one that says what the file is.

    `arnold flags import --from flag-store` makes the same store of it again.
    """
    from arnold.documents.store_answers import ExportDocument
    from topology.files import write_file
    from topology.flag_log import open_log

    with open_log(store) as log:
        lines = [f"{line}\n" for line in log.lines()]
    text = "".join(lines)
    if output is not None:
        write_file(output, text)
    if as_json:
        left = text if output is None else None
        emit_json(ExportDocument(store=store, events=len(lines), output=output, text=left))
    elif output is None:
        click.echo(text, nl=False)
