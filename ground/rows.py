"""Rows of text from anywhere: CSV, JSON lines, entries of a JSON document, lines of Prometheus' exporters.

Rows stream by, each with its line.  The first one that is wrong ends strict reading; lenient reading drops such rows
and counts them by reason.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from ground import json_text
from ground.errors import InvalidInput, did_you_mean
from ground.files import ByteStream, Source, decode_source
from ground.json_text import TWICE_FIX, KeyTwice, unique

LENIENT = "or drop such rows with --lenient"

TextSource = Source | ByteStream
Row = TypeVar("Row")
Made = TypeVar("Made")


class BadRow(Exception):
    """A row that cannot be used.

    :param reason: a few words by which dropped rows are counted: ``"no GPUs"``.
    :param message: what is wrong with this one; as the reason if left out.
    :param fix: what the user can do to the file; dropping such rows is offered too.
    """

    def __init__(self, reason: str, message: str = "", *, fix: str = "correct or remove that line") -> None:
        super().__init__(message or reason)
        self.reason = reason
        self.message = message or reason
        self.fix = fix


class BadRows:
    """Takes wrong rows, and notes to the user, while a table is read; what ends strict reading is of class ``error``.

    :param lenient: drop and count wrong rows instead of stopping at the first; ``None`` = stop, and the command has no
        option ``--lenient`` that an error could offer.
    """

    def __init__(self, *, lenient: bool | None = False, error: type[InvalidInput] = InvalidInput) -> None:
        self.lenient = lenient
        self.error = error
        self.dropped: Counter[str] = Counter()
        self.notes: list[str] = []

    def refuse(self, bad: BadRow, where: str) -> None:
        """Drop and count a row; where reading is strict, raise an error that says its place."""
        if not self.lenient:
            raise self.error(bad.message, where=where, fix=bad.fix if self.lenient is None else f"{bad.fix}, {LENIENT}")
        self.dropped[bad.reason] += 1

    def keep(
        self, rows: Iterable[tuple[int, Row]], make: Callable[[Row], Made], source: TextSource
    ) -> Iterator[tuple[int, Made]]:
        """Yield what is made of each row, with its line; refuse rows for which ``make`` raises :class:`BadRow`."""
        for line, row in rows:
            try:
                made = make(row)
            except BadRow as bad:
                self.refuse(bad, source.at(line))
            else:
                yield line, made

    def note(self, sentence: str) -> None:
        """Keep a sentence for the user, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)


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
                meant = did_you_mean(name, [column for column in self.header if column not in names])
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

    def columns(self, most: int) -> list[tuple[str, ...]] | None:
        """Return the cells of up to so many rows by column, all read at once, which uses them up.

        :returns: ``None`` where rows are to be looked at one by one, with another reader: there is none, or one is
            empty, of another width, no CSV or longer than a line.
        """
        width, cells = len(self.header), list[str]()
        try:
            for row in islice(self._reader, most):
                if len(row) != width:
                    return None
                cells += row  # row after row: as many lists as rows would keep the collector busy
        except csv.Error:
            return None
        if not cells or self._reader.line_num != self.header_line + len(cells) // width:
            return None
        columns = [tuple(map(str.strip, cells[at::width])) for at in range(width)]
        return columns if all(columns[0]) else None

    def _cells(self) -> Iterator[list[str]]:
        try:
            for row in self._reader:
                cells = [cell.strip() for cell in row]
                if any(cells):
                    yield cells
        except csv.Error as error:
            where = self._source.at(self._reader.line_num)
            quotes = "correct the quotes of that line"
            raise self._bad_rows.error(f"is not CSV: {error}", where=where, fix=quotes) from None


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
        fix = "give a number that fits"
        raise BadRow(NOT_JSON, f"holds a number of more than {DIGITS:,} digits", fix=fix) from None
    if not isinstance(value, dict):
        raise BadRow(NOT_JSON, "is not a JSON object", fix="write one object a line")
    return value


def json_document(source: ByteStream) -> tuple[Source, Any]:
    """Return the text and the data of a whole document; raise InvalidInput where it is damaged or no JSON."""
    text = decode_source(source.name, source.content().getvalue())
    return text, json_text.parse(text)


def entries(source: Source, data: Any, *, key: str = "") -> Iterator[tuple[int, Any]]:
    """Yield the entries of a list with their lines.

    :param data: that of the text.
    :param key: the key that holds the list; empty = the document is the list.
    :raises InvalidInput: there is no such list.
    """
    listed = data.get(key) if key and isinstance(data, dict) else data
    if not isinstance(listed, list):
        what = f"has no list {key!r}" if key else "is no list"
        raise InvalidInput(what, where=source.at(1), fix="give the whole document as it was written")
    yield from zip(json_text.lines_of_entries(source.text, key), listed, strict=True)


def inside(value: Any, *path: str) -> Any:
    """Return what stands under keys of an entry; ``None`` = one of them is not there.

    :raises BadRow: what should hold a key is no object.
    """
    for done, key in enumerate(path):
        if value is None and done:
            return None
        if not isinstance(value, dict):
            where = ".".join(path[:done]) or "the entry"
            raise BadRow("not an object", f"{where} is {str(value)[:60]!r}, not an object", fix="correct that entry")
        value = value.get(key)
    return value


_LINE = re.compile(r"\s*([A-Za-z_:][A-Za-z0-9_:]*)\s*(?:\{(.*)\})?\s+(\S+)(?:\s+(-?\d+))?\s*")
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')


class ExporterLine(NamedTuple):
    """One value of one series: ``name{label="value",...} 12.5``, then perhaps a time in ms.

    https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
    """

    name: str
    labels: dict[str, str]
    value: float  # may be NaN or infinite
    time: float | None  # seconds since 1970; None = that of the scrape


def exporter_line(line: str) -> ExporterLine:
    """Return the value of a line that is no comment; raise :class:`~ground.rows.BadRow` for another."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise BadRow("is not a line of Prometheus text")
    name, inner, number, time = match[1], match[2] or "", match[3], match[4]
    labels, here = {}, 0
    while here < len(inner.rstrip()):
        label = _LABEL.match(inner, here)
        if label is None:
            raise BadRow('the labels are not a list of name="value"')
        labels[label[1]], here = label[2], label.end()
    try:
        value = float(number)
    except ValueError:
        raise BadRow(f"the value is {number!r:.40}, not a number") from None
    return ExporterLine(name, labels, value, int(time[:18]) / 1e3 if time else None)
