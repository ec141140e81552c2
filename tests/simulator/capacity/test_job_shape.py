"""Shapes of jobs as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidJob
from simulator.capacity.cluster_question import JobShape, parse_job, parse_shape, usual_shapes
from tests.facts import saying


def test_a_shape_makes_jobs() -> None:
    """Tp 4 leaves room for two replicas in a node of 8: 3 rows of 2 stages are 6 nodes and dp 6."""
    job = parse_shape("4x2").job(3, alpha=0.3)
    assert job.grid.cells == 6
    assert (job.parallelism.tp, job.parallelism.dp, job.parallelism.pp) == (4, 6, 2)
    assert parse_job("8x16x20") == (JobShape(8, 16), 20)


@given(st.sampled_from([1, 2, 4, 8]), st.integers(1, 32), st.integers(1, 40))
def test_any_shape_there_and_back(tp: int, pp: int, rows: int) -> None:
    """Its name reads as itself, spaces and capitals aside; a row takes pp nodes, which hold all GPUs of the job."""
    shape = JobShape(tp, pp)
    assert parse_shape(f" {shape.name.upper()} ") == shape
    assert parse_job(f"{shape.name}x{rows}") == (shape, rows)
    job = shape.job(rows)
    assert job.grid.cells == shape.pp * rows
    assert job.parallelism.tp * job.parallelism.dp * job.parallelism.pp == 8 * shape.pp * rows


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


def test_shapes_of_other_nodes() -> None:
    """On nodes of 4 GPUs a tp of 4 fills the node and one of 8 is impossible, with its divisors named."""
    assert [shape.name for shape in usual_shapes(4)] == ["4x1", "4x4", "4x8", "4x16"]
    assert parse_shape("4x3", gpus_per_node=4).job(2).grid.cells == 6
    with pytest.raises(InvalidJob, match=saying("tp 8", "4 GPUs")) as caught:
        parse_shape("8x3", gpus_per_node=4)
    assert "divisors of 4" in caught.value.fix
