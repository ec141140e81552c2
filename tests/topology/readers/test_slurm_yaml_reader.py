"""Slurm's topology.yaml."""

from datetime import UTC, datetime

import pytest

from ground.errors import InvalidInput, TooLarge
from ground.files import Source
from tests.facts import says
from topology.readers.reading import Reading
from topology.readers.slurm import SlurmYaml

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def read(text: str) -> Reading:
    """Read a text called f."""
    return SlurmYaml().read(Source("f", text), levels=None, now=NOW)


TREE = """---
- topology: topo1
  cluster_default: true
  tree:
    switches:
      - switch: sw_root
        children: s[1-2]
      - switch: s1
        nodes: node[01-02]
      - switch: s2
        nodes: node[03-04]
"""

BLOCKS = """
- topology: topo2
  cluster_default: false
  block:
    block_sizes:
      - 4
      - 16
    blocks:
      - block: b1
        nodes: node[01-04]
      - block: b2
        nodes: node[05-08]
      - block: b3
        nodes: node[09-12]
      - block: b4
        nodes: node[13-16]
"""

FLAT = "- topology: topo3\n  cluster_default: false\n  flat: true\n"


def test_a_tree() -> None:
    """The example of topology.yaml(5)."""
    cluster = read(TREE).cluster
    assert [level.name for level in cluster.levels] == ["level-0", "level-1"]
    assert cluster.node("node03").path == ("sw_root", "s2")


def test_blocks() -> None:
    """The example of topology.yaml(5): 16 = 4 x 4 joins four blocks."""
    cluster = read(BLOCKS).cluster
    assert [level.name for level in cluster.levels] == ["block-16", "block"]
    assert cluster.node("node05").path == ("b1..b4", "b2")


@pytest.mark.parametrize("empty", ["\n        nodes: ''", "\n        nodes:", ""])
def test_an_empty_block_keeps_its_place(empty: str) -> None:
    """However it is written: tools fill groups of blocks up with `nodes: ''`.  b2 has none, so b3 begins the second
    group of two.
    """
    pairs = BLOCKS.replace("- 16", "- 8")
    reading = read(pairs.replace("\n        nodes: node[05-08]", empty))
    assert reading.cluster.node("node01").path == ("b1..b2", "b1")
    assert reading.cluster.node("node09").path == ("b3..b4", "b3")
    assert "blocks without nodes" in reading.notes[0]
    assert "1 (b2)" in reading.notes[0]


def test_a_switch_without_nodes_in_words() -> None:
    """As the file of the other form: `nodes: ''` is a switch that awaits nodes."""
    reading = read(TREE.replace("node[03-04]", "''"))
    assert (reading.cluster.names, len(reading.cluster.levels)) == (("node01", "node02"), 2)


def test_of_several_the_default_is_read() -> None:
    """Else the first that is not flat; a note says which."""
    both = read(FLAT + BLOCKS + TREE.removeprefix("---\n"))
    assert both.cluster.levels[0].name == "level-0"
    assert [says(note, "3 topologies", "'topo1'") for note in both.notes] == [True]
    no_default = read(FLAT + BLOCKS)
    assert no_default.cluster.levels[0].name == "block-16"


def test_a_default_without_levels_gives_way() -> None:
    """The first tree or blocks beside it are read, with a note; a flat default is what most partitions may use."""
    reading = read(FLAT.replace("false", "true") + BLOCKS)
    assert reading.cluster.levels[0].name == "block-16"
    (note,) = reading.notes
    assert says(note, "2 topologies", "'topo2'", "'topo3'")


def test_one_topology_alone() -> None:
    """Slurm takes a mapping at the root as a list of one."""
    alone = "\n".join(line[2:] for line in TREE.splitlines()[1:])
    assert read(alone).cluster.names == read(TREE).cluster.names
    assert SlurmYaml().likeness(alone.encode())


def test_flat_with_options() -> None:
    """Since 26.05 flat may be a mapping; `flat: false` says nothing, beside whatever stands there."""
    assert len(read(f"{TREE}- topology: t\n  flat: {{alpha_step_rank: true}}\n").cluster) == 4
    assert len(read(f"{TREE}  flat: false\n").cluster) == 4


# two leaves below two spines, as a program writes it
ON_ONE_LINE = (
    '[{"topology":"t","tree":{"switches":[{"switch":"a","children":"c,d"},{"switch":"b","children":"c,d"},'
    '{"switch":"c","nodes":"n[1-2]"},{"switch":"d","nodes":"n[2-3]"}]}}]'
)


@pytest.mark.parametrize(
    ("text", "complaint", "where", "fix"),
    [
        (TREE.replace("nodes: node[01", "node: node[01"), "unknown key .*node'", "f:9", "did you mean 'nodes'?"),
        (TREE.replace("s[1-2]", "s[1-3]"), "switch 's3' .* not described", "f:6", "describe it"),
        (TREE.replace("03-04", "02-04"), r"'node02' appears twice \(first at f:8\)", "f:10", "one row"),
        (ON_ONE_LINE, r"'n2' appears twice \(first at f:1\)", "f:1", "below one switch"),
        (TREE.replace("switch: s1", "switch: 1"), "must be text, not 1", "f:8", "quotes"),
        (TREE.replace("- switch: s1\n        nodes", "- nodes"), "'switch' is missing", "f:8", "add 'switch'"),
        (TREE.replace("node[01-02]", "node[01-"), "broken", "f:8", "ranges like"),
        (BLOCKS.replace("- 16", "- 12"), "12 is not the base size", "f:5", "sizes such as"),
        (BLOCKS.replace("- 16", "- many"), "block_sizes", "f:7", "correct"),
        (FLAT, "is flat, neither a tree nor blocks", "f:1", "scontrol show nodes"),
        (FLAT.replace("true", "false"), "is of no kind, neither", "f:1", "scontrol show nodes"),
        ("- topology: t\n  ring: {rings: []}\n", "neither a tree nor blocks", "f:1", "scontrol show nodes"),
        (TREE.replace("nodes:", "#"), "no switch or block lists a node", "f:6", "scontrol show topology"),
        (BLOCKS.replace("nodes:", "#"), "no switch or block lists a node", "f:9", "scontrol show topology"),
        ("- topology: t\n  tree: {switches: []}\n", "no switches", "f:2", "at least one"),
        ("topology: t\ntree: {switches: []}\n", "no switches", "f:2", "at least one"),
        ("topology: t\ntree: {switches: []}\nflat: true\n", "at once", "f:3", "one of them"),
        ("[]", "empty", "f", "describe one"),
        (f"{TREE}  flat: true\n", "'topo1' is tree and flat at once", "f:12", "one of them"),
        (f"{TREE}  flat: {{alpha_step_rank: true}}\n", "tree and flat at once", "f:12", "one of them"),
        (f"{BLOCKS}  ring: {{rings: []}}\n", "block and ring at once", "f:17", "one of them"),
        (f"{BLOCKS}  torus3d: {{toruses: []}}\n", "block and torus3d at once", "f:17", "one of them"),
        (f"{BLOCKS}  tree: {{switches: []}}\n", "tree and block at once", "f:4", "one of them"),
        (f"{TREE}- topology: t\n  flat: sometimes\n", "flat", "f:13", "correct"),
    ],
)
def test_bad_files_are_refused(text: str, complaint: str, where: str, fix: str) -> None:
    """Each fault gives the line, what is wrong, and what to do."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read(text)
    assert caught.value.where == where
    assert fix in caught.value.fix


def test_absurd_sizes_end_at_once() -> None:
    """4e8 nodes in one range."""
    with pytest.raises(TooLarge):
        read(TREE.replace("node[01-02]", "n[0-400000000]"))
