"""The largest job of a shape by trying every size, and shapes on clusters that grow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.types import ALGORITHMS
from simulator.capacity.fragmentation.fragmentation_question import FragmentationQuestion
from simulator.capacity.grow.grown_shapes import SHARE, GrownShapes, shapes_table
from simulator.capacity.job_shape import ALPHA, Family, JobShape, Prober
from tests.case_counts import examples
from tests.simulator.capacity.clusters_in_use import with_free
from topology.cluster import Cluster
from topology.generate import minipods


def prober_of(*free: int) -> Prober:
    """Minipods of 8 nodes with so many free, placed by the exact algorithm."""
    return Prober(with_free(*free), ALGORITHMS.load("exact"))


@examples(12)
@given(
    free=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    stages=st.integers(1, 4),
    family=st.sampled_from(["dp", "pp"]),
    spread=st.integers(1, 2),
)
def test_the_largest_job_by_trying_every_size(free: list[int], stages: int, family: Family, spread: int) -> None:
    """Of all sizes for which there are nodes, the largest whose groups touch so few minipods; proved in these."""
    prober, shape = prober_of(*free), JobShape(8, stages)
    found = prober.largest(shape, family, spread)
    sizes = []
    for rows in range(1, prober.most_rows(shape) + 1):
        worth = prober.place(shape, rows, ALPHA[family]).evaluation
        if worth is not None and getattr(worth, family) <= spread:
            sizes.append(rows * stages)
    assert (found.nodes, found.proved) == (max(sizes, default=0), True)
    assert (found.family, found.spread) == (family, spread)


def test_whole_groups_need_no_search() -> None:
    """PP groups of 3 inside minipods with 7, 5 and 2 free: two, one and none, 9 nodes of the 12 that spread may use."""
    prober, shape = prober_of(7, 5, 2), JobShape(8, 3)
    assert prober.most_rows(shape) == 4
    assert prober.largest(shape, "pp", 1).nodes == 9
    assert prober.largest(shape, "pp", 2).nodes == 12


def test_a_job_is_placed_once() -> None:
    """Asked again, the outcome is the same object; another alpha is another job."""
    prober, shape = prober_of(4, 4), JobShape(8, 2)
    assert prober.place(shape, 2, 0.5) is prober.place(shape, 2, 0.5)
    assert prober.place(shape, 2, 0.5) is not prober.place(shape, 2, 0.6)


def grown() -> tuple[GrownShapes, Cluster]:
    """Two shapes on two minipods of 8 nodes that are empty, and those with two more."""
    question = FragmentationQuestion(cluster=minipods(minipods=2, nodes=16), shapes=("8x1", "8x3"))
    return GrownShapes(question), minipods(minipods=4, nodes=32)


def test_shapes_on_a_cluster_that_grows() -> None:
    """The job that is compared has nine tenths of what is free today, on every cluster; the largest jobs grow.

    16 nodes are 16 groups of one and 5 of three, of which 2 each fit whole into a minipod; 32 are 10, and 2 in each.
    """
    shapes, larger = grown()
    now, then = shapes.on(minipods(minipods=2, nodes=16)), shapes.on(larger)
    assert [one.shape for one in now] == ["8x1", "8x3"]
    assert [one.job_nodes for one in now] == [int(SHARE * 16), int(SHARE * 5) * 3]
    assert [one.job_nodes for one in then] == [one.job_nodes for one in now]
    assert [(one.most_nodes, one.whole_nodes) for one in now] == [(16, 16), (15, 12)]
    assert [(one.most_nodes, one.whole_nodes) for one in then] == [(32, 32), (30, 24)]
    assert all(one.whole_proved for one in (*now, *then))
    for before, after in zip(now, then, strict=True):
        assert before.objective is not None
        assert after.objective is not None
        assert after.objective <= before.objective


def test_a_smaller_cluster_has_no_place_for_the_job() -> None:
    """On half of the nodes the job of nine tenths has none, and its objective is not known."""
    shapes, _ = grown()
    assert [one.objective for one in shapes.on(minipods(minipods=1, nodes=8))] == [None, None]


def test_the_table_of_shapes() -> None:
    """One shape after the other, on each cluster a line; a dash where the job has no place."""
    shapes, larger = grown()
    half = minipods(minipods=1, nodes=8)
    table = shapes_table("minipod", [(0, shapes.on(half)), (3, shapes.on(larger))])
    assert [row[:4] for row in table.rows] == [
        ("8x1", "0", "8", "8"),
        ("8x1", "3", "32", "32"),
        ("8x3", "0", "6", "6"),
        ("8x3", "3", "30", "24"),
    ]
    assert [row[-1] == "-" for row in table.rows] == [True, False, True, False]
    assert table.headers[1] == "minipods more"


@pytest.mark.parametrize("free", [(), (0,), (0, 0)], ids=str)
def test_nothing_free(free: tuple[int, ...]) -> None:
    """The largest job of any shape has no node, and that is proved."""
    prober = prober_of(*(free or (0,)))
    assert prober.most_rows(JobShape(8, 2)) == 0
    assert (prober.largest(JobShape(8, 2), "dp", 1).nodes, prober.largest(JobShape(8, 2), "dp", 1).proved) == (0, True)
