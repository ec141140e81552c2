"""The question recounted: the grid and the room of domains are those that the search has, by code that it has not."""

from __future__ import annotations

import random
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.job import Hold, Job, Parallelism
from scheduler.placement.exact.problem import GridReduction, counted_where_held
from scheduler.verification.question import CountedGrid, counted_grid, counted_out, node_choices, usable
from tests.case_counts import examples
from tests.scheduler.placement.exact.every_placement import tiny_instance
from topology.build import build_cluster
from topology.cluster import Cluster, Node


def racks(*free: int, trunks: bool = False) -> Cluster:
    """Racks with so many free nodes each, two in every minipod."""
    nodes = [Node(f"n{k}-{i}", (f"m{k // 2}", f"r{k}"), 8, 8) for k, count in enumerate(free) for i in range(count)]
    return build_cluster(["minipod", "rack"], nodes).replace(joined=not trunks)


@given(st.integers(0, 10**9))
@examples(500)
def test_grids_are_those_of_the_search(seed: int) -> None:
    """With holds of any family at any level, at every level, with and without slow nodes."""
    cluster, job = tiny_instance(random.Random(seed))
    for level in cluster.levels:
        for slowest in (1.0, inf):
            theirs = GridReduction(cluster, job.replace(level=level.name), slowest).problem
            ours = counted_grid(cluster, job, usable(cluster, job, slowest=slowest), level.name)
            assert ours == CountedGrid(theirs.rows, theirs.columns, theirs.capacities)


@given(st.integers(0, 10**9))
@examples(300)
def test_jobs_are_counted_out_where_the_search_refuses(seed: int) -> None:
    """Exactly where the blocks of a job find no room, by the count of the search."""
    cluster, job = tiny_instance(random.Random(seed))
    for slowest in (1.0, inf):
        refusal = GridReduction(cluster, counted_where_held(cluster, job), slowest).refusal
        assert counted_out(cluster, job, usable(cluster, job, slowest=slowest)) == bool(refusal)


def test_blocks_by_hand() -> None:
    """PP groups of 2 held in racks of 3, 5, 2 and 1 free nodes: 1 + 2 + 1 + 0 blocks of 2, so minipods take 3 and 1;
    the grid of 3 x 2 cells is one of 3 x 1 blocks.
    """
    cluster = racks(3, 5, 2, 1)
    job = Job("j", Parallelism(tp=8, dp=3, pp=2), level="minipod", holds=(Hold("pp", "rack"),))
    assert counted_grid(cluster, job, cluster.idle, "minipod") == CountedGrid(3, 1, (3, 1))
    assert not counted_out(cluster, job, cluster.idle)
    assert counted_out(cluster, job.replace(parallelism=Parallelism(tp=8, dp=5, pp=2)), cluster.idle)


def test_tp_groups_of_several_nodes_are_blocks() -> None:
    """TP 16 on nodes of 8 GPUs: two rows of a column each, held in racks, and parts of a DP group lie in one column."""
    cluster = racks(4, 4, 4, 4)
    job = Job("j", Parallelism(tp=16, dp=2, pp=3), level="minipod")
    assert counted_grid(cluster, job, cluster.idle, "minipod") == CountedGrid(2, 3, (4, 4))


def test_stages_that_share_nodes_make_no_grid() -> None:
    """TP 4, DP 3 and 3 stages on nodes of 8: a node has a part of one stage and a part of the next."""
    job = Job("j", Parallelism(tp=4, dp=3, pp=3), level="minipod")
    assert not job.grid.aligned
    cluster = racks(4, 4)
    assert counted_grid(cluster, job, cluster.idle, "minipod") is None


def test_holds_beside_the_tree_are_counted() -> None:
    """PP groups of 3 inside power domains of 4 and 4 nodes: one in each, and the job has three."""
    nodes = [Node(f"n{i}", (f"m{i % 2}",), 8, 8, second_path=(f"p{i // 4}",)) for i in range(8)]
    cluster = build_cluster(["minipod"], nodes, second=["@power"])
    job = Job("j", Parallelism(tp=8, dp=2, pp=3), level="minipod", holds=(Hold("pp", "@power"),))
    assert not counted_out(cluster, job, cluster.idle)
    assert counted_out(cluster, job.replace(holds=(Hold("pp", "@power"), Hold("dp", "@power"))), cluster.idle)


@pytest.mark.parametrize(
    ("mix", "speeds", "expected"),
    [
        (False, (1.0, 1.0), [("A",), ("B",)]),
        (True, (1.0, 1.0), [("A", "B")]),
        (True, (1.0, 2.0), [("A", "B"), ("B",)]),
    ],
)
def test_choices_of_types(mix: bool, speeds: tuple[float, float], expected: list[tuple[str, ...]]) -> None:
    """One type each, or mixed: for each speed all types at least as fast."""
    from scheduler.job import Speed

    cluster = build_cluster(["minipod"], [Node(f"n{i}", ("m",), 8, 8, 1.0, "AB"[i % 2]) for i in range(4)])
    speed = tuple(Speed(name, factor) for name, factor in zip("AB", speeds, strict=True))
    job = Job("j", Parallelism(tp=8, dp=2), mix_types=mix, speed=speed)
    found = node_choices(cluster, job)
    assert [choice.gpu_types for choice in found] == expected
    counted = [int(choice.nodes(cluster, inf).sum()) for choice in found]
    assert counted == [sum(2 for _ in choice.gpu_types) for choice in found]


def test_choices_of_trunks() -> None:
    """Where nothing joins the trunks each is a choice, with its own nodes."""
    cluster = racks(3, 5, 2, 1, trunks=True)
    found = node_choices(cluster, Job("j", Parallelism(tp=8, dp=2)))
    assert [np.flatnonzero(choice.nodes(cluster, inf)).size for choice in found] == [8, 3]
