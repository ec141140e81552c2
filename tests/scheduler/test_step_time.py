"""Predicted step time, in numbers worked out by hand."""

from __future__ import annotations

import pytest

from scheduler.job import Job, Parallelism
from scheduler.objective import step_time


def test_step_time_in_numbers() -> None:
    """(1 + 0.018 / 0.7 * (3 - 1)) * (1 + 0.5 * 8 / 11) for f = 1.5, m = 8, p = 4; under ``ignore`` the first alone."""
    job = Job("job", Parallelism(tp=8, dp=2, pp=4), microbatches=8)
    assert step_time(job, objective=3.0, slowest=1.5) == pytest.approx((1 + 0.036 / 0.7) * (1 + 4 / 11))
    assert step_time(job.replace(avoid="ignore"), objective=3.0, slowest=1.5) == pytest.approx(1 + 0.036 / 0.7)


def test_without_spread_and_slow_nodes_it_is_one() -> None:
    """The ideal that step times are relative to."""
    assert step_time(Job("job", Parallelism(tp=8, dp=2)), objective=1.0, slowest=1.0) == 1.0
