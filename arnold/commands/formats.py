"""``arnold formats``: every format of files that is read, as its reader describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from arnold.console.output import answer, plain, print_rows
from arnold.documents.formats_answer import KINDS, FormatsDocument, formats_of
from arnold.options.command import JsonCommand

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = """\b
Examples:
  arnold formats
  arnold formats jobs
"""


@click.command("formats", cls=JsonCommand, document="arnold.documents.formats_answer:FormatsDocument", epilog=EXAMPLES)
@click.argument("kind", type=click.Choice(tuple(KINDS)), required=False)
def command(kind: str | None, *, as_json: bool) -> None:
    """List the formats of files that are read, and how to get such files.

    With a KIND its formats are listed with what is read of each, and what is left out.
    """
    answer(formats_of((kind,) if kind else KINDS), _show_all if kind is None else _show_each, as_json=as_json)


def _show_all(out: Console, found: FormatsDocument) -> None:
    for kind in found.kinds:
        headers, rows = (kind.kind, "where it comes from"), [(form.name, plain(form.source)) for form in kind.formats]
        print_rows(out, headers, rows, title="", left=headers, gap=False)
        out.print()
    out.print("arnold formats KIND says how to get such a file, what is read of it, and what is left out.")


def _show_each(out: Console, found: FormatsDocument) -> None:
    from rich.table import Table

    for kind in found.kinds:
        out.print(kind.sentence)
        for form in kind.formats:
            out.print(f"\n{form.name}: {plain(form.source)}")
            rows = Table.grid(padding=(0, 1))
            for label, text in (("get it", form.export), ("read", form.read), ("left out", form.left_out or "nothing")):
                rows.add_row(f"  {label}:", plain(text))
            out.print(rows)
