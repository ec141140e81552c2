"""Writing clusters, and reading back what was written."""

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput, InvalidTopology, UnknownName
from ground.files import Source
from ground.formats import recognise
from tests.case_counts import examples
from tests.facts import saying, says
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import FAULTY, NodeFlag
from topology.readers.reading import TOPOLOGY_READERS
from topology.writers import TOPOLOGY_WRITERS

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TREES = ("slurm-conf", "slurm-yaml", "topograph")


def tree(*paths: tuple[str, ...], levels: tuple[str, ...] = ("minipod", "rack")) -> Cluster:
    """Nodes n1, n2, ... with these paths."""
    return build_cluster(levels, [Node(f"n{i}", path, 8, 8) for i, path in enumerate(paths, 1)])


def read_back(text: str) -> Cluster:
    """The cluster of a text in whatever format it is recognised to be."""
    source = Source("f", text)
    return recognise(TOPOLOGY_READERS, source).read(source, levels=None, now=NOW).cluster


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
    assert TOPOLOGY_WRITERS.names() == ("csv", "slurm-block", "slurm-conf", "slurm-yaml", "topograph")
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
    assert says(rendering.notes, "level", "put before")


def test_switches_with_none_above_them_are_said() -> None:
    """Slurm runs no job across them."""
    notes = TOPOLOGY_WRITERS.load("slurm-conf").write(tree(("a", "r1"), ("b", "r2"))).notes
    assert any("2 switches have none above them" in note for note in notes)


def test_long_names_of_switches_are_cut() -> None:
    """Slurm takes 64 bytes (an é has two) and does not start with more; what is cut stays apart, and blocks may have
    any names.  The node beside racks would hang on a switch of 59 + 6 characters.
    """
    alike = [f"ocid1.computelocalblock.oc1.iad.{'a' * 60}{end}" for end in ("1x", "2x", "2" * 30)]
    names = [*alike, "é" * 33, "é" * 32, "r" * 64, "r" * 65, "s" * 65, "s" * 66]
    cluster = tree(*(("p" * 59, name) for name in names), ("p" * 59, ""))
    for form in ("slurm-conf", "slurm-yaml"):
        rendering = TOPOLOGY_WRITERS.load(form).write(cluster)
        again = read_back(rendering.text)
        assert partitions(again) == partitions(cluster)
        racks = again.levels[1].domains
        assert all(len(rack.encode()) <= 64 for rack in racks)
        assert {"é" * 32, "r" * 64} <= set(racks)
        assert says(rendering.notes, "64 bytes", "cut: 8")
    paired = tree(*(("p", name) for name in names for _ in range(2)))
    blocks = read_back(TOPOLOGY_WRITERS.load("slurm-block").write(paired).text).levels[-1].domains
    # but for the number of 30 digits at the end of one
    assert blocks == (*names[:2], f"{names[2]}_", *names[3:])


@pytest.mark.parametrize(("node", "rack"), [("n 1", "r1"), ("n1", "r 1"), ("n[1]", "r1"), ("n1", "a,b"), ("n1", "a#b")])
def test_names_that_slurm_cannot_carry_are_refused(node: str, rack: str) -> None:
    """Rather than written as something else."""
    cluster = build_cluster(["rack"], [Node(node, (rack,), 8, 8)])
    for name in ("slurm-conf", "slurm-yaml"):
        with pytest.raises(InvalidInput, match=saying("Slurm hostlist")):
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
    """By a reader of the same name; topology.conf is one format to read, of switches or of blocks."""
    for name in TOPOLOGY_WRITERS.names():
        text = TOPOLOGY_WRITERS.load(name).write(tree(("a", "r1"))).text
        assert TOPOLOGY_READERS.load({"slurm-block": "slurm-conf"}.get(name, name)).likeness(text.encode())


def test_a_name_that_slurm_would_read_as_another_is_closed() -> None:
    """Slurm reads the number of a child into 64 bits, and then knows no such switch: a _ ends the number.  Topograph
    reads names as they are.
    """
    long = "fab20000000000000000001"
    cluster = tree(("f", long), ("f", long), ("f", f"{long}_"))
    for name in ("slurm-conf", "slurm-yaml", "slurm-block"):
        rendering = TOPOLOGY_WRITERS.load(name).write(cluster)
        racks = {node: path[-1] for node, path in rows(read_back(rendering.text)).items()}
        # with _ alone the name is that of the other rack, and a number of one digit is small enough
        assert racks == {"n1": f"{long}_-2", "n2": f"{long}_-2", "n3": f"{long}_"}
        assert any(f"1 ({long})" in note for note in rendering.notes)
    assert f'"{long}"' in TOPOLOGY_WRITERS.load("topograph").write(cluster).text


def test_a_node_that_slurm_would_read_as_another_is_refused() -> None:
    """The name of a node is not ours to change."""
    cluster = build_cluster(["rack"], [Node("n18446744073709551616", ("r",), 8, 8)])
    for name in ("slurm-conf", "slurm-yaml", "slurm-block"):
        with pytest.raises(InvalidInput, match="Slurm reads as another"):
            TOPOLOGY_WRITERS.load(name).write(cluster)


FILLED = """\
BlockName=a1 Nodes=a[01-18]
BlockName=a2 Nodes=a[19-36]
BlockName=a-p3
BlockName=a-p4
BlockName=b1 Nodes=b[01-18]
BlockSizes=18,72
"""
"""Two groups of four blocks of 18 nodes: a1 and a2 with two empty places, and b1, whose group is not complete."""


def test_blocks_are_written_as_blocks() -> None:
    """Base size, larger sizes, order, empty blocks: the file itself comes back."""
    cluster = read_back(FILLED)
    block = TOPOLOGY_WRITERS.load("slurm-block").write(cluster)
    assert block.text == FILLED
    (note,) = block.notes
    assert says(note, "blocks without nodes", "Slurm 24.11", "2")
    yaml = TOPOLOGY_WRITERS.load("slurm-yaml").write(cluster)
    assert yaml.notes == block.notes
    assert "block_sizes: [18, 72]\n" in yaml.text
    assert '- block: "a-p3"\n      nodes: ""\n' in yaml.text
    again = read_back(yaml.text)
    assert (rows(again), again.blocks) == (rows(cluster), cluster.blocks)


def test_blocks_without_sizes_are_written_without() -> None:
    """What is not said stays so: Slurm has sizes of its own."""
    text = "BlockName=b Nodes=n[1-2]\n"
    assert TOPOLOGY_WRITERS.load("slurm-block").write(read_back(text)).text == text
    assert "block_sizes" not in TOPOLOGY_WRITERS.load("slurm-yaml").write(read_back(text)).text


def test_blocks_that_lose_their_nodes_keep_their_place() -> None:
    """Without the nodes of a2 and those of b1, b1 stays in the second group, and the sizes what they were."""
    cluster = read_back(FILLED)
    kept = cluster.subset(np.array([i for i, name in enumerate(cluster.names) if not "a19" <= name <= "a36"]))
    text = TOPOLOGY_WRITERS.load("slurm-block").write(kept).text
    assert text == FILLED.replace(" Nodes=a[19-36]", "")


def test_a_tree_made_of_blocks_says_so() -> None:
    """The plug-in that reads it, the format that has blocks, and what is lost."""
    (first, second, *_) = TOPOLOGY_WRITERS.load("slurm-conf").write(read_back(FILLED)).notes
    assert "TopologyPlugin=topology/tree" in first
    assert "--to slurm-block" in first
    assert says(second, "sizes of blocks (18,72)", "blocks without nodes (2)")
    for name in ("csv", "topograph"):
        notes = TOPOLOGY_WRITERS.load(name).write(read_back(FILLED)).notes
        assert says(notes, "sizes of blocks (18,72)", "blocks without nodes (2)")


def test_racks_in_pods_as_blocks() -> None:
    """Slurm joins a power of two of blocks: pod a has three racks and is filled up to four, b has two and comes last,
    where nothing needs to be filled up.  The smallest rack has one node, so the sizes are 1 and 4.
    """
    cluster = tree(("a", "r1"), ("a", "r1"), ("b", "r4"), ("a", "r2"), ("a", "r3"), ("b", "r5"))
    rendering = TOPOLOGY_WRITERS.load("slurm-block").write(cluster)
    assert rendering.text == (
        "BlockName=r1 Nodes=n[1-2]\nBlockName=r2 Nodes=n4\nBlockName=r3 Nodes=n5\nBlockName=empty\n"
        "BlockName=r4 Nodes=n3\nBlockName=r5 Nodes=n6\nBlockSizes=1,4\n"
    )
    assert partitions(read_back(rendering.text)) == partitions(cluster)
    assert says(rendering.notes, "blocks", "domains of rack")


@pytest.mark.parametrize(
    ("levels", "base"),
    [
        # NVLink domains before closer switches
        (("spine", "accelerator", "leaf"), "accelerator"),
        (("block", "nvidia.com/gpu.clique", "host"), "nvidia.com/gpu.clique"),
        (("nvlink-domain", "leaf", "host"), "nvlink-domain"),
        # hosts are no blocks, as each is a node
        (("pod", "rack", "host"), "rack"),
    ],
)
def test_which_domains_are_the_blocks(levels: tuple[str, ...], base: str) -> None:
    """Those of NVLink, or the closest that several nodes share; levels closer than these are named as left out."""
    paths = [(f"s{i // 8}", f"d{i // 4}", f"l{i // 2 if levels[-1] == 'leaf' else i}") for i in range(16)]
    rendering = TOPOLOGY_WRITERS.load("slurm-block").write(tree(*paths, levels=levels))
    assert says(rendering.notes, "blocks", f"domains of {base}")
    depth = levels.index(base)
    assert [set(level) for level in partitions(read_back(rendering.text))] == [
        set(level) for level in partitions(tree(*paths, levels=levels))[: depth + 1]
    ]
    assert any(f"left out: {', '.join(levels[depth + 1 :])}" in note for note in rendering.notes)


def test_nodes_in_no_rack_get_blocks_of_their_own() -> None:
    """n2 hangs on pod a itself, n3 on nothing; both are counted."""
    rendering = TOPOLOGY_WRITERS.load("slurm-block").write(tree(("a", "r1"), ("a", ""), ("", ""), ("a", "r1")))
    assert rows(read_back(rendering.text)) == {
        "n1": ("r1..a-nodes", "r1"),
        "n4": ("r1..a-nodes", "r1"),
        "n2": ("r1..a-nodes", "a-nodes"),
        "n3": ("root-nodes..root-nodes", "root-nodes"),
    }
    assert says(rendering.notes, "nodes in no rack", "2")


def test_domains_too_unlike_for_blocks_are_left_out() -> None:
    """One pod of 20,000 racks beside two of one: filling these up would take 2 x 32,767 empty blocks, too many."""
    paths = [("big", f"r{i}") for i in range(20_000)] + [("small", "s1"), ("tiny", "t1"), ("tiny", "t1")]
    rendering = TOPOLOGY_WRITERS.load("slurm-block").write(tree(*paths, levels=("pod", "rack")))
    assert any("level left out" in note and note.endswith(": pod") for note in rendering.notes)
    assert [level.name for level in read_back(rendering.text).levels] == ["block"]


def test_what_slurm_joins_though_nothing_joined_it_is_said() -> None:
    """Blocks lie side by side, and jobs span them; trunks of a tree do not."""
    trunks = read_back("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n")
    assert says(TOPOLOGY_WRITERS.load("slurm-block").write(trunks).notes, "2 domains of level-0")


def test_no_levels_are_no_blocks() -> None:
    """Refused, with what to do."""
    cluster = build_cluster([], [Node("n1", (), 8, 8)])
    with pytest.raises(InvalidTopology, match="no levels") as caught:
        TOPOLOGY_WRITERS.load("slurm-block").write(cluster)
    assert caught.value.fix


@st.composite
def block_files(draw: st.DrawFn) -> str:
    """A topology.conf of blocks, some of them empty, and sizes of a power of two of the first."""
    sizes = draw(st.lists(st.integers(0, 4), max_size=4, unique=True).map(sorted))
    base = draw(st.integers(1, 4))
    counts = draw(st.lists(st.integers(0, 5), min_size=1, max_size=12).filter(any))
    lines, node = [], 0
    for i, count in enumerate(counts):
        held = ",".join(f"n{number}" for number in range(node, node + count))
        lines.append(f"BlockName=b{i}{' Nodes=' * bool(count)}{held}")
        node += count
    if sizes:
        lines.append(f"BlockSizes={','.join(str(base * 2 ** (size - sizes[0])) for size in sizes)}")
    return "\n".join([*lines, ""])


@examples(120)
@given(block_files(), st.sampled_from(["slurm-block", "slurm-yaml"]))
def test_any_blocks_survive(text: str, name: str) -> None:
    """Every node keeps its block at every size, by name; blocks keep their order, sizes and empty places."""
    cluster = read_back(text)
    again = read_back(TOPOLOGY_WRITERS.load(name).write(cluster).text)
    assert rows(again) == rows(cluster)
    assert [level.name for level in again.levels] == [level.name for level in cluster.levels]
    assert again.blocks == cluster.blocks


@examples(120)
@given(clusters(uneven=False) | clusters(uneven=True))
def test_any_tree_can_be_made_of_blocks(cluster: Cluster) -> None:
    """Nodes are together in blocks of some size where they are at a level, from that of the blocks on; a level that
    parts nodes as the next closer one does needs no size.
    """
    rendering = TOPOLOGY_WRITERS.load("slurm-block").write(cluster)
    again = read_back(rendering.text)
    base = next(note.rpartition(" ")[2] for note in rendering.notes if says(note, "blocks", "the domains of"))
    depth = [level.name for level in cluster.levels].index(base)
    expected: list[set[frozenset[str]]] = []
    for partition in partitions(cluster)[: depth + 1]:
        if partition not in expected:
            expected.append(partition)
    assert partitions(again) == expected
