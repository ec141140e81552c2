"""Which nodes one job can have together."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from topology.build import build_cluster
from topology.capacity import most_together, together
from topology.cluster import Node


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
