"""Writing clusters, and reading back what was written."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_counts import examples
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.errors import InvalidInput, InvalidTopology, UnknownName
from topology.files import Source
from topology.flags import FAULTY, NodeFlag
from topology.readers import recognise
from topology.readers.types import TOPOLOGY_READERS
from topology.writers import TOPOLOGY_WRITERS

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TREES = ("slurm-conf", "slurm-yaml", "topograph")


def tree(*paths: tuple[str, ...], levels: tuple[str, ...] = ("minipod", "rack")) -> Cluster:
    """Nodes n1, n2, ... with these paths."""
    return build_cluster(levels, [Node(f"n{i}", path, 8, 8) for i, path in enumerate(paths, 1)])


def read_back(text: str) -> Cluster:
    """The cluster of a text in whatever format it is recognised to be."""
    source = Source("f", text)
    return recognise(source).read(source, levels=None, now=NOW).cluster


def rows(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Node -> path, an implicit domain as an empty name."""
    return {
        name: tuple(
            "" if level.implicit[level.domain_of[i]] else level.domains[level.domain_of[i]] for level in cluster.levels
        )
        for i, name in enumerate(cluster.names)
    }


def partitions(cluster: Cluster) -> list[set[frozenset[str]]]:
    """For each level, which nodes are together: what spread depends on, whatever things are called."""
    return [
        {frozenset(cluster.names[i] for i in range(len(cluster)) if level.domain_of[i] == k) for k in range(len(level))}
        for level in cluster.levels
    ]


def test_the_formats_that_can_be_written() -> None:
    """A wrong name is answered with the right ones."""
    assert TOPOLOGY_WRITERS.names() == ("csv", "slurm-conf", "slurm-yaml", "topograph")
    with pytest.raises(UnknownName, match="'slurm'") as caught:
        TOPOLOGY_WRITERS.load("slurm")
    assert "slurm-conf" in caught.value.fix


def test_a_tree_as_topology_conf() -> None:
    """Broad switches first, names folded."""
    text = TOPOLOGY_WRITERS.load("slurm-conf").write(tree(("a", "r1"), ("a", "r1"), ("a", "r2"), ("b", "r3"))).text
    assert text.splitlines() == [
        "SwitchName=a Switches=r[1-2]",
        "SwitchName=b Switches=r3",
        "SwitchName=r1 Nodes=n[1-2]",
        "SwitchName=r2 Nodes=n3",
        "SwitchName=r3 Nodes=n4",
    ]


def test_a_tree_as_topology_yaml() -> None:
    """Names are quoted: a switch may be called no or 1e3."""
    text = TOPOLOGY_WRITERS.load("slurm-yaml").write(tree(("no", "1e3"))).text
    assert '- switch: "no"\n      children: "1e3"\n' in text
    assert rows(read_back(text)) == {"n1": ("no", "1e3")}


def test_a_tree_as_topograph_graph() -> None:
    """Layers from close to broad."""
    text = TOPOLOGY_WRITERS.load("topograph").write(tree(("a", "r1"))).text
    assert '{"id": "n1", "network_layers": ["r1", "a"]}' in text


def test_the_csv_carries_everything_we_know() -> None:
    """Use, GPU counts, slowdowns and faulty nodes, names of levels, empty cells."""
    nodes = [
        Node("n1", ("a", "r1"), 8, 3, 1.4),
        Node("n2", ("a", ""), 4, 4, FAULTY),
        Node('n"3, x', ("", "r,2"), 8, 0),
    ]
    cluster = build_cluster(["minipod", "rack"], nodes)
    rendering = TOPOLOGY_WRITERS.load("csv").write(cluster)
    again = read_back(rendering.text)
    assert rendering.notes == ()
    assert rows(again) == rows(cluster)
    assert list(again) == list(cluster)
    assert [level.name for level in again.levels] == ["minipod", "rack"]


def test_what_a_format_cannot_carry_is_said() -> None:
    """Bare trees lose GPU counts, use, flags and names of levels; the CSV loses why."""
    flag = NodeFlag("n1", "degraded", 1.5, evidence="cable", until=NOW)
    cluster = build_cluster(["minipod"], [Node("n1", ("a",), 4, 4), Node("n2", ("a",), 8, 0)], flags=[flag])
    cluster = cluster.with_gpu_types({1: "H100"})
    for name in TREES:
        (note,) = TOPOLOGY_WRITERS.load(name).write(cluster).notes
        for lost in (
            "levels (minipod)",
            "GPU counts other than 8 (1 of 2",
            "types of GPU (1 of 2",
            "in use (1 of 2",
            "flags (1 of 2",
        ):
            assert lost in note
    (note,) = TOPOLOGY_WRITERS.load("csv").write(cluster).notes
    assert note.endswith("reasons left out: 1")


def test_nodes_beside_switches_get_a_leaf_switch_of_their_own() -> None:
    """Slurm takes switches or nodes below a switch, not both; the levels stay what they were."""
    cluster = tree(("a", "r1"), ("a", ""), ("b", ""))
    text = TOPOLOGY_WRITERS.load("slurm-conf").write(cluster).text
    assert "SwitchName=a Switches=a-nodes,r1\n" in text or "SwitchName=a Switches=r1,a-nodes\n" in text
    assert "SwitchName=a-nodes Nodes=n2\n" in text
    assert "SwitchName=b Nodes=n3\n" in text
    assert partitions(read_back(text)) == partitions(cluster)


def test_a_missing_broad_domain_keeps_its_level() -> None:
    """n1 hangs on rack r1, and that on nothing: r1 must not become a minipod."""
    cluster = tree(("", "r1"), ("a", "r2"), ("", ""))
    for name in TREES:
        again = read_back(TOPOLOGY_WRITERS.load(name).write(cluster).text)
        assert rows(again)["n1"] == ("root-minipod", "r1")
        assert partitions(again)[0] >= {frozenset({"n2"})}


def test_a_name_of_two_levels_is_told_apart() -> None:
    """Slurm's switches need names of their own: rack 1 in minipod 1 becomes rack-1, and a note says so."""
    rendering = TOPOLOGY_WRITERS.load("slurm-conf").write(tree(("1", "1"), ("2", "3")))
    assert rows(read_back(rendering.text)) == {"n1": ("1", "rack-1"), "n2": ("2", "3")}
    assert any("name of their level put before" in note for note in rendering.notes)


def test_slurm_is_told_what_it_would_stumble_over() -> None:
    """Several roots, and names beyond 64 characters."""
    notes = TOPOLOGY_WRITERS.load("slurm-conf").write(tree(("a", "r" * 65), ("b", "r2"))).notes
    assert any("2 switches have none above them" in note for note in notes)
    assert any("longer than the 64 characters" in note for note in notes)


@pytest.mark.parametrize(("node", "rack"), [("n 1", "r1"), ("n1", "r 1"), ("n[1]", "r1"), ("n1", "a,b"), ("n1", "a#b")])
def test_names_that_slurm_cannot_carry_are_refused(node: str, rack: str) -> None:
    """Rather than written as something else."""
    cluster = build_cluster(["rack"], [Node(node, (rack,), 8, 8)])
    for name in ("slurm-conf", "slurm-yaml"):
        with pytest.raises(InvalidInput, match="cannot stand in a Slurm hostlist"):
            TOPOLOGY_WRITERS.load(name).write(cluster)


def test_the_csv_has_a_column_of_types_only_where_one_is_said() -> None:
    """A file without types is written as before."""
    write = TOPOLOGY_WRITERS.load("csv").write
    cluster = tree(("a", "r1"), ("a", "r2"))
    assert write(cluster).text.splitlines()[0] == "node,minipod,rack,gpus,free_gpus,slowdown"
    typed = write(cluster.with_gpu_types({1: "H100"})).text.splitlines()
    assert typed == ["node,minipod,rack,gpus,free_gpus,slowdown,gpu_type", "n1,a,r1,8,8,,", "n2,a,r2,8,8,,H100"]


def test_a_level_called_like_a_column_is_refused() -> None:
    """The CSV could not tell it from the attribute."""
    with pytest.raises(InvalidTopology, match="'gpus'"):
        TOPOLOGY_WRITERS.load("csv").write(tree(("a",), levels=("gpus",)))


names = st.text("ab01-.", min_size=1, max_size=3)
parts = st.one_of(st.just(""), names)


@st.composite
def clusters(draw: st.DrawFn, *, uneven: bool) -> Cluster:
    """Trees of one to three levels; rack names hold their minipod's, so that they are unique below it."""
    depth = draw(st.integers(1, 3))
    choice = parts if uneven else names
    nodes = []
    for name in draw(st.lists(names, min_size=1, max_size=12, unique=True)):
        path: list[str] = []
        for level in range(depth):
            word = draw(choice)
            above = next((part for part in reversed(path) if part), "")
            path.append(f"{'xyz'[level]}{word}.{above}" if word else "")
        gpus = draw(st.integers(1, 8))
        slowdown = draw(st.sampled_from([1.0, 1.25, 3.0, FAULTY]))
        gpu_type = draw(st.sampled_from(["", "H100", 'MI300X, "OAM"']))
        nodes.append(Node(name, tuple(path), gpus, draw(st.integers(0, gpus)), slowdown, gpu_type))
    return build_cluster([f"level-{i}" for i in range(depth)], nodes)


@examples(80)
@given(clusters(uneven=True))
def test_any_cluster_survives_the_csv(cluster: Cluster) -> None:
    """Nodes, levels, use, slowdowns and types of GPU, in order."""
    again = read_back(TOPOLOGY_WRITERS.load("csv").write(cluster).text)
    assert list(again) == list(cluster)
    assert rows(again) == rows(cluster)


@examples(80)
@given(clusters(uneven=False), st.sampled_from(TREES))
def test_any_even_tree_survives_every_format(cluster: Cluster, name: str) -> None:
    """Every node keeps its switch at every level, by name."""
    again = read_back(TOPOLOGY_WRITERS.load(name).write(cluster).text)
    assert rows(again) == rows(cluster)
    assert [level.name.split("-")[0] for level in again.levels] == [
        "tier" if name == "topograph" else "level" for _ in cluster.levels
    ]


@examples(80)
@given(clusters(uneven=True), st.sampled_from(TREES))
def test_any_uneven_tree_keeps_its_domains(cluster: Cluster, name: str) -> None:
    """Domains with a name keep their name, level and nodes, whatever hangs beside them."""
    again = rows(read_back(TOPOLOGY_WRITERS.load(name).write(cluster).text))
    for node, path in rows(cluster).items():
        for depth, domain in enumerate(path):
            if domain:
                assert again[node][depth] == domain


def test_every_written_format_can_be_read() -> None:
    """By a reader of the same name."""
    for name in TOPOLOGY_WRITERS.names():
        text = TOPOLOGY_WRITERS.load(name).write(tree(("a", "r1"))).text
        assert TOPOLOGY_READERS.load(name).recognises(text)
