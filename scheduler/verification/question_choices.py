"""Which nodes a placement can keep to: the choices that a certificate must rule out one by one."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from scheduler.job import Job
from scheduler.verification.counted_grid import usable
from topology.cluster import BoolArray, Cluster
from topology.flags import HEALTHY


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """Nodes of some types of GPU and of one size, in one trunk where nothing joins the trunks."""

    job: Job  # for these nodes
    gpu_types: tuple[str, ...]  # empty text = nodes of which no type is said
    trunk: int | None  # None = the whole cluster

    @property
    def speed(self) -> float:
        """Relative speed of the job, that of the slowest of the types."""
        return self.job.speed_on(self.gpu_types)

    def nodes(self, cluster: Cluster, slowest: float) -> BoolArray:
        """Return shape [nodes], those up to a slowdown."""
        return usable(cluster, self.job, slowest=slowest, trunk=self.trunk)

    def slowdowns(self, cluster: Cluster) -> tuple[float, ...]:
        """Return the slowdowns up to which the job may use nodes, ascending; under ``price`` each that a node has."""
        if self.job.avoid == "strict":
            return (HEALTHY,)
        if self.job.avoid == "ignore":
            return (inf,)
        found = np.unique(cluster.slowdown[self.nodes(cluster, inf)]).tolist()
        return (HEALTHY, *(one for one in found if one > HEALTHY))


def node_choices(cluster: Cluster, job: Job) -> tuple[NodeChoice, ...]:
    """Return choices such that every placement keeps to one of them, and is no faster than its speed.

    Where types may be mixed: for each speed all types at least as fast, as the slowest type in use sets the pace.
    """
    names = [name for name in cluster.gpu_types if job.gpu_types is None or name in job.gpu_types]
    sizes = {name: sizes_on(job, name) for name in names}
    found: dict[tuple[tuple[str, ...], int], None] = {}
    for name in names:
        for size in sizes[name]:
            if job.mix_types:
                several = tuple(
                    one for one in names if size in sizes[one] and job.speed_on([one]) >= job.speed_on([name])
                )
                found[several, size] = None
            else:
                found[(name,), size] = None
    trunks = [None] if cluster.trunks is None else range(len(cluster.trunks))
    return tuple(NodeChoice(job_on(job, types, size), types, trunk) for types, size in found for trunk in trunks)


def job_on(job: Job, gpu_types: tuple[str, ...], gpus_per_node: int) -> Job:
    """Return a job as one for nodes of some types and one size."""
    mixed = job.mix_types and len(gpu_types) > 1
    return job.replace(gpu_types=gpu_types, mix_types=mixed, gpus_per_node=gpus_per_node, node_sizes=())


def sizes_on(job: Job, gpu_type: str) -> tuple[int, ...]:
    """Return how many GPUs the job's nodes may have, if they are of a type."""
    return tuple(one.gpus for one in job.node_sizes if one.gpu_type == gpu_type) or (job.gpus_per_node,)
