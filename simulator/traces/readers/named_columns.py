"""Readers of CSV files of which every row is a job and the header names the columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from ground.files import ByteStream
from ground.formats import FileFormat
from ground.rows import CsvRows, header_of, share
from simulator.job_record import JobRecord
from simulator.traces.trace_clock import TraceRows
from simulator.traces.trace_loading import Numbered

Cells = Mapping[str, str]


class NamedColumns:
    """A reader that knows its columns by name; a subclass says which there must be, and what job a row is."""

    format: ClassVar[FileFormat]
    columns: ClassVar[tuple[str, ...]]
    """Those without which there is no job."""
    asked_to_explain: ClassVar[bool] = False
    """Whether a file with most of the columns is given to this reader, to say which is missing."""

    def likeness(self, head: bytes) -> float:
        """Return the share of the columns that the header has."""
        found = share(header_of(head), self.columns)
        return found if found == 1 or self.asked_to_explain else 0.0

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        table = CsvRows(source, bad_rows)
        table.need(*self.columns, format=self.format.name)
        rows = ((line, dict(zip(table.header, cells, strict=True))) for line, cells in table)
        yield from bad_rows.keep(rows, self.jobs(bad_rows), source)

    def jobs(self, bad_rows: TraceRows) -> Callable[[Cells], JobRecord]:
        """Return the function from a row of one file to its job; it raises BadRow for what no job can be."""
        raise NotImplementedError
