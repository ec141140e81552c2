"""The other jobs of a cluster: as much work as asked for, whatever the cluster and the longest job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.capacity.cluster_question import BackgroundJobs, background_jobs
from tests.case_counts import examples
from tests.simulator.clusters import racks
from topology.generate import minipods

CLUSTER = minipods(minipods=4, nodes=32)
GPUS = 256
"""GPUs of the cluster."""


def made(load: float = 0.9, *, seconds: float = 36_000.0, seed: int = 0, longest: float = 7_200.0) -> BackgroundJobs:
    """Ten hours of jobs of at most two hours on 256 GPUs."""
    return background_jobs(CLUSTER, load=load, seconds=seconds, seed=seed, longest=longest)


@examples(15)
@given(load=st.floats(0.2, 1.5), seed=st.integers(0, 100))
def test_the_load_is_what_was_asked(load: float, seed: int) -> None:
    """Jobs are kept until they ask for the load: with the last one at least it, without it less."""
    jobs = made(load, seed=seed)
    work = [record.gpus * record.duration / (GPUS * 36_000.0) for record in jobs.records]
    assert jobs.load == pytest.approx(sum(work))
    assert load <= jobs.load <= load + max(work)


def test_run_times_are_cut() -> None:
    """No job is longer than asked for, the load is the same all the same, and uncut ones are longer."""
    assert max(record.duration for record in made().records) == 7_200.0
    assert made().load == pytest.approx(0.9, abs=0.1)
    assert max(record.duration for record in made(longest=float("inf")).records) > 7_200.0


def test_jobs_come_in_time_and_in_order() -> None:
    """Submitted within the ten hours, sorted, with ids of their own, of at most a quarter of the cluster."""
    records = made().records
    times = [record.submit for record in records]
    assert times == sorted(times)
    assert 0.0 <= times[0] <= times[-1] <= 36_000.0
    assert len({record.job_id for record in records}) == len(records)
    assert max(record.gpus for record in records) <= GPUS / 4


def test_the_seed_decides() -> None:
    """Same seed, same jobs; another seed, others."""
    assert made(seed=3) == made(seed=3)
    assert made(seed=3) != made(seed=4)


def test_nodes_of_another_size() -> None:
    """The generator divides jobs over nodes of 8 GPUs; on nodes of 4 they are data parallel."""
    assert any(record.parallelism is not None for record in made().records)
    other = background_jobs(racks(64, gpus=4), load=0.9, seconds=36_000.0, seed=0)
    assert all(record.parallelism is None for record in other.records)
