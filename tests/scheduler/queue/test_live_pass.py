"""One pass over a live cluster, made here: the third beside those of Kubernetes and Slurm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from scheduler.job import Job, Parallelism
from scheduler.outcome import Instance, Outcome
from scheduler.placement.types import Limits
from scheduler.queue.fifo_and_backfill import PriorityBackfill
from scheduler.queue.live_pass import LiveNodes, plan_waiting
from scheduler.queue.policy import CapacityReservation, Keep, QueuedJob, QueuePolicy, RunningEntry, Waiting
from scheduler.queue.priority import PriorityAge
from topology.cluster import BoolArray, IntArray
from topology.generate import minipods

NODES = 8


class MadeCluster(LiveNodes):
    """Eight nodes of eight GPUs in two minipods, with some jobs: each its number of nodes; of 0 nodes it is no job."""

    reservations: Sequence[CapacityReservation] = ()
    running: Sequence[RunningEntry[int]] = ()

    def __init__(self, wanted: Sequence[int], busy: int = 0) -> None:
        self.cluster = minipods(minipods=2, nodes=NODES).with_busy(range(busy))
        super().__init__(self.cluster, 0.0)
        self.jobs = {i: QueuedJob(i, -i, float(i), nodes, 8) for i, nodes in enumerate(wanted)}
        self.promised: dict[int, tuple[str, ...]] = {}
        self.said: dict[int, str] = {}

    @property
    def state(self) -> MadeCluster:
        """The cluster itself."""
        return self

    @property
    def version(self) -> int:
        """Counts plans."""
        return len(self.promised)

    @property
    def free(self) -> IntArray:
        """Those in no use, and promised to nobody."""
        taken = [self.cluster.index_of[name] for nodes in self.promised.values() for name in nodes]
        return self.cluster.with_busy(taken).free_gpus

    def usable(self, job: Waiting) -> BoolArray:
        """All nodes."""
        return np.ones(NODES, dtype=np.bool_)

    def share(self, namespace: str) -> float:
        """Nobody has a share."""
        return 0.0

    def waiting(self) -> Mapping[int, QueuedJob]:
        """Jobs without a plan."""
        return {key: job for key, job in self.jobs.items() if key not in self.promised}

    def free_for(self, key: int, keep: Keep) -> Instance:
        """The job, and what is not kept for others."""
        if self.jobs[key].nodes == 0:
            raise InvalidInput("it asks for nothing")
        left = self.free if keep is None else self.free - keep
        cluster = self.cluster.replace(free_gpus=np.maximum(left, 0).astype(np.int32))
        return Instance(cluster, Job(str(key), Parallelism(tp=8, dp=self.jobs[key].nodes)))

    def hold(self, key: int, nodes: Sequence[str], outcome: Outcome) -> None:
        """Note a plan."""
        self.promised[key] = tuple(nodes)

    def say(self, key: int, why: str) -> None:
        """Note why a job waits."""
        self.said[key] = why


def planned(live: MadeCluster, policy: QueuePolicy) -> MadeCluster:
    """The cluster after a pass."""
    plan_waiting(live, policy, Limits(seconds=10.0, workers=1))
    return live


def test_those_behind_a_blocked_job_are_told_so() -> None:
    """Of four free nodes the first wants six: by priority-age none passes it; the one of ten nodes can never be."""
    live = planned(MadeCluster([10, 6, 2], busy=4), PriorityAge())
    assert live.promised == {}
    assert "could have 8" in live.said[0]
    assert "6 nodes, and 4 are free" in live.said[1]
    assert "job 1 is before it" in live.said[2]


def test_one_that_is_not_understood_is_in_nobodys_way() -> None:
    """It is told why, and the next is planned on all that is free."""
    live = planned(MadeCluster([0, 8]), PriorityAge())
    assert (live.said[0], len(live.promised[1])) == ("it asks for nothing", 8)


@given(st.lists(st.integers(0, 10), max_size=6), st.integers(0, NODES), st.booleans())
def test_every_job_is_planned_or_told_why(wanted: list[int], busy: int, backfill: bool) -> None:
    """On nodes that were free, each promised once, as many as it wants."""
    live = planned(MadeCluster(wanted, busy), PriorityBackfill() if backfill else PriorityAge())
    names = [name for nodes in live.promised.values() for name in nodes]
    assert len({*names}) == len(names)
    assert {*names} <= {*live.cluster.names[busy:]}
    assert all(len(nodes) == wanted[key] for key, nodes in live.promised.items())
    assert {*live.promised} | {*live.said} == {*range(len(wanted))}
