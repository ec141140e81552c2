"""``arnold health look``: whom the files of a dead or slow job suspect."""

from __future__ import annotations

import click

from arnold.console.output import answer, progress, save_flags
from arnold.options.command import JsonCommand
from arnold.options.shared_options import flags_out_option, html_option, yes_option

EXAMPLES = """\b
Examples:
  arnold health look crash/
  arnold health look crash/ --json | jq '.suspects[0]'
"""


@click.command("look", cls=JsonCommand, document="arnold.documents.look_answers:LookDocument", epilog=EXAMPLES)
@click.argument("folder", type=click.Path(), metavar="DIR")
@flags_out_option
@yes_option
@html_option
def command(*, as_json: bool, html: str | None, flags_out: str | None, yes: bool, folder: str) -> int:
    """Say what each file of a dead or slow job is, and whom all of them together suspect.

    DIR holds whatever is there: job logs, dumps, profiles, stacks, kernel logs, diagnostics, bandwidth tests. Exits 1
    where somebody is suspected, 0 where nobody is.
    """
    from datetime import UTC, datetime

    from arnold.documents.look_answers import look_document, print_look
    from health.look.folder import look_at_folder

    with progress("Reading", total=None):
        look = look_at_folder(folder)
    document = look_document(look, folder, now=datetime.now(UTC))
    save_flags(document.flags, flags_out, of=None if yes else look.nodes)
    answer(document, print_look, as_json=as_json, html=html)
    return 1 if document.suspects else 0
