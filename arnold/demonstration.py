"""The demonstration: the paper's largest setting as found on a working day, and files to try every command on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from scheduler.job import Job, Parallelism
from topology.cluster import Cluster
from topology.errors import InvalidInput
from topology.flags import HEALTHY
from topology.generate import flag_some, fragment, paper_cluster

if TYPE_CHECKING:
    from health.whatif.synthetic import Recipe

BUSY = 0.3  # Share of the nodes that other jobs use
FLAGGED = 12  # Idle nodes that detectors call slow or faulty
SLOW = (5, 2)  # The worker (DP rank, stage) that is slow in the trace
SLOWDOWN = 1.6
"""How much longer it computes: among the slowest that arXiv 2505.05713 injected and measured (1.16 to 2.03)."""

DAYS = 0.25  # Six hours of submissions: about a hundred jobs, replayed in seconds
LOAD = 1.3
"""GPU time that they ask for, as a share of what the free nodes have meanwhile: more than fits, so that jobs wait."""

LARGEST = 1024  # GPUs of the largest job: a tenth of the demo's free ones, so that several large jobs meet


def demo_instance(seed: int) -> tuple[Cluster, Job]:
    """Return more than 2,000 nodes in 22 minipods, fragmented, and the 9,600-GPU job of the Arnold paper.

    The job has 150 x 8 cells; alpha 0.3 is what the paper uses for its mixture of experts.
    """
    cluster = flag_some(fragment(paper_cluster("9600"), BUSY, seed), FLAGGED, seed)
    return cluster, Job("llm-9600", Parallelism(tp=8, pp=8, dp=150), alpha=0.3, microbatches=64)


def demo_files(cluster: Cluster, job: Job, seed: int) -> Mapping[str, bytes]:
    """Return files by name, the cluster and the job first.

    :param seed: of the trace of jobs.
    :raises InvalidInput: the cluster has too few healthy idle nodes for the traced job.
    """
    from health.whatif.synthetic import Recipe, make_trace, trace_file
    from health.whatif.trace import metadata_file
    from topology.writers import TOPOLOGY_WRITERS

    # small enough for a file of a quarter of a megabyte, large enough for the analysis to be sure
    traced = Recipe(dp=8, pp=4, tp=8, microbatches=8, steps=10, slow={SLOW: SLOWDOWN})
    trace = make_trace(traced)
    files: dict[str, str | bytes] = {
        "cluster.csv": TOPOLOGY_WRITERS.load("csv").write(cluster).text,
        "job.yaml": _job_file(cluster, job),
        "trace.parquet": trace_file(trace),
        "meta.yaml": metadata_file(trace.sizes),
        "workers.csv": _workers(cluster, job, traced),
        "jobs.csv": _jobs(cluster, seed),
    }
    return {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}


def _job_file(cluster: Cluster, job: Job) -> str:
    """Return the job as a person would write it; what is left out has its default."""
    degrees = job.parallelism
    return f"""\
name: {job.name}
gpus_per_node: {job.gpus_per_node}
parallelism: {{tp: {degrees.tp}, pp: {degrees.pp}, dp: {degrees.dp}}}
alpha: {job.alpha:<12} # affinity of data-parallel groups; pipeline groups get 1 - alpha
level: {cluster.level(job.level).name:<12} # the level of the network whose domains count
microbatches: {job.microbatches:<5} # of a pipeline in a step: how much a slow stage costs
"""


def _workers(cluster: Cluster, job: Job, traced: Recipe) -> str:
    """Return which node each worker of the trace ran on, as CSV: healthy idle nodes next to each other, those of the
    domain with most of them first, where a large job is placed as well.
    """
    healthy = np.flatnonzero(cluster.idle & (cluster.slowdown == HEALTHY))
    workers = [(rank, stage) for stage in range(traced.pp) for rank in range(traced.dp)]
    if len(healthy) < len(workers):
        raise InvalidInput(f"the cluster has {len(healthy)} healthy idle nodes; the traced job needs {len(workers)}")
    domain = cluster.level(job.level).domain_of[healthy]
    nodes = healthy[np.lexsort((healthy, domain, -np.bincount(domain)[domain]))]
    rows = [f"{rank},{stage},{cluster.names[node]}" for (rank, stage), node in zip(workers, nodes, strict=False)]
    return "\n".join(["dp,stage,node", *rows, ""])


def _jobs(cluster: Cluster, seed: int) -> str:
    """Return a trace of LLM jobs sized for what is free on the cluster.

    Evaluation jobs of one node and a minute are left out: there would be ten of them for every job that shows anything.
    """
    from simulator.traces.job_table_readers import write_jobs
    from simulator.workload import WorkloadSpec, generate

    spec = WorkloadSpec(
        days=DAYS,
        gpus=int(cluster.gpus[cluster.idle].sum()),
        load=LOAD,
        seed=seed,
        max_gpus=LARGEST,
        kinds=("other", "pretraining"),
    )
    # whole seconds, and no columns of CPUs and memory, so that the file is one that a person can read and change
    jobs = [replace(job, submit=float(round(job.submit)), cpus=None, memory=None) for job in generate(spec)]
    return write_jobs(jobs)
