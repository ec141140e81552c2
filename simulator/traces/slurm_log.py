"""The Slurm logs of Helios (SenseTime, 2020) and Acme (Shanghai AI Laboratory, 2023: clusters Seren and Kalos).

A row for each job, from submission to end: ``job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,
end_time,duration,queue``, where ``queue`` is the seconds that the job waited.  Helios adds ``vc``, the virtual cluster;
its dates have no zone, and more than half of its rows are jobs of CPUs alone.  Acme adds ``type`` instead (Pretrain,
Evaluation, ...; it becomes the group), ``gpu_time``, and in Kalos ``mem_per_pod_GB``; its dates have UTC offsets.

The run time is the column ``duration``, from which the published figures are made; a note says how many jobs have
another one than end_time - start_time (in the example rows of Kalos it includes the wait).

Sources: Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters", SC
2021, github.com/S-Lab-System-Group/HeliosData; Hu et al., "Characterization of Large Language Model Development in the
Datacenter", NSDI 2024, github.com/InternLM/AcmeTrace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.job_record import JobRecord
from simulator.traces.job_fields import Clock, number, optional, record, status, whole
from simulator.traces.trace_loading import Numbered
from topology.tables.bad_rows import BadRow, BadRows
from topology.tables.byte_stream import ByteStream
from topology.tables.text_rows import CsvRows, header_of, share

REQUIRED = ("job_id", "gpu_num", "node_num", "state", "submit_time", "duration")
TIMES = ("start_time", "end_time", "queue")
"""Columns that tell these logs from our own table, which calls its GPUs otherwise."""

COLUMNS = (*REQUIRED, *TIMES)
TOLERANCE = 1.0  # Seconds by which rounding may move a duration
GIGABYTE = 2.0**30

# Columns that one of the two has and the other has not
ONLY_HELIOS = ("vc",)
ONLY_ACME = ("type", "gpu_time")


class Helios:
    """Reader of the Helios trace."""

    name = "helios"
    summary = "a CSV with job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,...,duration,queue"

    def likeness(self, head: bytes) -> float:
        """Return the share of the columns that the header has; nothing when it has those of Acme."""
        header = header_of(head)
        return 0.0 if any(name in header for name in ONLY_ACME) else share(header, (*COLUMNS, *ONLY_HELIOS))

    def read(self, source: ByteStream, bad_rows: BadRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        return _SlurmLog(CsvRows(source, bad_rows), bad_rows, format=self.name, group="").jobs(source)


class Acme:
    """Reader of the Acme traces."""

    name = "acme"
    summary = "a CSV with job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,...,duration,queue,gpu_time"

    def likeness(self, head: bytes) -> float:
        """Return the share of the columns that the header has; nothing without those that Helios has not."""
        header = header_of(head)
        return share(header, COLUMNS) if any(name in header for name in ONLY_ACME) else 0.0

    def read(self, source: ByteStream, bad_rows: BadRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        return _SlurmLog(CsvRows(source, bad_rows), bad_rows, format=self.name, group="type").jobs(source)


class _SlurmLog:
    """Makes jobs of the rows of one file; ``group`` is the column that becomes the kind of job."""

    def __init__(self, table: CsvRows, bad_rows: BadRows, *, format: str, group: str) -> None:
        self._table = table
        self._bad_rows = bad_rows
        self._required = table.need(*REQUIRED, format=format)
        self._optional = {
            name: where
            for name in ("user", "cpu_num", "start_time", "end_time", "mem_per_pod_GB", "vc", group)
            if name and (where := table.find(name)) is not None
        }
        self._group = group
        self._clock = Clock(bad_rows)
        self._other_durations = 0

    def jobs(self, source: ByteStream) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        yield from self._bad_rows.keep(self._table, self._job, source)
        if self._other_durations:
            self._bad_rows.note(
                f"{self._other_durations:,} jobs have a duration other than end_time - start_time: "
                "the column duration was taken."
            )

    def _job(self, cells: Sequence[str]) -> JobRecord:
        job_id, gpus, nodes, state, submit, duration = (cells[i] for i in self._required)
        submitted = self._clock.seconds(submit, "submit_time")
        amount = number(gpus, "gpu_num")
        count = whole(nodes, "node_num") if nodes else None
        seconds = self._duration(cells, job_id, submitted, duration)
        memory = optional(self._cell(cells, "mem_per_pod_GB"), "mem_per_pod_GB")
        return record(
            job_id=job_id,
            submit=submitted,
            duration=seconds,
            gpus=amount,
            nodes=count,
            user=self._cell(cells, "user"),
            queue=self._cell(cells, "vc"),
            group=self._cell(cells, self._group),
            cpus=optional(self._cell(cells, "cpu_num"), "cpu_num"),
            memory=None if memory is None else memory * (count or 1) * GIGABYTE,
            status=status(state),
        )

    def _duration(self, cells: Sequence[str], job_id: str, submit: float, duration: str) -> float:
        start, end = self._cell(cells, "start_time"), self._cell(cells, "end_time")
        ended = self._clock.seconds(end, "end_time") if end else None
        if ended is not None and ended < submit:
            raise BadRow(
                "submitted too late",
                f"job {job_id} ends at {end} and is submitted at {self._clock.text(submit)}",
                fix="give times in their order: submit_time, start_time, end_time",
            )
        between = ended - self._clock.seconds(start, "start_time") if ended is not None and start else None
        if duration:
            seconds = number(duration, "duration")
            self._other_durations += between is not None and abs(seconds - between) > TOLERANCE
            return seconds
        if between is None:
            raise BadRow("has not ended", f"job {job_id} has not ended", fix="give its duration")
        return between

    def _cell(self, cells: Sequence[str], column: str) -> str:
        where = self._optional.get(column)
        return "" if where is None else cells[where]
