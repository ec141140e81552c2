"""Which groups of a job stay on one rail, the index of a network card within every node."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.job import Job, Parallelism
from scheduler.rails import RailUse, rail_use
from tests.case_counts import examples
from topology.build import build_cluster
from topology.cluster import Cluster, Node


def cluster_of(cards: list[int | None], *, gpus: int = 8) -> Cluster:
    """Nodes n0, n1, ... of a rack, with so many network cards each; ``None`` = not said."""
    nodes = [Node(f"n{i}", ("r0",), gpus, gpus) for i in range(len(cards))]
    return build_cluster(["rack"], nodes).replace(rails={i: count for i, count in enumerate(cards) if count})


def use_of(job: Job, cards: int | None) -> RailUse | None:
    """What a job uses on as many nodes as it needs, in order of their names."""
    cluster = cluster_of([cards] * job.grid.cells, gpus=job.gpus_per_node)
    return rail_use(cluster, job, job.grid.node_rank)


@pytest.mark.parametrize(
    ("parallelism", "cards", "on_rail", "crossing"),
    [
        # tp inside nodes; a DP group has one place in every node, and a stage follows a stage in whole nodes
        (Parallelism(tp=8, dp=2, pp=2), 8, ("dp", "pp"), ()),
        # two replicas in a node: a DP group has places 0 and 4 of each, on rails 0 and 4
        (Parallelism(tp=4, dp=4), 8, (), ("dp",)),
        # as many places, and one card for all GPUs of a node: there is one rail
        (Parallelism(tp=4, dp=4), 1, ("dp",), ()),
        # expert groups of 16 ranks take all places of two nodes
        (Parallelism(tp=1, ep=16, dp=16), 8, (), ("ep", "dp")),
        # TP over two nodes
        (Parallelism(tp=16, dp=2), 8, ("dp",), ("tp",)),
    ],
)
def test_families_stay_on_a_rail_or_cross(
    parallelism: Parallelism, cards: int, on_rail: tuple[str, ...], crossing: tuple[str, ...]
) -> None:
    """Of 8 GPUs a node, by hand; families inside nodes are neither."""
    assert use_of(Job("job", parallelism), cards) == RailUse(cards, on_rail, crossing)  # type: ignore[arg-type]


@examples(60)
@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    cp=st.sampled_from([1, 2]),
    dp=st.sampled_from([1, 2, 4, 8]),
    pp=st.sampled_from([1, 2, 3]),
    cards=st.sampled_from([1, 2, 4, 8]),
)
def test_dense_groups_are_counted_rank_by_rank(*, tp: int, cp: int, dp: int, pp: int, cards: int) -> None:
    """Ranks are numbered tp fastest, then cp, dp and pp, eight a node; neighbours share a card if there are fewer."""
    if tp * cp * dp * pp < 8 or tp * cp * dp * pp % 8:
        return
    use = use_of(Job("job", Parallelism(tp=tp, cp=cp, dp=dp, pp=pp)), cards)
    assert use is not None
    strides = {"tp": (1, tp), "cp": (tp, cp), "dp": (tp, cp * dp), "pp": (tp * cp * dp, pp)}
    for family, (stride, size) in strides.items():
        groups = [
            [first + stride * i for i in range(size)]
            for first in range(tp * cp * dp * pp)
            if first // stride % size == 0
        ]
        several = [group for group in groups if len({rank // 8 for rank in group}) > 1]
        mixed = [group for group in several if len({rank % 8 * cards // 8 for rank in group}) > 1]
        assert (family in use.crossing) == bool(mixed)
        assert (family in use.on_rail) == bool(several and not mixed)


def test_what_is_not_said_is_not_told() -> None:
    """A node without a number, or nodes that differ, are no rails; nor is a job without a placement."""
    job = Job("job", Parallelism(tp=8, dp=2))
    nodes = np.array([[0], [1]], dtype=np.int32)
    assert use_of(job, None) is None
    assert rail_use(cluster_of([8, None]), job, nodes) is None
    assert rail_use(cluster_of([8, 4]), job, nodes) is None
    assert rail_use(cluster_of([8, 8]), job, None) is None
    assert rail_use(cluster_of([4, 8, 8]), job, nodes + 1) == RailUse(8, ("dp",), ())
