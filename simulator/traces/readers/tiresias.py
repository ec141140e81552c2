"""Traces of Tiresias, ``job_id,num_gpu,submit_time,iterations,model_name,duration,interval``, and of Muri.

Muri's have these columns and others, and count milliseconds.

Sources: Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019;
github.com/SymbioticLab/Tiresias, simulator/60_job.csv.  Zhao et al., "Multi-Resource Interleaving for Deep Learning
Training", SIGCOMM 2022; github.com/Rivendile/Muri, cluster_exp/trace-data.  A clock of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from ground.formats import FileFormat
from ground.rows import header_of
from simulator.job_record import JobRecord
from simulator.traces.job_fields import number, record
from simulator.traces.readers.named_columns import Cells, NamedColumns
from simulator.traces.trace_clock import Clock, TraceRows

ONLY_MURI = ("iteration_time", "resource_time_0")
"""Columns that Muri's traces have and those of Tiresias have not."""


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

    def likeness(self, head: bytes) -> float:
        """Return the share of the columns that the header has; nothing when it has those of Muri."""
        return 0.0 if set(ONLY_MURI) <= set(header_of(head)) else super().likeness(head)

    def jobs(self, bad_rows: TraceRows) -> Callable[[Cells], JobRecord]:
        """Return the function from a row to its job."""
        clock = Clock(bad_rows)
        return lambda cells: record(
            job_id=cells["job_id"],
            submit=clock.seconds(cells["submit_time"], "submit_time"),
            duration=clock.length(cells["duration"], "duration"),
            gpus=number(cells["num_gpu"], "num_gpu"),
            model=cells["model_name"],
        )


class Muri(NamedColumns):
    """Reader of Muri's traces: milliseconds, unless ``--time-format`` says otherwise."""

    columns = (*Tiresias.columns, *ONLY_MURI)
    format = FileFormat(
        "muri",
        source="Muri (SIGCOMM 2022), a CSV of milliseconds: Tiresias' columns, `iteration_time`, `resource_time_0`",
        export="`cluster_exp/trace-data/*.csv` of github.com/Rivendile/Muri",
        read="submission, GPUs, run time, model",
        left_out="iterations, interval, what an iteration takes of each resource, priority",
        marks=columns,
    )

    def jobs(self, bad_rows: TraceRows) -> Callable[[Cells], JobRecord]:
        """Return the function from a row to its job."""
        if bad_rows.time_format is None:
            bad_rows.unit = "milliseconds"
            bad_rows.note("Times were read as milliseconds, which is what Muri's traces count.")
        return Tiresias().jobs(bad_rows)
