"""What all questions of capacity have in common on the command line: their figures, their text, their assumptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from arnold.commands.instance import FILE
from arnold.commands.output import console, emit_json, table

if TYPE_CHECKING:
    from pydantic import BaseModel

    from simulator.capacity.sheet import Sheet

F = TypeVar("F", bound=Callable[..., Any])


def figure_options(command: F) -> F:
    """``--html`` and ``--svg``."""
    for option in (
        click.option("--svg", type=FILE, metavar="FILE", help="Save the figure as a picture."),
        click.option("--html", type=FILE, metavar="FILE", help="Save a page with figure, tables and assumptions."),
    ):
        command = option(command)
    return command


def show(sheet: Sheet, document: BaseModel, *, as_json: bool, html: str | None, svg: str | None) -> None:
    """Print an answer as text or as its document, and save what was asked for.

    :raises InvalidInput: a file cannot be written.
    """
    from topology.files import write_file

    if html is not None:
        from arnold.pages.capacity import capacity_page

        write_file(html, capacity_page(sheet))
    if svg is not None:
        from arnold.pages.capacity import picture

        write_file(svg, picture(sheet.charts[0]))
    if as_json:
        emit_json(document)
    else:
        _print(sheet)


def _print(sheet: Sheet) -> None:
    from arnold.commands.place_text import GOOD, print_sentences

    out = console()
    out.print(sheet.verdict, style=GOOD)
    for shown in sheet.tables:
        rows = table(*shown.headers, title=shown.title)
        for row in shown.rows:
            rows.add_row(*row)
        out.print()
        out.print(rows)
    print_sentences(out, "Assumptions", sheet.assumptions)
