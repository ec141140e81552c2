"""The largest job that fits: counted by hand, against closed forms, and against all ways to seat small jobs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.types import ALGORITHMS
from simulator.capacity.cluster_question import ALPHA, Family, JobShape, LargestJob, Prober
from tests.case_counts import examples
from tests.simulator.capacity.clusters_in_use import with_free
from topology.build import build_cluster
from topology.cluster import Cluster, Node, NodeLimit, count_nodes
from topology.generate import fragment, minipods


def prober(cluster: Cluster) -> Prober:
    """Asks the exact algorithm, with time enough for a proof."""
    return Prober(cluster, ALGORITHMS.load("exact"), seconds=5.0)


def test_by_hand() -> None:
    """7, 5 and 2 free nodes, PP groups of 4: two whole ones, one in 7 and one in 5.

    Three (12 of 14 nodes) need a PP group over two minipods, 3 + 1; with one row over two minipods nothing is lost.
    A column of three replicas in one minipod: the 7 hold one column of 3 and one more of 3, the 5 one, so 4 columns
    of 3 rows do not fit and of 2 rows they do (3 in the 7, 1 in the 5).
    """
    asked, shape = prober(with_free(7, 5, 2)), JobShape(8, 4)
    assert asked.most_rows(shape) == 3
    assert asked.largest(shape, "pp", 1) == LargestJob("pp", 1, nodes=8, proved=True)
    assert asked.largest(shape, "pp", 2) == LargestJob("pp", 2, nodes=12, proved=True)
    assert asked.largest(shape, "dp", 1) == LargestJob("dp", 1, nodes=8, proved=True)


def test_no_job_is_larger_than_one_may_be() -> None:
    """Of 14 free nodes a job may have 9: two PP groups of 4, whatever their spread; without that it is three."""
    asked = prober(with_free(7, 5, 2).replace(node_limit=NodeLimit(9, "MaxNodes of the partition debug")))
    assert asked.most_rows(JobShape(8, 4)) == 2
    assert asked.largest(JobShape(8, 4), "pp", 2) == LargestJob("pp", 2, nodes=8, proved=True)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("stages", [1, 3, 4])
def test_whole_rows_by_the_closed_form(seed: int, stages: int) -> None:
    """With PP spread 1 a minipod with f free nodes holds floor(f / pp) rows, and that is all."""
    cluster = fragment(minipods(minipods=5, nodes=60), 0.5, seed)
    free = count_nodes(cluster.level("minipod"), cluster.idle)
    found = prober(cluster).largest(JobShape(8, stages), "pp", 1)
    assert (found.nodes, found.proved) == (stages * int((free // stages).sum()), True)


@examples(25)
@given(free=st.lists(st.integers(0, 8), min_size=1, max_size=4), stages=st.integers(1, 4))
def test_whole_columns_by_the_closed_form(free: list[int], stages: int) -> None:
    """With DP spread 1 a column of n replicas lies in one minipod: n rows fit while sum floor(f / n) >= pp."""
    rows = [n for n in range(1, sum(free) + 1) if sum(f // n for f in free) >= stages]
    found = prober(with_free(*free)).largest(JobShape(8, stages), "dp", 1)
    assert (found.nodes, found.proved) == (stages * max(rows, default=0), True)


def most_seated(free: tuple[int, ...], stages: int, family: Family, spread: int) -> int:
    """Rows of the largest job, by trying every minipod for every cell."""
    best = 0
    for rows in range(1, sum(free) // stages + 1):
        for cells in product(range(len(free)), repeat=rows * stages):
            if any(cells.count(pod) > free[pod] for pod in range(len(free))):
                continue
            grid = np.array(cells).reshape(rows, stages)
            groups = grid if family == "pp" else grid.T
            if max(len(set(group)) for group in groups.tolist()) <= spread:
                best = rows
                break
    return best


@pytest.mark.parametrize("family", ["pp", "dp"])
@pytest.mark.parametrize("spread", [1, 2])
@pytest.mark.parametrize("free", [(3, 2, 1), (2, 2, 2), (4, 1, 1), (1, 1, 1), (5, 0, 1)])
def test_against_all_seatings(free: tuple[int, ...], family: Family, spread: int) -> None:
    """Of jobs with two stages on three minipods: at most 3^6 seatings of each size."""
    found = prober(with_free(*free)).largest(JobShape(8, 2), family, spread)
    assert (found.nodes, found.proved) == (2 * most_seated(free, 2, family, spread), True)


def test_faulty_nodes_do_not_count() -> None:
    """A faulty node is free for no job."""
    rows = [Node(f"n{i}", ("mp",), 8, 8, np.inf if i == 0 else 1.0) for i in range(4)]
    assert prober(build_cluster(["minipod"], rows)).most_rows(JobShape(8, 1)) == 3


def test_slow_nodes_count_as_any_other() -> None:
    """Minipods with 4, 4, 2 and 2 free, one of the first 4 twice as slow: two whole PP groups of 4 all the same.

    A job of these 8 nodes that avoids the slow one has its second PP group in the two small minipods: spread 2 without
    need, and a job said not to fit that does.
    """
    free = (4, 4, 2, 2)
    rows = [
        Node(f"n{pod}-{i}", (f"mp{pod}",), 8, 8, 2.0 if pod == i == 0 else 1.0)
        for pod, count in enumerate(free)
        for i in range(count)
    ]
    asked = prober(build_cluster(["minipod"], rows))
    assert asked.most_rows(JobShape(8, 4)) == 3
    assert asked.largest(JobShape(8, 4), "pp", 1) == LargestJob("pp", 1, nodes=8, proved=True)
    # Without pipeline a DP group is the whole job: two minipods hold 4 + 4 nodes, not 4 + 3.
    assert asked.largest(JobShape(8, 1), "dp", 2) == LargestJob("dp", 2, nodes=8, proved=True)


def test_no_question_is_asked_twice() -> None:
    """The same job is the same outcome, the object itself; another affinity is another question."""
    asked, shape = prober(with_free(4, 4)), JobShape(8, 2)
    assert asked.place(shape, 2, 0.5) is asked.place(shape, 2, 0.5)
    assert asked.place(shape, 2, 0.5) is not asked.place(shape, 2, 1.0)


@examples(12)
@given(
    free=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    stages=st.integers(1, 4),
    family=st.sampled_from(["dp", "pp"]),
    spread=st.integers(1, 2),
)
def test_the_largest_job_by_trying_every_size(free: list[int], stages: int, family: Family, spread: int) -> None:
    """Of all sizes for which there are nodes, the largest whose groups touch so few minipods; proved in these."""
    asked, shape = prober(with_free(*free)), JobShape(8, stages)
    found = asked.largest(shape, family, spread)
    sizes = []
    for rows in range(1, asked.most_rows(shape) + 1):
        worth = asked.place(shape, rows, ALPHA[family]).evaluation
        if worth is not None and getattr(worth, family) <= spread:
            sizes.append(rows * stages)
    assert (found.nodes, found.proved) == (max(sizes, default=0), True)
    assert (found.family, found.spread) == (family, spread)


def test_whole_groups_need_no_search() -> None:
    """PP groups of 3 inside minipods with 7, 5 and 2 free: two, one and none, 9 nodes of the 12 that spread may use."""
    asked, shape = prober(with_free(7, 5, 2)), JobShape(8, 3)
    assert asked.most_rows(shape) == 4
    assert asked.largest(shape, "pp", 1).nodes == 9
    assert asked.largest(shape, "pp", 2).nodes == 12


@pytest.mark.parametrize("free", [(), (0,), (0, 0)], ids=str)
def test_nothing_free(free: tuple[int, ...]) -> None:
    """The largest job of any shape has no node, and that is proved."""
    asked = prober(with_free(*(free or (0,))))
    assert asked.most_rows(JobShape(8, 2)) == 0
    assert (asked.largest(JobShape(8, 2), "dp", 1).nodes, asked.largest(JobShape(8, 2), "dp", 1).proved) == (0, True)
