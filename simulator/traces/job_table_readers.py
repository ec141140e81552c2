"""Readers of our own columns (:mod:`simulator.traces.job_table`) as CSV, JSON lines and Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from simulator.traces.job_table import REQUIRED, JobRows, canonical, likeness
from simulator.traces.types import Numbered
from topology.errors import TraceFormatError
from topology.tables.bad_rows import BadRow, BadRows
from topology.tables.byte_stream import ByteStream
from topology.tables.text_rows import CsvRows, header_of, json_objects

PARQUET = b"PAR1"
"""First bytes of a Parquet file."""


class JobCsv:
    """Reader of our own CSV."""

    name = "csv"
    summary = f"a CSV with the columns {','.join(REQUIRED)}"

    def likeness(self, head: bytes) -> float:
        """Return the share of the required columns that the header has."""
        return likeness(header_of(head))

    def read(self, source: ByteStream, bad_rows: BadRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        table = CsvRows(source, bad_rows)
        names = canonical(table.header, where=source.at(table.header_line), bad_rows=bad_rows)
        rows = ((line, dict(zip(names, cells, strict=True))) for line, cells in table)
        return bad_rows.keep(rows, JobRows(bad_rows).job, source)


class JobJsonLines:
    """Reader of our own JSON lines."""

    name = "jsonl"
    summary = f"JSON lines with the keys {','.join(REQUIRED)}"

    def likeness(self, head: bytes) -> float:
        """Return the share of the required keys that the object in the first line has."""
        try:
            # Only keys matter here; of whole numbers Python reads no more than 4,300 digits.
            first = json.loads(head.decode("utf-8-sig").lstrip().split("\n", 1)[0], parse_int=float)
        except ValueError:
            return 0.0
        return likeness(first) if isinstance(first, dict) else 0.0

    def read(self, source: ByteStream, bad_rows: BadRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        return bad_rows.keep(_first_names(source, bad_rows), JobRows(bad_rows).job, source)


def _first_names(source: ByteStream, bad_rows: BadRows) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield objects with the first names of their keys, which may differ from line to line.

    :raises TraceFormatError: the first object lacks a key: then it is the wrong file.
    """
    checked: dict[tuple[str, ...], list[str]] = {}
    for line, values in json_objects(source, bad_rows):
        keys = tuple(values)
        try:
            if keys not in checked:
                checked[keys] = canonical(keys, where=source.at(line), bad_rows=bad_rows)
        except TraceFormatError as error:
            if not checked:
                raise
            bad_rows.refuse(BadRow("keys missing", error.message, fix=error.fix), source.at(line))
            continue
        yield line, dict(zip(checked[keys], values.values(), strict=True))


class JobParquet:
    """Reader of our own Parquet.  What stands for the line in an error is the row, from 1."""

    name = "parquet"
    summary = f"Parquet with the columns {','.join(REQUIRED)}"

    def likeness(self, head: bytes) -> float:
        """Return whether the file begins as Parquet does."""
        return float(head.startswith(PARQUET))

    def read(self, source: ByteStream, bad_rows: BadRows) -> Iterator[Numbered]:
        """Yield the jobs with their rows, in the order of the file.

        :raises TraceFormatError: damaged, or without the columns.
        """
        from topology.tables.parquet_file import parquet_rows

        rows = parquet_rows(source, lambda names: canonical(names, where=source.name, bad_rows=bad_rows))
        return bad_rows.keep(rows, JobRows(bad_rows).job, source)
