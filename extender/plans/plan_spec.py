"""What was asked of a plan, as its pods say it: all it takes to make the same job again."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from extender.gangs.gang_annotations import format_parallelism, parse_parallelism
from extender.gangs.pods_on_nodes import pods_of
from extender.plans.custom_resource import StoredPart, written
from scheduler.job import DEFAULT_SPREAD_COST, Avoid, Count, Hold, Job

OF_JOB = [
    "alpha",
    "level",
    "tp_level",
    "avoid",
    "holds",
    "counts",
    "gpu_types",
    "mix_types",
    "microbatches",
    "spread_cost",
]
"""Fields that a job has too, under the same names."""


class PlanSpec(StoredPart, frozen=True):
    """What was asked: all it takes to make the same :class:`~scheduler.job.Job` again."""

    dialect: str = ""
    size: int | None = None  # pods of the gang; None = no pod says
    # of each pod, 0 while the gang is not understood; it is called after the nodes since each pod had one
    gpus_per_pod: int = msgspec.field(default=0, name="gpusPerNode")
    # degrees, tp=8,cp=1,ep=1,dp=12,pp=8; None while the gang is not understood, as the rest
    parallelism: str | None = None
    order: str | None = None  # dimensions from the fastest running rank to the slowest
    alpha: float | None = None
    level: str | None = None
    tp_level: str | None = None  # whose domains hold a TP group of several nodes; None = no group takes several
    avoid: Avoid | None = None
    holds: tuple[Hold, ...] | None = None
    counts: tuple[Count, ...] = ()
    gpu_types: tuple[str, ...] | None = None  # that its nodes may have; None = any
    mix_types: bool = False  # whether they may have several of these
    microbatches: int | None = None
    spread_cost: float = DEFAULT_SPREAD_COST
    priority: int = written(0)

    @cached_property
    def gpus(self) -> int:
        """GPUs of the gang in all; 0 while it is not understood."""
        return parse_parallelism(self.parallelism).gpus if self.parallelism else 0

    @classmethod
    def of(cls, job: Job, *, dialect: str, priority: int) -> PlanSpec:
        """Return the spec that makes this job, whose cells are pods."""
        return cls(
            dialect=dialect,
            size=pods_of(job.parallelism, job.gpus_per_node),
            gpus_per_pod=job.gpus_per_node,
            parallelism=format_parallelism(job.parallelism),
            order=job.parallelism.order,
            priority=priority,
            **{name: getattr(job, name) for name in OF_JOB},
        )

    def job(self, name: str) -> Job | None:
        """Return the job that was asked for, a cell for each pod; ``None`` while the gang is not understood."""
        if not self.parallelism:
            return None
        degrees = parse_parallelism(self.parallelism, order=self.order)
        given: dict[str, Any] = {name: value for name in OF_JOB if (value := getattr(self, name)) is not None}
        return Job(name=name, parallelism=degrees, gpus_per_node=self.gpus_per_pod, **given)
