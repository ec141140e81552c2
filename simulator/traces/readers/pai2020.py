"""Alibaba's GPU trace of 2020, machine learning as a service: ``pai_task_table``, and ``pai_job_table`` behind it.

Source: Weng et al., "MLaaS in the Wild", NSDI 2022; github.com/alibaba/clusterdata, cluster-trace-gpu-v2020.  The
published CSV has no header line.  A job is the gang of its tasks that ask for GPUs: ``inst_num`` instances of
``plan_gpu`` hundredths of a GPU each.  Parameter servers and other tasks without GPUs do not count.

A job runs from the start of the first of its tasks to the end of the last.  When it was submitted, and by which user,
the job table says, ``job_name,inst_id,user,status,start_time,end_time``, which says nothing of GPUs: both tables may
follow each other in one file, in any order.  Without it a job is submitted when it starts (the median wait is 9 s, by
the summary that Acme gives of PAI).  Several instances that share GPUs hold the sum of their shares, rounded up to
whole GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ground.errors import TraceFormatError
from ground.files import ByteStream
from ground.formats import FileFormat
from ground.rows import BadRow, CsvRows, header_of, share
from simulator.job_record import JobRecord, Status
from simulator.traces.job_fields import number, optional, record, status, summed_shares
from simulator.traces.trace_clock import Clock, TraceRows
from simulator.traces.trace_loading import Numbered

HEADER = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type"
COLUMNS = tuple(HEADER.split(","))
JOB_COLUMNS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
STATES = frozenset({"Running", "Terminated", "Failed", "Waiting"})
PERCENT = 100
GIGABYTE = 2.0**30


@dataclass(slots=True)
class _Gang:
    """What the tasks of a job say together."""

    name: str
    shares: float = 0.0
    instances: float = 0.0
    start: float = math.inf
    end: float = -math.inf
    cpus: float = 0.0
    memory: float = 0.0
    status: Status = "completed"
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Launch:
    """What the job table says of a job."""

    submit: float | None
    user: str
    status: Status


class Pai2020:
    """Reader of the task table."""

    format = FileFormat(
        "pai2020",
        source=f"Alibaba PAI 2020 (NSDI 2022): `{HEADER}`, with or without header; `pai_job_table` may follow",
        export="`cat pai_task_table.csv pai_job_table.csv`, of github.com/alibaba/clusterdata, cluster-trace-gpu-v2020",
        read="tasks with GPUs as one gang; of the job table submission, user and status",
        left_out="tasks without GPUs; `gpu_type`; without the job table the wait (median 9 s) and the users",
    )

    def likeness(self, head: bytes) -> float:
        """Return whether the first line is the header, or a row as there is none."""
        header = header_of(head)
        if _is_row(header, COLUMNS) or _is_row(header, JOB_COLUMNS) or header == JOB_COLUMNS:
            return 1.0
        return share(header, COLUMNS)

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with the lines of their first tasks, in the order of the file."""
        first = header_of(source.head)
        given = _is_row(first, COLUMNS) or _is_row(first, JOB_COLUMNS) or first == JOB_COLUMNS
        table = CsvRows(source, bad_rows, header=COLUMNS if given else None, other_widths=(len(JOB_COLUMNS),))
        where = table.need(*COLUMNS[:-1], format=self.format.name)
        gangs: dict[str, tuple[int, _Gang]] = {}
        launched: dict[str, _Launch] = {}
        clock = Clock(bad_rows)

        def row(cells: list[str]) -> _Gang | None:
            if tuple(cells) in (COLUMNS, JOB_COLUMNS):
                return None
            if len(cells) != len(JOB_COLUMNS):
                return _gang([cells[i] for i in where], clock)
            launched[cells[0]] = _Launch(clock.optional(cells[4], "start_time"), cells[2], status(cells[3]))
            return None

        for line, gang in bad_rows.keep(table, row, source):
            if gang is not None:
                known = gangs.get(gang.name)
                gangs[gang.name] = (line, gang) if known is None else (known[0], _together(known[1], gang))
        if not gangs:
            fix = "give both tables: cat pai_task_table.csv pai_job_table.csv > pai.csv"
            raise TraceFormatError("is the job table alone, which says nothing of GPUs", where=source.at(1), fix=fix)
        yield from bad_rows.keep(gangs.values(), lambda gang: _job(gang, launched.get(gang.name)), source)


def _is_row(cells: Sequence[str], columns: Sequence[str]) -> bool:
    return len(cells) == len(columns) and cells[3] in STATES


def _gang(cells: Sequence[str], clock: Clock) -> _Gang:
    """Return a task as a gang of its own."""
    name, task, count, state, start, end, cpus, memory, gpus = cells
    instances = number(count, "inst_num") if count else 1.0
    percent = optional(gpus, "plan_gpu") or 0.0
    if percent <= 0:
        return _Gang(name)
    gang = _Gang(
        name,
        shares=instances * percent / PERCENT,
        instances=instances,
        cpus=instances * (optional(cpus, "plan_cpu") or 0.0) / PERCENT,
        memory=instances * (optional(memory, "plan_mem") or 0.0) * GIGABYTE,
        status=status(state),
    )
    if not start:
        gang.problem = f"task {task} of job {name} never ran"
    elif not end:
        gang.problem = f"task {task} of job {name} has not ended"
    else:
        gang.start, gang.end = clock.seconds(start, "start_time"), clock.seconds(end, "end_time")
    return gang


def _together(a: _Gang, b: _Gang) -> _Gang:
    """Return one gang of two tasks; failed when one of them is, completed when both are."""
    if not a.shares or not b.shares:
        return a if a.shares else b
    states = {a.status, b.status}
    return _Gang(
        a.name,
        shares=a.shares + b.shares,
        instances=a.instances + b.instances,
        start=min(a.start, b.start),
        end=max(a.end, b.end),
        cpus=a.cpus + b.cpus,
        memory=a.memory + b.memory,
        status="failed" if "failed" in states else a.status if len(states) == 1 else "unknown",
        problem=a.problem or b.problem,
    )


def _job(gang: _Gang, launch: _Launch | None) -> JobRecord:
    if gang.problem:
        reason = "never ran" if gang.problem.endswith("never ran") else "has not ended"
        raise BadRow(reason, gang.problem, fix="leave out jobs that did not run to their end")
    launch = launch or _Launch(None, "", gang.status)
    submit = gang.start if launch.submit is None else launch.submit
    if submit > gang.start:
        late = f"job {gang.name} is submitted at {submit:.15g} and starts at {gang.start:.15g}"
        raise BadRow("submitted too late", late, fix="give the job table of the same trace")
    return record(
        job_id=gang.name,
        submit=submit,
        duration=gang.end - gang.start,
        gpus=summed_shares(gang.shares, gang.instances),
        cpus=gang.cpus or None,
        memory=gang.memory or None,
        status=launch.status,
        user=launch.user,
        waited=None if launch.submit is None else gang.start - submit,
    )
