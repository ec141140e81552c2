"""Policies in rounds on small clusters: closed forms, what holds for all, going on from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from scheduler.job import Speed
from scheduler.queue.gavel import GavelAgnostic, GavelFinishTime, GavelMaxMin, GavelThroughput
from scheduler.queue.hadar import Hadar
from scheduler.queue.policy import QueuePolicy
from simulator.checkpoints import EngineSnapshot, restore, snapshot
from simulator.engine import Engine, Overload
from simulator.history import AttemptLog
from simulator.hooks import Incident, SavedByRound
from simulator.job_record import JobRecord
from simulator.replay import scaled_pace, slowed_by_type
from simulator.sim_job import JobState, SimJob
from tests.case_counts import examples
from tests.simulator.incidents import Scripted
from tests.simulator.runs import finished, go_on, log_attempts, placed
from topology.build import build_cluster
from topology.cluster import Cluster, Node

ROUND = 360.0
POLICIES = [GavelMaxMin(), GavelFinishTime(), GavelThroughput(), GavelAgnostic(), Hadar()]


def cluster_of(**nodes: int) -> Cluster:
    """So many nodes of two GPUs of each type, in turns."""
    rows = [(number, name) for number in range(max(nodes.values())) for name in nodes if number < nodes[name]]
    return build_cluster(["site"], [Node(f"{name}{number}", ("s",), 2, 2, gpu_type=name) for number, name in rows])


def a_job(number: int, seconds: float, *, gpus: int = 1, submit: float = 0.0, b: float = 0.5) -> JobRecord:
    """A job whose speed is 1 on A and so much on B; where it lies on more nodes than hold it, half of that."""
    speed = (Speed("A", 1.0), Speed("B", b))
    apart = tuple(Speed(one.gpu_type, one.factor / 2) for one in speed)
    return JobRecord(f"j{number}", submit, seconds, gpus, gpu_types=("A", "B"), speed=speed, speed_apart=apart)


def engine_of(
    records: Sequence[JobRecord],
    cluster: Cluster,
    policy: QueuePolicy,
    *,
    delay: float = 0.0,
    start_up: Callable[[SimJob, float], float] | None = None,
) -> Engine:
    """An engine in rounds, with the pace of types."""
    pool, recovery = placed(cluster), SavedByRound(None, delay)
    return Engine(records, pool, policy, recovery=recovery, pace=scaled_pace(slowed_by_type(pool)), start_up=start_up)


def test_two_jobs_take_turns() -> None:
    """Two jobs of two GPUs and 720 s on one node of two: rounds of 360 s go a, b, a, b; so they end at 1,080 and 1,440.
    With 60 s until a job works again a has worked 360 and 300 s by 1,080, and b by 1,440; so a needs 60 + 60 s of the
    round from then on, and b as much of the one that begins at 1,800.
    """
    jobs = [a_job(i, 720.0, gpus=2) for i in range(2)]
    cluster = cluster_of(A=1)
    only_a = [one_type(one) for one in jobs]
    run = finished(engine_of(only_a, cluster, GavelMaxMin()))
    assert [job.end for job in run.jobs] == [1080.0, 1440.0]
    late = finished(engine_of(only_a, cluster, GavelMaxMin(), delay=60.0))
    assert [job.end for job in late.jobs] == [1560.0, 1920.0]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_nodes_that_are_away_when_a_job_comes_are_its_own_when_they_are_back(policy: QueuePolicy) -> None:
    """The only node fails at 5 s, a job of all its GPUs comes at 10, and the node is back at 500.  Rounds begin every
    360 s from 0, when a job of 100 s that fails came: so both run from 720 on, one after the other, to 820 and 1,180.
    """
    jobs = [a_job(0, 100.0, gpus=1), a_job(1, 100.0, gpus=2, submit=10.0)]
    engine = engine_of([one_type(job) for job in jobs], cluster_of(A=1), policy)
    engine.incidents = Scripted([Incident(5.0, "down", 0), Incident(500.0, "up", 0)])
    assert sorted(job.end for job in finished(engine).jobs) == [820.0, 1180.0]


def one_type(record: JobRecord) -> JobRecord:
    """The job for type A alone."""
    return JobRecord(
        record.job_id, record.submit, record.duration, record.gpus, gpu_types=("A",), speed=(Speed("A", 1.0),)
    )


@pytest.mark.parametrize("policy", [GavelThroughput(), Hadar()], ids=lambda one: one.name)
def test_each_goes_where_it_is_relatively_faster(policy: QueuePolicy) -> None:
    """One node of each type, two jobs of its size: the one that B slows to .9 goes there, the one slowed to .1 to A.

    The first comes first, and would take A from the other in a queue that knows no types.
    """
    jobs = [a_job(0, 3600.0, gpus=2, b=0.9), a_job(1, 7200.0, gpus=2, b=0.1)]
    run = finished(engine_of(jobs, cluster_of(A=1, B=1), policy))
    assert [job.end for job in run.jobs] == pytest.approx([4000.0, 7200.0])


def test_a_job_lies_apart_where_it_finds_no_node() -> None:
    """Four jobs of one GPU fill two nodes, and one on each ends in the first round.  One of two GPUs takes the halves
    from the second round on, at half its speed, while the others stay: its 720 s last from 360 to 1,800.
    """
    four = [one_type(a_job(i, seconds)) for i, seconds in enumerate((200.0, 4000.0, 200.0, 4000.0))]
    speeds = {"speed": (Speed("A", 1.0),), "speed_apart": (Speed("A", 0.5),)}
    wide = JobRecord("wide", 300.0, 720.0, 2, gpu_types=("A",), **speeds)
    pool = placed(cluster_of(A=2))
    ways = pool.types.allocations(wide, pool.need)["A"]
    assert [(way.nodes, way.gpus, way.speed) for way in ways] == [(1, 200, 1.0), (2, 100, 0.5)]
    run = finished(engine_of([*four, wide], cluster_of(A=2), GavelMaxMin()))
    assert [job.end for job in run.jobs] == pytest.approx([200.0, 4000.0, 200.0, 4000.0, 1800.0])


@st.composite
def workloads(draw: st.DrawFn) -> list[JobRecord]:
    """Up to six jobs that come within an hour."""
    submits = sorted(draw(st.lists(st.sampled_from([0.0, 100.0, 360.0, 1000.0, 3000.0]), min_size=1, max_size=6)))
    seconds, gpus = st.sampled_from([200.0, 720.0, 2500.0]), st.sampled_from([1, 2, 4])
    speeds = st.sampled_from([0.2, 0.5, 1.0, 2.0])
    return [a_job(i, draw(seconds), gpus=draw(gpus), submit=submit, b=draw(speeds)) for i, submit in enumerate(submits)]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: one.name)
@given(records=workloads(), delay=st.sampled_from([0.0, 30.0]))
@examples(60)
def test_work_and_gpus_are_conserved(policy: QueuePolicy, records: list[JobRecord], delay: float) -> None:
    """All jobs end.  What each works in all its attempts is its run time; starts are a round apart or more, on one type
    of GPU; and no node ever holds more than it has.
    """
    cluster = cluster_of(A=2, B=2)
    run = finished(engine_of(records, cluster, policy, delay=delay))
    assert isinstance(run.cluster.recovery, AttemptLog)
    held = []
    for job in run.jobs:
        attempts = [
            (one.begin, one.end, one.places, one.delay) for one in run.cluster.recovery.cut_short if one.key == job.key
        ]
        attempts.append((job.started, job.end, tuple(job.places), job.delay))
        worked = 0.0
        for begin, end, places, waited in attempts:
            names = {cluster.node(node).gpu_type for node in places}
            assert len(names) == 1
            least = {1: 1, 2: 1, 4: 2}[int(job.record.gpus)]
            worked += max(0.0, end - begin - waited) * job.record.speed_on(names, apart=len(places) > least)
            held += [(begin, end, node, job.record.gpus / len(places)) for node in places]
        assert worked == pytest.approx(job.record.duration)
    starts = sorted({begin for begin, *_ in held})
    assert all(after - before >= ROUND for before, after in pairwise(starts))
    for moment in starts:
        use = np.zeros(len(cluster))
        for begin, end, node, gpus in held:
            use[node] += gpus * (begin <= moment < end)
        assert (use <= cluster.gpus).all()


def starts_of(seconds: Sequence[float]) -> Callable[[SimJob, float], float]:
    """Start-ups of some lengths, one after the other."""
    lengths = cycle(seconds)
    return lambda job, now: next(lengths)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: one.name)
@given(
    records=workloads(),
    length=st.sampled_from([60.0, 360.0, 1000.0]),
    starts=st.lists(st.sampled_from([0.0, 0.4, 0.9, 0.9999, 1.0, 1.0001, 1.9, 2.0, 5.0]), min_size=1, max_size=4),
)
@examples(30)
def test_jobs_end_whatever_start_ups_take(
    policy: QueuePolicy, records: list[JobRecord], length: float, starts: list[float]
) -> None:
    """With start-ups of parts of a round, about a round, and more, all jobs end.  None is stopped before it has
    worked as long as its start took, so that every attempt that a round cuts short has half a round of work or more.
    """
    policy.round_seconds, before = length, policy.round_seconds
    try:
        starts_up = starts_of([share * length for share in starts])
        engine = engine_of(records, cluster_of(A=2, B=1), policy, start_up=starts_up)
        log = log_attempts(engine)
        engine.run(overload=Overload(events=2_000))
    finally:
        policy.round_seconds = before
    assert all(job.state is JobState.DONE for job in engine.jobs)
    for one in log.cut_short:
        assert one.end - one.begin >= 2.0 * one.delay
        assert one.end - one.begin - one.delay >= length / 2.0


@pytest.mark.parametrize("policy", [GavelMaxMin(), Hadar()], ids=lambda one: one.name)
def test_who_starts_keeps_its_nodes_and_others_take_the_rest(policy: QueuePolicy) -> None:
    """A job whose start takes a round and a half holds the node of type A; a shorter one that comes meanwhile, and
    would have the next turn there, takes that of type B at half its speed when the first round ends.
    """
    jobs = [a_job(0, 720.0, gpus=2), a_job(1, 100.0, gpus=2, submit=10.0)]
    starts_up = starts_of([1.5 * ROUND, 0.0])
    engine = engine_of([one_type(jobs[0]), jobs[1]], cluster_of(A=1, B=1), policy, start_up=starts_up)
    assert [job.first_start for job in finished(engine).jobs] == [0.0, ROUND]
    assert [job.end for job in engine.jobs] == pytest.approx([1.5 * ROUND + 720.0, ROUND + 200.0])


@pytest.mark.parametrize("policy", [GavelMaxMin(), Hadar()], ids=lambda one: one.name)
@given(records=workloads(), instants=st.integers(0, 20))
@examples(25)
def test_going_on_from_a_checkpoint(policy: QueuePolicy, records: list[JobRecord], instants: int) -> None:
    """Stopped after any number of instants, written as JSON and read again, a run ends as if it had not been."""
    cluster = cluster_of(A=2, B=1)
    whole = finished(engine_of(records, cluster, policy))
    first, second = engine_of(records, cluster, policy), engine_of(records, cluster, policy)
    for engine in (first, second):
        log_attempts(engine)
    first.begin()
    go_on(first, instants)
    file = TypeAdapter(EngineSnapshot)
    restore(second, file.validate_json(file.dump_json(snapshot(first))))
    second.run()
    assert [job.end for job in second.jobs] == [job.end for job in whole.jobs]
    assert [job.had for job in second.jobs] == [job.had for job in whole.jobs]
