"""The files of ``--running``: where jobs run, as ``arnold place --output`` saved it of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from glob import glob
from typing import TYPE_CHECKING

from topology.errors import InvalidInput, did_you_mean
from topology.files import read_source

if TYPE_CHECKING:
    from scheduler.outcome import Instance
    from scheduler.several.running_jobs import RunningJob
    from topology.cluster import Cluster, FloatArray


def running_files(patterns: Sequence[str]) -> list[str]:
    """Return the files that patterns name, each once, in order.

    :raises InvalidInput: a pattern names none.
    """
    files: list[str] = []
    for pattern in patterns:
        matches = sorted(glob(pattern))  # noqa: PTH207  (a pattern may begin with /, which Path.glob refuses)
        found = matches or ([] if any(sign in pattern for sign in "*?[") else [pattern])
        if not found:
            fix = "name the files that `arnold place --output` saved"
            raise InvalidInput("no file has such a name", where=f"--running {pattern}", fix=fix)
        files += found
    return list(dict.fromkeys(files))


def running_job(file: str, cluster: Cluster, *, with_age: bool = False) -> RunningJob:
    """Read where a job runs.

    :raises ArnoldError: the file is unusable, or says not how old the checkpoint is where that is needed.
    """
    from scheduler.job_files.placementfile import load_placement
    from scheduler.several.running_jobs import RunningJob

    saved = load_placement(read_source(file), cluster)
    if with_age and saved.checkpoint_age is None:
        fix = "add checkpoint_age, the seconds since its last checkpoint, or use --moves"
        raise InvalidInput(f"nothing says how old the checkpoint of {saved.job.name!r} is", where=file, fix=fix)
    return RunningJob(file, saved.job, saved.nodes, saved.checkpoint_age, saved.place_of)


def near_running_jobs(patterns: Sequence[str], instance: Instance) -> tuple[FloatArray | None, Instance]:
    """Return what nodes cost, shape [nodes] or ``None``, less near running jobs that read the same data; and the
    instance with the nodes of all running jobs in use.

    :raises ArnoldError: a file is unusable, or two jobs have one node.
    """
    from scheduler.data_sets import near_shared_data
    from scheduler.preferred_nodes import pulls_of
    from scheduler.several.running_jobs import check_running, opened

    cluster, job = instance.cluster, instance.job
    jobs = [running_job(file, cluster) for file in running_files(patterns)]
    without_them = opened(cluster, jobs)
    check_running(without_them, jobs)
    free = cluster.free_gpus.copy()
    for one in jobs:
        free[one.nodes] = 0
    read = [name for one in jobs for name, _ in one.job.data_sets]
    unread = [name for name, _ in job.data_sets if name not in read]
    notes = tuple(f"No running job reads {name!r}{_near(name, read)}." for name in unread)
    where = job.data_level or cluster.levels[-1].name
    reading = [(one.job.data_sets, one.nodes) for one in jobs]
    costs, near = pulls_of(cluster, job), near_shared_data(job.data_sets, cluster.level(where).domain_of, reading)
    if near.any():
        costs = -near if costs is None else costs - near
    return costs, replace(instance, cluster=cluster.replace(free_gpus=free), notes=(*instance.notes, *notes))


def _near(name: str, known: Sequence[str]) -> str:
    """Return a name that was probably meant, in words to put behind."""
    meant = did_you_mean(name, known)
    return f" ({meant.strip()})" if meant else ""
