"""Our own trace as CSV; the columns are those of :mod:`simulator.traces.house`."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.traces.house import REQUIRED, Rows, canonical, likeness
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
