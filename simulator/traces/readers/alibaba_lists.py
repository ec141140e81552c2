"""Alibaba's lists of 2025 (instances of recommendation models) and of 2026 (jobs beside spot jobs).

Source: github.com/alibaba/clusterdata, cluster-trace-gpu-v2025 (Yang et al., NSDI 2025) and
cluster-trace-v2026-spot-gpu (Duan et al., ASPLOS 2026).  Seconds from the beginning of each trace.
"""

from __future__ import annotations

from collections.abc import Callable

from ground.formats import FileFormat
from ground.rows import BadRow
from simulator.job_record import JobRecord
from simulator.traces.job_fields import number, optional, record, summed_shares, whole
from simulator.traces.readers.named_columns import Cells, NamedColumns
from simulator.traces.trace_clock import Clock, TraceRows

GIBIBYTE = 2.0**30
SPOT, HIGH = "spot", "hp"  # Types of jobs of 2026, in small letters


class Pai2025(NamedColumns):
    """Reader of the instances of 2025, each on one node."""

    columns = ("instance_sn", "role", "app_name", "gpu_request", "creation_time", "scheduled_time", "deletion_time")
    format = FileFormat(
        "pai2025",
        source="Alibaba 2025, instances (NSDI 2025): `instance_sn,role,app_name,...,gpu_request,...`",
        export="`disaggregated_DLRM_trace.csv` of github.com/alibaba/clusterdata, cluster-trace-gpu-v2025",
        read="creation, start, end, GPUs, CPUs, memory, application as group, role as queue",
        left_out="of 23,871 rows 16,485 without GPUs, 3,123 from before the trace, 1,045 that outlive it, 16 of 0 s",
        marks=columns,
    )

    def jobs(self, bad_rows: TraceRows) -> Callable[[Cells], JobRecord]:
        """Return the function from a row to its job."""
        clock = Clock(bad_rows)

        def job(cells: Cells) -> JobRecord:
            times = [
                None if cells[name].lower() == "nan" else clock.optional(cells[name], name) for name in self.columns[4:]
            ]
            gpus, (created, started, ended) = number(cells["gpu_request"], "gpu_request"), times
            name = f"instance {cells['instance_sn']}"
            if not gpus:
                raise BadRow("no GPUs", f"{name} has no GPUs", fix="leave out instances of CPUs alone")
            if created is None or started is None:
                reason = "began before the trace" if created is None else "never ran"
                raise BadRow(reason, f"{name} {reason}", fix="leave out instances whose beginning is not known")
            if ended is None:
                raise BadRow("has not ended", f"{name} has not ended", fix="leave out instances that outlive the trace")
            memory = optional(cells.get("memory_request"), "memory_request")
            return record(
                job_id=cells["instance_sn"],
                submit=created,
                duration=ended - started,
                gpus=gpus,
                nodes=1,
                queue=cells["role"],
                group=cells["app_name"],
                cpus=optional(cells.get("cpu_request"), "cpu_request"),
                memory=None if memory is None else memory * GIBIBYTE,
                waited=started - created,
            )

        return job


class Spot2026(NamedColumns):
    """Reader of the jobs of 2026: workers of some GPUs each; spot jobs may be stopped, others go before them."""

    columns = ("job_name", "gpu_request", "worker_num", "submit_time", "duration", "job_type")
    format = FileFormat(
        "spot2026",
        source="Alibaba 2026, jobs (ASPLOS 2026): `job_name,organization,gpu_model,...,worker_num,...`",
        export="`job_info_df.csv` of github.com/alibaba/clusterdata, cluster-trace-v2026-spot-gpu",
        read="submission, run time, GPUs of all workers, CPUs, organization as group; HP goes first, spot may stop",
        left_out="`gpu_model`; how long a job waited",
        marks=columns,
    )

    def jobs(self, bad_rows: TraceRows) -> Callable[[Cells], JobRecord]:
        """Return the function from a row to its job."""
        clock = Clock(bad_rows)

        def job(cells: Cells) -> JobRecord:
            workers, each = whole(cells["worker_num"], "worker_num"), number(cells["gpu_request"], "gpu_request")
            cpus, kind = optional(cells.get("cpu_request"), "cpu_request"), cells["job_type"]
            return record(
                job_id=cells["job_name"],
                submit=clock.seconds(cells["submit_time"], "submit_time"),
                duration=clock.length(cells["duration"], "duration"),
                gpus=summed_shares(workers * each, workers),
                queue=kind,
                group=cells.get("organization", ""),
                cpus=None if cpus is None else cpus * workers,
                priority=int(kind.lower() == HIGH),
                preemptible=kind.lower() == SPOT,
            )

        return job
