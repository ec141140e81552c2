"""A node that came back after a test is tried by jobs that lose little if it fails again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from scheduler.job import Job, Parallelism
from scheduler.job_on_cluster import SMALL_JOB, before_it_goes
from topology.build import build_cluster
from topology.cluster import Node
from topology.flags import PROBATION, WARNING, NodeFlag

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("nodes", "interruptible", "price"),
    [(SMALL_JOB, False, 1.0), (2 * SMALL_JOB, False, WARNING), (2 * SMALL_JOB, True, 1.0)],
)
def test_small_and_interruptible_jobs_are_offered_it_first(nodes: int, interruptible: bool, price: float) -> None:
    """They have it at no price, a large job at that of a warning; what else is held against a node stays."""
    cluster = build_cluster(["rack"], [Node(f"n{i}", ("r",), 8, 8) for i in range(2 * SMALL_JOB + 2)])
    flags = [NodeFlag("n1", "straggler", 1.3, source="what-if")]
    flags.append(NodeFlag("n0", "degraded", WARNING, source=PROBATION))
    job = Job("j", Parallelism(tp=8, dp=nodes), gpus_per_node=8, interruptible=interruptible)
    assert before_it_goes(cluster.with_flags(flags), job, NOON).slowdown[:3].tolist() == [price, 1.3, 1.0]
