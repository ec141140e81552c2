"""When a job starts behind others, against replays of all that would happen, by a simulator that anybody can check."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.job import Job, Parallelism
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.start_times import start_times
from simulator.start_forecast import QueueForecast
from tests.case_counts import examples
from tests.simulator.clusters import racks
from tests.simulator.naive import Naive, replay
from topology.cluster import Cluster
from topology.running_jobs import LiveJob, with_running

Gang = tuple[int, int, int]
"""Submission, duration and whole nodes of a job."""

GANGS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(1, 12)), min_size=1, max_size=20)


def check_state(nodes: int, gangs: Sequence[Gang], policy: str, *, each: int = 1) -> int:
    """Check of each job that waits when the last has come that it is foreseen to start when the replay lets it.

    :param each: of so many, where all would take long.
    :returns: how many wait.
    """
    gangs = sorted(gangs, key=lambda gang: gang[0])
    jobs = [Naive(number, *gang) for number, gang in enumerate(gangs)]
    starts = replay(jobs, nodes, policy)
    now = gangs[-1][0]
    free = [f"n{i}" for i in range(nodes)]
    running = [
        LiveJob(f"j{job.number}", tuple(free.pop() for _ in range(job.gpus)), "test", ends=job.end, ends_by="said")
        for job in jobs
        if job.start <= now < job.end
    ]
    queue = [job for job in jobs if job.start > now]
    cluster, _ = with_running(racks(nodes, per_rack=3, racks_per_pod=2), running)
    waiting = [LiveJob(f"j{job.number}", (), "test", wanted=job.gpus, seconds=job.duration) for job in queue]
    for place in range(0, len(queue), each):
        job = queue[place]
        asked = Job("asked", Parallelism(tp=8, dp=job.gpus), gpus_per_node=8, expected_hours=job.duration / 3600)
        forecast = QueueForecast(
            cluster, asked, running, [*waiting[:place], *waiting[place + 1 :]], now=now, place=place, policy=policy,
            solver=ALGORITHMS.load("exact"), limits=Limits(workers=1),
        )  # fmt: skip
        ends = {other.name: other.ends for other in running if other.ends is not None}
        assert forecast.start(ends, [other.seconds or inf for other in forecast.waiting]) == starts[job.number]
    return len(queue)


@pytest.mark.parametrize("policy", ["fifo", "fifo-backfill", "conservative-backfill"])
@given(gangs=GANGS)
@examples(60)
def test_the_start_is_that_of_the_replay(policy: str, gangs: list[Gang]) -> None:
    """Where run times are known and nobody comes, whatever is before it and behind."""
    check_state(12, gangs, policy)


def test_a_state_of_two_hundred_jobs() -> None:
    """Of 200 jobs on 64 nodes that came within 50 s, more than a hundred wait at the end: they start as replayed."""
    generator = random.Random(7)
    gangs = [
        (generator.randint(0, 50), generator.randint(5, 60), generator.choice([1, 1, 2, 4, 8, 16])) for _ in range(200)
    ]
    assert check_state(64, gangs, "fifo-backfill", each=15) > 100


def cluster_with(running: Sequence[LiveJob]) -> Cluster:
    """Return four nodes of 8 GPUs with jobs on them."""
    return with_running(racks(4, per_rack=2), running)[0]


def test_behind_jobs_with_limits_the_start_is_a_range() -> None:
    """All four nodes are taken for 100 s by one that ends then; the next takes all for up to 100 s, any part of it: the
    start lies between, the median about the middle, never before the first end.
    """
    running = [LiveJob("a", ("n0", "n1", "n2", "n3"), "test", ends=100.0, ends_by="said")]
    waiting = [LiveJob("b", (), "test", wanted=4, seconds=100.0)]
    cluster, job = cluster_with(running), Job("new", Parallelism(tp=8, dp=4), gpus_per_node=8)
    solver, limits = ALGORITHMS.load("exact"), Limits(workers=1)
    queue = QueueForecast(cluster, job, running, waiting, now=0.0, solver=solver, limits=limits)
    starts = start_times(cluster, job, running, now=0.0, solver=solver, limits=limits, queue=queue)
    assert 100.0 == starts.earliest < starts.p10 < 130.0 < starts.p50 < 170.0 < starts.p90 < 200.0


def test_without_a_limit_nobody_behind_is_told_a_start() -> None:
    """One that waits before it and may run for ever takes all nodes; one that wants more nodes than there are is
    another cluster's.
    """
    waiting = [LiveJob("b", (), "test", wanted=4), LiveJob("c", (), "test", wanted=5, seconds=1.0)]
    job = Job("new", Parallelism(tp=8, dp=1), gpus_per_node=8)
    queue = QueueForecast(
        cluster_with([]), job, [], waiting, now=0.0, solver=ALGORITHMS.load("exact"), limits=Limits(workers=1)
    )
    assert queue.start({}, [inf]) == inf
    assert queue.elsewhere == ["c"]
