"""Jobs that take their time to leave, as pods do: ``drain_seconds``."""

from __future__ import annotations

import pytest

from scheduler.queue.arnold import Arnold
from scheduler.queue.fifo_and_backfill import Fifo
from scheduler.queue.priority import PriorityPreempt
from simulator.engine import Engine
from simulator.hooks import Incident
from simulator.job_record import JobRecord
from tests.simulator.clusters import racks
from tests.simulator.incidents import Scripted
from tests.simulator.runs import finished, placed

LOW = JobRecord("low", 0, 100, 16, nodes=2, preemptible=True)
HIGH = JobRecord("high", 10, 50, 16, nodes=2, priority=1)


@pytest.mark.parametrize(("drain", "starts"), [(None, 10), (0, 10), (30, 40)])
def test_a_job_starts_when_those_stopped_for_it_have_left(drain: float | None, starts: float) -> None:
    """Stopped at 10, they hold their nodes until 40, and work no more: all 100 s are to be done again from 90 on."""
    engine = finished(Engine([LOW, HIGH], placed(racks(2)), PriorityPreempt(), drain_seconds=drain))
    low, high = engine.jobs
    assert (high.started, low.runs, low.started) == (starts, [(0, starts)], starts + 50)
    assert low.end == starts + 150


def test_a_node_that_fails_does_not_wait_for_a_job_that_leaves() -> None:
    """Stopped at 10 to leave at 40; its node fails at 20: it is gone then, once."""
    incidents = Scripted([Incident(20, "down", 0), Incident(60, "up", 0)])
    engine = finished(Engine([LOW, HIGH], placed(racks(2)), PriorityPreempt(), incidents=incidents, drain_seconds=30))
    low, high = engine.jobs
    assert (low.runs, high.started, low.started) == ([(0, 20)], 60, 110)


def test_a_zone_that_drains_lets_none_in_and_is_waited_for() -> None:
    """The large job of two of four nodes comes at 50, when a preemptible one of 200 s is in its zone.

    Two other nodes come free at 60.  Where all happens at once it has its zone at 50.  Where that takes 40 s it waits
    until 90, though there is room elsewhere from 60 on, and a preemptible job that comes meanwhile goes there.
    """
    records = [
        JobRecord("elsewhere", 0, 60, 16, nodes=2, priority=9),
        JobRecord("spare", 1, 200, 16, nodes=2, preemptible=True),
        JobRecord("large", 50, 10, 16, nodes=2, priority=1, announced=0),
        JobRecord("later", 55, 20, 16, nodes=2, preemptible=True),
    ]
    starts = {}
    for drain in (None, 40):
        engine = finished(Engine(records, placed(racks(4, per_rack=2)), Arnold(), drain_seconds=drain))
        starts[drain] = [job.first_start for job in engine.jobs]
    assert starts == {None: [0, 1, 50, 60], 40: [0, 1, 90, 60]}


def test_what_could_never_fit_blocks_none_where_the_cluster_is_live() -> None:
    """Of two nodes one is out until 100.  A job of both holds up those behind it, but not where it is not known that
    the node returns.
    """
    records = [JobRecord("both", 1, 10, 16, nodes=2), JobRecord("one", 2, 10, 8, nodes=1)]
    for drain, started in ((None, 110), (0, 2)):
        incidents = Scripted([Incident(0, "down", 1), Incident(100, "up", 1)])
        engine = finished(Engine(records, placed(racks(2)), Fifo(), incidents=incidents, drain_seconds=drain))
        assert [job.started for job in engine.jobs] == [100, started]
