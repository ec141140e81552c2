"""The demonstration: the paper's largest setting as found on a working day, and files to try every command on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ground.errors import InvalidInput
from scheduler.job import Job, Parallelism
from topology.cluster import Cluster
from topology.flags import HEALTHY
from topology.generate import flag_some, fragment, paper_cluster

if TYPE_CHECKING:
    from health.whatif.synthetic import Recipe
    from simulator.job_record import JobRecord

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
    """Return every file that the commands of README and docs use, by name; the cluster and the job come first.

    :param seed: of what is drawn: the trace of jobs, and noise.
    :raises InvalidInput: the cluster has too few healthy idle nodes for the traced job.
    """
    from arnold.demonstration.cluster_listings import cluster_listings
    from arnold.demonstration.job_files import job_files, job_traces
    from arnold.demonstration.measurements import TIMED, machine_metrics, step_times, timer_log
    from health.whatif.synthetic import Recipe, make_trace, trace_file
    from health.whatif.trace import metadata_file
    from topology.writers import TOPOLOGY_WRITERS

    # small enough for a file of a quarter of a megabyte, large enough for the analysis to be sure
    traced = Recipe(dp=8, pp=4, tp=8, microbatches=8, steps=10, slow={SLOW: SLOWDOWN})
    trace = make_trace(traced)
    nodes = _nodes_of_workers(cluster, job, traced)
    files: dict[str, str | bytes] = {
        "cluster.csv": TOPOLOGY_WRITERS.load("csv").write(cluster).text,
        **job_files(cluster, job),
        "trace.parquet": trace_file(trace),
        "meta.yaml": metadata_file(trace.sizes),
        "workers.csv": "\n".join(["dp,stage,node", *(f"{dp},{pp},{node}" for (dp, pp), node in nodes.items()), ""]),
        **job_traces(_jobs(cluster, seed)),
        **cluster_listings(cluster),
        "steps.csv": step_times(seed),
        "metrics.parquet": machine_metrics(list(nodes.values()), nodes[SLOW], seed),
        "train.log": timer_log(),
        "train.yaml": f"dp_size: {TIMED.dp}\npp_size: {TIMED.pp}\ntp_size: {TIMED.tp}\n",
    }
    return {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}


def _nodes_of_workers(cluster: Cluster, job: Job, traced: Recipe) -> Mapping[tuple[int, int], str]:
    """Return the node that each worker of the trace ran on, by DP rank and stage: healthy idle ones.

    They lie next to each other, those of the domain with most of them first, where a large job is placed as well.
    """
    healthy = np.flatnonzero(cluster.idle & (cluster.slowdown == HEALTHY))
    workers = [(rank, stage) for stage in range(traced.pp) for rank in range(traced.dp)]
    if len(healthy) < len(workers):
        raise InvalidInput(f"the cluster has {len(healthy)} healthy idle nodes; the traced job needs {len(workers)}")
    domain = cluster.level(job.level).domain_of[healthy]
    nodes = healthy[np.lexsort((healthy, domain, -np.bincount(domain)[domain]))]
    return {worker: cluster.names[node] for worker, node in zip(workers, nodes, strict=False)}


def _jobs(cluster: Cluster, seed: int) -> list[JobRecord]:
    """Return a trace of LLM jobs sized for what is free on the cluster.

    Evaluation jobs of one node and a minute are left out: there would be ten of them for every job that shows anything.
    """
    from simulator import workload
    from simulator.workload import WorkloadSpec

    spec = WorkloadSpec(
        days=DAYS,
        gpus=int(cluster.gpus[cluster.idle].sum()),
        load=LOAD,
        seed=seed,
        max_gpus=LARGEST,
        kinds=("other", "pretraining"),
    )
    return [replace(job, submit=float(round(job.submit))) for job in workload(spec)]
