"""Tables for a terminal.  The columns that tell rows apart are never cut, however narrow the terminal is.

They are the first, and as many after it as it takes until no two rows are alike.  Where rows do not fit, headers break
between words, then the columns worth least are left out, then cells break.
``--json`` always has everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

GAP, TIGHT = 2, 1  # Blanks between columns; where nothing else is left to save
ENOUGH = 24  # Characters a line of a column of sentences needs at least to be read with ease


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A plain table that fits the terminal."""

    title: str
    headers: Sequence[str]
    rows: Sequence[tuple[str, ...]]  # cells of each, of all columns
    # headers of columns that are aligned left, besides the first; the others are aligned right
    left: Collection[str] = ()
    spare: Sequence[str] = ()  # headers of columns that may be left out, the first to go first
    bold: Collection[int] = ()  # numbers of rows that stand out

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what fits into the width there is."""
        columns, widths, gap = self._fit(options.max_width)
        made = Table(
            title=self.title,
            title_justify="left",
            title_style="bold",
            box=None,
            pad_edge=False,
            padding=(0, gap, 0, 0),
        )
        keys = self._keys(options.max_width)
        for i in columns:
            header = self.headers[i]
            left = i == 0 or header in self.left
            made.add_column(
                header, justify="left" if left else "right", overflow="fold", no_wrap=i < keys, width=widths.get(i)
            )
        for number, row in enumerate(self.rows):
            made.add_row(*(row[i] for i in columns), style="bold" if number in self.bold else "")
        yield made

    def _fit(self, room: int) -> tuple[list[int], dict[int, int], int]:
        """Return which columns are shown, the widths of those that must not break, and the blanks between columns."""
        keys = self._keys(room)
        for columns in self._choices(keys):
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

    def _choices(self, keys: int) -> Iterator[list[int]]:
        """Yield columns to show: all, then without those that can be spared, one after the other, but no key."""
        columns = list(range(len(self.headers)))
        yield columns
        for header in self.spare:
            columns = [i for i in columns if i < keys or self.headers[i] != header]
            yield columns

    def _widest(self, column: int) -> int:
        return _longest([row[column] for row in self.rows])


def _total(widths: Collection[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _longest(texts: Sequence[str]) -> int:
    return max(map(cell_len, texts), default=0)
