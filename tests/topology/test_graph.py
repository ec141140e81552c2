"""The network between nodes: answers from the arrays agree with networkx on the same tree."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.errors import InvalidInput, UnknownName
from topology.generate import PRESETS, llama3_pods, minipods
from topology.graph import CORE, domain_tree, lowest_common_domain, network, path, uplinks


def uneven() -> Cluster:
    """Two pods; n3 hangs on its pod without a rack, n4 on the core itself."""
    rows = [
        Node("n0", ("p1", "r1"), 8, 8),
        Node("n1", ("p1", "r1"), 8, 8),
        Node("n2", ("p1", "r2"), 8, 8),
        Node("n3", ("p2", ""), 8, 8),
        Node("n4", ("", ""), 4, 4),
    ]
    return build_cluster(["pod", "rack"], rows)


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


def test_lowest_common_domain_goes_up_only_as_far_as_needed() -> None:
    """Same rack, same pod, different pods, a node without rack, a node on the core."""
    cluster = uneven()
    assert lowest_common_domain(cluster, [0, 1]) == ("rack", "r1")
    assert lowest_common_domain(cluster, [0, 1, 2]) == ("pod", "p1")
    assert lowest_common_domain(cluster, [0, 3]) == CORE
    assert lowest_common_domain(cluster, [3]) == ("pod", "p2")
    assert lowest_common_domain(cluster, [4]) == CORE


def test_a_path_names_every_switch_once() -> None:
    """Up to the lowest common domain and down again."""
    cluster = uneven()
    assert path(cluster, 0, 1) == ["n0", ("rack", "r1"), "n1"]
    assert path(cluster, 0, 2) == ["n0", ("rack", "r1"), ("pod", "p1"), ("rack", "r2"), "n2"]
    assert path(cluster, 2, 4) == ["n2", ("rack", "r2"), ("pod", "p1"), CORE, "n4"]
    assert path(cluster, 3, 3) == ["n3"]


@given(trees())
def test_paths_and_common_domains_agree_with_networkx(cluster: Cluster) -> None:
    """On any tree, uneven ones too, our array answers are those of a graph library on the networkx view."""
    graph = network(cluster)
    assert nx.is_arborescence(graph)
    undirected = graph.to_undirected()
    last = len(cluster) - 1
    assert path(cluster, 0, last) == nx.shortest_path(undirected, cluster.names[0], cluster.names[last])
    if last:
        common = nx.lowest_common_ancestor(graph, cluster.names[0], cluster.names[last])
        assert lowest_common_domain(cluster, [0, last]) == common


@given(trees())
def test_the_domain_tree_holds_every_node_once(cluster: Cluster) -> None:
    """At every domain its own nodes and its children's are its nodes, and no domain is listed twice."""
    domains = list(domain_tree(cluster).walk())
    assert len({domain.key for domain in domains}) == len(domains)
    for domain in domains:
        parts = np.concatenate([domain.own, *(child.nodes for child in domain.children)])
        assert sorted(parts) == sorted(domain.nodes)
    assert sorted(domains[0].nodes) == list(range(len(cluster)))


def test_no_oversubscription_by_default() -> None:
    """Links upwards carry what the nodes below can send: 50 GB/s a GPU, 4 nodes of 8 GPUs a rack."""
    cluster = minipods(minipods=2, nodes=16, rack_nodes=4)
    capacity = uplinks(cluster)
    assert list(capacity) == ["minipod", "rack"]
    assert capacity["rack"].tolist() == [1600.0] * 4
    assert capacity["minipod"].tolist() == [3200.0] * 2


def test_oversubscription_thins_the_links_above_a_level() -> None:
    """Llama 3's pods carry a seventh of their 192 racks x 16 GPUs upwards; the racks below are not thinned."""
    capacity = uplinks(llama3_pods(), oversubscription=PRESETS["llama3-pods"].oversubscription)
    assert capacity["pod"] == pytest.approx([192 * 16 * 50.0 / 7] * 8)
    assert capacity["rack"][0] == 16 * 50.0


def test_implicit_domains_have_no_links_of_their_own() -> None:
    """A node without a rack is not thinned by the racks' ratio: p2 carries its node's 400 GB/s, p1 half of 1200."""
    capacity = uplinks(uneven(), oversubscription={"rack": 2.0})
    assert capacity["pod"].tolist() == [600.0, 400.0, 200.0]


def test_the_graph_carries_capacities() -> None:
    """Edges know what they carry: node to rack, rack to pod, pod to core."""
    graph = network(uneven(), oversubscription={"pod": 4.0})
    assert graph.edges[("rack", "r1"), "n0"]["capacity"] == 400.0
    assert graph.edges[("pod", "p1"), ("rack", "r1")]["capacity"] == 800.0
    assert graph.edges[CORE, ("pod", "p1")]["capacity"] == 300.0
    assert graph.nodes[("pod", "p1")] == {"kind": "switch", "nodes": 3}


def test_impossible_links_are_refused() -> None:
    """A ratio of zero and a level that does not exist are errors, not infinities."""
    with pytest.raises(InvalidInput, match="rack is 0"):
        uplinks(uneven(), oversubscription={"rack": 0.0})
    with pytest.raises(UnknownName, match="no level 'row'"):
        uplinks(uneven(), oversubscription={"row": 2.0})
