"""How many nodes a job takes, and how many GPUs of each."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidJob
from scheduler.job import Parallelism
from simulator.job_record import JobRecord, shape
from tests.facts import saying
from topology.generate import minipods


def job(gpus: float, nodes: int | None = None, parallelism: Parallelism | None = None) -> JobRecord:
    """A job of some size."""
    return JobRecord("j", 0.0, 1.0, gpus, nodes, parallelism=parallelism)


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        (0.25, (1, 0.25)),
        (1, (1, 1)),
        (8, (1, 8)),
        (9, (3, 3)),
        (12, (2, 6)),
        (16, (2, 8)),
        (20, (4, 5)),
        (64, (8, 8)),
        # Neither 2, 3 nor 4 divides 13, and 13 nodes of one GPU would be absurd: two whole nodes.
        (13, (2, 8)),
        # 3 to 6 do not divide 17.
        (17, (3, 8)),
    ],
)
def test_on_nodes_of_eight(gpus: float, expected: tuple[int, float]) -> None:
    """The rule of the module, by hand."""
    assert shape(job(gpus), 8) == expected


@given(gpus=st.integers(1, 2000), size=st.sampled_from([1, 2, 4, 8, 16]))
def test_a_gang_of_equal_cells_that_holds_the_job(gpus: int, size: int) -> None:
    """No more on a node than it has, all the GPUs of the job, less than one node too many, on at most twice as many
    nodes as needed.
    """
    nodes, each = shape(job(gpus), size)
    assert 1 <= each <= size
    assert gpus <= nodes * each < gpus + size
    assert ceil(gpus / size) <= nodes <= 2 * ceil(gpus / size)


@pytest.mark.parametrize(("nodes", "expected"), [(2, (3, 8)), (3, (3, 8)), (4, (4, 5))])
def test_a_cluster_too_small_for_an_even_division_gives_whole_nodes(nodes: int, expected: tuple[int, float]) -> None:
    """20 GPUs are 5 on each of 4 nodes of 8 where there are as many, else 3 whole ones."""
    assert shape(job(20), 8, nodes_with=lambda gpus: nodes if gpus <= 8 else 0) == expected


def test_larger_nodes_hold_what_the_usual_ones_cannot() -> None:
    """Two nodes of 2 GPUs and one of 8: 8 GPUs go to that, named or not, and 4 still to the two."""

    def nodes_with(gpus: float) -> int:
        return 3 if gpus <= 2 else int(gpus <= 8)

    assert shape(job(8), 2, nodes_with=nodes_with) == (1, 8)
    assert shape(job(8, 1), 2, nodes_with=nodes_with) == (1, 8)
    assert shape(job(4), 2, nodes_with=nodes_with) == (2, 2)
    with pytest.raises(InvalidJob):
        shape(job(16, 2), 2, nodes_with=nodes_with)


def test_what_the_trace_says_holds() -> None:
    """16 GPUs on 4 nodes are 4 on each; on nodes of 2 there is no such thing."""
    assert shape(job(16, 4), 8) == (4, 4)
    with pytest.raises(InvalidJob, match=saying("4 GPUs", "4 nodes")):
        shape(job(16, 4), 2)


def test_parallelism_takes_whole_nodes() -> None:
    """With tp 8, pp 2, dp 3: 48 GPUs in 3 x 2 cells; what does not cut into nodes is refused."""
    assert shape(job(48, None, Parallelism(tp=8, pp=2, dp=3)), 8) == (6, 8)
    assert shape(job(4, None, Parallelism(tp=4)), 8) == (1, 4)
    with pytest.raises(InvalidJob, match="neither divide a node of 8"):
        shape(job(48, None, Parallelism(tp=3, dp=16)), 8)


def test_the_usual_node() -> None:
    """What most nodes have."""
    assert minipods(minipods=2, nodes=8).node_size == 8
