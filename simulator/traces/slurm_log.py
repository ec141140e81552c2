"""What Helios and Acme have in common: a row for each job of a Slurm-like queue, from submission to end.

``job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue``, where ``queue`` is the
seconds that the job waited.  The run time is the column ``duration``, from which the published figures are made; a note
says how many jobs have another one than end_time - start_time (in the example rows of Kalos it includes the wait).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.records import JobRecord
from simulator.traces.cells import Clock, number, optional, record, status, whole
from simulator.traces.intake import BadRow, Intake
from simulator.traces.sifting import jobs_of
from simulator.traces.source import TraceSource
from simulator.traces.table import Table
from simulator.traces.types import Numbered

REQUIRED = ("job_id", "gpu_num", "node_num", "state", "submit_time", "duration")
TIMES = ("start_time", "end_time", "queue")
"""Columns that tell these logs from our own table, which calls its GPUs otherwise."""

COLUMNS = (*REQUIRED, *TIMES)
TOLERANCE = 1.0
"""Seconds by which rounding may move a duration."""

GIGABYTE = 2.0**30


class SlurmLog:
    """Rows of one file to jobs.

    :param queue: the column that becomes ``queue``: the virtual cluster.
    :param group: the column that becomes ``group``: the kind of job.
    """

    def __init__(self, table: Table, intake: Intake, *, format: str, queue: str, group: str) -> None:
        self._required = table.need(*REQUIRED, format=format)
        self._optional = {
            name: where
            for name in ("user", "cpu_num", "start_time", "end_time", "mem_per_pod_GB", queue, group)
            if name and (where := table.find(name)) is not None
        }
        self._queue, self._group = queue, group
        self._clock = Clock(intake)
        self._other_durations = 0

    def jobs(self, table: Table, source: TraceSource, intake: Intake) -> Iterator[Numbered]:
        """The jobs with their lines, in the order of the file."""
        yield from jobs_of(table.rows(), self._job, source=source, intake=intake)
        if self._other_durations:
            intake.note(
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
            queue=self._cell(cells, self._queue),
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
