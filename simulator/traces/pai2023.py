"""Alibaba's GPU trace of 2023, pods of a shared cluster: the files ``openb_pod_list_*.csv``.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
ATC 2023; github.com/alibaba/clusterdata, cluster-trace-gpu-v2023.  A pod is a job on one node.  ``gpu_milli`` counts
where ``num_gpu`` is 1: thousandths of a GPU that it shares.  It runs from ``scheduled_time`` to ``deletion_time``;
seconds on a clock of its own.  The quality of service becomes the queue; types of GPU are not told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.job_record import JobRecord
from simulator.traces.job_fields import Clock, optional, record, status, whole
from simulator.traces.trace_loading import Numbered
from topology.tables.bad_rows import BadRow, BadRows
from topology.tables.byte_stream import ByteStream
from topology.tables.text_rows import CsvRows, header_of, share

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos,pod_phase,creation_time,deletion_time,scheduled_time"
COLUMNS = tuple(HEADER.split(","))
MILLI = 1000
MEBIBYTE = 2.0**20


class Pai2023:
    """Reader of the pod list."""

    name = "pai2023"
    summary = "openb_pod_list_*.csv: name,cpu_milli,memory_mib,num_gpu,gpu_milli,...,creation_time,deletion_time,..."

    def likeness(self, head: bytes) -> float:
        """Return the share of the columns that the header has."""
        return share(header_of(head), COLUMNS)

    def read(self, source: ByteStream, bad_rows: BadRows) -> Iterator[Numbered]:
        """Yield the pods with their lines, in the order of the file."""
        table = CsvRows(source, bad_rows)
        where = table.need(*COLUMNS, format=self.name)
        clock = Clock(bad_rows)

        def job(cells: Sequence[str]) -> JobRecord:
            name, cpus, memory, gpus, share_, qos, phase, created, deleted, scheduled = (cells[i] for i in where)
            if not scheduled or not deleted:
                reason = "has not ended" if scheduled else "never ran"
                raise BadRow(reason, f"pod {name} {reason}", fix="leave out pods that did not run to their end")
            number = whole(gpus, "num_gpu")
            cores, mebibytes = optional(cpus, "cpu_milli"), optional(memory, "memory_mib")
            return record(
                job_id=name,
                submit=clock.seconds(created, "creation_time"),
                duration=clock.seconds(deleted, "deletion_time") - clock.seconds(scheduled, "scheduled_time"),
                gpus=whole(share_, "gpu_milli") / MILLI if number == 1 else float(number),
                nodes=1 if number else None,
                queue=qos,
                cpus=None if cores is None else cores / MILLI,
                memory=None if mebibytes is None else mebibytes * MEBIBYTE,
                status=status(phase),
            )

        yield from bad_rows.keep(table, job, source)
