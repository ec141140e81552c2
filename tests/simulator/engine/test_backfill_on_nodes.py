"""EASY backfilling on nodes, with gangs, shares and parts of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest
from hypothesis import given, settings

from scheduler.queue.backfill import FifoBackfill
from scheduler.queue.types import Floor, Hold, Waiting
from simulator.records import JobRecord
from tests.simulator.clusters import racks
from tests.simulator.engine.runs import placed_run
from tests.simulator.engine.traces import traces


class Promising(FifoBackfill):
    """Remembers the earliest start that each first in the queue was promised."""

    def __init__(self) -> None:
        self.promised: dict[object, float] = {}

    def holds(self, blocked: Sequence[Waiting], floor: Floor) -> Sequence[Hold]:
        """As EASY does."""
        holds = super().holds(blocked, floor)
        key = blocked[0].key
        self.promised[key] = min(self.promised.get(key, inf), holds[0].until)
        return holds


@given(records=traces(most=20))
@settings(max_examples=150)
def test_the_first_is_never_delayed(records: list[JobRecord]) -> None:
    """With exact predictions it starts by the first shadow time that was ever computed for it, whoever passed it."""
    policy = Promising()
    engine = placed_run(racks(6, per_rack=3), records, policy)
    for key, promised in policy.promised.items():
        assert isinstance(key, int)
        assert engine.jobs[key].started <= promised


def test_a_short_job_passes_and_a_long_one_does_not() -> None:
    """One of two nodes is taken until 10, and a gang of both waits: on the other one a job may run for 10 s, not 11."""
    taken, gang = JobRecord("taken", 0, 10, 8, nodes=1), JobRecord("gang", 0, 5, 16, nodes=2)
    long, short = JobRecord("long", 0, 11, 8, nodes=1), JobRecord("short", 0, 10, 8, nodes=1)
    engine = placed_run(racks(2), [taken, gang, long, short], FifoBackfill())
    assert [job.started for job in engine.jobs] == [0, 10, 15, 0]


@pytest.mark.parametrize(("gpus", "starts"), [(3, 0), (4, 15)])
def test_a_long_job_passes_on_gpus_that_the_first_does_not_need(gpus: int, starts: float) -> None:
    """Until 10 one node is full, of the other 4 GPUs are in use; a gang of 5 GPUs on both waits.

    At 10 the gang needs 5 of 8 on each node: 3 of the other may go to a job of any length at once, 4 only when it has
    its nodes, and then they are not there: the job of 4 waits until the gang ends.
    """
    before = [JobRecord("full", 0, 10, 8, nodes=1), JobRecord("part", 0, 10, 4, nodes=1)]
    gang, long = JobRecord("gang", 0, 5, 10, nodes=2), JobRecord("long", 0, 99, gpus, nodes=1)
    engine = placed_run(racks(2), [*before, gang, long], FifoBackfill())
    assert [job.started for job in engine.jobs] == [0, 0, 10, starts]
