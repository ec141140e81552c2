"""Queue policies on trunks that nothing joins, and on types of GPU: what is kept and cleared for a gang lies in one."""

from __future__ import annotations

import pytest

from scheduler.queue.fifo_and_backfill import Fifo, FifoBackfill
from scheduler.queue.policy import BasePolicy
from scheduler.queue.priority import PriorityPreempt
from simulator.job_record import JobRecord
from simulator.pools import Disagreement
from tests.facts import saying
from tests.simulator.clusters import racks
from tests.simulator.runs import placed_run
from topology.cluster import Cluster


def pairs(trunks: int, *, types: bool) -> Cluster:
    """Trunks of two nodes, or as many types of GPU on two nodes each."""
    cluster = racks(2 * trunks, per_rack=2, racks_per_pod=1)
    return (
        cluster.with_gpu_types({i: "ABC"[i // 2] for i in range(len(cluster))})
        if types
        else cluster.replace(joined=False)
    )


def single(name: str, at: int, takes: int, *, priority: int = 0) -> JobRecord:
    """A job on one node, which may be stopped."""
    return JobRecord(name, at, takes, 8, nodes=1, priority=priority, preemptible=True)


@pytest.mark.parametrize(("policy", "last"), [(Fifo(), 100), (FifoBackfill(), 2)], ids=["fifo", "fifo-backfill"])
@pytest.mark.parametrize("types", [False, True])
def test_the_trunk_that_has_room_first_is_kept(policy: BasePolicy, last: float, types: bool) -> None:
    """One node is free in two trunks, and a gang of two waits; the other ones come back at 100 and at 1000.

    So the gang starts at 100, and a job of 5000 s, which passes it or not, takes the node of the trunk that is later.
    """
    before = [single("a", 0, 100), single("brief", 0, 1), single("b", 0, 1_000), JobRecord("c", 0, 9_000, 16, nodes=2)]
    gang, long = JobRecord("gang", 2, 50, 16, nodes=2), single("long", 2, 5_000)
    engine = placed_run(pairs(3, types=types), [*before, gang, long], policy)
    assert [job.started for job in engine.jobs] == [0, 0, 0, 0, 100, last]


@pytest.mark.parametrize("types", [False, True])
def test_a_gang_clears_one_trunk(types: bool) -> None:
    """The two jobs of lowest priority lie in two trunks; a gang stops those of one, whose dearer one is the cheaper.

    Of those two, the one of priority 1 stops that of 0 in the other trunk at once, and both of priority 0 start again
    when the gang ends, 5 s later.
    """
    jobs = [single(str(number), number, 100, priority=priority) for number, priority in enumerate((0, 2, 1, 0))]
    engine = placed_run(
        pairs(2, types=types), [*jobs, JobRecord("gang", 4, 5, 16, nodes=2, priority=3)], PriorityPreempt()
    )
    assert [job.started for job in engine.jobs] == [9, 1, 4, 9, 4]


def test_a_gang_larger_than_any_type_is_refused_at_once() -> None:
    """It would wait for ever; the four nodes of two types have room for no gang of three."""
    gang = JobRecord("gang", 0, 50, 24, nodes=3)
    with pytest.raises(Disagreement, match=saying("same type of GPU", "at most 2")):
        placed_run(pairs(2, types=True), [gang], Fifo())
