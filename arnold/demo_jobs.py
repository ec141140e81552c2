"""The trace of jobs that ``arnold demo --save`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from topology.cluster import Cluster

DAYS = 0.25
"""Six hours of submissions: about a hundred jobs, replayed in seconds."""

LOAD = 1.3
"""GPU time that they ask for, as a share of what the free nodes have meanwhile: more than fits, so that jobs wait."""

LARGEST = 1024
"""GPUs of the largest job: a tenth of the demo's free ones, so that several large jobs meet."""


def demo_jobs(cluster: Cluster, seed: int) -> Mapping[str, str]:
    """Return files by name: ``jobs.csv``, a trace of LLM jobs sized for what is free on the cluster.

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
    # Whole seconds, and no columns of CPUs and memory, so that the file is one that a person can read and change.
    jobs = [replace(job, submit=float(round(job.submit)), cpus=None, memory=None) for job in generate(spec)]
    return {"jobs.csv": write_jobs(jobs)}
