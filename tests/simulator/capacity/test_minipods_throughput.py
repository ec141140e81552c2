"""Throughput of placed jobs by the models of communication."""

from __future__ import annotations

import pytest

from scheduler.algorithm_run import run
from scheduler.placement.types import ALGORITHMS, Limits, Proposal
from simulator.capacity.job_shape import JobShape
from simulator.capacity.minipods_throughput import LEVEL, Placed, model_assumptions, throughput
from simulator.cost.hierarchical import hierarchical
from simulator.cost.types import PlacedJob
from tests.simulator.capacity.clusters_in_use import with_free


def placed(*free: int, rows: int = 2) -> Placed:
    """A job of rows of two stages on minipods with so many free nodes, where the exact algorithm puts it."""
    cluster = with_free(*free)
    job = JobShape(8, 2).job(rows, alpha=0.3, level=LEVEL)
    return cluster, job, run(ALGORITHMS.load("exact"), cluster, job, Limits(seconds=5.0, workers=1))


def test_a_job_inside_one_minipod_loses_nothing() -> None:
    """Whatever lies between minipods, measured or oversubscribed."""
    assert [throughput([placed(4, 4)], ratio) for ratio in (1.0, 2.0, 100.0, None)] == pytest.approx([1.0] * 4)


def test_one_job_is_its_model() -> None:
    """One over the predicted step time relative to a flat network; at 1:1 a little is lost where flows collide."""
    cluster, job, outcome = placed(3, 3, rows=3)
    assert outcome.proposal.nodes is not None
    step = hierarchical(oversubscription={LEVEL: 4.0}).relative_step_time(
        PlacedJob(job, cluster, outcome.proposal.nodes)
    )
    assert step > 1.0
    assert throughput([(cluster, job, outcome)], 4.0) == pytest.approx(1.0 / step)
    assert 1.0 / step < (throughput([(cluster, job, outcome)], 1.0) or 0.0) < 1.0


def test_jobs_weigh_by_their_nodes() -> None:
    """A job of 4 nodes that loses nothing and one of 6 that does: (4 + 6 t) / 10."""
    whole, apart = placed(4, 4), placed(3, 3, rows=3)
    alone = throughput([apart], 4.0)
    assert alone is not None
    assert throughput([whole, apart], 4.0) == pytest.approx((4 + 6 * alone) / 10)


def test_jobs_without_a_place_do_not_count() -> None:
    """Neither for nor against; where no job has one there is no throughput."""
    whole, nowhere = placed(4, 4), placed(1, 0)
    assert nowhere[2].proposal.nodes is None
    assert isinstance(nowhere[2].proposal, Proposal)
    assert throughput([whole, nowhere], 2.0) == pytest.approx(1.0)
    assert throughput([nowhere], 2.0) is None
    assert throughput([], None) is None


def test_assumptions_of_the_models() -> None:
    """Each line once, on one line, and both models are named."""
    lines = model_assumptions()
    assert len(set(lines)) == len(lines)
    assert all("\n" not in line and "  " not in line for line in lines)
    assert any("hierarchical" in line for line in lines)
    assert any("anchored" in line for line in lines)
