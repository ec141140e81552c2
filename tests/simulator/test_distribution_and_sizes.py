"""Distributions over jobs and classes of size: against their definitions."""

from __future__ import annotations

from math import floor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator.job_record import JobRecord
from simulator.results import (
    LIMITS,
    NAMES,
    bucket_length,
    counts,
    distribution,
    edges_of,
    size_class,
    wait_distribution,
)
from tests.simulator.clusters import racks
from tests.simulator.replays import replayed

VALUES = st.lists(st.floats(-1e9, 1e9, allow_nan=False), min_size=1, max_size=30)


def percentile(values: list[float], share: float) -> float:
    """Linear between the two nearest ranks."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


@given(VALUES)
def test_a_distribution_by_its_definition(values: list[float]) -> None:
    """Mean, percentiles and largest as written down in metrics.md of the docs."""
    found = distribution(values)
    assert found is not None
    assert found.mean == pytest.approx(sum(values) / len(values), abs=1e-3)
    assert found.max == max(values)
    for share, value in ((0.5, found.p50), (0.95, found.p95), (0.99, found.p99)):
        assert value == pytest.approx(percentile(values, share), rel=1e-9, abs=1e-3)


def test_waits_are_of_jobs_that_started() -> None:
    """The second job waits 10 s for the first; one that has not been submitted yet has no wait."""
    made, _ = replayed([JobRecord("a", 0.0, 10.0, 8), JobRecord("b", 0.0, 10.0, 8)], racks(1), policy="fifo")
    found = wait_distribution(made.engine.jobs)
    assert found is not None
    assert (found.mean, found.max) == (5.0, 10.0)
    assert wait_distribution([]) is None


@given(st.floats(0.01, 1e5))
def test_classes_of_size(gpus: float) -> None:
    """The first class whose limit is not below the number; the last has none."""
    by_hand = next((i for i, limit in enumerate(LIMITS) if gpus <= limit), len(LIMITS))
    assert size_class(gpus) == by_hand
    assert by_hand < len(NAMES)


@given(st.floats(1.0, 1e7), st.integers(1, 500))
@example(1.12, 113)  # 112 steps of 0.01, and in binary a little more
@example(1.11, 111)
def test_buckets_cover_the_run(length: float, most: int) -> None:
    """From 0 to the length, none longer than the step but for binary fractions, at most as many as asked for."""
    step = bucket_length(length, most)
    edges = edges_of(length, step)
    assert (edges[0], edges[-1]) == (0.0, length)
    assert (np.diff(edges) > 0).all()
    assert (np.diff(edges) <= step * (1 + 1e-9)).all()
    assert len(edges) - 1 <= most + 1


@given(st.lists(st.floats(0, 100), max_size=20), st.floats(1, 60))
def test_each_moment_is_counted_once(times: list[float], step: float) -> None:
    """The end of the run belongs to its last bucket."""
    assert counts(edges_of(100.0, step), np.array(times)).sum() == len(times)
