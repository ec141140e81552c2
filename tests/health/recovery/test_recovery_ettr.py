"""Restart costs as published, and productive time over wall clock."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from health.recovery.recovery_ettr import cumulative_ettr, sliding_ettr
from health.recovery.restart_cost import RESTART_COSTS, restart_seconds
from tests.case_counts import examples


def test_restart_costs_are_the_published_ones() -> None:
    """454/46, 545/51, 635/54 and 768/65 seconds at 128 to 1,024 machines (arXiv 2509.16293)."""
    table = [(cost.machines, cost.requeue, cost.hot_update) for cost in RESTART_COSTS]
    assert table == [(128, 454, 46), (256, 545, 51), (512, 635, 54), (1024, 768, 65)]
    for machines, requeue, hot_update in table:
        assert restart_seconds(machines, "requeue") == requeue
        assert restart_seconds(machines, "hot-update") == hot_update


def test_restart_costs_between_and_beyond() -> None:
    """Between 256 and 512, halfway in the logarithm, the mean; beyond the ends, the ends."""
    assert restart_seconds(256 * 2**0.5, "requeue") == pytest.approx((545 + 635) / 2)
    assert restart_seconds(8, "hot-update") == 46
    assert restart_seconds(10_000, "requeue") == 768


def test_an_outage_of_half_an_hour() -> None:
    """Productive for 1.5 hours, down for half an hour, productive again.

    Cumulative at 2 h: 1.5 / 2. Sliding at 2 h: half of the last hour. At 3 h: 2.5 / 3 and the whole hour. In the first
    half hour both are 1.
    """
    productive = [[0, 5400], [7200, 10800]]
    at = [1800, 7200, 10800]
    assert cumulative_ettr(productive, at).tolist() == pytest.approx([1.0, 0.75, 2.5 / 3])
    assert sliding_ettr(productive, at).tolist() == pytest.approx([1.0, 0.5, 1.0])


@examples(60)
@given(
    st.lists(st.integers(0, 400), min_size=2, max_size=10, unique=True).map(sorted),
    st.lists(st.integers(1, 500), min_size=1, max_size=5),
    st.integers(1, 200),
)
def test_against_counting_seconds(edges: list[int], at: list[int], window: int) -> None:
    """On whole seconds both are what counting productive seconds one by one gives."""
    edges = edges[: len(edges) // 2 * 2]
    productive = np.array(edges).reshape(-1, 2)
    seconds = np.zeros(501)
    for begin, end in productive:
        seconds[begin:end] = 1.0
    total = [seconds[:t].mean() for t in at]
    recent = [seconds[max(0, t - window) : t].mean() for t in at]
    assert cumulative_ettr(productive, at).tolist() == pytest.approx(total)
    assert sliding_ettr(productive, at, window=window).tolist() == pytest.approx(recent)


def test_never_productive() -> None:
    """Without an interval nothing was."""
    assert cumulative_ettr([], [1.0, 9.0]).tolist() == [0.0, 0.0]


def test_costs_grow_with_the_job() -> None:
    """A larger job restarts more slowly either way, and a hot update is about ten times as fast as a requeue."""
    for small, large in pairwise(RESTART_COSTS):
        assert small.requeue < large.requeue
        assert small.hot_update < large.hot_update
    assert all(9 < cost.requeue / cost.hot_update < 13 for cost in RESTART_COSTS)


@pytest.mark.parametrize(
    ("productive", "at", "window"),
    [
        ([[5, 3]], [10], 60),
        ([[0, 5], [4, 8]], [10], 60),
        ([[-1, 5]], [10], 60),
        ([[0, float("nan")]], [10], 60),
        ([[0, 5]], [0], 60),
        ([[0, 5]], [10], 0),
    ],
)
def test_bad_intervals(productive: list[list[float]], at: list[float], window: float) -> None:
    """Intervals out of order, overlapping, negative or not finite; an instant or a window not above 0."""
    with pytest.raises(ValueError, match="are"):
        sliding_ettr(productive, at, window=window)
