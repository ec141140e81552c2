"""Second hierarchies: domains beside the tree, of power or of failures."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput, InvalidTopology, UnknownName
from ground.files import Source
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.generate import with_domain
from topology.load import load_topology
from topology.readers.cluster_csv import ClusterCsv
from topology.summary import summarise_cluster, summarise_second, warnings
from topology.writers import TOPOLOGY_WRITERS

ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["", "p1", "p2"]), st.sampled_from(["", "f1"])),
    min_size=1,
    max_size=8,
)


def cluster_of(rows: list[tuple[str, str, str]]) -> Cluster:
    """Nodes n0, n1, ... of a rack, a power domain and a failure domain each."""
    nodes = [
        Node(f"n{i}", (rack,), 8, 8, second_path=(power, failure)) for i, (rack, power, failure) in enumerate(rows)
    ]
    return build_cluster(["rack"], nodes, second=["@power", "@failure"])


def second_paths(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Node -> its domains beside the tree."""
    return {node.name: node.second_path for node in cluster}


@given(ROWS)
def test_rows_go_in_and_come_out(rows: list[tuple[str, str, str]]) -> None:
    """As nodes, and through a CSV file; every node in no domain is one by itself."""
    cluster = cluster_of(rows)
    assert second_paths(cluster) == {f"n{i}": row[1:] for i, row in enumerate(rows)}
    for k, level in enumerate(cluster.second_levels):
        named = {row[k + 1] for row in rows if row[k + 1]}
        assert len(level) == len(named) + sum(not row[k + 1] for row in rows)
        assert int(level.implicit.sum()) == sum(not row[k + 1] for row in rows)


@given(ROWS)
def test_a_csv_carries_them(rows: list[tuple[str, str, str]]) -> None:
    """Written and read again they are the same."""
    cluster = cluster_of(rows)
    text = TOPOLOGY_WRITERS.load("csv").write(cluster).text
    again = ClusterCsv().read(Source("f", text), levels=None, now=datetime.now(UTC)).cluster
    assert second_paths(again) == second_paths(cluster)


@given(ROWS, st.data())
def test_a_part_of_a_cluster_keeps_them(rows: list[tuple[str, str, str]], data: st.DataObject) -> None:
    """Domains without nodes are gone, the others as they were."""
    whole = cluster_of(rows)
    kept = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, unique=True).map(sorted))
    part = whole.subset(np.array(kept, dtype=np.int32))
    assert second_paths(part) == {f"n{i}": rows[i][1:] for i in kept}
    for level in part.second_levels:
        assert set(level.domain_of.tolist()) == set(range(len(level)))


def test_a_level_by_name_is_a_level_or_a_second_hierarchy() -> None:
    """Only levels of the tree have a depth."""
    cluster = cluster_of([("a", "p1", ""), ("b", "p1", "f1")])
    assert cluster.level("@power") is cluster.second_levels[0]
    assert cluster.level(None).name == "rack"
    with pytest.raises(UnknownName, match="'@powr'") as caught:
        cluster.level("@powr")
    assert "did you mean '@power'?" in caught.value.fix
    with pytest.raises(UnknownName, match="no level of the tree"):
        cluster.level_index("@power")


def test_they_are_counted_and_what_surprises_is_said() -> None:
    """Named domains and their sizes; nodes in none are counted apart, with a warning."""
    cluster = cluster_of([("a", "p1", ""), ("a", "p1", ""), ("b", "p2", ""), ("b", "", "")])
    power, failure = summarise_second(cluster)
    assert (power.domains, power.smallest, power.largest, power.implicit_nodes) == (2, 1, 2, 1)
    assert (failure.domains, failure.largest, failure.implicit_nodes) == (0, 0, 4)
    assert summarise_cluster(cluster, "c").second_levels == {"@power": 2, "@failure": 0}
    assert any("in no domain of @power" in warning and "1 of 4" in warning for warning in warnings(cluster))


def test_a_tree_format_says_what_it_leaves_out() -> None:
    """Slurm knows nothing of power."""
    notes = TOPOLOGY_WRITERS.load("slurm-conf").write(cluster_of([("a", "p1", "f1")])).notes
    assert any("second hierarchies (@power, @failure)" in note for note in notes)


def test_a_new_domain_is_in_none() -> None:
    """More nodes of the tree say nothing of their power."""
    grown = with_domain(cluster_of([("a", "p1", "f1"), ("b", "p2", "f1")]), 2)
    assert second_paths(grown) == {"n0": ("p1", "f1"), "n1": ("p2", "f1"), "new3": ("", ""), "new4": ("", "")}


@pytest.mark.parametrize(
    ("second", "levels", "words"),
    [
        (["@rack"], ["rack"], "called like the level 'rack'"),
        (["power"], ["rack"], "is called 'power'"),
        (["@p", "@p"], ["rack"], "two second hierarchies"),
        ([], ["@rack"], "begins with @"),
    ],
)
def test_names_that_cannot_be_told_apart_are_refused(second: list[str], levels: list[str], words: str) -> None:
    """The @ tells a hierarchy from a level, and nothing else may be all the difference."""
    with pytest.raises(InvalidTopology, match=words):
        build_cluster(levels, [Node("n1", ("a",), 8, 8, second_path=("x",) * len(second))], second=second)


KUBERNETES = """
apiVersion: v1
kind: List
items:
- kind: Node
  metadata: {name: n1, labels: {topology.kubernetes.io/zone: a, example.com/feed: p1}}
  status: {capacity: {nvidia.com/gpu: "8"}}
- kind: Node
  metadata: {name: n2, labels: {topology.kubernetes.io/zone: a}}
  status: {capacity: {nvidia.com/gpu: "8"}}
"""


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """Two nodes, one of which says what feeds it."""
    file = tmp_path / "nodes.yaml"
    file.write_text(KUBERNETES)
    return file


def test_labels_of_kubernetes_make_them(nodes: Path) -> None:
    """The node without the label is in none, and a note counts it."""
    found = load_topology(nodes, domains={"@power": "example.com/feed"})
    assert second_paths(found.cluster) == {"n1": ("p1",), "n2": ("",)}
    assert says(found.notes, "without the label", "example.com/feed", "1 of 2 nodes")


@pytest.mark.parametrize(
    ("domains", "error", "words"),
    [
        ({"@power": "example.com/fed"}, UnknownName, "no GPU node carries the label 'example.com/fed'"),
        ({"@topology.kubernetes.io/zone": "example.com/feed"}, InvalidTopology, "called like the level"),
    ],
)
def test_labels_that_will_not_do(nodes: Path, domains: dict[str, str], error: type[InvalidInput], words: str) -> None:
    """The option is named."""
    with pytest.raises(error, match=words) as caught:
        load_topology(nodes, domains=domains)
    assert caught.value.where == "--domains"


def test_other_formats_have_no_labels(tmp_path: Path) -> None:
    """A CSV has columns for that."""
    file = tmp_path / "c.csv"
    file.write_text("node,rack\nn1,a\n")
    with pytest.raises(InvalidInput, match="names its own domains") as caught:
        load_topology(file, domains={"@power": "x"})
    assert caught.value.where == "--domains"


def test_rails_as_sets_of_nodes_are_noted(tmp_path: Path) -> None:
    """A rail is a network card of every node, so @rail cannot be what it is called; @power can."""
    for name, count in (("@rail", 1), ("@power", 0)):
        file = tmp_path / f"{name}.csv"
        file.write_text(f"node,rack,{name},gpus\nn1,r1,a,8\nn2,r1,b,8\n", encoding="utf-8")
        assert sum(says(note, "@rail", "the column rails") for note in load_topology(file).notes) == count
