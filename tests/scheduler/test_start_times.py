"""When a job starts and whom to stop, against all subsets and all ends of tiny clusters, counted apart."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.job import Hold, Job, NodeSize, Parallelism
from scheduler.job_on_cluster import before_it_goes
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.queue.run_times import RunTimeHistory
from scheduler.start_times import start_times, whom_to_stop
from simulator.job_record import JobRecord
from simulator.start_forecast import QueueForecast, run_times_of
from tests.case_counts import examples
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import NodeFlag
from topology.running_jobs import LiveJob, with_running

HOUR = 3600.0
NOW = 1e9  # seconds since 1970, any instant


def rack_cluster(racks: list[int]) -> Cluster:
    """Return nodes n0, n1, ... of 8 free GPUs, so many in each rack."""
    rows = [f"r{rack}" for rack, count in enumerate(racks) for _ in range(count)]
    return build_cluster(["rack"], [Node(f"n{i}", (rack,), 8, 8) for i, rack in enumerate(rows)])


def fits(racks: list[int], free: set[int], job: Job) -> bool:
    """Return whether the free nodes take the job, by trying all: where its PP groups are held, each in one rack."""
    rows, columns = job.grid.rows, job.grid.columns
    if not job.holds:
        return len(free) >= rows * columns
    rack_of = [rack for rack, count in enumerate(racks) for _ in range(count)]
    groups = [len([node for node in free if rack_of[node] == rack]) // columns for rack in range(len(racks))]
    return sum(groups) >= rows


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[int], list[LiveJob], Job]:
    """Draw up to 4 racks, up to 5 jobs on nodes of their own or halves of them, and a job with or without a hold."""
    racks = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    nodes = draw(st.permutations(range(sum(racks))))
    jobs, at = list[LiveJob](), 0
    for number in range(draw(st.integers(0, 5))):
        size = draw(st.integers(1, 3))
        own, at = nodes[at : at + size], at + size
        if not own:
            break
        for half in range(draw(st.sampled_from([1, 1, 2]))):
            ends = draw(st.sampled_from([None, 1, 2, 3]))
            jobs.append(
                LiveJob(
                    f"j{number}{half}",
                    tuple(f"n{node}" for node in own),
                    "test",
                    gpus=draw(st.sampled_from([4])) if half or draw(st.booleans()) else 4,
                    preemptible=draw(st.booleans()),
                    priority=draw(st.sampled_from([None, 1, 2, 3])),
                    started=draw(st.sampled_from([None, NOW - HOUR, NOW - 2 * HOUR, NOW - 5 * HOUR])),
                    last_checkpoint=draw(st.sampled_from([None, NOW - HOUR / 2])),
                    ends=None if ends is None else NOW + ends * HOUR,
                    ends_by="" if ends is None else "said",
                )
            )
    holds = (Hold("pp", "rack"),) if draw(st.booleans()) else ()
    degrees = Parallelism(tp=8, dp=draw(st.integers(1, 4)), pp=draw(st.integers(1, 3)))
    return racks, jobs, Job("new", degrees, gpus_per_node=8, holds=holds)


def free_without(racks: list[int], jobs: list[LiveJob], gone: set[str]) -> set[int]:
    """Return the nodes that no job is on but those that are gone."""
    busy = {int(name[1:]) for job in jobs if job.name not in gone for name in job.nodes}
    return set(range(sum(racks))) - busy


@given(question=questions(), priority=st.sampled_from([None, None, 2, 3, 9]))
@examples(1_000)
def test_nobody_can_lose_less(question: tuple[list[int], list[LiveJob], Job], priority: float | None) -> None:
    """The GPU-hours lost are the least of all subsets of jobs that may be stopped and say what they lose; for a job
    with a priority, of those of lower ones, of which the highest is the lowest that will do.
    """
    racks, jobs, job = question
    cluster, _ = with_running(rack_cluster(racks), jobs)
    stopping = whom_to_stop(
        cluster, job, jobs, now=NOW, priority=priority, solver=ALGORITHMS.load("exact"), limits=Limits()
    )
    lost = {
        other.name: (other.gpus or 8)
        * len(other.nodes)
        * (NOW - (other.last_checkpoint or other.started or 0.0))
        / HOUR
        for other in jobs
        if other.preemptible
        and (other.last_checkpoint or other.started)
        and (priority is None or (other.priority or 99) < priority)
    }
    rank = {other.name: 0.0 if priority is None else other.priority or 0.0 for other in jobs}
    least = min(
        (
            (max((rank[name] for name in chosen), default=0.0), sum(lost[name] for name in chosen))
            for size in range(len(lost) + 1)
            for chosen in combinations(lost, size)
            if fits(racks, free_without(racks, jobs, {*chosen}), job)
        ),
        default=None,
    )
    if least is None:
        assert (stopping.status, stopping.jobs) == ("infeasible", ())
    else:
        assert (stopping.status, stopping.stopped_at) == ("optimal", None)
        assert max((rank[other.name] for other in stopping.jobs), default=0.0) == least[0]
        assert stopping.gpu_hours == pytest.approx(least[1])
        assert stopping.bound == pytest.approx(least[1])
        assert {other.name for other in stopping.jobs} <= {*lost}
        assert fits(racks, free_without(racks, jobs, {other.name for other in stopping.jobs}), job)


@pytest.mark.parametrize(("small", "large", "stopped"), [(1.0, 0.4, ["l0"]), (0.1, 0.4, ["s0", "s1"])])
def test_whom_to_stop_on_nodes_of_several_sizes(small: float, large: float, stopped: list[str]) -> None:
    """Eight GPUs are two nodes of four or one of eight, whichever loses less: 0.4 hours of 8 GPUs are 3.2, an hour of
    two times 4 is 8.0, a tenth of that 0.8.
    """
    rows = [Node(f"n{i}", ("r",), 4, 4, gpu_type="A") for i in range(3)] + [Node("n3", ("r",), 8, 8, gpu_type="B")]
    jobs = [
        LiveJob(name, (f"n{i}",), "test", preemptible=True, last_checkpoint=NOW - ago * HOUR)
        for i, (name, ago) in enumerate([("s0", small), ("s1", small), ("s2", 9.0), ("l0", large)])
    ]
    cluster, _ = with_running(build_cluster(["rack"], rows), jobs)
    job = Job("new", Parallelism(tp=4, dp=2), gpus_per_node=4, node_sizes=(NodeSize("A", 4), NodeSize("B", 8)))
    stopping = whom_to_stop(cluster, job, jobs, now=NOW, solver=ALGORITHMS.load("exact"), limits=Limits())
    assert (stopping.status, [other.name for other in stopping.jobs]) == ("optimal", stopped)
    assert stopping.gpu_hours == pytest.approx(stopping.bound)


def test_time_limits_make_the_start_a_range() -> None:
    """Two jobs on all three nodes, with limits of an hour and of two: if both end at once it starts now, and one after
    another, each at any time before its limit, it starts before the later limit; never before it could.
    """
    jobs = [
        LiveJob("a", ("n0",), "test", started=NOW, ends=NOW + HOUR, ends_by="time limit"),
        LiveJob("b", ("n1", "n2"), "test", started=NOW, ends=NOW + 2 * HOUR, ends_by="time limit"),
    ]
    cluster, _ = with_running(rack_cluster([3]), jobs)
    job = Job("new", Parallelism(tp=8, dp=3), gpus_per_node=8)
    starts = start_times(cluster, job, jobs, now=NOW, solver=ALGORITHMS.load("exact"), limits=Limits())
    assert starts.earliest == NOW
    assert NOW < starts.p10 < starts.p50 < starts.p90 < NOW + 2 * HOUR
    assert starts.now.objective is None


def test_jobs_that_ended_say_how_long_those_alike_take() -> None:
    """Eight of ann's jobs on 24 GPUs took 40 to 90 minutes: one with a limit of a day that began 30 minutes ago ends
    within the hour, one whose end is said then; without a history nothing is known but the limit.
    """
    history = run_times_of(
        JobRecord(f"{i}", 0.0, minutes * 60.0, 24, nodes=3, user="ann", group="lab")
        for i, minutes in enumerate([40, 45, 55, 60, 60, 65, 80, 90])
    )
    cluster, job = rack_cluster([3]), Job("new", Parallelism(tp=8, dp=3), gpus_per_node=8)
    job_of_ann = LiveJob(
        "a", ("n0", "n1", "n2"), "test", owner="ann", group="lab", started=NOW - HOUR / 2, ends=NOW + 23.5 * HOUR,
        ends_by="time limit",
    )  # fmt: skip

    def half(other: LiveJob, past: RunTimeHistory | None = history) -> float:
        taken, _ = with_running(cluster, [other])
        solver, limits = ALGORITHMS.load("exact"), Limits(workers=1)
        starts = start_times(taken, job, [other], now=NOW, solver=solver, limits=limits, history=past)
        assert starts.p10 <= starts.p50 <= starts.p90
        return (starts.p50 - NOW) / HOUR

    assert 0.3 < half(job_of_ann) < 0.7
    assert half(replace(job_of_ann, ends_by="said")) == 23.5
    assert 8.0 < half(job_of_ann, None) < 16.0


@given(question=questions())
@examples(1_000)
def test_it_starts_at_the_first_end_at_which_it_fits(question: tuple[list[int], list[LiveJob], Job]) -> None:
    """Where all ends are said, all quantiles are the first instant at which the jobs left leave it room."""
    racks, jobs, job = question
    cluster, _ = with_running(rack_cluster(racks), jobs)
    starts = start_times(cluster, job, jobs, now=NOW, solver=ALGORITHMS.load("exact"), limits=Limits())
    first = next(
        (
            NOW + hour * HOUR
            for hour in range(4)
            if fits(
                racks,
                free_without(
                    racks, jobs, {other.name for other in jobs if other.ends and other.ends <= NOW + hour * HOUR}
                ),
                job,
            )
        ),
        inf,
    )
    assert (starts.earliest, starts.p10, starts.p50, starts.p90) == (first,) * 4
    assert (starts.now.objective is not None) == (first == NOW)
    if starts.later.objective is not None and starts.now.objective is not None:
        assert starts.later.objective <= starts.now.objective


@given(question=questions(), data=st.data())
@examples(300)
def test_nodes_in_maintenance_are_not_there(
    question: tuple[list[int], list[LiveJob], Job], data: st.DataObject
) -> None:
    """Where nodes are faulty for some hours, the start is the first hour at which it fits on those that are not so
    before it ends, whether a replay of an empty queue says it or the plain search; of one that does not say how long it
    runs, on those that are not so then.
    """
    racks, jobs, job = question
    hours = data.draw(st.sampled_from([None, 1, 2]))
    job = job.replace(expected_hours=hours)
    windows = data.draw(
        st.lists(st.tuples(st.integers(0, sum(racks) - 1), st.integers(-1, 4), st.integers(1, 3)), max_size=4)
    )
    flags = [
        NodeFlag(f"n{node}", "faulty", since=hour_of(begin), until=hour_of(begin + length))
        for node, begin, length in windows
    ]
    at = hour_of(0)
    cluster, _ = with_running(rack_cluster(racks), jobs)
    cluster = cluster.with_flags([flag for flag in flags if flag.active(at)]).replace(
        upcoming=tuple(flag for flag in flags if flag.since is not None and flag.since > at)
    )

    def room(hour: int) -> bool:
        gone = {other.name for other in jobs if other.ends and other.ends <= NOW + hour * HOUR}
        last = hour + (hours or 0)
        away = {node for node, begin, length in windows if begin <= max(last - 1, hour) and hour < begin + length}
        return fits(racks, free_without(racks, jobs, gone) - away, job)

    first = next((NOW + hour * HOUR for hour in range(9) if room(hour)), inf)
    solver, limits = ALGORITHMS.load("exact"), Limits(workers=1)
    queue = QueueForecast(cluster, job, jobs, [], now=NOW, solver=solver, limits=limits)
    for asked in (None, queue):
        starts = start_times(
            before_it_goes(cluster, job, at), job, jobs, now=NOW, solver=solver, limits=limits, queue=asked
        )
        assert starts.p50 == first


def hour_of(hour: int) -> datetime:
    """Return an instant so many hours from now."""
    return datetime.fromtimestamp(NOW + hour * HOUR, UTC)
