"""Random traces against a naive simulator: the engine's shortcuts change no answer."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.queue.conservative import ConservativeBackfill
from scheduler.queue.fair_share import FairShare
from scheduler.queue.fifo_and_backfill import Fifo, FifoBackfill, ShortestFirst
from scheduler.queue.policy import QueuePolicy
from scheduler.queue.priority import PriorityPreempt
from scheduler.queue.run_times import Prediction
from simulator.engine import Engine
from simulator.job_record import JobRecord
from simulator.pools import GpuPool
from tests.case_counts import every_fourth, examples
from tests.simulator.clusters import racks
from tests.simulator.naive import Naive, replay

POLICIES: list[QueuePolicy] = [
    *(Fifo(), FifoBackfill(), ConservativeBackfill(), ShortestFirst(), PriorityPreempt(), FairShare())
]
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


@pytest.mark.many_cases
@pytest.mark.parametrize("policy", [FifoBackfill(), ConservativeBackfill()], ids=lambda policy: policy.name)
@pytest.mark.parametrize(("factors", "seed"), every_fourth([*product([(1.0, 5.0), (0.3, 3.0)], range(6))]))
def test_backfilling_where_users_are_wrong(policy: QueuePolicy, factors: tuple[float, float], seed: int) -> None:
    """All jobs start when the naive simulator says: also behind jobs that have outlived their estimates.

    Estimates are too long, or too long or too short.  Of several jobs that are overdue more than was kept for the first
    comes free now, so that a job refused before has room.
    """
    count = 120 if policy.claims is None else 250  # the naive simulator takes seconds to reserve for 250
    numbers = np.random.default_rng(seed)
    submits = np.cumsum(numbers.exponential(8.0, count)).round(3)
    durations = numbers.lognormal(3.0, 1.2, count).round(3)
    estimates = (durations * numbers.uniform(*factors, count)).round(3)
    gpus = numbers.integers(1, 17, count)
    rows = list(zip(*(column.tolist() for column in (submits, durations, estimates, gpus)), strict=True))
    records = [JobRecord(f"j{i}", submit, duration, units) for i, (submit, duration, _, units) in enumerate(rows)]
    told = {f"j{i}": Prediction(estimate, estimate, estimate) for i, (_, _, estimate, _) in enumerate(rows)}
    engine = Engine(records, GpuPool(racks(4)), policy, predictions=told)
    engine.run()
    naive = [
        Naive(i, submit, duration, units, estimate=estimate)
        for i, (submit, duration, estimate, units) in enumerate(rows)
    ]
    assert [job.started for job in engine.jobs] == replay(naive, 4 * GPUS, policy.name)
