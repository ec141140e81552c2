"""Files to try every command on: the demonstration's cluster and job, and the trace of a job with a slow worker."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from health.whatif.synthetic import Recipe, make_trace
from health.whatif.writer import metadata_file, trace_file
from scheduler.job import Job
from scheduler.objective import job_level
from topology.cluster import Cluster, IntArray
from topology.errors import InvalidInput
from topology.flags import HEALTHY
from topology.writers import TOPOLOGY_WRITERS

SLOW = (5, 2)
"""The worker (DP rank, stage) that is slow in the trace."""

SLOWDOWN = 1.6
"""How much longer it computes: among the slowest that arXiv 2505.05713 injected and measured (1.16 to 2.03)."""

TRACED = Recipe(dp=8, pp=4, tp=8, microbatches=8, steps=10, slow={SLOW: SLOWDOWN})
"""The traced job: small enough for a file of a quarter of a megabyte, large enough for the analysis to be sure."""


def demo_files(cluster: Cluster, job: Job) -> Mapping[str, str | bytes]:
    """Return files by name, the cluster and the job first.

    :raises InvalidInput: the cluster has too few healthy idle nodes for the traced job.
    """
    trace = make_trace(TRACED)
    return {
        "cluster.csv": TOPOLOGY_WRITERS.load("csv").write(cluster).text,
        "job.yaml": _job_file(cluster, job),
        "trace.parquet": trace_file(trace),
        "meta.yaml": metadata_file(trace.sizes),
        "workers.csv": _workers(cluster, job),
    }


def _job_file(cluster: Cluster, job: Job) -> str:
    """Return the job as a person would write it; what is left out has its default."""
    degrees = job.parallelism
    return f"""\
name: {job.name}
gpus_per_node: {job.gpus_per_node}
parallelism: {{tp: {degrees.tp}, pp: {degrees.pp}, dp: {degrees.dp}}}
alpha: {job.alpha:<12} # affinity of data-parallel groups; pipeline groups get 1 - alpha
level: {job_level(cluster, job).name:<12} # the level of the network whose domains count
microbatches: {job.microbatches:<5} # of a pipeline in a step: how much a slow stage costs
"""


def _workers(cluster: Cluster, job: Job) -> str:
    """Return which node each worker of the trace ran on, as CSV: healthy idle nodes, next to each other."""
    nodes = _fullest_domains_first(cluster, job)
    if len(nodes) < TRACED.dp * TRACED.pp:
        raise InvalidInput(
            f"the cluster has {len(nodes)} healthy idle nodes; the traced job needs {TRACED.dp * TRACED.pp}"
        )
    workers = [(rank, stage) for stage in range(TRACED.pp) for rank in range(TRACED.dp)]
    rows = [f"{rank},{stage},{cluster.names[node]}" for (rank, stage), node in zip(workers, nodes, strict=False)]
    return "\n".join(["dp,stage,node", *rows, ""])


def _fullest_domains_first(cluster: Cluster, job: Job) -> IntArray:
    """Return healthy idle nodes, those of the domain with most of them first: where a large job is placed as well."""
    healthy = np.flatnonzero(cluster.idle & (cluster.slowdown == HEALTHY))
    domain = job_level(cluster, job).domain_of[healthy]
    return healthy[np.lexsort((healthy, domain, -np.bincount(domain)[domain]))].astype(np.int32)
