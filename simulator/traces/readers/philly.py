"""The Philly trace of Microsoft, 2017, as CSV: ``timestamp,duration,num_gpus,gpu_time,cluster``.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", ATC 2019; as CSV in
petuum/adaptdl.  Timestamps are dates of submission without a zone, read as UTC; ``cluster`` is the virtual cluster.
Jobs have no id there: they are called by their place in the file, ``philly-1`` onwards.  Rows are not in order of time.
The log as Microsoft published it is JSON (``simulator.traces.readers.philly_log``).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from ground.formats import FileFormat
from simulator.job_record import JobRecord
from simulator.traces.job_fields import number, record
from simulator.traces.readers.named_columns import Cells, NamedColumns
from simulator.traces.trace_clock import Clock, TraceRows


class Philly(NamedColumns):
    """Reader of the Philly trace."""

    columns = ("timestamp", "duration", "num_gpus", "cluster")
    format = FileFormat(
        "philly",
        source="Microsoft Philly 2017 as CSV (ATC 2019): `timestamp,duration,num_gpus,gpu_time,cluster`",
        export="`philly.csv` of github.com/petuum/adaptdl or of Sia, github.com/siasosp23/artifacts",
        read="submission, run time, GPUs, virtual cluster",
        left_out="27 % of the jobs and 49 % of the GPU time of Philly are not in that file",
        marks=columns,
    )
    asked_to_explain = True

    def jobs(self, bad_rows: TraceRows) -> Callable[[Cells], JobRecord]:
        """Return the function from a row to its job."""
        clock, place = Clock(bad_rows), count(1)

        def job(cells: Cells) -> JobRecord:
            return record(
                job_id=f"philly-{next(place)}",
                submit=clock.seconds(cells["timestamp"], "timestamp"),
                duration=clock.length(cells["duration"], "duration"),
                gpus=number(cells["num_gpus"], "num_gpus"),
                queue=cells["cluster"],
            )

        return job
