"""GPU-time is neither made nor lost, and no GPU is given twice."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import chain

import pytest
from hypothesis import given

from scheduler.queue.arnold import Arnold
from scheduler.queue.conservative import ConservativeBackfill
from scheduler.queue.fair_share import FairShare
from scheduler.queue.fifo_and_backfill import Fifo, FifoBackfill, ShortestFirst
from scheduler.queue.policy import QueuePolicy
from scheduler.queue.priority import PriorityAge, PriorityPreempt
from simulator.job_record import JobRecord
from simulator.sim_job import UNITS, JobState, SimJob
from tests.case_counts import examples
from tests.simulator.clusters import racks
from tests.simulator.drawn_traces import traces
from tests.simulator.runs import counted_run, placed_run, summary_of

POLICIES: list[QueuePolicy] = [
    *(Fifo(), FifoBackfill(), ConservativeBackfill(), ShortestFirst(), PriorityAge(), FairShare()),
    *(PriorityPreempt(), Arnold()),
]


def held(job: SimJob) -> Iterable[tuple[float, float]]:
    """Intervals in which a job had its GPUs, begin and end; one that still runs is left out."""
    return chain(job.runs, [(job.started, job.end)] if job.state is JobState.DONE else ())


def most_held(jobs: list[SimJob], *, node: int | None = None) -> int:
    """Most units held at one time, of all nodes or of one; at one instant releases come before starts."""
    changes = sorted(
        chain.from_iterable(
            [(begin, 1, units), (end, 0, -units)]
            for job in jobs
            if node is None or node in job.places
            for begin, end in held(job)
            for units in [job.units if node is None else job.gpus]
        )
    )
    most = now = 0
    for _, _, units in changes:
        now += units
        most = max(most, now)
    return most


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@given(records=traces())
@examples(25)
def test_no_gpu_is_given_twice_and_all_jobs_end(policy: QueuePolicy, records: list[JobRecord]) -> None:
    """Node by node (where no job was stopped, since only its last places are kept) and over the cluster."""
    engine = placed_run(racks(6, per_rack=3), records, policy)
    assert all(job.state is JobState.DONE for job in engine.jobs)
    assert most_held(engine.jobs) <= 6 * 8 * UNITS
    assert engine.cluster.pool.free.tolist() == [8 * UNITS] * 6
    if not any(job.runs for job in engine.jobs):
        for node in range(6):
            assert most_held(engine.jobs, node=node) <= 8 * UNITS


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@given(records=traces())
@examples(25)
def test_gpu_time_held_is_work_and_what_was_lost(policy: QueuePolicy, records: list[JobRecord]) -> None:
    """What jobs held is what they asked for, plus what ran before they were stopped (nothing of it is kept)."""
    engine = counted_run(racks(6), records, policy)
    work = sum((Fraction(job.units, UNITS) * Fraction(job.record.duration) for job in engine.jobs), Fraction())
    stopped = [(job.units, begin, end) for job in engine.jobs for begin, end in job.runs]
    lost = sum(
        (Fraction(units, UNITS) * (Fraction(end) - Fraction(begin)) for units, begin, end in stopped), Fraction()
    )
    exact = sum(
        Fraction(job.units, UNITS) * (Fraction(end) - Fraction(begin))
        for job in engine.jobs
        for begin, end in held(job)
    )
    assert exact == work + lost
    summary = summary_of(engine)
    if summary.makespan_seconds:
        # Each product of GPUs and seconds is rounded once, their sum once.
        room = Fraction(engine.cluster.pool.capacity, UNITS) * Fraction(summary.makespan_seconds)
        assert summary.utilization == pytest.approx(float(exact / room), rel=1e-12)


def test_utilization_of_a_full_cluster_is_one() -> None:
    """Jobs of the whole cluster back to back, of lengths that no float holds: exactly 1, and not a bit more."""
    records = [JobRecord(f"j{i}", 0.1, 0.1 + i / 7, 16, nodes=2) for i in range(50)]
    engine = placed_run(racks(2), records, Fifo())
    assert summary_of(engine).utilization == 1.0


@given(records=traces())
@examples(50)
def test_utilization_never_exceeds_one(records: list[JobRecord]) -> None:
    """Also where ends and starts coincide."""
    engine = counted_run(racks(6), records, FifoBackfill())
    utilization = summary_of(engine).utilization
    assert utilization is not None
    assert 0 < utilization <= 1
