"""Our own trace as CSV; the columns are those of :mod:`simulator.traces.house`."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import fields
from io import StringIO

from scheduler.job import FAMILIES
from simulator.records import JobRecord
from simulator.traces.house import OPTIONAL, REQUIRED, Rows, canonical, likeness
from simulator.traces.intake import Intake
from simulator.traces.sifting import jobs_of
from simulator.traces.source import TraceSource
from simulator.traces.table import Table, header_of
from simulator.traces.types import Numbered


class HouseCsv:
    """Reader of our own CSV."""

    name = "csv"
    summary = f"a CSV with the columns {','.join(REQUIRED)}"

    def likeness(self, head: bytes) -> float:
        """Share of the columns that the header has."""
        return likeness(header_of(head))

    def read(self, source: TraceSource, intake: Intake) -> Iterator[Numbered]:
        """The jobs with their lines, in the order of the file."""
        table = Table(source, intake)
        names = canonical(table.header, where=source.at(table.header_line), intake=intake)
        rows = ((line, dict(zip(names, cells, strict=True))) for line, cells in table.rows())
        yield from jobs_of(rows, Rows(intake).job, source=source, intake=intake)


def write_jobs(records: Sequence[JobRecord]) -> str:
    """Jobs as the CSV that :class:`HouseCsv` reads; columns of which no job says anything are left out.

    The order of ranks of a parallelism is not written: the format has no column for it.
    """
    rows = [_cells(record) for record in records]
    columns = [name for name in (*REQUIRED, *OPTIONAL) if name in REQUIRED or any(name in row for row in rows)]
    text = StringIO()
    writer = csv.DictWriter(text, fieldnames=columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _cells(record: JobRecord) -> dict[str, str]:
    """What a job says beyond what holds where a cell is empty."""
    said = {one.name: value for one in fields(JobRecord) if (value := getattr(record, one.name)) != one.default}
    said["submit_time"] = said.pop("submit")
    degrees = said.pop("parallelism", None)
    if degrees is not None:
        # A degree that is left out is 1; one has to be there for a parallelism to be.
        said |= {name: size for name in FAMILIES if (size := getattr(degrees, name)) > 1 or name == "tp"}
    return {name: _text(value) for name, value in said.items()}


def _text(value: object) -> str:
    """The shortest text that reads back as the same value; whole numbers without a fraction."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
