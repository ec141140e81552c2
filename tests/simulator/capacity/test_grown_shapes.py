"""Shapes on clusters that grow: the job that is compared, the largest jobs, and their table."""

from __future__ import annotations

from simulator.capacity.grow import SHARE, GrowQuestion, shapes_table
from topology.cluster import Cluster
from topology.generate import minipods


def grown() -> tuple[GrowQuestion, Cluster]:
    """Two shapes on two minipods of 8 nodes that are empty, and those with two more."""
    question = GrowQuestion(cluster=minipods(minipods=2, nodes=16), shapes=("8x1", "8x3"))
    return question, minipods(minipods=4, nodes=32)


def test_shapes_on_a_cluster_that_grows() -> None:
    """The job that is compared has nine tenths of what is free today, on every cluster; the largest jobs grow.

    16 nodes are 16 groups of one and 5 of three, of which 2 each fit whole into a minipod; 32 are 10, and 2 in each.
    """
    question, larger = grown()
    now, then = question.shapes_on(minipods(minipods=2, nodes=16)), question.shapes_on(larger)
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
    question, _ = grown()
    assert [shape.objective for shape in question.shapes_on(minipods(minipods=1, nodes=8))] == [None, None]


def test_the_table_of_shapes() -> None:
    """One shape after the other, on each cluster a line; a dash where the job has no place."""
    question, larger = grown()
    half = minipods(minipods=1, nodes=8)
    table = shapes_table("minipod", [(0, question.shapes_on(half)), (3, question.shapes_on(larger))])
    assert [row[:4] for row in table.rows] == [
        ("8x1", "0", "8", "8"),
        ("8x1", "3", "32", "32"),
        ("8x3", "0", "6", "6"),
        ("8x3", "3", "30", "24"),
    ]
    assert [row[-1] == "-" for row in table.rows] == [True, False, True, False]
    assert table.headers[1] == "minipods more"
