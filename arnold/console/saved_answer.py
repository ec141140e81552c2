"""The text of an answer as a page, with ``--html``: the same sentences and tables, these with all their columns."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from arnold.console.fitted_table import FittedTable
from arnold.pages.printed_page import PrintedPart, printed_page
from ground.files import write_file

T = TypeVar("T")


def save_answer(file: str, document: T, show: Callable[[Console, T], None]) -> None:
    """Write the page of what ``show`` prints of a document.

    :raises InvalidInput: the file cannot be written.
    """
    printed = _Printed()
    show(printed, document)
    command = click.get_current_context().command_path
    write_file(file, printed_page(command, printed.sentences, printed.parts))


class _Printed(Console):
    """A console that keeps what is printed: sentences, tables, and titled lists of sentences."""

    def __init__(self) -> None:
        super().__init__(file=io.StringIO())
        self.sentences: list[str] = []
        self.parts: list[PrintedPart] = []
        self._title = ""

    def print(self, *objects: Any, **_: Any) -> None:
        for one in objects:
            if isinstance(one, FittedTable):
                self.parts.append(PrintedPart(one.title, one.rows, one.headers, one.left))
            elif isinstance(one, Text):
                self._title = one.plain
            elif isinstance(one, Table):  # of print_sentences: a dash, a sentence
                self.parts.append(PrintedPart(self._title, [str(cell) for cell in one.columns[1].cells]))
            elif one:
                self.sentences.append(one if one.endswith((".", "?")) else f"{one}.")
