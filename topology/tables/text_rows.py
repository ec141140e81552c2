"""CSV and JSON lines as they stream by: a row at a time with its line."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from topology.errors import did_you_mean
from topology.parsing.json_text import TWICE_FIX, KeyTwice, unique
from topology.tables.bad_rows import BadRow, BadRows, TextSource

DIGITS = 4_300  # Python reads no longer whole numbers from text
NOT_JSON = "not JSON"  # The reason by which lines are counted
BROKEN = "is not JSON, or was cut off"
CUT_OFF = "is truncated: the last line ends in the middle"
"""What errors say of a line whose syntax is wrong; of the last line, where it has no end."""


def header_of(head: str | bytes, *, delimiter: str = ",") -> tuple[str, ...]:
    """Return the names of the columns by the first line of a file; nothing when that line is not CSV.

    :param delimiter: what stands between them.
    """
    text = head.decode("utf-8-sig", errors="replace") if isinstance(head, bytes) else head
    first = text.lstrip().split("\n", 1)[0]
    try:
        return tuple(
            cell.strip() for row in csv.reader([first], delimiter=delimiter, skipinitialspace=True) for cell in row
        )
    except csv.Error:
        return ()


def share(header: Collection[str], required: Collection[str]) -> float:
    """Return the share of the required columns that a header has."""
    return sum(name in header for name in required) / len(required)


class CsvRows:
    """A CSV text; its first line names the columns, or is a row where the header is given.

    :param other_widths: numbers of cells that a row may have besides that of the header: those of a second table.
    """

    def __init__(
        self,
        source: TextSource,
        bad_rows: BadRows,
        *,
        header: Sequence[str] | None = None,
        other_widths: Collection[int] = (),
    ) -> None:
        self._source = source
        self._bad_rows = bad_rows
        self._other_widths = other_widths
        self._reader = csv.reader(source.lines(), strict=True, skipinitialspace=True)
        self._rows = self._cells()
        self.header = tuple(next(self._rows, ()) if header is None else header)
        self.header_line = self._reader.line_num
        if repeated := [name for i, name in enumerate(self.header) if name and name in self.header[:i]]:
            twice, where = f"two columns are called {repeated[0]!r}", source.at(self.header_line)
            raise bad_rows.error(twice, where=where, fix="give every column its own name")

    def need(self, *names: str, format: str) -> tuple[int, ...]:
        """Return where columns stand in a row; of a missing one, the error offers the one that was probably meant."""
        for name in names:
            if name not in self.header:
                others = [column for column in self.header if column not in names]
                meant = did_you_mean(name, others)
                rename = f"{meant}Rename it to {name!r}" if meant else f"add the column {name!r}"
                missing = f"the column {name!r} is missing; the format {format} has {','.join(names)}"
                # commands without --lenient read one format alone
                fix = rename if self._bad_rows.lenient is None else f"{rename}, or say with --format which format it is"
                raise self._bad_rows.error(missing, where=self._source.at(self.header_line), fix=fix)
        return tuple(self.header.index(name) for name in names)

    def find(self, name: str) -> int | None:
        """Return where a column stands, if there is one of that name."""
        return self.header.index(name) if name in self.header else None

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line and cells of rows with as many cells as the header; refuse others, skip empty lines."""
        width = len(self.header)
        reader = self._reader
        for cells in self._rows:
            if len(cells) == width or len(cells) in self._other_widths:
                yield reader.line_num, cells
                continue
            bad = BadRow(
                "cells missing" if len(cells) < width else "too many cells",
                f"the row has {len(cells)} cells, the header {width}",
                fix="fill every column (a cell may be empty); a last row cut short means a truncated file",
            )
            self._bad_rows.refuse(bad, self._source.at(reader.line_num))

    def _cells(self) -> Iterator[list[str]]:
        try:
            for row in self._reader:
                cells = [cell.strip() for cell in row]
                if any(cells):
                    yield cells
        except csv.Error as error:
            where = self._source.at(self._reader.line_num)
            wrong = f"is not CSV: {error}"
            raise self._bad_rows.error(wrong, where=where, fix="correct the quotes of that line") from None


def json_objects(source: TextSource, bad_rows: BadRows) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of JSON lines with their lines; refuse what is no object, skip blank lines."""
    for line, text in enumerate(source.lines(), 1):
        if text.isspace():
            continue
        try:
            values = parse_object(text)
        except BadRow as bad:
            cut_off = bad.message.startswith(BROKEN) and not text.endswith(("\n", "\r"))
            bad_rows.refuse(BadRow(NOT_JSON, CUT_OFF) if cut_off else bad, source.at(line))
            continue
        yield line, values


def parse_object(text: str) -> dict[str, Any]:
    """Return one JSON object; raise :class:`BadRow` for something else."""
    try:
        value = json.loads(text, object_pairs_hook=unique)
    except KeyTwice as twice:
        raise BadRow("a key twice", str(twice), fix=TWICE_FIX) from None
    except RecursionError:
        raise BadRow(NOT_JSON, "is nested too deep", fix="flatten it") from None
    except json.JSONDecodeError as error:
        raise BadRow(NOT_JSON, f"{BROKEN}: {error.msg}", fix="write one object a line") from None
    except ValueError:
        raise BadRow(
            NOT_JSON, f"holds a number of more than {DIGITS:,} digits", fix="give a number that fits"
        ) from None
    if not isinstance(value, dict):
        raise BadRow(NOT_JSON, "is not a JSON object", fix="write one object a line")
    return value
