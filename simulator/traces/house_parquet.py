"""Our own trace as Parquet; the columns are those of :mod:`simulator.traces.house`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simulator.traces.house import REQUIRED, Rows, canonical
from simulator.traces.intake import Intake
from simulator.traces.sifting import jobs_of
from simulator.traces.source import TraceSource
from simulator.traces.types import Numbered
from topology.errors import TraceFormatError

MAGIC = b"PAR1"
BATCH = 16_384
"""Rows that are values of Python at one time."""


class HouseParquet:
    """Reader of our own Parquet.  What stands for the line in an error is the row, from 1."""

    name = "parquet"
    summary = f"Parquet with the columns {','.join(REQUIRED)}"

    def likeness(self, head: bytes) -> float:
        """Whether the file begins as Parquet does."""
        return float(head.startswith(MAGIC))

    def read(self, source: TraceSource, intake: Intake) -> Iterator[Numbered]:
        """The jobs with their rows, in the order of the file.

        :raises TraceFormatError: damaged, or without the columns.
        """
        yield from jobs_of(_rows(source, intake), Rows(intake).job, source=source, intake=intake)


def _rows(source: TraceSource, intake: Intake) -> Iterator[tuple[int, dict[str, Any]]]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    row = 0
    try:
        file = ParquetFile(source.content())
        names = canonical(file.schema_arrow.names, where=source.name, intake=intake)
        for batch in file.iter_batches(BATCH):
            columns = [column.to_pylist() for column in batch.columns]
            for values in zip(*columns, strict=True):
                row += 1
                yield row, dict(zip(names, values, strict=True))
    except (ArrowException, OSError) as error:
        raise TraceFormatError(
            f"is damaged Parquet: {str(error).splitlines()[0]}", where=source.name, fix="write the file again"
        ) from error
