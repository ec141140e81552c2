"""Metrics of runs that can be worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.queue.fifo import Fifo
from simulator.engine.engine import Engine
from simulator.engine.sim_job import UNITS
from simulator.metrics.distribution import distribution
from simulator.metrics.fragmentation import Fragmentation
from simulator.metrics.gpu_time import gpu_seconds
from simulator.metrics.summary import summarise
from simulator.records import JobRecord
from tests.simulator.clusters import racks
from tests.simulator.engine.runs import finished, placed


def test_percentiles_are_linear_between_ranks() -> None:
    """Of 0 .. 10: the 95th lies half way between 9 and 10."""
    found = distribution(range(11))
    assert found is not None
    assert (found.mean, found.p50, found.p95, found.max) == (5, 5, 9.5, 10)
    assert distribution([]) is None


@given(
    st.lists(
        st.tuples(st.integers(1, 10**6), st.floats(0, 1e12, allow_nan=False), st.floats(0, 1e12, allow_nan=False)),
        max_size=20,
    )
)
def test_gpu_seconds_are_exact(spans: list[tuple[int, float, float]]) -> None:
    """As fractions say, whatever the floats."""
    exact = sum((units * (Fraction(end) - Fraction(begin)) for units, begin, end in spans), Fraction()) / UNITS
    assert gpu_seconds(spans) == exact


def test_fragmentation_is_what_gangs_cannot_use_of_what_is_free() -> None:
    """Two nodes; 3 GPUs of one are used for 10 s: 13 are free, 5 of them on a broken node."""
    fragmentation = Fragmentation()
    finished(Engine([JobRecord("a", 0, 10, 3)], placed(racks(2)), Fifo(), observers=[fragmentation]))
    assert fragmentation.share == pytest.approx(5 / 13)


def test_shares_of_a_gpu_add_up() -> None:
    """Four quarters fill a GPU; the fifth goes to the next on the same node."""
    records = [JobRecord(f"j{i}", 0, 10, 0.25, nodes=1) for i in range(5)]
    engine = finished(Engine(records, placed(racks(2)), Fifo()))
    assert {place for job in engine.jobs for place in job.places} == {0}
    summary = summarise(engine.jobs, engine.pool.capacity)
    assert summary.utilization == pytest.approx(1.25 / 16)
    assert np.isclose(summary.makespan or 0, 10)
