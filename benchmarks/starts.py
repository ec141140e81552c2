"""``arnold explain --when`` against replays: when it says that jobs start which have to wait, and when they do.

Each node is one GPU, or one core where jobs have no GPUs, so that a job of any size is a gang.  The replay goes on with
the jobs that come later, which the prediction does not know; it is asked when a job comes that has to wait, in the
second half of the trace, of all that do as many as are asked for, in equal steps.  Three predictions: by the true run
times, by the limits of users where the trace has some, and by the history of jobs that ended before.  The traces are
read from the folder that ``ARNOLD_DATA`` names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.public_data import public_data
from benchmarks.report import section, table
from ground.quantities import HOUR
from scheduler.job import Job, Parallelism
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.queue.policy import POLICIES
from scheduler.queue.run_times import Prediction
from scheduler.start_times import start_times
from simulator.engine import Engine
from simulator.job_record import JobRecord
from simulator.pools import NodePool
from simulator.sim_job import SimJob
from simulator.start_forecast import QueueForecast, run_times_of
from simulator.traces import read_trace
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.running_jobs import LiveJob, with_running

TRACES = {
    "Philly": ("philly", "philly.csv.gz"),
    "EASY log of 800 jobs (SWF)": ("real", "swf_evalys", "easy_mediumWL_smallPF.swf"),
    "Slurm log of 600 jobs (sacct)": ("real", "sacct", "phillips_part1.txt"),
}
POLICY = "fifo-backfill"
LOAD = 0.95  # GPU-seconds of the jobs, of those that there are
JOBS = 4_000  # of a trace, from its middle on


@dataclass(frozen=True, slots=True)
class Asked:
    """A prediction and what became of it; seconds from the submission."""

    p10: float
    p50: float
    p90: float
    start: float


def report(*, most: int) -> str:
    """Return the table of all traces; ``most``: predictions of each trace and kind."""
    rows = []
    for name, parts in TRACES.items():
        read = _read(public_data(*parts))
        middle = max(0, len(read) // 2 - JOBS // 2)
        past = read[:middle]
        records = [replace(record, parallelism=None, nodes=None) for record in read[middle : middle + JOBS]]
        for kind in ("true run times", "limits", "history"):
            if kind == "limits" and any(record.estimate is None for record in records):
                continue
            rows.append((name, kind, *_row(predictions(records, kind, past=past, most=most))))
    headers = ["trace", "run times by", "asked", "within a minute", "within P10 and P90", "median error", "median wait"]
    return section("Predicted starts", table(headers, rows))


def _read(file: Path) -> Sequence[JobRecord]:
    """Return the jobs of a trace, with their cores for GPUs where they have none of these."""
    if file.suffix != ".txt":
        return read_trace(file, lenient=True).records
    with TemporaryDirectory() as folder:
        cores = Path(folder) / file.name
        cores.write_text(
            re.sub(r"\|(?:billing=\d+,)?cpu=(\d+)", r"|cpu=\1,gres/gpu=\1", file.read_text(encoding="utf-8"))
        )
        return read_trace(cores, lenient=True).records


def _row(asked: Sequence[Asked]) -> tuple[str, ...]:
    told = [question for question in asked if question.p50 < inf]
    errors = [abs(question.p50 - question.start) for question in told]
    exact = sum(error < 60.0 for error in errors)
    inside = sum(question.p10 - 1.0 <= question.start <= question.p90 + 1.0 for question in told)
    return (
        f"{len(asked)}",
        f"{exact / max(1, len(asked)):.0%}",
        f"{inside / max(1, len(asked)):.0%}",
        f"{np.median(errors or [inf]) / 60.0:,.0f} min",
        f"{np.median([question.start for question in asked]) / 60.0:,.0f} min",
    )


def predictions(records: Sequence[JobRecord], kind: str, *, past: Sequence[JobRecord], most: int) -> list[Asked]:
    """Replay jobs by EASY backfilling, and ask about some of those that have to wait.

    :param past: jobs that came before them.
    """
    span = records[-1].submit - records[0].submit
    work = sum(ceil(record.gpus) * record.duration for record in records)
    count = max(ceil(work / span / LOAD), *(ceil(record.gpus) for record in records))
    cluster = build_cluster(["rack"], [Node(f"n{i}", (f"r{i // 16}",), 1, 1) for i in range(count)])
    told = {
        record.job_id: Prediction(seconds, seconds, seconds)
        for record in records
        for seconds in [record.estimate if kind == "limits" and record.estimate else record.duration]
    }
    engine = _replay(records, cluster, told)
    waits = [job.key for job in _waiting(engine)]
    chosen = {*waits[:: ceil(len(waits) / most)]}
    engine = _replay(records, cluster, told)
    questions = {job.key: _ask(engine, cluster, job, kind, past) for job in _waiting(engine) if job.key in chosen}
    asked = [(engine.jobs[key], times) for key, times in questions.items()]
    return [Asked(*(time - job.submitted for time in (*times, job.first_start))) for job, times in asked]


def _replay(records: Sequence[JobRecord], cluster: Cluster, told: Mapping[str, Prediction]) -> Engine:
    pool = NodePool(cluster, algorithm=ALGORITHMS.load("gpu-packing"), limits=Limits(workers=1))
    return Engine(records, pool, POLICIES.load(POLICY), predictions=told)


def _waiting(engine: Engine) -> Iterator[SimJob]:
    """Make a run, and yield each job of its second half that has to wait, at the moment in which it comes."""
    seen = 0
    while not engine.over:
        engine.step()
        for job in engine.jobs[seen : engine.arrived]:
            if not job.places and job.end == inf and job.key > len(engine.jobs) // 2:
                yield job
        seen = engine.arrived


def _ask(
    engine: Engine, cluster: Cluster, job: SimJob, kind: str, past: Sequence[JobRecord]
) -> tuple[float, float, float]:
    """Return the range of the start of a job that has just come, by the state of the replay."""
    now, names = engine.clock.now, cluster.names

    def limit(other: SimJob) -> float:
        return other.record.estimate or other.record.duration if kind == "limits" else other.record.duration

    running = [
        LiveJob(
            f"{other.key}", tuple(names[node] for node in other.places), "replay", gpus=1, owner=other.record.user,
            group=other.record.group or other.record.queue, started=other.started, ends=other.started + limit(other),
            ends_by="said" if kind == "true run times" else "time limit",
        )
        for other in engine.cluster.active.values()
    ]  # fmt: skip
    if kind == "history":
        running = [replace(other, ends=None, ends_by="") for other in running]
    behind = POLICIES.load(POLICY)
    queue = sorted((other for other in engine.cluster.backlog if other is not job), key=behind.rank)
    place = sum(behind.rank(other) < behind.rank(job) for other in queue)
    waiting = [
        LiveJob(
            f"{other.key}", (), "replay", gpus=1, owner=other.record.user,
            group=other.record.group or other.record.queue, wanted=other.nodes,
            seconds=None if kind == "history" else limit(other), ends_by="said" if kind == "true run times" else "",
        )
        for other in queue
    ]  # fmt: skip
    state, _ = with_running(cluster, running)
    asked = Job("asked", Parallelism(tp=1, dp=job.nodes), gpus_per_node=1, expected_hours=limit(job) / HOUR, alpha=0.5)
    solver, limits = ALGORITHMS.load("exact"), Limits(workers=1)
    forecast = QueueForecast(state, asked, running, waiting, now=now, solver=solver, limits=limits, place=place)
    history = None
    if kind == "history":
        history = run_times_of([*past, *(other.record for other in engine.jobs if other.end <= now)])
    starts = start_times(state, asked, running, now=now, solver=solver, limits=limits, queue=forecast, history=history)
    return starts.p10, starts.p50, starts.p90
