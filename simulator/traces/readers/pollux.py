"""Workloads of Pollux and Sia: ``name,time,application,num_replicas,batch_size``.

Source: Qiao et al., OSDI 2021, simulator/workloads*/ of github.com/petuum/adaptdl, branch osdi21-artifact; Jayaram
Subramanya et al., SOSP 2023, github.com/siasosp23/artifacts.  Jobs may grow and shrink there; here each keeps the GPUs
that its user would have chosen, ``num_replicas``.  The file does not say how long it then runs: that is what was
measured for its application, GPUs and batch size (``simulator.traces.readers.published_speeds``), or a column
``duration`` if there is one.
"""

from __future__ import annotations

from collections.abc import Callable

from ground.formats import FileFormat
from ground.rows import BadRow
from simulator.job_record import JobRecord
from simulator.traces.job_fields import record, whole
from simulator.traces.readers.named_columns import Cells, NamedColumns
from simulator.traces.readers.published_speeds import POLLUX_SECONDS
from simulator.traces.trace_clock import Clock, TraceRows


class Pollux(NamedColumns):
    """Reader of Pollux and Sia workloads."""

    columns = ("name", "time", "application", "num_replicas", "batch_size")
    format = FileFormat(
        "pollux",
        source="Pollux (OSDI 2021) and Sia (SOSP 2023), a CSV: `name,time,application,num_replicas,batch_size`",
        export="`simulator/workloads*` of github.com/petuum/adaptdl, branch osdi21-artifact",
        read="submission, replicas as GPUs, application as model; run times as measured for these on T4 GPUs",
        left_out="that jobs may grow and shrink; applications, GPUs and batch sizes that were not measured",
        marks=columns,
    )

    def jobs(self, bad_rows: TraceRows) -> Callable[[Cells], JobRecord]:
        """Return the function from a row to its job."""
        clock = Clock(bad_rows)

        def job(cells: Cells) -> JobRecord:
            gpus = whole(cells["num_replicas"], "num_replicas")
            given = cells.get("duration")
            return record(
                job_id=cells["name"],
                submit=clock.seconds(cells["time"], "time"),
                duration=clock.length(given, "duration") if given else measured(cells, gpus),
                gpus=gpus,
                model=cells["application"],
            )

        def measured(cells: Cells, gpus: int) -> float:
            batch = whole(cells["batch_size"], "batch_size")
            seconds = POLLUX_SECONDS.get(cells["application"], {}).get((gpus, batch))
            if seconds is None:
                what = f"{cells['application'][:60]!r} on {gpus} GPUs with batches of {batch}"
                raise BadRow("unknown duration", f"how long {what} runs is not known", fix="add a column duration")
            bad_rows.note("Run times are those that Pollux measured on T4 GPUs, for jobs that keep their GPUs.")
            return seconds

        return job
