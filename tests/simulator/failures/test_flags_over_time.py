"""Flags in simulated time: they begin and end on the clock of the trace, for placement and for the speed of jobs."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arnold.exports import job_rows
from ground.errors import InvalidInput
from scheduler.job import Parallelism
from simulator.checkpoints import restore, snapshot
from simulator.failures.cluster_failures import FailureModel, FailureSettings, Slowness
from simulator.failures.flag_incidents import failures_and_flags, flag_changes
from simulator.failures.rates import failure_rate
from simulator.history import run_history
from simulator.hooks import FlagSpan, Incident
from simulator.job_record import JobRecord
from simulator.replay import Replay, prepare
from simulator.replay_settings import COUNT_ONLY, ReplaySettings
from simulator.results import time_series
from simulator.traces import JobTrace
from tests.case_counts import examples
from tests.facts import saying
from tests.simulator.clusters import racks
from tests.simulator.drawn_traces import traces
from tests.simulator.incidents import Scripted
from tests.simulator.runs import go_on
from topology.cluster import Cluster
from topology.flags import FAULTY, NodeFlag

EPOCH = datetime(2026, 11, 17, tzinfo=UTC).timestamp()
CLUSTER = racks(8, per_rack=4)


def flag(node: int, slowdown: float, begin: float | None = None, end: float | None = None) -> NodeFlag:
    """Return a flag of a node from second to second of the trace's clock; ``None`` = open."""
    since, until = (None if one is None else datetime.fromtimestamp(EPOCH + one, UTC) for one in (begin, end))
    kind = "faulty" if slowdown == FAULTY else "straggler"
    return NodeFlag(f"n{node}", kind, slowdown, source="test", since=since, until=until)


def ready(records: Sequence[JobRecord], *flags: NodeFlag, cluster: Cluster = CLUSTER, **settings: object) -> Replay:
    """Return a run that has not begun, whose second 0 is :data:`EPOCH`."""
    chosen = ReplaySettings(cost="none", flags=flags, epoch=EPOCH)
    return prepare(JobTrace(tuple(records)), cluster, replace(chosen, **settings))


def ended(replay: Replay) -> Replay:
    """Return the run after its end."""
    replay.engine.run()
    return replay


def bytes_of(replay: Replay) -> str:
    """Return all that a finished run says of its jobs."""
    return json.dumps([*job_rows(replay.engine.jobs, CLUSTER.names)])


def gang(name: str, submit: float, seconds: float, nodes: int) -> JobRecord:
    """A job of whole nodes."""
    return JobRecord(name, submit, seconds, 8.0 * nodes, parallelism=Parallelism(tp=8, dp=nodes))


def test_a_flag_slows_a_running_job_while_it_holds() -> None:
    """1,000 s of work; from 300 to 690 its only node is 1.3 times slower: 300 s of work in those 390, so it ends at
    1,090 as a job on one node is all compute.
    """
    one = JobRecord("one", 0.0, 1000.0, 8.0, nodes=1)
    made = ended(ready([one], *(flag(node, 1.3, 300.0, 690.0) for node in range(8))))
    assert made.engine.jobs[0].end == pytest.approx(1090.0)


def test_new_gangs_avoid_a_node_while_its_flag_holds() -> None:
    """Four of eight free nodes: the first rack is taken before and after the flag of n1, the second while it holds."""
    jobs = [gang(name, at, 10.0, 4) for name, at in (("before", 0.0), ("while", 100.0), ("after", 200.0))]
    made = ended(ready(jobs, flag(1, 2.0, 50.0, 150.0)))
    assert [sorted(job.places) for job in made.engine.jobs] == [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3]]


def test_a_job_goes_on_on_a_node_that_becomes_faulty() -> None:
    """The gang on all nodes ends when it would have; the next waits for n5, which is faulty from 50 to 300.

    n5 is away only after the gang has left it, at 100, and a job on one node does not get it meanwhile.
    """
    jobs = [gang("on it", 0.0, 100.0, 8), gang("waits", 60.0, 10.0, 8), JobRecord("small", 310.0, 5.0, 8.0, nodes=1)]
    made = ended(ready(jobs, flag(5, FAULTY, 50.0, 300.0)))
    assert [job.first_start for job in made.engine.jobs] == [0.0, 300.0, 310.0]
    assert made.engine.jobs[0].end == 100.0
    away = run_history(made.engine, made.log, made.places).away
    assert [*zip(away.number, away.begin, away.end, strict=True)] == [(5, 100.0, 300.0)]


def test_a_faulty_node_is_given_to_no_small_job() -> None:
    """Eight jobs of one node at 60, one node of eight faulty: seven start, one waits until the flag ends at 90."""
    jobs = [JobRecord(f"j{i}", 60.0, 100.0, 8.0, nodes=1) for i in range(8)]
    made = ended(ready(jobs, flag(5, FAULTY, 50.0, 90.0)))
    assert sorted(job.first_start for job in made.engine.jobs) == [60.0] * 7 + [90.0]


@pytest.mark.parametrize("policy", ["fifo", "fifo-backfill", "priority-preempt"])
@given(records=traces(), data=st.data())
@examples(40)
def test_a_flag_of_the_whole_replay_is_one_for_good(policy: str, records: list[JobRecord], data: st.DataObject) -> None:
    """From before the first submission to far beyond the end: every start and end is as with a flag for good."""
    node, slowdown = data.draw(st.integers(0, 7)), data.draw(st.sampled_from([1.2, 2.0, FAULTY]))
    open_end = ended(ready(records, flag(node, slowdown), policy=policy))
    closed = ended(ready(records, flag(node, slowdown, -5.0, 1e6), policy=policy))
    assert bytes_of(closed) == bytes_of(open_end)


@given(records=traces(), data=st.data())
@examples(60)
def test_flags_outside_of_the_replay_change_nothing(records: list[JobRecord], data: st.DataObject) -> None:
    """Ended before the first submission, or begun after the last job has ended; slow or faulty, whatever the node."""
    node, slowdown = data.draw(st.integers(0, 7)), data.draw(st.sampled_from([1.5, FAULTY]))
    first, plain = records[0].submit, ended(ready(records))
    end = plain.engine.clock.now
    outside = flag(node, slowdown, first - 9.0, float(first)), flag(node, slowdown, end + 1.0)
    assert bytes_of(ended(ready(records, *outside))) == bytes_of(plain)


@given(records=traces(), cut=st.integers(1, 19), slowdown=st.sampled_from([1.5, FAULTY]))
@examples(60)
def test_an_interval_cut_in_two_changes_nothing(records: list[JobRecord], cut: int, slowdown: float) -> None:
    """[2, 22) is [2, c) and [c, 22), and two that overlap: jobs, events and what is away are the same."""
    whole, parts, overlapping = (
        ended(ready(records, *(flag(3, slowdown, *span) for span in spans), policy="fifo-backfill"))
        for spans in ([(2, 22)], [(2, 2 + cut), (2 + cut, 22)], [(2, 3 + cut), (1 + cut, 22)])
    )
    assert bytes_of(parts) == bytes_of(overlapping) == bytes_of(whole)
    assert parts.engine.events == overlapping.engine.events == whole.engine.events


@given(records=traces(), instants=st.integers(0, 12))
@examples(40)
def test_a_checkpoint_keeps_the_flags_that_are_to_come(records: list[JobRecord], instants: int) -> None:
    """Stopped after any number of instants, brought into a new engine, ended: as if never stopped."""
    flags = flag(2, 1.5, 3.0, 9.0), flag(4, FAULTY, 2.0, 14.0), flag(2, 2.0, 5.0, 7.0)
    failing = FailureSettings(FailureModel(rate=failure_rate("1000"), slowness=Slowness(1000.0)))
    for failures in (None, failing):
        first, second = (ready(records, *flags, failures=failures) for _ in range(2))
        first.engine.begin()
        go_on(first.engine, instants)
        restore(second.engine, snapshot(first.engine))
        assert bytes_of(ended(second)) == bytes_of(ended(first))


def test_of_several_flags_of_a_node_the_worst_counts() -> None:
    """1.2 for good, 1.5 from 10 to 30, 2 from 20 to 25, faulty from 22 to 28: what changes, and when."""
    spans = [FlagSpan(0, 10.0, 30.0, 1.5), FlagSpan(0, 20.0, 25.0, 2.0), FlagSpan(0, 22.0, 28.0, FAULTY)]
    changes = flag_changes(spans, CLUSTER.with_flags([flag(0, 1.2)]), start=0.0)
    found = [(change.time, change.kind, change.slowdown) for change in changes if change.kind != "slow"]
    assert found == [
        (10.0, "flag", 1.5),
        (20.0, "flag", 2.0),
        (22.0, "drain", 1.0),
        (25.0, "flag", 1.5),
        (28.0, "up", 1.0),
        (30.0, "flag", 1.2),
    ]


def test_of_failures_and_flags_the_worse_counts() -> None:
    """A node that is back from repair stays out while its flag holds, and one that is slow by both is not healthy
    before both have ended.
    """
    drawn = [Incident(1, "down", 0), Incident(2, "flag", 1, 1.5), Incident(5, "up", 0), Incident(6, "flag", 1, 1.0)]
    spans = [FlagSpan(0, 3.0, 8.0, FAULTY), FlagSpan(1, 4.0, 9.0, 1.2)]
    both = failures_and_flags(Scripted(drawn), flag_changes(spans, CLUSTER, start=0.0), CLUSTER)
    found = [(one.time, one.kind, one.slowdown) for one in iter(both.next, None) if one.kind != "slow"]
    assert found == [
        (1, "down", 1.0),
        (2, "flag", 1.5),
        (3.0, "drain", 1.0),
        (4.0, "flag", 1.5),
        (6, "flag", 1.2),
        (8.0, "up", 1.0),
        (9.0, "flag", 1.0),
    ]


def test_what_is_drawn_ends_no_flag_for_good() -> None:
    """Each node is flagged as twice as slow, and spells of up to the same come once a day and end: thirty days of work
    take sixty, whether the flags are for good or from before the first job on.
    """
    month = 30 * 86_400.0
    drawn = FailureSettings(FailureModel(rate=failure_rate("0"), slowness=Slowness(1000.0)))
    for begin, end in ((None, None), (-5.0, None), (-5.0, 9 * month)):
        flags = (flag(node, 2.0, begin, end) for node in range(8))
        made = ended(ready([JobRecord("one", 0.0, month, 8.0, nodes=1)], *flags, failures=drawn))
        assert made.engine.jobs[0].end == pytest.approx(2 * month)
        assert all(slow >= 2.0 for *_, slow in run_history(made.engine, made.log, made.places).slow)


def test_a_clock_without_dates_needs_to_be_told() -> None:
    """A flag with times on a trace that counts from 0 is an error, also where it is the cluster's own; one without
    times is none, nor is a trace with dates.
    """
    for settings, cluster in (
        ({"flags": (flag(0, 1.5, 1.0),)}, CLUSTER),
        ({"flags": ()}, CLUSTER.with_flags([flag(0, 1.5, None, 9.0)])),
    ):
        with pytest.raises(InvalidInput, match=saying("no dates")) as refused:
            ready([gang("g", 0.0, 1.0, 2)], cluster=cluster, epoch=None, **settings)
        assert "--starts-at" in refused.value.fix
    assert ready([gang("g", 0.0, 1.0, 2)], flag(0, 1.5), epoch=None).cluster.flags
    dated = ended(ready([gang("g", EPOCH, 100.0, 8)], flag(0, 2.0, 50.0), epoch=None))
    assert dated.engine.jobs[0].end > EPOCH + 100.0


def test_flags_of_the_cluster_end_as_well() -> None:
    """A flag that an annotation of a node ends is lifted then: the gang takes the first rack again."""
    jobs = [gang("while", 0.0, 10.0, 4), gang("after", 100.0, 10.0, 4)]
    made = ended(ready(jobs, cluster=CLUSTER.with_flags([flag(1, 2.0, None, 50.0)])))
    assert [sorted(job.places) for job in made.engine.jobs] == [[4, 5, 6, 7], [0, 1, 2, 3]]


def test_counted_gpus_know_no_faulty_nodes_for_a_time() -> None:
    """Where GPUs are only counted a node cannot be away for a time: refused, as failures are."""
    with pytest.raises(InvalidInput, match="faulty for a time"):
        ReplaySettings(algorithm=COUNT_ONLY, flags=(flag(0, FAULTY, 1.0),))


def test_settings_with_flags_travel() -> None:
    """Studies send settings to other processes and machines."""
    settings = ReplaySettings(flags=(flag(0, FAULTY, 1.0), flag(1, 1.5, None, 3.0)), epoch=EPOCH)
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_gpus_of_a_faulty_node_are_away_in_the_series() -> None:
    """Eight GPUs of 64 from 50 to 90 of 100 s, on an idle node: 8 GPUs away in half of these ten buckets less one."""
    made = ended(ready([JobRecord("one", 0.0, 100.0, 8.0, nodes=1)], flag(5, FAULTY, 50.0, 90.0)))
    series = time_series(run_history(made.engine, made.log, made.places), step=10.0)
    assert series.gpus_away.tolist() == [0.0] * 5 + [8.0] * 4 + [0.0]


def test_slow_nodes_are_in_the_series_and_the_history() -> None:
    """n1 for good, n2 from 30 to 60 of 100 s, by 2 in the middle of it: one node, then two, then one."""
    flags = flag(1, 1.3), flag(2, 1.2, 30.0, 60.0), flag(2, 2.0, 40.0, 50.0)
    past = run_history((made := ended(ready([gang("one", 0.0, 100.0, 4)], *flags))).engine, made.log, made.places)
    assert past.slow == (
        (1, 0.0, 100.0, 1.3),
        (2, 30.0, 40.0, 1.2),
        (2, 40.0, 50.0, 2.0),
        (2, 50.0, 60.0, 1.2),
    )
    assert time_series(past, step=10.0).nodes_slow.tolist() == pytest.approx([1.0] * 3 + [2.0] * 3 + [1.0] * 4)


SPANS = st.lists(st.tuples(st.integers(0, 7), st.integers(-2, 15), st.integers(1, 15)), min_size=1, max_size=6)


@pytest.mark.parametrize("policy", ["fifo-backfill", "priority-preempt"])
@given(records=traces(), spans=SPANS)
@examples(60)
def test_no_job_starts_on_a_faulty_node_and_nothing_leaks(
    policy: str, records: list[JobRecord], spans: list[tuple[int, int, int]]
) -> None:
    """Of no attempt does the start lie in a flag of one of its nodes; every job ends, and afterwards all is free that
    is not out.
    """
    flags = [flag(node, FAULTY, begin, begin + length) for node, begin, length in spans]
    made = ended(ready(records, *flags, policy=policy))
    attempts = [(job.started, job.places) for job in made.engine.jobs]
    attempts += [(one.begin, one.places) for one in made.log.cut_short]
    for start, places in attempts:
        assert not any(node in places and begin <= start < begin + length for node, begin, length in spans)
    assert made.engine.completed == len(records)
    assert (made.engine.cluster.pool.free == made.engine.cluster.pool.total).all()
