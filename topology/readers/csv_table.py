"""CSV tables: a header and rows of as many cells, each with its line."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from topology.cluster import MAX_NODES
from topology.errors import InvalidInput, TooLarge
from topology.files import Places, Source


@dataclass(frozen=True, slots=True)
class Table:
    """A CSV text.

    :param header: names of the columns, without surrounding space.
    :param header_place: where it stands.
    :param rows: cells of each row, without surrounding space, as many as columns.
    :param places: where each row stands.
    """

    header: tuple[str, ...]
    header_place: str
    rows: list[list[str]]
    places: Sequence[str]


def read_header(text: str) -> tuple[str, ...]:
    """Names of the columns; nothing when the first line is not CSV."""
    first = text.lstrip().split("\n", 1)[0]
    try:
        return tuple(cell.strip() for row in csv.reader([first], skipinitialspace=True) for cell in row)
    except csv.Error:
        return ()


def read_table(source: Source) -> Table:
    """Read a CSV text.  Empty lines are skipped.

    :raises InvalidInput: broken quotes, or a row with another number of cells than the header.
    :raises TooLarge: more rows than a cluster has nodes.
    """
    reader = csv.reader(io.StringIO(source.text, newline=""), strict=True, skipinitialspace=True)
    header: tuple[str, ...] = ()
    header_line = 1
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for cells in reader:
            row = [cell.strip() for cell in cells]
            if not any(row):
                continue
            if not header:
                header, header_line = tuple(row), reader.line_num
                continue
            if len(row) != len(header):
                raise InvalidInput(
                    f"the row has {len(row)} cells, the header {len(header)}",
                    where=source.at(reader.line_num),
                    fix="fill every column (a cell may be empty); a last row cut short means a truncated file",
                )
            rows.append(row)
            lines.append(reader.line_num)
            if len(rows) > MAX_NODES:
                raise TooLarge(
                    f"the table has more than {MAX_NODES:,} rows", where=source.name, fix="describe a part of it"
                )
    except csv.Error as error:
        raise InvalidInput(
            f"is not CSV: {error}", where=source.at(reader.line_num), fix="correct the quotes of that line"
        ) from None
    return Table(header, source.at(header_line), rows, Places(len(rows), lambda row: source.at(lines[row])))
