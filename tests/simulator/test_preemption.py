"""Gangs that take the nodes of others: whose, what is left of their work, and where they lie then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.queue.priority import PriorityPreempt
from simulator.engine import Engine
from simulator.hooks import Why
from simulator.job_record import JobRecord
from simulator.pools import Found
from simulator.sim_job import JobState, SimJob
from tests.case_counts import examples
from tests.simulator.clusters import racks
from tests.simulator.drawn_traces import traces
from tests.simulator.runs import finished, placed, placed_run
from tests.simulator.test_incidents_and_pace import EverySecond

HIGH = JobRecord("high", 10, 50, 16, nodes=2, priority=1)


def low(name: str, submit: float, nodes: int = 1) -> JobRecord:
    """A job that may be stopped."""
    return JobRecord(name, submit, 100, 8 * nodes, nodes=nodes, preemptible=True)


def log_of(engine: Engine) -> list[tuple[float, str, SimJob]]:
    """Starts and stops of a run to come, written as they happen: time, what, and the job."""
    events: list[tuple[float, str, SimJob]] = []
    cluster = engine.cluster
    start, stop = cluster.start, cluster.stop

    def started(job: SimJob, found: Found) -> None:
        events.append((cluster.now, "start", job))
        start(job, found)

    def cut(job: SimJob, why: Why) -> None:
        events.append((cluster.now, "stop", job))
        stop(job, why)

    cluster.start, cluster.stop = started, cut  # type: ignore[method-assign]
    return events


def stopped(jobs: Sequence[SimJob]) -> list[str]:
    """Names of the jobs that were."""
    return [job.record.job_id for job in jobs if job.runs]


def test_a_gang_takes_one_rack_where_that_costs_little_more() -> None:
    """Four nodes in two racks, a job on each, which came at 0, 1, 2 and 6.  At 10 the two cheapest have lost 8 + 4 s
    and lie in one rack; with 0, 6, 2, 6 they lie in two, and 8 + 4 s in one rack are not above twice 4 + 4 s.
    """
    for times, expected in (((0, 1, 2, 6), ["c", "d"]), ((0, 6, 2, 6), ["c", "d"]), ((0, 9, 0, 9), ["b", "d"])):
        order = sorted(zip(times, "abcd", strict=True))
        records = [low(name, time) for time, name in order]
        engine = Engine([*records, HIGH], placed(racks(4, per_rack=2)), PriorityPreempt())
        # each on its own node, by name
        for place, (_, name) in enumerate(order):
            engine.jobs[place].places = ("abcd".index(name),)
        taken = placed_by_hand(engine)
        assert sorted(stopped(taken.jobs)) == expected


def placed_by_hand(engine: Engine) -> Engine:
    """Run to the end, with the places of single nodes as given beforehand when they start first."""
    places = {job.key: job.places for job in engine.jobs if job.places}
    find = engine.cluster.pool.find

    def by_hand(job: SimJob, keep: object) -> Found | None:
        if job.key in places:
            return Found(tuple(places.pop(job.key)))
        return find(job, keep)  # type: ignore[arg-type]

    engine.cluster.pool.find = by_hand  # type: ignore[method-assign]
    return finished(engine)


def test_who_is_stopped_goes_on_from_the_last_checkpoint() -> None:
    """Stopped at 10.5 with 10 s saved; when the other has ended at 60.5, 3 s to restart and 90 s of work."""
    record = replace(HIGH, submit=10.5)
    engine = placed_run(racks(2), [low("low", 0, nodes=2), record], PriorityPreempt(), recovery=EverySecond())
    first = engine.jobs[0]
    assert (first.runs, first.started, first.end) == ([(0, 10.5)], 60.5, 153.5)


def test_least_work_since_the_last_checkpoint_counts() -> None:
    """At 10.5 the job of 0 s has lost half a second, that of 5.75 s three quarters: the older is stopped."""
    records = [low("old", 0), low("young", 5.75), JobRecord("high", 10.5, 5, 8, nodes=1, priority=1)]
    engine = placed_run(racks(2), records, PriorityPreempt(), recovery=EverySecond())
    assert stopped(engine.jobs) == ["old"]


@given(records=traces(), drain=st.sampled_from([None, 30.0]))
@examples(25)
def test_only_lower_and_willing_jobs_are_stopped_and_for_one_that_starts(
    records: list[JobRecord], drain: float | None
) -> None:
    """Whenever jobs are stopped, one of higher priority than each of them starts; at that instant, or on a live cluster
    when they have left.  All work is done in the end, however often it was lost.
    """
    engine = Engine(records, placed(racks(6, per_rack=3)), PriorityPreempt(), drain_seconds=drain)
    events = log_of(engine)
    finished(engine)
    assert all(job.state is JobState.DONE for job in engine.jobs)
    assert all(job.end - job.started == job.record.duration for job in engine.jobs)
    for time, what, job in events:
        if what == "stop":
            later = {two.record.priority for when, did, two in events if did == "start" and when >= time}
            assert job.record.preemptible
            assert max(later) > job.record.priority
            if drain is None:
                now = [two.record.priority for when, did, two in events if (when, did) == (time, "start")]
                assert max(now) > job.record.priority
