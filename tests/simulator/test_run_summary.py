"""Metrics of runs that can be worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.job_record import JobRecord
from simulator.results import distribution, integrals, run_summary
from tests.simulator.clusters import racks
from tests.simulator.replays import replayed


def test_percentiles_are_linear_between_ranks() -> None:
    """Of 0 .. 10: the 95th lies half way between 9 and 10."""
    found = distribution(range(11))
    assert found is not None
    assert (found.mean, found.p50, found.p95, found.max) == (5, 5, 9.5, 10)
    assert distribution([]) is None


@given(
    st.lists(
        st.tuples(st.integers(1, 10**6), st.floats(0, 1e9, allow_nan=False), st.floats(0, 1e9, allow_nan=False)),
        max_size=20,
    )
)
def test_a_whole_run_is_rounded_once(spans: list[tuple[int, float, float]]) -> None:
    """GPU-seconds of one bucket are those of fractions, but for the rounding of each product and of the sum."""
    gpus, begin, end = (np.array([span[i] for span in spans], dtype=np.float64) for i in range(3))
    begin, end = np.minimum(begin, end), np.maximum(begin, end)
    rows = list(zip(gpus.tolist(), begin.tolist(), end.tolist(), strict=True))
    exact = sum((Fraction(g) * (Fraction(e) - Fraction(b)) for g, b, e in rows), Fraction())
    largest = sum(g * e for g, _, e in rows)
    found = integrals(np.array([0.0, 1e9]), begin, end, gpus)
    assert found.shape == (1,)
    assert abs(Fraction(found[0]) - exact) <= Fraction(largest) * 4 / 2**53


def test_fragmentation_is_what_gangs_cannot_use_of_what_is_free() -> None:
    """Two nodes; 3 GPUs of one are used for 10 s: 13 are free, 5 of them on a broken node."""
    _, history = replayed([JobRecord("a", 0, 10, 3)], racks(2), policy="fifo", algorithm="exact")
    assert run_summary(history).fragmentation == pytest.approx(5 / 13)


def test_shares_of_a_gpu_add_up() -> None:
    """Four quarters fill a GPU; the fifth goes to the next on the same node."""
    records = [JobRecord(f"j{i}", 0, 10, 0.25, nodes=1) for i in range(5)]
    made, history = replayed(records, racks(2), policy="fifo", algorithm="exact")
    assert {place for job in made.engine.jobs for place in job.places} == {0}
    summary = run_summary(history)
    assert summary.utilization == pytest.approx(1.25 / 16)
    assert summary.makespan_seconds == 10
