"""The Slurm logs of Helios (SenseTime, 2020) and Acme (Shanghai AI Laboratory, 2023: clusters Seren and Kalos).

A row for each job, from submission to end: ``job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,
end_time,duration,queue``, where ``queue`` is the seconds that the job waited.  Helios adds ``vc``, the virtual cluster;
its dates have no zone, and more than half of its rows are jobs of CPUs alone.  Acme adds ``type`` instead (Pretrain,
Evaluation, ...; it becomes the group), ``gpu_time``, and in Kalos ``mem_per_pod_GB``; its dates have UTC offsets.

The run time of Helios is its column ``duration``.  That of Acme holds the wait in the example rows of Kalos (18 s for a
job that waited 10 and ran 8), against its description: there it is end_time - start_time, unless the column is asked
for as it is written (format ``acme-as-written``).

Sources: Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters", SC
2021, github.com/S-Lab-System-Group/HeliosData; Hu et al., "Characterization of Large Language Model Development in the
Datacenter", NSDI 2024, github.com/InternLM/AcmeTrace.
"""

from collections.abc import Iterator
from typing import ClassVar

from ground.files import ByteStream
from ground.formats import FileFormat
from ground.rows import BadRow, header_of, share
from simulator.job_record import JobRecord
from simulator.traces.cells import Clock, TraceRows, number, optional, record, status, whole
from simulator.traces.trace_loading import Cells, NamedColumns, Numbered

TIMES = ("start_time", "end_time", "queue")
"""Columns that tell these logs from our own table, which calls its GPUs otherwise."""

TOLERANCE = 1.0  # Seconds by which rounding may move a duration
GIGABYTE = 2.0**30

# Columns that one of the two has and the other has not
ONLY_HELIOS = ("vc",)
ONLY_ACME = ("type", "gpu_time")


class Helios(NamedColumns):
    """Reader of the Helios trace."""

    columns = ("job_id", "gpu_num", "node_num", "state", "submit_time", "duration")
    format = FileFormat(
        "helios",
        source="SenseTime Helios 2020 (SC 2021), a CSV: `job_id,user,vc,gpu_num,cpu_num,node_num,state,...`",
        export="`cluster_log.csv` of each cluster of github.com/S-Lab-System-Group/HeliosData",
        read="submission, start, run time, GPUs, nodes, user, virtual cluster, CPUs, state",
        left_out="jobs of CPUs alone, which are more than half",
        marks=(*columns, *TIMES, *ONLY_HELIOS),
    )
    trusts_duration: ClassVar[bool] = True
    """Whether the run time is the column ``duration``, also where it is not end_time - start_time."""

    def likeness(self, head: bytes) -> float:
        """Return the share of the columns that the header has; nothing when it has those of Acme."""
        header = header_of(head)
        return 0.0 if any(name in header for name in ONLY_ACME) else share(header, self.format.marks)

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        self._others = 0
        yield from super().read(source, bad_rows)
        if self._others:
            taken = "the column duration" if self.trusts_duration else "end_time - start_time"
            bad_rows.note(f"{self._others:,} jobs have a duration other than end_time - start_time: {taken} was taken.")

    def job(self, cells: Cells, clock: Clock) -> JobRecord:
        """Return the job of a row."""
        submit = clock.seconds(cells["submit_time"], "submit_time")
        start = clock.optional(cells.get("start_time"), "start_time")
        end = clock.optional(cells.get("end_time"), "end_time")
        if end is not None and end < submit:
            times = f"ends at {cells['end_time']} and is submitted at {clock.text(submit)}"
            fix = "give times in their order: submit_time, start_time, end_time"
            raise BadRow("submitted too late", f"job {cells['job_id']} {times}", fix=fix)
        if start is None and "start_time" in cells and not self.trusts_duration:
            raise BadRow("never ran", f"job {cells['job_id']} never started", fix="leave out jobs that never ran")
        count = whole(cells["node_num"], "node_num") if cells["node_num"] else None
        written = clock.optional_length(cells["duration"], "duration")
        between = None if start is None or end is None else end - start
        if written is not None and between is not None:
            self._others += abs(written - between) > TOLERANCE
        first, second = (written, between) if self.trusts_duration else (between, written)
        duration = second if first is None else first
        if duration is None:
            raise BadRow("has not ended", f"job {cells['job_id']} has not ended", fix="give its duration")
        return record(
            job_id=cells["job_id"],
            submit=submit,
            gpus=number(cells["gpu_num"], "gpu_num"),
            duration=duration,
            nodes=count,
            user=cells.get("user", ""),
            queue=cells.get("vc", ""),
            group=cells.get("type", ""),
            cpus=optional(cells.get("cpu_num"), "cpu_num"),
            memory=optional(cells.get("mem_per_pod_GB"), "mem_per_pod_GB", each=(count or 1) * GIGABYTE),
            status=status(cells["state"]),
            waited=None if start is None else start - submit,
        )


class Acme(Helios):
    """Reader of the Acme traces."""

    format = FileFormat(
        "acme",
        source="Shanghai AI Laboratory 2023 (NSDI 2024), a CSV: `job_id,user,node_num,gpu_num,...,type,...,gpu_time`",
        export="`trace_kalos.csv` and `trace_seren.csv` of github.com/InternLM/AcmeTrace",
        read="submission, start, end, GPUs, nodes, user, type as group, CPUs, memory, state",
        left_out="`duration`, which holds the wait, where start and end are there; jobs of CPUs alone",
        marks=(*Helios.columns, *TIMES, *ONLY_ACME),
    )
    trusts_duration = False

    def likeness(self, head: bytes) -> float:
        """Return the share of the columns that the header has; nothing without those that Helios has not."""
        header = header_of(head)
        return share(header, (*self.columns, *TIMES)) if any(name in header for name in ONLY_ACME) else 0.0


class AcmeAsWritten(Acme):
    """Reader of the Acme traces for those who want the run times of their column, wait and all."""

    format = FileFormat(
        "acme-as-written",
        source="the same files as `acme`, told by `--format` alone",
        export=Acme.format.export,
        read="as `acme`, but the run time is the column `duration`",
        left_out="jobs of CPUs alone",
    )
    trusts_duration = True

    def likeness(self, head: bytes) -> float:  # noqa: ARG002
        """Return that no file is recognised as this."""
        return 0.0
