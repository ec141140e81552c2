"""Which nodes one job can have together."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from topology.build import build_cluster
from topology.cluster import Node, most_together, together


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=12), st.integers(1, 8), st.booleans())
def test_a_job_has_the_nodes_of_one_trunk(nodes: list[tuple[int, bool]], wanted: int, joined: bool) -> None:
    """All of the given nodes where trunks are joined; else those of the trunk with the fewest that are enough."""
    rows = [Node(f"n{i}", (f"t{trunk}",), 8, 8) for i, (trunk, _) in enumerate(nodes)]
    cluster = build_cluster(["trunk"], rows).replace(joined=joined)
    given_nodes = np.array([chosen for _, chosen in nodes])
    chosen = np.flatnonzero(given_nodes)
    sizes = [sum(nodes[i][0] == trunk for i in chosen) for trunk in range(4)]
    expected = len(chosen) if joined else max(sizes)
    assert most_together(cluster, given_nodes) == expected
    found = together(cluster, chosen, wanted)
    assert (len(found) >= wanted) == (expected >= wanted)
    assert {*found.tolist()} <= {*chosen.tolist()}
    if not joined and len(found):
        assert len(found) == min(size for size in sizes if size >= wanted)
        assert len({nodes[i][0] for i in found}) == 1


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from("AB")), min_size=1, max_size=12), st.booleans())
def test_a_job_has_the_nodes_of_one_type(nodes: list[tuple[int, str]], joined: bool) -> None:
    """The most that any type has, in one trunk where they are not joined."""
    rows = [Node(f"n{i}", (f"t{trunk}",), 8, 8, gpu_type=gpu_type) for i, (trunk, gpu_type) in enumerate(nodes)]
    cluster = build_cluster(["trunk"], rows).replace(joined=joined)
    most = max(Counter(gpu_type if joined else (trunk, gpu_type) for trunk, gpu_type in nodes).values())
    assert most_together(cluster, np.ones(len(nodes), dtype=np.bool_)) == most
    assert len(together(cluster, np.arange(len(nodes)), most)) == most
    assert not len(together(cluster, np.arange(len(nodes)), most + 1))
