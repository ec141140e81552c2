"""Queue policies on trunks that nothing joins: what is kept and cleared for a gang lies in one of them."""

from __future__ import annotations

import pytest

from scheduler.queue.fifo_and_backfill import Fifo, FifoBackfill
from scheduler.queue.priority_preemption import PriorityPreempt
from scheduler.queue.queue_policy import BasePolicy
from simulator.job_record import JobRecord
from tests.simulator.clusters import racks
from tests.simulator.engine.runs import placed_run
from topology.cluster import Cluster


def pairs(trunks: int) -> Cluster:
    """Trunks of two nodes."""
    return racks(2 * trunks, per_rack=2, racks_per_pod=1).replace(joined=False)


def single(name: str, at: int, takes: int, *, priority: int = 0) -> JobRecord:
    """A job on one node, which may be stopped."""
    return JobRecord(name, at, takes, 8, nodes=1, priority=priority, preemptible=True)


@pytest.mark.parametrize(("policy", "last"), [(Fifo(), 100), (FifoBackfill(), 2)], ids=["fifo", "fifo-backfill"])
def test_the_trunk_that_has_room_first_is_kept(policy: BasePolicy, last: float) -> None:
    """One node is free in two trunks, and a gang of two waits; the other ones come back at 100 and at 1000.

    So the gang starts at 100, and a job of 5000 s, which passes it or not, takes the node of the trunk that is later.
    """
    before = [single("a", 0, 100), single("brief", 0, 1), single("b", 0, 1_000), JobRecord("c", 0, 9_000, 16, nodes=2)]
    gang, long = JobRecord("gang", 2, 50, 16, nodes=2), single("long", 2, 5_000)
    engine = placed_run(pairs(3), [*before, gang, long], policy)
    assert [job.started for job in engine.jobs] == [0, 0, 0, 0, 100, last]


def test_a_gang_clears_one_trunk() -> None:
    """The two jobs of lowest priority lie in two trunks; a gang stops those of one, whose dearer one is the cheaper.

    Of those two, the one of priority 1 stops that of 0 in the other trunk at once, and both of priority 0 start again
    when the gang ends, 5 s later.
    """
    jobs = [single(str(number), number, 100, priority=priority) for number, priority in enumerate((0, 2, 1, 0))]
    engine = placed_run(pairs(2), [*jobs, JobRecord("gang", 4, 5, 16, nodes=2, priority=3)], PriorityPreempt())
    assert [job.started for job in engine.jobs] == [9, 1, 4, 9, 4]
