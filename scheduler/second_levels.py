"""What a job names of a cluster: levels of the tree, and second hierarchies beside it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from scheduler.job import Job
from topology.cluster import SECOND, Cluster, Level


def named_in_full(job: Job, levels: Collection[str], beside: Collection[str]) -> Job:
    """Return a job whose constraints name second hierarchies with their ``@``: a label that was a level, and of which a
    domain cuts across the tree now, is still meant.

    :param levels: names of the levels of the tree; ``beside``: of the second hierarchies.
    """
    bare = {name.removeprefix(SECOND): name for name in beside if name.removeprefix(SECOND) not in levels}
    if bare.keys().isdisjoint(job.constrained_levels):
        return job
    holds = tuple(replace(hold, level=bare.get(hold.level, hold.level)) for hold in job.holds)
    return job.replace(
        holds=holds, counts=tuple(replace(count, level=bare.get(count.level, count.level)) for count in job.counts)
    )


def hierarchies_beside(cluster: Cluster, job: Job) -> tuple[Level, ...]:
    """Return the second hierarchies that the constraints of a job name."""
    named = set(job.constrained_levels)
    return tuple(level for level in cluster.second_levels if level.name in named)


def named_beside(cluster: Cluster, job: Job) -> str | None:
    """Return the first second hierarchy that a constraint of a job names; ``None`` = none does."""
    beside = {level.name for level in cluster.second_levels}
    return next((name for name in job.constrained_levels if name in beside), None)


def within_the_tree(cluster: Cluster, job: Job) -> Job:
    """Return a job without its constraints at second hierarchies, hard and soft; the job itself if it has none."""
    beside = {level.name for level in cluster.second_levels}
    return job if beside.isdisjoint(job.constrained_levels) else without_levels(job, beside)


def without_levels(job: Job, names: Collection[str]) -> Job:
    """Return a job without its constraints at some levels."""
    holds = tuple(hold for hold in job.holds if hold.level not in names)
    return job.replace(holds=holds, counts=tuple(count for count in job.counts if count.level not in names))


def closest_named(cluster: Cluster, job: Job) -> int:
    """Return the depth of the closest level of the tree that the objective or the constraints of a job look at."""
    job = within_the_tree(cluster, job)
    held = (hold.level for hold in job.holds_on(cluster))
    return max(cluster.level_index(name) for name in (job.level, *job.constrained_levels, *held))
