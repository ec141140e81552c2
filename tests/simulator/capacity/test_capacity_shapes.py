"""Shapes of jobs as people write them."""

from __future__ import annotations

import pytest

from simulator.capacity.shape import JobShape, parse_job, parse_shape
from topology.errors import InvalidJob


def test_a_shape_makes_jobs() -> None:
    """Tp 4 leaves room for two replicas in a node of 8: 3 rows of 2 stages are 6 nodes and dp 6."""
    job = parse_shape("4x2").job(3, alpha=0.3)
    assert job.grid.cells == 6
    assert (job.parallelism.tp, job.parallelism.dp, job.parallelism.pp) == (4, 6, 2)
    assert parse_job("8x16x20") == (JobShape(8, 16), 20)


@pytest.mark.parametrize("text", ["8", "x", "0x4", "8x0", "3x4", "axb", "8x-1", ""])
def test_no_shape(text: str) -> None:
    """Words that are no shape, and a tp that does not divide a node."""
    with pytest.raises(InvalidJob):
        parse_shape(text)


@pytest.mark.parametrize("text", ["8x8", "8x8x0", "8x8xa", "", "8x8x999999999"])
def test_no_job(text: str) -> None:
    """A job needs a number of PP groups, within reason."""
    with pytest.raises(InvalidJob):
        parse_job(text)
