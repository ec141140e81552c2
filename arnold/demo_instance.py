"""The demonstration: the paper's largest setting, as a real cluster would be found on a working day."""

from __future__ import annotations

from scheduler.job import Job, Parallelism
from topology.cluster import Cluster
from topology.generate import flag_some, fragment, paper_cluster

BUSY = 0.3
"""Share of the nodes that other jobs use."""

FLAGGED = 12
"""Idle nodes that detectors call slow or faulty."""


def demo_instance(seed: int) -> tuple[Cluster, Job]:
    """Return more than 2,000 nodes in 22 minipods, fragmented, and the 9,600-GPU job of the Arnold paper.

    The job has 150 x 8 cells; alpha 0.3 is what the paper uses for its mixture of experts.
    """
    cluster = flag_some(fragment(paper_cluster("9600"), BUSY, seed), FLAGGED, seed)
    job = Job("llm-9600", Parallelism(tp=8, pp=8, dp=150), alpha=0.3, microbatches=64)
    return cluster, job
