"""Which nodes a gang may use, decided in one place for every algorithm.

A gang takes whole nodes: idle (no GPU in use), of the job's size, never faulty.  Slow nodes are admitted unless the job
says ``avoid: strict``; weighing them under ``avoid: price`` is the business of the algorithm that can, and it narrows
the admitted nodes with ``slowest``.  Hard constraints of a job (``holds``) concern groups, not nodes: they are no part
of this.
"""

from __future__ import annotations

from math import inf

import numpy as np
import numpy.typing as npt

from scheduler.job import Job
from topology.capacity import shortage_apart
from topology.cluster import Cluster
from topology.flags import FAULTY, HEALTHY, NodeFlag

BoolArray = npt.NDArray[np.bool_]


def admissible(cluster: Cluster, job: Job, *, slowest: float | None = None) -> BoolArray:
    """Return nodes that may host a cell of the job.

    :param slowest: admit nodes up to this slowdown, 1.0 = no flagged node; default by the job's ``avoid``: 1.0 when
        ``strict``, any otherwise.
    :returns: shape [nodes].
    """
    limit = _slowest(job) if slowest is None else slowest
    admitted: BoolArray = cluster.idle & (cluster.gpus == job.gpus_per_node) & (cluster.slowdown <= limit)
    return admitted


def flags_of_usable(cluster: Cluster, job: Job) -> tuple[NodeFlag, ...]:
    """Return flags of the nodes that the job could use if nothing were held against them, by node."""
    usable = (cluster.gpus == job.gpus_per_node) & (cluster.free_gpus == cluster.gpus)
    flagged = [flag for i, flag in cluster.flags.items() if usable[i] and flag.slowdown > HEALTHY]
    return tuple(sorted(flagged, key=lambda flag: flag.node))


def shortage(cluster: Cluster, job: Job) -> str:
    """Return why the job cannot fit whatever its shape: fewer admissible nodes than cells, and what holds the others.

    :returns: one sentence for the user; empty when there are enough nodes, in one trunk where nothing joins the trunks.
    :raises InvalidJob: the job cannot be cut into nodes.
    """
    admitted = admissible(cluster, job)
    free = int(admitted.sum())
    if free >= job.grid.cells:
        apart = shortage_apart(cluster, admitted, job.grid.cells)
        return apart and f"the job needs {job.grid.cells} free nodes of {job.gpus_per_node} GPUs {apart}"
    fits_size = cluster.gpus == job.gpus_per_node
    faulty = cluster.slowdown == FAULTY
    in_use = cluster.free_gpus != cluster.gpus
    whole_nodes = "" if fits_size.any() else ": ask for whole nodes"
    if whole_nodes and cluster.gpus_assumed:
        whole_nodes = f", which is assumed: give --gpus-per-node {job.gpus_per_node} if that is what they have"
    held = {
        f"with another number of GPUs{whole_nodes}": ~fits_size,
        "faulty": fits_size & faulty,
        "in use": fits_size & ~faulty & in_use,
        "flagged (avoid: strict)": fits_size & ~faulty & ~in_use & (cluster.slowdown > _slowest(job)),
    }
    others = ", ".join(f"{int(nodes.sum())} {why}" for why, nodes in held.items() if nodes.any())
    return (
        f"the job needs {job.grid.cells} free nodes of {job.gpus_per_node} GPUs, the cluster has {free} of "
        f"{len(cluster)}" + (f" ({others})" if others else "")
    )


def _slowest(job: Job) -> float:
    return HEALTHY if job.avoid == "strict" else inf
