"""Random traces against a naive simulator: the engine's shortcuts change no answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.queue.fair_share import FairShare
from scheduler.queue.fifo_and_backfill import Fifo, FifoBackfill, ShortestFirst
from scheduler.queue.priority_preemption import PriorityPreempt
from scheduler.queue.queue_policy import QueuePolicy
from simulator.engine.engine import Engine
from simulator.job_record import JobRecord
from simulator.pools.gpu_pool import GpuPool
from tests.case_counts import examples
from tests.simulator.clusters import racks
from tests.simulator.engine.naive import Naive, replay

POLICIES: list[QueuePolicy] = [Fifo(), FifoBackfill(), ShortestFirst(), PriorityPreempt(), FairShare()]
GPUS = 8
WEIGHTS = {"a": 1.0, "b": 2.0, "c": 0.5}

# Few distinct numbers, so that ends and submissions often fall on one instant and jobs on the edge of fitting.
JOBS = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.integers(1, 9),
        st.integers(1, GPUS),
        st.integers(0, 2),
        st.booleans(),
        st.sampled_from(sorted(WEIGHTS)),
    ),
    min_size=1,
    max_size=14,
)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@given(rows=JOBS)
@examples(120)
def test_starts_are_those_of_a_naive_simulator(
    policy: QueuePolicy, rows: list[tuple[int, int, int, int, bool, str]]
) -> None:
    """Every job starts when a simulator says that looks at everything again at every instant."""
    rows = sorted(rows, key=lambda row: row[0])
    records = [
        JobRecord(f"j{i}", submit, duration, gpus, priority=priority, preemptible=preemptible, user=user)
        for i, (submit, duration, gpus, priority, preemptible, user) in enumerate(rows)
    ]
    engine = Engine(records, GpuPool(racks(1)), policy, weights=WEIGHTS, share_by="user")
    engine.run()
    naive = [Naive(i, *row) for i, row in enumerate(rows)]
    assert [job.started for job in engine.jobs] == replay(naive, GPUS, policy.name, WEIGHTS)
