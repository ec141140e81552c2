"""Traces of the Tiresias simulator: ``job_id,num_gpu,submit_time,iterations,model_name,duration,interval``.

Source: Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019;
github.com/SymbioticLab/Tiresias, simulator/60_job.csv.  Seconds on a clock of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from simulator.job_record import JobRecord
from simulator.traces.job_fields import number, record
from simulator.traces.readers.named_columns import Cells, NamedColumns
from simulator.traces.trace_clock import Clock, TraceRows
from topology.file_format import FileFormat


class Tiresias(NamedColumns):
    """Reader of Tiresias traces."""

    columns = ("job_id", "num_gpu", "submit_time", "model_name", "duration")
    format = FileFormat(
        "tiresias",
        source="Tiresias (NSDI 2019), a CSV: `job_id,num_gpu,submit_time,iterations,model_name,duration,interval`",
        export="`simulator/*_job.csv` of github.com/SymbioticLab/Tiresias",
        read="submission, GPUs, run time, model",
        left_out="iterations, interval, sizes of models",
        marks=columns,
    )

    def jobs(self, bad_rows: TraceRows) -> Callable[[Cells], JobRecord]:
        """Return the function from a row to its job."""
        clock = Clock(bad_rows)
        return lambda cells: record(
            job_id=cells["job_id"],
            submit=clock.seconds(cells["submit_time"], "submit_time"),
            duration=number(cells["duration"], "duration"),
            gpus=number(cells["num_gpu"], "num_gpu"),
            model=cells["model_name"],
        )
