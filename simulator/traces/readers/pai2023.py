"""Alibaba's GPU trace of 2023, pods of a shared cluster: the files ``openb_pod_list_*.csv``.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
ATC 2023; github.com/alibaba/clusterdata, cluster-trace-gpu-v2023.  A pod is a job on one node.  ``gpu_milli`` counts
where ``num_gpu`` is 1: thousandths of a GPU that it shares.  It runs from ``scheduled_time`` to ``deletion_time``;
seconds on a clock of its own.  The quality of service becomes the queue; types of GPU are not told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ground.errors import TraceFormatError
from ground.files import ByteStream
from ground.formats import FileFormat
from ground.rows import BadRow, header_of
from simulator.job_record import JobRecord
from simulator.traces.job_fields import optional, record, status, whole
from simulator.traces.readers.named_columns import Cells, NamedColumns
from simulator.traces.trace_clock import Clock, TraceRows
from simulator.traces.trace_loading import Numbered

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos,pod_phase,creation_time,deletion_time,scheduled_time"
MILLI = 1000
MEBIBYTE = 2.0**20


class Pai2023(NamedColumns):
    """Reader of the pod list."""

    columns = tuple(HEADER.split(","))
    format = FileFormat(
        "pai2023",
        source="Alibaba 2023, pods (ATC 2023): `name,cpu_milli,memory_mib,num_gpu,gpu_milli,...,creation_time,...`",
        export="`openb_pod_list_*.csv` of github.com/alibaba/clusterdata, cluster-trace-gpu-v2023",
        read="creation, start, end, GPUs or thousandths of one, quality of service, CPUs, memory, phase",
        left_out="`gpu_spec`; pods that never ran; `openb_pod_list_multigpu*`, which have no times and are refused",
        marks=columns,
    )
    asked_to_explain = True

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the pods with their lines, in the order of the file."""
        if not any(name.endswith("_time") for name in header_of(source.head)):
            fix = "give openb_pod_list_default.csv or another file with creation_time, scheduled_time and deletion_time"
            raise TraceFormatError("has no times: it is a list of pods, not a trace", where=source.at(1), fix=fix)
        yield from super().read(source, bad_rows)

    def jobs(self, bad_rows: TraceRows) -> Callable[[Cells], JobRecord]:
        """Return the function from a row to its job."""
        clock = Clock(bad_rows)

        def job(cells: Cells) -> JobRecord:
            name, scheduled, deleted = cells["name"], cells["scheduled_time"], cells["deletion_time"]
            if not scheduled or not deleted:
                reason = "has not ended" if scheduled else "never ran"
                raise BadRow(reason, f"pod {name} {reason}", fix="leave out pods that did not run to their end")
            gpus = whole(cells["num_gpu"], "num_gpu")
            cores, mebibytes = optional(cells["cpu_milli"], "cpu_milli"), optional(cells["memory_mib"], "memory_mib")
            submit = clock.seconds(cells["creation_time"], "creation_time")
            start = clock.seconds(scheduled, "scheduled_time")
            return record(
                job_id=name,
                submit=submit,
                duration=clock.seconds(deleted, "deletion_time") - start,
                gpus=whole(cells["gpu_milli"], "gpu_milli") / MILLI if gpus == 1 else float(gpus),
                nodes=1 if gpus else None,
                queue=cells["qos"],
                cpus=None if cores is None else cores / MILLI,
                memory=None if mebibytes is None else mebibytes * MEBIBYTE,
                status=status(cells["pod_phase"]),
                waited=start - submit,
            )

        return job
