"""The Philly trace of Microsoft, 2017: ``timestamp,duration,num_gpus,gpu_time,cluster``.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", ATC 2019; as CSV in
petuum/adaptdl.  Timestamps are dates of submission without a zone, read as UTC; ``cluster`` is the virtual cluster.
Jobs have no id there: they are called by their place in the file, ``philly-1`` onwards.  Rows are not in order of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from simulator.job_record import JobRecord
from simulator.traces.job_fields import Clock, number, record
from simulator.traces.trace_loading import Numbered
from topology.tables.bad_rows import BadRows
from topology.tables.byte_stream import ByteStream
from topology.tables.text_rows import CsvRows, header_of, share

COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


class Philly:
    """Reader of the Philly trace."""

    name = "philly"
    summary = "a CSV with the columns timestamp,duration,num_gpus,gpu_time,cluster"

    def likeness(self, head: bytes) -> float:
        """Return the share of the columns that the header has."""
        return share(header_of(head), COLUMNS)

    def read(self, source: ByteStream, bad_rows: BadRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        table = CsvRows(source, bad_rows)
        timestamp, duration, gpus, cluster = table.need(*COLUMNS, format=self.name)
        clock = Clock(bad_rows)
        place = count(1)

        def job(cells: Sequence[str]) -> JobRecord:
            return record(
                job_id=f"philly-{next(place)}",
                submit=clock.seconds(cells[timestamp], "timestamp"),
                duration=number(cells[duration], "duration"),
                gpus=number(cells[gpus], "num_gpus"),
                queue=cells[cluster],
            )

        yield from bad_rows.keep(table, job, source)
