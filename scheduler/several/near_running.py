"""A job placed near running ones that read the same data: what nodes cost it, and which nodes are left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ground.errors import did_you_mean
from scheduler.data_sets import near_shared_data
from scheduler.outcome import Instance
from scheduler.several.running_jobs import RunningJob, check_running, opened
from scheduler.subproblems.preferred_nodes import pulls_of


def near_running_jobs(instance: Instance, jobs: Sequence[RunningJob]) -> Instance:
    """Return the instance with the nodes of running jobs in use, where nodes cost less near those that read the same
    data.

    :raises ArnoldError: two running jobs have one node, or one breaks a rule of its job or the cluster.
    """
    cluster, job = instance.cluster, instance.job
    check_running(opened(cluster, jobs), jobs)
    free = cluster.free_gpus.copy()
    for one in jobs:
        free[one.nodes] = 0
    read = [name for one in jobs for name, _ in one.job.data_sets]
    unread = [name for name, _ in job.data_sets if name not in read]
    notes = tuple(f"No running job reads {name!r}{_meant(name, read)}." for name in unread)
    where = job.data_level or cluster.levels[-1].name
    reading = [(one.job.data_sets, one.nodes) for one in jobs]
    costs, near = pulls_of(cluster, job), near_shared_data(job.data_sets, cluster.level(where).domain_of, reading)
    if near.any():
        costs = -near if costs is None else costs - near
    return replace(instance, cluster=cluster.replace(free_gpus=free), notes=(*instance.notes, *notes), costs=costs)


def _meant(name: str, known: Sequence[str]) -> str:
    """Return a name that was probably meant, in words to put behind."""
    meant = did_you_mean(name, known)
    return f" ({meant.strip()})" if meant else ""
