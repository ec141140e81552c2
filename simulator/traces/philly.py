"""The Philly trace of Microsoft, 2017: ``timestamp,duration,num_gpus,gpu_time,cluster``.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", ATC 2019; as CSV in
petuum/adaptdl.  Timestamps are dates of submission without a zone, read as UTC; ``cluster`` is the virtual cluster.
Jobs have no id there: they are called by their place in the file, ``philly-1`` onwards.  Rows are not in order of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from simulator.records import JobRecord
from simulator.traces.cells import Clock, number, record
from simulator.traces.intake import Intake
from simulator.traces.sifting import jobs_of
from simulator.traces.source import TraceSource
from simulator.traces.table import Table, header_of, share
from simulator.traces.types import Numbered

COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


class Philly:
    """Reader of the Philly trace."""

    name = "philly"
    summary = "a CSV with the columns timestamp,duration,num_gpus,gpu_time,cluster"

    def likeness(self, head: bytes) -> float:
        """Share of the columns that the header has."""
        return share(header_of(head), COLUMNS)

    def read(self, source: TraceSource, intake: Intake) -> Iterator[Numbered]:
        """The jobs with their lines, in the order of the file."""
        table = Table(source, intake)
        timestamp, duration, gpus, cluster = table.need(*COLUMNS, format=self.name)
        clock = Clock(intake)
        place = count(1)

        def job(cells: Sequence[str]) -> JobRecord:
            return record(
                job_id=f"philly-{next(place)}",
                submit=clock.seconds(cells[timestamp], "timestamp"),
                duration=number(cells[duration], "duration"),
                gpus=number(cells[gpus], "num_gpus"),
                queue=cells[cluster],
            )

        yield from jobs_of(table.rows(), job, source=source, intake=intake)
