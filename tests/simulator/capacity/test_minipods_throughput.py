"""Throughput of placed jobs: the model anchored on a quiet network, and by hand on links that are too narrow."""

from __future__ import annotations

import pytest

from scheduler.algorithm_run import run
from scheduler.job import Job
from scheduler.outcome import Outcome
from scheduler.placement.types import ALGORITHMS, Limits
from simulator.capacity.cluster_question import JobShape
from simulator.capacity.minipods import LEVEL, MODEL, SpreadJob, model_assumptions, throughput
from simulator.cost.step import COMM_MODELS, PlacedJob
from tests.simulator.capacity.clusters_in_use import with_free
from topology.cluster import Cluster

HALF = SpreadJob(6, ((0.2, 0.25),))
"""A job with one family that crosses: a fifth of its step inside a minipod, a quarter more between them."""


def placed(*free: int, rows: int = 2) -> tuple[Cluster, Job, Outcome]:
    """A job of rows of two stages on minipods with so many free nodes, where the exact algorithm puts it."""
    cluster = with_free(*free)
    job = JobShape(8, 2).job(rows, alpha=0.3, level=LEVEL)
    return cluster, job, run(ALGORITHMS.load("exact"), cluster, job, Limits(seconds=5.0, workers=1))


def test_a_job_inside_one_minipod_loses_nothing() -> None:
    """Whatever the links between minipods carry."""
    _, job, outcome = placed(4, 4)
    whole = SpreadJob.of(job, outcome)
    assert whole is not None
    assert whole.families == ()
    assert [throughput([whole], ratio=ratio, crossing=1.0) for ratio in (1.0, 2.0, 100.0)] == [1.0] * 3


@pytest.mark.parametrize(("ratio", "crossing"), [(1.0, 1.0), (2.0, 0.5), (8.0, 0.1)])
def test_wide_links_are_the_model(ratio: float, crossing: float) -> None:
    """Where what crosses has its bandwidth, a job keeps what the model ``anchored`` says."""
    cluster, job, outcome = placed(3, 3, rows=3)
    assert outcome.proposal.nodes is not None
    step = COMM_MODELS.load(MODEL).relative_step_time(PlacedJob(job, cluster, outcome.proposal.nodes))
    assert step > 1.0
    assert throughput([SpreadJob.of(job, outcome)], ratio=ratio, crossing=crossing) == pytest.approx(1.0 / step)


def test_narrow_links_by_hand() -> None:
    """4:1 with half of the bandwidth crossing: twice as long, 0.2 (2 * 1.25 - 1) = 0.3 of the step."""
    assert HALF.relative_step(1.0) == pytest.approx(1.05)
    assert throughput([HALF], ratio=4.0, crossing=0.5) == pytest.approx(1 / 1.3)
    kept = [throughput([HALF], ratio=ratio, crossing=0.5) or 0.0 for ratio in (1.0, 2.0, 4.0, 8.0)]
    assert kept == sorted(kept, reverse=True)


def test_jobs_weigh_by_their_nodes() -> None:
    """A job of 4 nodes that loses nothing and one of 6 that keeps 1 / 1.3; one without a place does not count."""
    jobs = [SpreadJob(4, ()), HALF, None]
    assert throughput(jobs, ratio=4.0, crossing=0.5) == pytest.approx((4 + 6 / 1.3) / 10)
    assert throughput([None], ratio=1.0, crossing=0.5) is None
    _, job, outcome = placed(1, 0)
    assert SpreadJob.of(job, outcome) is None


def test_assumptions_of_the_model() -> None:
    """Each line once, on one line; the model is named, and what crosses."""
    lines = model_assumptions("0.1..0.5")
    assert len(set(lines)) == len(lines)
    assert all("\n" not in line and "  " not in line for line in lines)
    assert any("anchored" in line for line in lines)
    assert any("0.1 to 0.5" in line for line in lines)
