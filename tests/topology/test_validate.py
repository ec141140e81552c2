"""A cluster in numbers, and what may surprise its owner."""

import pytest

from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import FAULTY
from topology.summary import summarise, warnings


def cluster(*nodes: tuple[tuple[str, ...], int, int], levels: tuple[str, ...] = ("minipod", "rack")) -> Cluster:
    """Nodes with path, GPUs and free GPUs."""
    return build_cluster(levels, [Node(f"n{i}", *node) for i, node in enumerate(nodes)])


def test_levels_in_numbers() -> None:
    """Racks of 1, 2 and 3 nodes: median 2."""
    paths = [("a", "r1"), ("a", "r2"), ("a", "r2"), ("b", "r3"), ("b", "r3"), ("b", "r3")]
    racks = summarise(cluster(*((path, 8, 8) for path in paths)))[1]
    assert (racks.name, racks.domains, racks.smallest, racks.median, racks.largest) == ("rack", 3, 1, 2.0, 3)
    assert racks.implicit_nodes == 0


GOOD = ((("a", "r1"), 8, 8), (("a", "r1"), 8, 8), (("a", "r2"), 8, 8), (("b", "r3"), 8, 8))


def test_an_ordinary_cluster_has_no_warnings() -> None:
    """Two minipods, three racks, free nodes of one size."""
    assert warnings(cluster(*GOOD)) == []


@pytest.mark.parametrize(
    ("nodes", "levels", "warning"),
    [
        ((((), 8, 8),), (), "there is no level"),
        ((*GOOD[:3],), ("minipod", "rack"), "level minipod has one domain"),
        (((("a", "r1"), 8, 8), (("b", "r2"), 8, 8)), ("minipod", "rack"), "alone in its rack"),
        ((*GOOD[:2], GOOD[3], GOOD[3]), ("minipod", "rack"), "level rack has the same domains as minipod"),
        ((*GOOD, (("b", ""), 8, 8)), ("minipod", "rack"), "no rack of their own, .*: 1 of 5 nodes"),
        ((*GOOD, (("b", "r3"), 4, 4)), ("minipod", "rack"), r"nodes differ in GPUs \(4 with 8, 1 with 4\)"),
        (tuple((path, 8, 0) for path, _, _ in GOOD), ("minipod", "rack"), "no node is free"),
    ],
)
def test_what_may_not_be_meant(nodes: tuple, levels: tuple[str, ...], warning: str) -> None:
    """Each oddity has its sentence."""
    import re

    assert any(re.search(warning, found) for found in warnings(cluster(*nodes, levels=levels)))


def test_faulty_nodes_are_not_free() -> None:
    """A cluster of faulty nodes has none for a gang."""
    broken = build_cluster(["rack"], [Node("n1", ("r",), 8, 8, FAULTY), Node("n2", ("s",), 8, 8, FAULTY)])
    assert any("no node is free" in found for found in warnings(broken))
