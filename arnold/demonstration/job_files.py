"""Jobs of the demo as files: job files, and traces of jobs in the words of other schedulers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from scheduler.job import Job
from simulator.traces.readers.own_tables import write_jobs
from simulator.traces.readers.slurm_accounting import COLUMNS
from topology.cluster import Cluster

if TYPE_CHECKING:
    from simulator.job_record import JobRecord

BEGIN = datetime(2026, 1, 5, 8, tzinfo=UTC)  # when the trace begins, where its times are dates

SMALL = {"a": (16, 8), "b": (12, 8), "new": (24, 8)}
"""Name -> DP and PP of smaller jobs: several at once, and one for which others move."""


def job_files(cluster: Cluster, job: Job) -> dict[str, str]:
    """Return job files by name, as a person would write them; what is left out has its default."""
    degrees = job.parallelism
    large = f"""\
name: {job.name}
gpus_per_node: {job.gpus_per_node}
parallelism: {{tp: {degrees.tp}, pp: {degrees.pp}, dp: {degrees.dp}}}
alpha: {job.alpha:<12} # affinity of data-parallel groups; pipeline groups get 1 - alpha
level: {cluster.level(job.level).name:<12} # the level of the network whose domains count
microbatches: {job.microbatches:<5} # of a pipeline in a step: how much a slow stage costs
"""
    small = {
        f"{name}.yaml": f"name: {name}\nparallelism: {{tp: 8, pp: {pp}, dp: {dp}}}\n"
        for name, (dp, pp) in SMALL.items()
    }
    return {"job.yaml": large, **small}


def job_traces(records: Sequence[JobRecord]) -> dict[str, str]:
    """Return a trace of jobs as Arnold writes it, as ``sacct`` prints it, and in columns of one's own."""
    return {
        # no columns of CPUs and memory, so that the file is one that a person can read and change
        "jobs.csv": write_jobs([replace(job, cpus=None, memory=None) for job in records]),
        "jobs.log": "\n".join([COLUMNS.replace(",", "|"), *map(_accounted, records), ""]),
        "mine.csv": "\n".join(["job_id,queued,duration,num_gpu", *map(_as_mine, records), ""]),
    }


def _accounted(job: JobRecord) -> str:
    """Return a job as a row of Slurm's accounting; it started at once."""
    begin = BEGIN + timedelta(seconds=job.submit)
    end, seconds = begin + timedelta(seconds=int(job.duration)), int(job.duration)
    nodes = job.nodes or max(1, -(-int(job.gpus) // 8))
    start, stop = (time.strftime("%Y-%m-%dT%H:%M:%S") for time in (begin, end))
    who = job.user or "someone", job.group or "research", job.queue or "gpu"
    asked = f"billing={int(job.gpus)},gres/gpu={int(job.gpus)},node={nodes}"
    cells = (job.job_id, *who, start, start, start, stop, seconds, "UNLIMITED", "COMPLETED", nodes, asked, "train")
    return "|".join(map(str, cells))


def _as_mine(job: JobRecord) -> str:
    queued = (BEGIN + timedelta(seconds=job.submit)).strftime("%d.%m.%Y %H:%M")
    return f"{job.job_id},{queued},{int(job.duration)},{int(job.gpus)}"
