"""The cluster as nested domains."""

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.summary import Domain, domain_tree


def walk(domain: Domain) -> Iterator[Domain]:
    """The domain itself and all below it."""
    yield domain
    for child in domain.children:
        yield from walk(child)


@st.composite
def trees(draw: st.DrawFn) -> Cluster:
    """Clusters of one to twelve nodes and up to three levels, with switches left out here and there."""
    depth = draw(st.integers(0, 3))
    rows = []
    for i in range(draw(st.integers(1, 12))):
        numbers = draw(st.lists(st.integers(0, 2), min_size=depth, max_size=depth))
        names = ["" if n == 2 else "-".join(map(str, numbers[: d + 1])) for d, n in enumerate(numbers)]
        rows.append(Node(f"n{i}", tuple(names), 8, 8))
    return build_cluster([f"level-{d}" for d in range(depth)], rows)


@given(trees())
def test_the_domain_tree_holds_every_node_once(cluster: Cluster) -> None:
    """At every domain its own nodes and its children's are its nodes, and no domain is listed twice."""
    domains = list(walk(domain_tree(cluster)))
    assert len({(domain.level, domain.name) for domain in domains}) == len(domains)
    for domain in domains:
        parts = np.concatenate([domain.own, *(child.nodes for child in domain.children)])
        assert sorted(parts) == sorted(domain.nodes)
    assert sorted(domains[0].nodes) == list(range(len(cluster)))
