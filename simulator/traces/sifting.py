"""Rows to jobs: what every reader does with each row of its file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from simulator.records import JobRecord
from simulator.traces.intake import BadRow, Intake
from simulator.traces.source import TraceSource
from simulator.traces.types import Numbered

Row = TypeVar("Row")


def jobs_of(
    rows: Iterable[tuple[int, Row]], job: Callable[[Row], JobRecord], *, source: TraceSource, intake: Intake
) -> Iterator[Numbered]:
    """The jobs of rows with their lines; rows that are no job go to the intake.

    :param job: makes the job of a row; raises BadRow where there is none.
    :raises TraceFormatError: a row is wrong and reading is strict.
    """
    for line, row in rows:
        try:
            yield line, job(row)
        except BadRow as bad:
            intake.refuse(bad, source.at(line))
