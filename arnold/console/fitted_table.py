"""Tables for a terminal, and the page of what is printed.

The columns that tell rows apart are never cut, however narrow the terminal is.  They are the first, and as many after
it as it takes until no two rows are alike.  Where rows do not fit, headers break between words, then the columns worth
least are left out, then cells break: between words, and a list of names that no line holds between names.  ``--json``
always has everything; the page of ``--html`` has all columns.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ground.files import write_file

if TYPE_CHECKING:
    from arnold.pages.charts import ChartCard

GAP, TIGHT = 2, 1  # Blanks between columns; where nothing else is left to save
T = TypeVar("T")
ENOUGH = 24  # Characters a line of a column of sentences needs at least to be read with ease


@dataclass(frozen=True, slots=True)
class Wrapped:
    """Words that break between words, and where one is longer than a line, as a list of names is, after its commas."""

    words: str

    def __str__(self) -> str:
        return self.words

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the widths of the longest name or word, and of all."""
        return Measurement(_longest(re.findall(r"[^\s,]+,?", self.words)), cell_len(self.words))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        lines = [""]
        for word in re.findall(r"\s*\S+", self.words):
            whole = cell_len(word.lstrip()) <= options.max_width
            for piece in [word] if whole else re.findall(r"\s*[^,]*,?", word):
                if lines[-1] and cell_len(lines[-1] + piece) > options.max_width:
                    lines.append(piece.lstrip())
                else:
                    lines[-1] += piece
        yield Text("\n".join(lines), overflow="fold")


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A plain table that fits the terminal."""

    title: str  # empty = none
    headers: Sequence[str]
    rows: Sequence[tuple[str, ...]]  # cells of each, of all columns
    # headers of columns that are aligned left, besides the first; the others are aligned right
    left: Collection[str] = ()
    spare: Sequence[str] = ()  # headers of columns that may be left out, the first to go first
    bold: Collection[int] = ()  # numbers of rows that stand out

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what fits into the width there is."""
        room = options.max_width
        columns, widths, gap = self._fit(room)
        made = Table(
            title=self.title or None,
            title_justify="left",
            title_style="bold",
            box=None,
            pad_edge=False,
            padding=(0, gap, 0, 0),
        )
        keys = self._keys(room)
        for i in columns:
            header = self.headers[i]
            left = i == 0 or header in self.left
            made.add_column(
                header, justify="left" if left else "right", overflow="fold", no_wrap=i < keys, width=widths.get(i)
            )
        for number, row in enumerate(self.rows):
            made.add_row(
                *(Wrapped(row[i]) if "," in row[i] else row[i] for i in columns),
                style="bold" if number in self.bold else "",
            )
        yield made

    def _fit(self, room: int) -> tuple[list[int], dict[int, int], int]:
        """Return which columns are shown, the widths of those that must not break, and the blanks between columns."""
        keys = self._keys(room)
        # all columns, then without those that can be spared, one after the other, but no key
        choices = [list(range(len(self.headers)))]
        for header in self.spare:
            choices.append([i for i in choices[-1] if i < keys or self.headers[i] != header])
        for columns in choices:
            for parts in (str.splitlines, str.split):
                most = {i: self._widest(i) if i < keys else min(self._widest(i), ENOUGH) for i in columns}
                least = {i: max(_longest(parts(self.headers[i])), most[i]) for i in columns}
                # the last column takes what is left: its cells break no sooner than those of the others
                unbroken = {i: least[i] for i in columns[1:-1] if self._widest(i) <= ENOUGH}
                if _total(least.values(), GAP) <= room:
                    return columns, unbroken, GAP
        return columns, unbroken if _total(least.values(), TIGHT) <= room else {}, TIGHT

    def _keys(self, room: int) -> int:
        """Return how many columns, from the first on, tell all rows apart; 1 where none do, or they do not fit."""
        for keys in range(1, len(self.headers)):
            if len({row[:keys] for row in self.rows}) == len(self.rows):
                fits = _total([self._widest(i) for i in range(keys)], TIGHT) <= room
                return keys if fits else 1
        return 1

    def _widest(self, column: int) -> int:
        return _longest([row[column] for row in self.rows])


def _total(widths: Collection[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _longest(texts: Sequence[str]) -> int:
    return max(map(cell_len, texts), default=0)


def save_page(
    file: str, document: T, show: Callable[[Console, T], None], charts: Callable[[T], Iterable[ChartCard]]
) -> None:
    """Write the page of what ``show`` prints of a document: the verdict as its heading, charts, then tables and lists.

    Same input, same text.

    :raises InvalidInput: the file cannot be written.
    """
    printed = AnswerPage()
    show(printed, document)
    cards = [*charts(document)]
    from topology.drawing.page_kit import render

    page = render(
        "arnold.pages",
        "printed.html.j2",
        styles=("pages.css", *(("charts.css", "capacity.css") if cards else ())),
        title=click.get_current_context().command_path,
        verdict=printed.sentences[0],
        lead=printed.sentences[1:],
        parts=printed.parts,
        charts=cards,
        data={},
    )
    write_file(file, page)


class AnswerPage(Console):
    """A console that keeps what is printed: sentences, tables, and titled lists of sentences; all of it, as with -v."""

    def __init__(self) -> None:
        super().__init__(file=io.StringIO())
        self.sentences: list[str] = []  # the verdict, then what else there is to say at once
        self.parts: list[tuple[str, FittedTable | list[str]]] = []
        self._title = ""

    def print(self, *objects: Any, **_: Any) -> None:
        """Keep what would be printed."""
        for shown in objects:
            if isinstance(shown, FittedTable):
                self.parts.append((shown.title, shown))
            elif isinstance(shown, Text) and not self.sentences:  # the verdict of a frame
                self.sentences.append(f"{shown.plain}.")
            elif isinstance(shown, Text):
                self._title = shown.plain
            elif isinstance(shown, Table):  # of print_sentences: a dash, a sentence
                self.parts.append((self._title, [str(cell) for cell in shown.columns[1].cells]))
            elif sentence := str(shown):
                self.sentences.append(sentence if sentence.endswith((".", "?")) else f"{sentence}.")
