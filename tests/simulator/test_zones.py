"""Algorithm 1: a zone is emptied in time for a large job that was announced."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.queue.arnold import Arnold, NoJct, NoReserve
from scheduler.queue.policy import QueuePolicy
from simulator.engine import Engine
from simulator.job_record import JobRecord
from tests.case_counts import cases, examples
from tests.simulator.clusters import racks
from tests.simulator.runs import finished, placed

ARRIVES, ANNOUNCED = 40.0, 20.0


def busy_trace(seed: int, *, preemptible: float = 0.0) -> list[JobRecord]:
    """Jobs of one node that keep 12 nodes busy for 60 s, none longer than the notice; and a large job of 8 nodes.

    Priorities are equal, so that only reservation and prediction matter.
    """
    rng = np.random.default_rng(seed)
    others = [
        JobRecord(
            f"j{i}", float(t), float(rng.integers(1, 18)), 8, nodes=1, preemptible=bool(rng.random() < preemptible)
        )
        for i, t in enumerate(np.sort(rng.integers(0, 60, 90)))
    ]
    large = JobRecord("large", ARRIVES, 30, 64, nodes=8, announced=ANNOUNCED)
    return sorted([*others, large], key=lambda record: record.submit)


def run_with(policy: QueuePolicy, records: list[JobRecord]) -> Engine:
    """A run on three racks of four nodes."""
    return finished(Engine(records, placed(racks(12)), policy))


@given(seed=st.integers(0, 10_000))
@examples(40)
def test_at_arrival_nobody_holds_a_node_of_the_zone(seed: int) -> None:
    """With exact predictions the large job starts the moment it comes, although the cluster is full all the time."""
    engine = run_with(Arnold(), busy_trace(seed))
    large = next(job for job in engine.jobs if job.record.job_id == "large")
    assert large.started == ARRIVES
    others = [job for job in engine.jobs if job is not large and job.started < ARRIVES < job.end]
    assert not {node for job in others for node in job.places} & set(large.places)


@given(seed=st.integers(0, 10_000))
@examples(20)
def test_the_zone_is_where_placement_puts_the_job_on_an_empty_cluster(seed: int) -> None:
    """Two whole racks of four, though they were full when it was announced."""
    large = next(job for job in run_with(Arnold(), busy_trace(seed)).jobs if job.record.job_id == "large")
    assert len({node // 4 for node in large.places}) == 2
    assert large.spread == (2, 1)


@given(seed=st.integers(0, 10_000))
@examples(20)
def test_preemptible_jobs_run_in_the_zone_until_the_large_job_comes(seed: int) -> None:
    """They are stopped for it, and it starts at once."""
    engine = run_with(Arnold(), busy_trace(seed, preemptible=0.5))
    large = next(job for job in engine.jobs if job.record.job_id == "large")
    assert large.started == ARRIVES
    assert all(job.preemptible for job in engine.jobs if job.runs)


@pytest.mark.many_cases
def test_without_a_zone_the_large_job_waits_and_without_prediction_the_others_do() -> None:
    """Over 20 seeds, in `make test` five: No-Reserve delays the large job; No-JCT starts it in time and leaves the zone
    idle before.
    """
    waits, idle = {}, {}
    for policy in (Arnold(), NoReserve(), NoJct()):
        engines = [run_with(policy, busy_trace(seed)) for seed in range(cases(20))]
        large = [job for engine in engines for job in engine.jobs if job.record.job_id == "large"]
        waits[policy.name] = np.mean([job.started - ARRIVES for job in large])
        idle[policy.name] = np.mean(
            [
                job.started - job.submitted
                for engine in engines
                for job in engine.jobs
                if ANNOUNCED <= job.submitted < ARRIVES and job.record.job_id != "large"
            ]
        )
    assert waits["arnold"] == waits["arnold-no-jct"] == 0
    assert waits["arnold-no-reserve"] > 0
    assert idle["arnold-no-reserve"] < idle["arnold"] < idle["arnold-no-jct"]


@pytest.mark.parametrize("policy", [Arnold(), NoReserve()], ids=lambda policy: policy.name)
def test_a_job_that_nobody_announced_is_one_like_all(policy: QueuePolicy) -> None:
    """No zone is made for it."""
    records = [JobRecord("a", 0, 5, 8, nodes=1), JobRecord("b", 1, 5, 64, nodes=8)]
    engine = run_with(policy, records)
    assert [job.started for job in engine.jobs] == [0, 1]
    assert not any(job.reservation for job in engine.jobs)


@pytest.mark.parametrize(("gpus", "nodes"), [(8, 1), (3, 1), (8, 2)])
def test_a_job_on_one_node_or_parts_of_nodes_gets_a_zone_too(gpus: int, nodes: int) -> None:
    """On two nodes: what ends too late stays outside, and where the zone is everything, it waits."""
    records = [
        JobRecord("long", 0, 200, 1),
        JobRecord("short", 1, 50, 8, nodes=1),
        JobRecord("large", 100, 10, gpus, nodes=nodes, announced=0),
    ]
    engine = finished(Engine(records, placed(racks(2)), Arnold()))
    long, short, large = engine.jobs
    assert (large.first_start, short.first_start) == (100, 1)
    # When the gang of two half nodes is there, its zone is given back, and the other halves are free.
    assert long.first_start == (0 if nodes == 1 else 100)
    assert nodes == 2 or not set(long.places) & set(large.places)
