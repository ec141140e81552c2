"""HyperNodes of Volcano, with and without nodes, and Kueue's clusters of kind."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ground.errors import InvalidInput, InvalidTopology
from ground.files import Source
from ground.formats import recognise
from tests.facts import says
from topology.readers.kubernetes import KindCluster, Kubernetes, Volcano
from topology.readers.reading import TOPOLOGY_READERS, Reading

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def hyper(name: str, tier: int, *members: str, **more: str) -> str:
    """A HyperNode as a document; a member is written ``node:exactMatch:name``."""
    text = f"apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {{name: {name}}}\n"
    text += f"spec:\n  tier: {tier}\n"
    text += "".join(f"  {key}: {value}\n" for key, value in more.items()) + "  members:\n"
    for member in members:
        kind, how, value = member.split(":", 2)
        key = "pattern" if how == "regexMatch" else "name"
        chosen = f"{{{key}: '{value}'}}" if how != "labelMatch" else f"{{matchLabels: {{rack: {value}}}}}"
        text += f"  - {{type: {kind}, selector: {{{how}: {chosen}}}}}\n"
    return text


def node(name: str, rack: str = "r") -> str:
    """A node with 8 GPUs."""
    labels = f"{{name: {name}, labels: {{rack: {rack}}}}}"
    return f"apiVersion: v1\nkind: Node\nmetadata: {labels}\nstatus: {{capacity: {{nvidia.com/gpu: '8'}}}}\n"


def read(*documents: str, reader: Any = Volcano) -> Reading:
    """Read documents of a file called f."""
    return reader().read(Source("f", "---\n".join(documents)), levels=None, now=NOW)


TREE = (
    hyper("s0", 1, "Node:exactMatch:node0", "Node:exactMatch:node1"),
    hyper("s1", 1, "Node:exactMatch:node2", "Node:exactMatch:node3"),
    hyper("s2", 2, "HyperNode:exactMatch:s0", "HyperNode:regexMatch:^s1$"),
)


def test_the_tree_of_the_documentation() -> None:
    """Four nodes, two below each switch of tier 1, both below that of tier 2."""
    reading = read(*TREE)
    assert [(level.name, level.domains) for level in reading.cluster.levels] == [
        ("tier-2", ("s2",)),
        ("tier-1", ("s0", "s1")),
    ]
    assert reading.cluster.node("node2").path == ("s2", "s1")
    assert reading.cluster.gpus_assumed


def test_tiers_have_names() -> None:
    """Where all HyperNodes of the tier say the same one."""
    named = [hyper("s0", 1, "Node:exactMatch:n1", tierName="leaf"), hyper("s1", 1, "Node:exactMatch:n2")]
    assert [level.name for level in read(named[0]).cluster.levels] == ["leaf"]
    assert [level.name for level in read(*named).cluster.levels] == ["tier-1"]


def test_with_nodes_members_may_be_chosen() -> None:
    """By an expression of names, which need not match all of the name, and by labels; n9 is in none."""
    documents = (
        node("n10"),
        node("n11"),
        node("m1", "r7"),
        node("n9"),
        hyper("s0", 1, "Node:regexMatch:n1[0-9]"),
        hyper("s1", 1, "Node:labelMatch:r7"),
    )
    for order in (documents, (*documents[4:], *documents[:4])):
        source = Source("f", "---\n".join(order))
        cluster = recognise(TOPOLOGY_READERS, source).read(source, levels=None, now=NOW).cluster
        assert {one.name: one.path for one in cluster} == {
            "n10": ("s0",),
            "n11": ("s0",),
            "m1": ("s1",),
            "n9": ("(root)",),
        }
        assert not cluster.gpus_assumed


def test_without_nodes_those_chosen_are_said_to_be_missing() -> None:
    """They are not known; one that is named is read."""
    reading = read(hyper("s0", 1, "Node:regexMatch:n1"), hyper("s1", 1, "Node:exactMatch:n2"))
    assert reading.cluster.names == ("n2",)
    assert says(reading.notes[-1], "not in the file")


@pytest.mark.parametrize(
    ("documents", "complaint"),
    [
        ([hyper("s0", 1, "Node:regexMatch:n1")], "no HyperNode names a node"),
        ([hyper("s0", 1, "Node:exactMatch:n"), hyper("s1", 1, "Node:exactMatch:n")], "two HyperNodes of a tier"),
        ([TREE[0], hyper("t", 1, "HyperNode:exactMatch:s0")], "whose tier is no broader"),
        ([*TREE, hyper("t", 2, "HyperNode:exactMatch:s0")], "'s0' lies below two, 's2' and 't'"),
        ([TREE[0], hyper("s1", 1, "Node:regexMatch:(a+)+$")], "could take for ever"),
        ([TREE[0], hyper("s1", 1, "Node:regexMatch:a*b*c*d")], "could take for ever"),
        ([TREE[0], hyper("s1", 1, "Node:regexMatch:[")], "no regular expression"),
        ([TREE[0], "kind: HyperNode\nmetadata: {name: s}\nspec: {tier: one}\n"], "spec.tier: expected int"),
    ],
)
def test_what_is_no_tree(documents: list[str], complaint: str) -> None:
    """Is refused; an expression that may take for ever on some name, too."""
    with pytest.raises(InvalidTopology if "expected" not in complaint else InvalidInput, match=complaint):
        read(*documents)


KIND = """
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes:
- role: control-plane
- role: worker
  labels: {cloud.provider.com/topology-block: b1, cloud.provider.com/topology-rack: r1}
- role: worker
  labels: {cloud.provider.com/topology-block: b1, cloud.provider.com/topology-rack: r2}
- role: worker
  labels: {cloud.provider.com/topology-block: b2, cloud.provider.com/topology-rack: r1}
- role: worker
"""


def test_a_cluster_of_kind() -> None:
    """The control plane is no worker; rack r1 of two blocks are two racks; the last worker is in neither."""
    reading = read(KIND, reader=KindCluster)
    assert {one.name: one.path for one in reading.cluster} == {
        "kind-worker": ("b1", "b1/r1"),
        "kind-worker2": ("b1", "r2"),
        "kind-worker3": ("b2", "b2/r1"),
        "kind-worker4": ("(root)", "(root)"),
    }


def test_a_topology_beside_it_says_the_levels() -> None:
    """Racks alone."""
    rack = "cloud.provider.com/topology-rack"
    topology = f"kind: Topology\nmetadata: {{name: t}}\nspec: {{levels: [{{nodeLabel: {rack}}}]}}\n"
    assert [level.name for level in read(KIND, topology, reader=KindCluster).cluster.levels] == [rack]


@pytest.mark.parametrize(
    ("text", "complaint", "where"),
    [
        (KIND.split("- role: worker", maxsplit=1)[0], "no workers", "f:4"),
        (KIND.replace("kind: Cluster", "kind: Config"), "describes no cluster", "f"),
        (
            KIND.replace("labels: {", "labels: [{", 1).replace("r1}", "r1}]", 1),
            "nodes\\[1\\].labels: keys with values",
            "f:7",
        ),
        (KIND.replace("- role: worker\n  labels", "- role: 3\n  labels", 1), "nodes\\[1\\].role must be text", "f:6"),
    ],
)
def test_bad_clusters_of_kind(text: str, complaint: str, where: str) -> None:
    """Are refused with their place."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read(text, reader=KindCluster)
    assert caught.value.where == where


def test_lists_of_nodes_are_told_apart() -> None:
    """Members of HyperNodes are nodes, and no Node objects."""
    assert recognise(TOPOLOGY_READERS, Source("f", "---\n".join(TREE))).format.name == "volcano"
    assert isinstance(recognise(TOPOLOGY_READERS, Source("f", node("n1"))), Kubernetes)
    assert isinstance(recognise(TOPOLOGY_READERS, Source("f", KIND)), KindCluster)
