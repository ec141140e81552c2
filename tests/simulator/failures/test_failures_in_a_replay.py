"""Failures in a replay: work is lost since the last checkpoint, spares come in, slow nodes are flagged when noticed."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise

import pytest

from ground.errors import InvalidInput
from ground.quantities import DAY
from scheduler.job import Parallelism, stage_slowdown
from simulator.checkpoints import restore, snapshot
from simulator.failures.cluster_failures import ClusterFailures, FailureModel, FailureSettings, Slowness
from simulator.failures.ettr import Losses, best_interval, first_order_ettr
from simulator.failures.rates import RATES, failure_rate
from simulator.hooks import Incident
from simulator.job_record import JobRecord
from simulator.replay import Replay, prepare
from simulator.replay_settings import ReplaySettings
from simulator.results import run_ettr
from simulator.traces import JobTrace
from tests.simulator.clusters import racks
from tests.simulator.runs import go_on

QUIET = failure_rate("0")


class Script(ClusterFailures):
    """Incidents by hand, costs as drawn ones have them."""

    def __init__(self, settings: FailureSettings, incidents: list[Incident]) -> None:
        super().__init__(settings, range(8), start=0.0, seed=0)
        self._script = iter(incidents)

    def next(self) -> Incident | None:
        """The next of the script."""
        return next(self._script, None)


def replay(
    record: JobRecord, nodes: int, failures: FailureSettings, *, incidents: list[Incident] | None = None
) -> Replay:
    """One job on so many nodes, to its end."""
    settings = ReplaySettings(algorithm="best-fit", cost="none", failures=failures)
    made = prepare(JobTrace((record,)), racks(nodes), settings)
    if incidents is not None:
        script = Script(failures, incidents)
        made.engine.incidents = made.engine.cluster.recovery = script
    made.engine.run()
    return made


def gang(nodes: int, seconds: float) -> JobRecord:
    """A job of whole nodes."""
    return JobRecord("gang", 0.0, seconds, 8.0 * nodes, parallelism=Parallelism(tp=8, dp=nodes))


def test_work_since_the_last_checkpoint_is_lost() -> None:
    """1,000 s of work with checkpoints every 100 s that take 10: a second of work takes 1.1.

    The node fails at 385: 350 s of work are done, 300 of them are in a checkpoint.  300 s of restart and 700 * 1.1 s of
    work later, at 385 + 300 + 770 = 1,455, the job ends; it counts 1,000 of 1,455 s.
    """
    settings = FailureSettings(FailureModel(rate=QUIET), interval=100.0, write=10.0)
    made = replay(gang(4, 1000.0), 8, settings, incidents=[Incident(385.0, "down", 0), Incident(386.0, "up", 0)])
    job = made.engine.jobs[0]
    assert job.runs == [(0.0, 385.0)]
    assert job.end == pytest.approx(1455.0)
    assert run_ettr(made.engine.jobs) == pytest.approx(1000 / 1455)


def test_no_failure_costs_only_checkpoints() -> None:
    """A thousand seconds at 1.1; and a job shorter than the interval writes none."""
    settings = FailureSettings(FailureModel(rate=QUIET), interval=100.0, write=10.0)
    assert replay(gang(4, 1000.0), 8, settings).engine.jobs[0].end == pytest.approx(1100.0)
    assert replay(gang(4, 90.0), 8, settings).engine.jobs[0].end == 90.0


def test_the_job_leaves_the_failed_node() -> None:
    """The production scheduler places it on other nodes while the failed one is away."""
    settings = FailureSettings(FailureModel(rate=QUIET), interval=100.0, write=10.0)
    made = replay(gang(4, 1000.0), 8, settings, incidents=[Incident(385.0, "down", 2)])
    assert 2 not in made.engine.jobs[0].places


def test_ettr_of_a_replay_agrees_with_the_formula() -> None:
    """128 nodes with 8 spares for 120 days at the rate of RSC-1: within 2 % of the first-order formula."""
    settings = FailureSettings(FailureModel(rate=RATES["rsc-1"]), spares=8)
    made = replay(gang(128, 120 * DAY), 136, settings)
    failures = RATES["rsc-1"].per_second(128)
    losses = Losses(failures, 300.0, 10.0, best_interval(failures, 10.0))
    assert run_ettr(made.engine.jobs) == pytest.approx(first_order_ettr(losses), rel=0.02)
    # 128 of 136 nodes: 100 failures in 120 days, with a standard deviation of 10.
    assert len(made.engine.jobs[0].runs) == pytest.approx(100, abs=40)


def incidents(settings: FailureSettings, count: int, *, nodes: int = 20, seed: int = 0) -> list[Incident]:
    """The first incidents of a cluster."""
    spares = settings.spares_of(range(nodes))
    failures = ClusterFailures(settings, range(nodes), start=1000.0, seed=seed, spares=spares)
    return list(islice(iter(failures.next, None), count))


OFTEN = FailureModel(rate=failure_rate("100"))


def test_incidents_are_in_order_and_make_sense() -> None:
    """Times never go back; a node that is down comes up before it goes down again."""
    found = incidents(FailureSettings(OFTEN), 2000)
    assert all(a.time <= b.time for a, b in pairwise(found))
    down: set[int] = set()
    for one in found:
        assert (one.node in down) == (one.kind == "up")
        down ^= {one.node}


def test_spares_keep_the_cluster_whole() -> None:
    """With 6 spares of 20 nodes, 14 are up whenever at most 6 are in repair; a spare is up the instant one fails."""
    found = incidents(FailureSettings(OFTEN, spares=6), 3000)
    up = set(range(20))
    least = 20
    for one, after in pairwise(found):
        up = up - {one.node} if one.kind == "down" else up | {one.node}
        assert len(up) <= 20 - 6 or one.time == 1000.0 or after.kind == "down"
        if one.time > 1000.0 and one.time != after.time:
            least = min(least, len(up))
    # 2 failures a day with repairs of 18.7 h on average: 1.6 nodes are away, 14 - (more than 6 away) is rare.
    assert 10 <= least <= 14


def test_a_checkpointed_stream_goes_on() -> None:
    """State and restore: the same incidents as without a break."""
    settings = FailureSettings(OFTEN, spares=2)
    one = ClusterFailures(settings, range(20), start=0.0, seed=3, spares=(18, 19))
    for _ in range(50):
        one.next()
    other = ClusterFailures(settings, range(20), start=0.0, seed=3, spares=(18, 19))
    other.restore(one.state())
    assert [one.next() for _ in range(50)] == [other.next() for _ in range(50)]


def test_slow_nodes_are_flagged_late() -> None:
    """A node is slow first and flagged minutes later; flag and slowness end together."""
    model = FailureModel(rate=QUIET, slowness=Slowness(200.0, recall=1.0))
    found = incidents(FailureSettings(model), 400)
    assert {one.kind for one in found} == {"slow", "flag"}
    slow: dict[int, float] = {}
    for one in found:
        if one.kind == "slow" and one.slowdown > 1.0:
            slow[one.node] = one.time
        elif one.kind == "flag" and one.slowdown > 1.0:
            assert 240.0 <= one.time - slow[one.node] <= 720.0


def test_nothing_ever_fails() -> None:
    """A rate of 0 ends instead of drawing for ever."""
    assert ClusterFailures(FailureSettings(FailureModel(rate=QUIET)), range(4), start=0.0, seed=0).next() is None


def test_bad_settings() -> None:
    """As many spares as nodes; failures where GPUs are only counted; an interval of nothing."""
    with pytest.raises(InvalidInput, match="8 spares of 8 nodes"):
        replay(gang(4, 10.0), 8, FailureSettings(spares=8))
    with pytest.raises(InvalidInput, match="only counts GPUs"):
        prepare(JobTrace((gang(4, 10.0),)), racks(8), ReplaySettings(algorithm="none", failures=FailureSettings()))
    with pytest.raises(InvalidInput, match="interval"):
        FailureSettings(interval=0.0)
    with pytest.raises(InvalidInput, match="write is 0"):
        FailureSettings(write=0.0)


def test_a_resumed_replay_equals_one_without_a_break() -> None:
    """Snapshot after 40 instants, restored into a new engine: the same ends, to the bit."""
    settings = ReplaySettings(
        algorithm="best-fit",
        failures=FailureSettings(FailureModel(rate=failure_rate("50"), slowness=Slowness(50.0)), spares=2),
    )
    trace = JobTrace(tuple(replace(gang(4, 20 * DAY), job_id=f"j{i}", submit=i * DAY) for i in range(6)))
    whole, first, second = (prepare(trace, racks(20), settings) for _ in range(3))
    whole.engine.run()
    go_on(first.engine, 40)
    restore(second.engine, snapshot(first.engine))
    second.engine.run()
    assert [job.end for job in second.engine.jobs] == [job.end for job in whole.engine.jobs]
    assert sum(len(job.runs) for job in whole.engine.jobs) > 5


def test_a_slow_node_slows_its_job_and_is_avoided_once_flagged() -> None:
    """A node of 4 is twice as slow from the start: 100 s of work, 60 of them compute, take 160.

    A job that starts after the flag avoids it.  Without microbatches said the full price holds: the slowest node sets
    the pace of compute.  Work of 100 s under the interval writes no checkpoint.
    """
    model = FailureModel(rate=QUIET, slowness=Slowness(1.0))
    settings = ReplaySettings(algorithm="exact", failures=FailureSettings(model, interval=1e6))
    early, late = gang(4, 100.0), replace(gang(4, 100.0), job_id="late", submit=300.0)
    made = prepare(JobTrace((early, late)), racks(8), settings)
    script = [Incident(0.0, "slow", 0, 2.0), Incident(250.0, "flag", 0, 2.0)]
    made.engine.incidents = made.engine.cluster.recovery = Script(FailureSettings(model), script)
    made.engine.run()
    first, second = made.engine.jobs
    assert 0 in first.places
    assert first.end == pytest.approx(60.0 * stage_slowdown(2.0, stages=1, microbatches=None) + 40.0)
    assert 0 not in second.places
    assert second.end == pytest.approx(400.0)
