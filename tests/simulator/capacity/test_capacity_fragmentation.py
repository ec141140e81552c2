"""The largest job that fits, counted by hand and against the closed form."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.placement.registry import load_algorithm
from simulator.capacity.fragmentation import fragmentation
from simulator.capacity.fragmentation_sheet import fragmentation_sheet
from simulator.capacity.largest import Largest, Prober
from simulator.capacity.shape import JobShape
from topology.build import build_cluster
from topology.capacity import count_nodes
from topology.cluster import Cluster, Node
from topology.errors import UnknownName
from topology.generate import fragment, minipods


def with_free(*free: int, size: int = 8) -> Cluster:
    """Minipods of ``size`` nodes with so many of them free."""
    rows = [Node(f"n{pod}-{i}", (f"mp{pod}",), 8, 8 if i < n else 0) for pod, n in enumerate(free) for i in range(size)]
    return build_cluster(["minipod"], rows)


def prober(cluster: Cluster) -> Prober:
    """Asks the exact algorithm."""
    return Prober(cluster, load_algorithm("exact"), seconds=5.0)


def test_by_hand() -> None:
    """7, 5 and 2 free nodes, PP groups of 4: two whole ones, one in 7 and one in 5.

    Three (12 of 14 nodes) need a PP group over two minipods, 3 + 1; with one row over two minipods nothing is lost.
    A column of three replicas in one minipod: the 7 hold one column of 3 and one more of 3, the 5 one, so 4 columns
    of 3 rows do not fit and of 2 rows they do (3 in the 7, 1 in the 5).
    """
    asked, shape = prober(with_free(7, 5, 2)), JobShape(8, 4)
    assert asked.most_rows(shape) == 3
    assert asked.largest(shape, "pp", 1) == Largest(2, proved=True)
    assert asked.largest(shape, "pp", 2) == Largest(3, proved=True)
    assert asked.largest(shape, "dp", 1) == Largest(2, proved=True)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("stages", [1, 3, 4])
def test_whole_rows_by_the_closed_form(seed: int, stages: int) -> None:
    """With PP spread 1 a minipod with f free nodes holds floor(f / pp) rows, and that is all."""
    cluster = fragment(minipods(minipods=5, nodes=60), 0.5, seed)
    free = count_nodes(cluster.level("minipod"), cluster.idle)
    assert prober(cluster).largest(JobShape(8, stages), "pp", 1) == Largest(int((free // stages).sum()), proved=True)


def test_nothing_free() -> None:
    """No job of any shape, no division by zero, and a sheet all the same."""
    answer = fragmentation(with_free(0, 0), source="full", shapes=(JobShape(8, 2),), spreads=(1,))
    assert answer.free == 0
    assert answer.shapes[0].most == 0
    assert answer.shapes[0].largest["pp", 1] == Largest(0, proved=True)
    assert answer.shapes[0].sizes == ()
    assert "0 of 16 nodes are free" in fragmentation_sheet(answer).verdict


def test_an_empty_cluster_is_not_fragmented() -> None:
    """Every ratio is 1, whatever the shape and size."""
    answer = fragmentation(minipods(minipods=4, nodes=32), source="empty", shapes=(JobShape(8, 2), JobShape(8, 4)))
    ratios = [size.ratio for row in answer.shapes for size in row.sizes]
    assert len(ratios) == 8
    assert ratios == pytest.approx([1.0] * 8)
    assert answer.domains == (8, 8, 8, 8)


def test_counts_of_stranded_nodes() -> None:
    """7, 5, 2 and 0 free with PP groups of 4: 2 in a minipod too small, 3 + 1 + 2 left over."""
    answer = fragmentation(with_free(7, 5, 2, 0), source="x", shapes=(JobShape(8, 4),), spreads=(1,), shares=(0.5,))
    row = answer.shapes[0]
    assert (row.too_small, row.left_over) == (2, 6)
    assert answer.domains == (7, 5, 2, 0)
    # Half of three rows is one row, inside one minipod now and on the empty cluster.
    assert row.sizes[0].rows == 1
    assert (row.sizes[0].dp, row.sizes[0].pp) == (1, 1)


def test_larger_spreads_never_hold_less() -> None:
    """Allowing more domains never makes the largest job smaller."""
    cluster = fragment(minipods(minipods=6, nodes=72), 0.6, 4)
    answer = fragmentation(cluster, source="x", shapes=(JobShape(8, 4),), seconds=2.0)
    for family in ("pp", "dp"):
        sizes = [answer.shapes[0].largest[family, k].rows for k in answer.spreads]
        assert sizes == sorted(sizes)
        assert sizes[-1] <= answer.shapes[0].most


def test_no_such_level() -> None:
    """The error names the levels."""
    with pytest.raises(UnknownName, match="minipod"):
        fragmentation(with_free(4), source="x", shapes=(JobShape(8, 1),), level="pod")


def test_faulty_nodes_do_not_count() -> None:
    """A faulty node is free for nobody."""
    rows = [Node(f"n{i}", ("mp",), 8, 8, np.inf if i == 0 else 1.0) for i in range(4)]
    assert prober(build_cluster(["minipod"], rows)).most_rows(JobShape(8, 1)) == 3
