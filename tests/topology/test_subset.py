"""A part of a cluster is the cluster of those nodes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.case_counts import examples
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import NodeFlag

ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from(["", "r1", "r2"]),
        st.integers(0, 8),
        st.sampled_from(["", "H100", "A100"]),
    ),
    min_size=1,
    max_size=12,
)


def cluster_of(rows: list[tuple[str, str, int, str]], names: list[int]) -> Cluster:
    """Nodes n0, n1, ... of which some are there; every third is slow."""
    nodes = [
        Node(f"n{i}", (mp, f"{mp}{rack}" if rack else ""), 8, free, gpu_type=gpu_type)
        for i, (mp, rack, free, gpu_type) in enumerate(rows)
        if i in names
    ]
    flags = [NodeFlag(f"n{i}", "straggler", 1.5) for i in names if i % 3 == 0]
    return build_cluster(["minipod", "rack"], nodes, flags=flags)


def shape(cluster: Cluster) -> list[tuple[object, ...]]:
    """What there is to know of each node, domains by name."""
    implicit = [level.implicit[level.domain_of].tolist() for level in cluster.levels]
    return [
        (node.name, node.path, node.gpus, node.free_gpus, node.slowdown, node.gpu_type, *(one[i] for one in implicit))
        for i, node in enumerate(cluster)
    ]


@given(ROWS, st.data())
@examples(100)
def test_a_subset_is_what_building_from_its_rows_gives(
    rows: list[tuple[str, str, int, str]], data: st.DataObject
) -> None:
    """Domains, parents, free GPUs, types of GPU and flags; domains and types without nodes are gone."""
    whole = cluster_of(rows, list(range(len(rows))))
    kept = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, unique=True).map(sorted))
    part = whole.subset(np.array(kept, dtype=np.int32))
    built = cluster_of(rows, kept)
    assert shape(part) == shape(built)
    assert sorted(part.gpu_types) == sorted(built.gpu_types)
    assert part.nodes_of_type == built.nodes_of_type
    for level, other in zip(part.levels, built.levels, strict=True):
        assert set(level.domain_of.tolist()) == set(range(len(level)))
        assert sorted(level.domains) == sorted(other.domains)
    for closer, broader in zip(part.levels[1:], part.levels, strict=False):
        assert (closer.parent_of[closer.domain_of] == broader.domain_of).all()
