"""Alibaba's GPU traces, github.com/alibaba/clusterdata: of 2020 (PAI), 2023 (pods), 2025 (instances), 2026 (jobs).

2020, machine learning as a service, cluster-trace-gpu-v2020 (Weng et al., "MLaaS in the Wild", NSDI 2022):
``pai_task_table``, and ``pai_job_table`` behind it.  The published CSV has no header line.  A job is the gang of its
tasks that ask for GPUs: ``inst_num`` instances of ``plan_gpu`` hundredths of a GPU each.  Parameter servers and other
tasks without GPUs do not count.  A job runs from the start of the first of its tasks to the end of the last.  When it
was submitted, and by which user, the job table says, ``job_name,inst_id,user,status,start_time,end_time``, which says
nothing of GPUs: both tables may follow each other in one file, in any order.  Without it a job is submitted when it
starts (the median wait is 9 s, by the summary that Acme gives of PAI).  Several instances that share GPUs hold the sum
of their shares, rounded up to whole GPUs.

2023, pods of a shared cluster, cluster-trace-gpu-v2023 (Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing
Workloads with Fragmentation Gradient Descent", ATC 2023): the files ``openb_pod_list_*.csv``.  A pod is a job on one
node.  ``gpu_milli`` counts where ``num_gpu`` is 1: thousandths of a GPU that it shares.  It runs from
``scheduled_time`` to ``deletion_time``.  The quality of service becomes the queue; types of GPU are not told apart.

2025, instances of recommendation models, cluster-trace-gpu-v2025 (Yang et al., NSDI 2025), each on one node; and 2026,
jobs beside spot jobs, cluster-trace-v2026-spot-gpu (Duan et al., ASPLOS 2026).

All count seconds from the beginning of each trace.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from ground.errors import TraceFormatError
from ground.files import ByteStream
from ground.formats import FileFormat
from ground.rows import BadRow, CsvRows, header_of, share
from simulator.job_record import JobRecord, Status
from simulator.traces.cells import Clock, TraceRows, number, optional, record, status, summed_shares, whole
from simulator.traces.trace_loading import Cells, NamedColumns, Numbered

HEADER = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type"
COLUMNS = tuple(HEADER.split(","))
JOB_COLUMNS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
STATES = frozenset({"Running", "Terminated", "Failed", "Waiting"})
PERCENT = 100
GIBIBYTE = 2.0**30
MEBIBYTE = 2.0**20


class _Launch(NamedTuple):
    """What the job table says of a job."""

    submit: float | None
    user: str
    status: Status


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

    @classmethod
    def of_task(cls, cells: Sequence[str], clock: Clock) -> Self:
        """Return a task as a gang of its own; one without shares has no GPUs."""
        name, task, count, state, start, end, cpus, memory, gpus = cells
        instances = number(count, "inst_num") if count else 1.0
        percent = optional(gpus, "plan_gpu") or 0.0
        if percent <= 0:
            return cls(name)
        gang = cls(
            name,
            shares=instances * percent / PERCENT,
            instances=instances,
            cpus=instances * (optional(cpus, "plan_cpu") or 0.0) / PERCENT,
            memory=instances * (optional(memory, "plan_mem") or 0.0) * GIBIBYTE,
            status=status(state),
        )
        if not start:
            gang.problem = f"task {task} of job {name} never ran"
        elif not end:
            gang.problem = f"task {task} of job {name} has not ended"
        else:
            gang.start, gang.end = clock.seconds(start, "start_time"), clock.seconds(end, "end_time")
        return gang

    def joined(self, task: Self) -> Self:
        """Return one gang of this and a task; failed when one of them is, completed when both are."""
        if not self.shares or not task.shares:
            return self if self.shares else task
        states = {self.status, task.status}
        return type(self)(
            self.name,
            shares=self.shares + task.shares,
            instances=self.instances + task.instances,
            start=min(self.start, task.start),
            end=max(self.end, task.end),
            cpus=self.cpus + task.cpus,
            memory=self.memory + task.memory,
            status="failed" if "failed" in states else self.status if len(states) == 1 else "unknown",
            problem=self.problem or task.problem,
        )

    def job(self, launch: _Launch | None) -> JobRecord:
        """Return the job, launched as the job table says, if it says it.

        :raises BadRow: it did not run to its end, or began before it was submitted.
        """
        if self.problem:
            reason = "never ran" if self.problem.endswith("never ran") else "has not ended"
            raise BadRow(reason, self.problem, fix="leave out jobs that did not run to their end")
        launch = launch or _Launch(None, "", self.status)
        submit = self.start if launch.submit is None else launch.submit
        if submit > self.start:
            late = f"job {self.name} is submitted at {submit:.15g} and starts at {self.start:.15g}"
            raise BadRow("submitted too late", late, fix="give the job table of the same trace")
        return record(
            job_id=self.name,
            submit=submit,
            duration=self.end - self.start,
            gpus=summed_shares(self.shares, self.instances),
            cpus=self.cpus or None,
            memory=self.memory or None,
            status=launch.status,
            user=launch.user,
            waited=None if launch.submit is None else self.start - submit,
        )


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
        first = header_of(head)
        return 1.0 if _is_headless(first) else share(first, COLUMNS)

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with the lines of their first tasks, in the order of the file."""
        header = COLUMNS if _is_headless(header_of(source.head)) else None
        table = CsvRows(source, bad_rows, header=header, other_widths=(len(JOB_COLUMNS),))
        where = table.need(*COLUMNS[:-1], format=self.format.name)
        gangs: dict[str, tuple[int, _Gang]] = {}
        launched: dict[str, _Launch] = {}
        clock = Clock(bad_rows)

        def row(cells: list[str]) -> _Gang | None:
            if tuple(cells) in (COLUMNS, JOB_COLUMNS):
                return None
            if len(cells) != len(JOB_COLUMNS):
                return _Gang.of_task([cells[i] for i in where], clock)
            launched[cells[0]] = _Launch(clock.optional(cells[4], "start_time"), cells[2], status(cells[3]))
            return None

        for line, gang in bad_rows.keep(table, row, source):
            if gang is not None:
                first_line, before = gangs.get(gang.name, (line, None))
                gangs[gang.name] = first_line, gang if before is None else before.joined(gang)
        if not gangs:
            fix = "give both tables: cat pai_task_table.csv pai_job_table.csv > pai.csv"
            raise TraceFormatError("is the job table alone, which says nothing of GPUs", where=source.at(1), fix=fix)
        yield from bad_rows.keep(gangs.values(), lambda gang: gang.job(launched.get(gang.name)), source)


def _is_headless(first: Sequence[str]) -> bool:
    """Return whether the task table has no header, by the first line: a row of either table, or the other's header."""
    return first == JOB_COLUMNS or (len(first) in (len(COLUMNS), len(JOB_COLUMNS)) and first[3] in STATES)


MILLI = 1000


class Pai2023(NamedColumns):
    """Reader of the pod list."""

    columns = (
        *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "qos", "pod_phase"),
        *("creation_time", "deletion_time", "scheduled_time"),
    )
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

    def job(self, cells: Cells, clock: Clock) -> JobRecord:
        """Return the job of a row."""
        name, scheduled, deleted = cells["name"], cells["scheduled_time"], cells["deletion_time"]
        if not scheduled or not deleted:
            reason = "has not ended" if scheduled else "never ran"
            raise BadRow(reason, f"pod {name} {reason}", fix="leave out pods that did not run to their end")
        gpus = whole(cells["num_gpu"], "num_gpu")
        cores = optional(cells["cpu_milli"], "cpu_milli")
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
            memory=optional(cells["memory_mib"], "memory_mib", each=MEBIBYTE),
            status=status(cells["pod_phase"]),
            waited=start - submit,
        )


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

    def job(self, cells: Cells, clock: Clock) -> JobRecord:
        """Return the job of a row."""
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
        return record(
            job_id=cells["instance_sn"],
            submit=created,
            duration=ended - started,
            gpus=gpus,
            nodes=1,
            queue=cells["role"],
            group=cells["app_name"],
            cpus=optional(cells.get("cpu_request"), "cpu_request"),
            memory=optional(cells.get("memory_request"), "memory_request", each=GIBIBYTE),
            waited=started - created,
        )


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

    def job(self, cells: Cells, clock: Clock) -> JobRecord:
        """Return the job of a row."""
        workers, each = whole(cells["worker_num"], "worker_num"), number(cells["gpu_request"], "gpu_request")
        kind = cells["job_type"]
        return record(
            job_id=cells["job_name"],
            submit=clock.seconds(cells["submit_time"], "submit_time"),
            duration=clock.length(cells["duration"], "duration"),
            gpus=summed_shares(workers * each, workers),
            queue=kind,
            group=cells.get("organization", ""),
            cpus=optional(cells.get("cpu_request"), "cpu_request", each=workers),
            priority=int(kind.lower() == HIGH),
            preemptible=kind.lower() == SPOT,
        )
