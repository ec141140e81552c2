"""Restart costs as published."""

from __future__ import annotations

import pytest

from health.recovery.restarts import RESTART_COSTS, restart_seconds


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
