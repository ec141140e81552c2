"""CSV as it streams by: a header, then a row at a time with its line."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence

from simulator.traces.intake import BadRow, Intake
from simulator.traces.source import TraceSource
from topology.errors import TraceFormatError, did_you_mean

Row = tuple[int, list[str]]
"""Line and cells."""


def header_of(head: bytes) -> tuple[str, ...]:
    """Names of the columns by the first line of a file; nothing when it is not CSV."""
    first = head.decode("utf-8-sig", errors="replace").lstrip().split("\n", 1)[0]
    try:
        return tuple(cell.strip() for row in csv.reader([first], skipinitialspace=True) for cell in row)
    except csv.Error:
        return ()


def share(header: Collection[str], required: Collection[str]) -> float:
    """Share of the required columns that a header has."""
    return sum(name in header for name in required) / len(required)


class Table:
    """A CSV text whose first line names the columns.

    :raises TraceFormatError: no header, a column twice.
    """

    def __init__(self, source: TraceSource, intake: Intake, *, header: Sequence[str] | None = None) -> None:
        """Read the header.

        :param header: names of the columns, for files that do not say them; the first line is a row then.
        """
        self._source = source
        self._intake = intake
        self._reader = csv.reader(source.lines(), strict=True, skipinitialspace=True)
        if header is None:
            header = [cell.strip() for cell in self._next_row() or ()]
        self.header = tuple(header)
        self.header_line = self._reader.line_num
        if repeated := [name for i, name in enumerate(self.header) if name in self.header[:i]]:
            raise TraceFormatError(
                f"two columns are called {repeated[0]!r}",
                where=source.at(self.header_line),
                fix="give every column its own name",
            )

    def need(self, *names: str, format: str) -> tuple[int, ...]:
        """Where columns stand in a row.

        :raises TraceFormatError: one is missing; offers the one that was probably meant.
        """
        for name in names:
            if name not in self.header:
                others = [column for column in self.header if column not in names]
                meant = did_you_mean(name, others)
                rename = f"{meant}Rename it to {name!r}" if meant else f"add the column {name!r}"
                raise TraceFormatError(
                    f"the column {name!r} is missing; the format {format} has {','.join(names)}",
                    where=self._source.at(self.header_line),
                    fix=f"{rename}, or say with --format which format it is",
                )
        return tuple(self.header.index(name) for name in names)

    def find(self, name: str) -> int | None:
        """Where a column stands, if there is one of that name."""
        return self.header.index(name) if name in self.header else None

    def rows(self) -> Iterator[Row]:
        """Rows with as many cells as the header; others are refused, empty lines skipped.

        :raises TraceFormatError: broken quotes.
        """
        while (cells := self._next_row()) is not None:
            if len(cells) == len(self.header):
                yield self._reader.line_num, cells
                continue
            self._intake.refuse(
                BadRow(
                    "cells missing" if len(cells) < len(self.header) else "too many cells",
                    f"the row has {len(cells)} cells, the header {len(self.header)}",
                    fix="fill every column (a last row cut short means a truncated file)",
                ),
                self._source.at(self._reader.line_num),
            )

    def _next_row(self) -> list[str] | None:
        try:
            for row in self._reader:
                cells = [cell.strip() for cell in row]
                if any(cells):
                    return cells
        except csv.Error as error:
            raise TraceFormatError(
                f"is not CSV: {error}",
                where=self._source.at(self._reader.line_num),
                fix="correct the quotes of that line",
            ) from None
        return None
