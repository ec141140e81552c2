"""CSV tables: a header and rows of as many cells, each with its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from topology.cluster import MAX_NODES
from topology.errors import TooLarge
from topology.files import Places, Source
from topology.tables.bad_rows import BadRows
from topology.tables.text_rows import CsvRows


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


def read_table(source: Source) -> Table:
    """Read a CSV text.  Empty lines are skipped.

    :raises InvalidInput: broken quotes, a column twice, or a row with another number of cells than the header.
    :raises TooLarge: more rows than a cluster has nodes.
    """
    table = CsvRows(source, BadRows(lenient=None))
    rows: list[list[str]] = []
    lines: list[int] = []
    for line, row in table:
        rows.append(row)
        lines.append(line)
        if len(rows) > MAX_NODES:
            raise TooLarge(
                f"the table has more than {MAX_NODES:,} rows", where=source.name, fix="describe a part of it"
            )
    return Table(table.header, source.at(table.header_line), rows, Places(len(rows), lambda row: source.at(lines[row])))
