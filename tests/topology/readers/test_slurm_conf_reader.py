"""Slurm's topology.conf."""

from datetime import UTC, datetime

import pytest

from ground.errors import InvalidInput, TooLarge
from ground.files import Source
from tests.facts import says
from topology.readers.reading import Reading
from topology.readers.slurm import SlurmConf

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def read(text: str) -> Reading:
    """Read a text called f."""
    return SlurmConf().read(Source("f", text), levels=None, now=NOW)


TREE = """
# topology/tree
SwitchName=s0 Nodes=dev[0-5]
SwitchName=s1 Nodes=dev[6-11] LinkSpeed=100   # a comment
switchname=s2 \\
   NODES="dev[12-17]"
SwitchName=s3 Switches=s0,\\
s[1-2]
"""

BLOCKS = """
BlockName=block1 Nodes=node[001-032]
BlockName=block2 Nodes=node[033-064]
BlockName=block3 Nodes=node[065-096]
BlockName=block4 Nodes=node[097-128]
BlockSizes=30,60,120
"""


def test_a_tree() -> None:
    """Levels have no names in Slurm: level-0 is the broadest.  Comments, case, quotes, continued lines as there."""
    cluster = read(TREE).cluster
    assert [level.name for level in cluster.levels] == ["level-0", "level-1"]
    assert len(cluster) == 18
    assert cluster.node("dev7").path == ("s3", "s1")
    assert cluster.node("dev17").path == ("s3", "s2")
    assert cluster.node("dev0").gpus == 8


def test_leaf_switches_at_different_depths() -> None:
    """A node's switch at a level is its ancestor there: a1 hangs on the root switch, b1 two below it."""
    text = "SwitchName=top Switches=mid,a\nSwitchName=mid Switches=b\nSwitchName=b Nodes=b1\nSwitchName=a Nodes=a1\n"
    cluster = read(text).cluster
    assert cluster.node("b1").path == ("top", "mid", "b")
    assert cluster.node("a1").path == ("top", "a", "a")
    closest = cluster.levels[2]
    assert closest.implicit[closest.domain_of[cluster.index("a1")]]


def test_a_switch_with_nodes_and_switches() -> None:
    """Slurm wants one or the other; both are understood."""
    cluster = read("SwitchName=top Nodes=a1 Switches=b\nSwitchName=b Nodes=b1\n").cluster
    assert cluster.node("a1").path == ("top", "top")
    assert cluster.node("b1").path == ("top", "b")


def test_blocks_and_what_they_are_joined_to() -> None:
    """120 = 4 x 30 joins four blocks in the order of the file, 60 two: topology.conf(5)."""
    cluster = read(BLOCKS).cluster
    assert [level.name for level in cluster.levels] == ["block-120", "block-60", "block"]
    assert cluster.node("node001").path == ("block1..block4", "block1..block2", "block1")
    assert cluster.node("node128").path == ("block1..block4", "block3..block4", "block4")


SHOWN_TREE = """\
SwitchName=s0 Level=0 LinkSpeed=1 Nodes=dev[0-5]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=dev[6-11]
SwitchName=s2 Level=0 LinkSpeed=1 Nodes=dev[12-17]
SwitchName=s3 Level=1 LinkSpeed=1 Nodes=dev[0-17] Switches=s[0-2]
"""

SHOWN_BLOCKS = """\
BlockName=block1 BlockIndex=0 Nodes=node[001-032] BlockSize=30
BlockName=block2 BlockIndex=1 Nodes=node[033-064] BlockSize=30
BlockName=block3 BlockIndex=2 Nodes=node[065-096] BlockSize=30
BlockName=block4 BlockIndex=3 Nodes=node[097-128] BlockSize=30
AggregatedBlock=block[1-2] BlockIndex=4 Nodes=node[001-064] BlockSize=60
AggregatedBlock=block[3-4] BlockIndex=5 Nodes=node[065-128] BlockSize=60
AggregatedBlock=block[1-4] BlockIndex=6 Nodes=node[001-128] BlockSize=120
"""


@pytest.mark.parametrize(("shown", "file"), [(SHOWN_TREE, TREE), (SHOWN_BLOCKS, BLOCKS)], ids=["tree", "block"])
def test_what_scontrol_shows_is_the_file(shown: str, file: str) -> None:
    """`scontrol show topology` is the same cluster: there the nodes of a switch of switches are all those below it."""
    assert SlurmConf().likeness(shown.encode())
    one, other = read(shown).cluster, read(file).cluster
    assert [level.name for level in one.levels] == [level.name for level in other.levels]
    assert {node.name: node.path for node in one} == {node.name: node.path for node in other}


def test_trunks_that_nothing_joins() -> None:
    """Slurm runs no job across switches without one above them: the reader says so, and the cluster knows it."""
    reading = read("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n")
    assert reading.cluster.trunks is reading.cluster.levels[0]
    assert "switches with none above them: 2 (a, b)" in reading.notes[0]
    assert (read(TREE).cluster.trunks, read(TREE).notes) == (None, ())
    # blocks lie side by side, and Slurm joins them freely
    assert read(BLOCKS).cluster.trunks is None
    assert read("BlockName=b1 Nodes=n1\nBlockName=b2 Nodes=n2\n").cluster.trunks is None


def test_all_links_of_a_fat_tree() -> None:
    """Two spines that both join a and b are one place, c stands alone: levels are what switches join."""
    reading = read(
        "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\nSwitchName=c Nodes=n[5-6]\n"
        "SwitchName=s1 Switches=a,b\nSwitchName=s2 Switches=a,b\nSwitchName=top Switches=c,s1,s2\n"
    )
    assert [(level.name, level.domains) for level in reading.cluster.levels] == [
        ("tier-1", ("s1..s2", "c")),
        ("tier-0", ("a", "b", "c")),
    ]
    assert reading.cluster.trunks is None
    assert "switches below several others: 2 (a, b)" in reading.notes[0]
    apart = read("SwitchName=a Nodes=n1\nSwitchName=s Switches=a\nSwitchName=t Switches=a\nSwitchName=b Nodes=n2\n")
    assert apart.cluster.trunks is apart.cluster.levels[0]


def test_switches_that_await_nodes() -> None:
    """Dynamic nodes come by themselves; a block without any still counts in the order of blocks."""
    reading = read("SwitchName=top Switches=a,b\nSwitchName=a Nodes=n1\nSwitchName=b\n")
    assert reading.cluster.node("n1").path == ("top", "a")
    assert [says(note, "switches", "1 (b)") for note in reading.notes] == [True]
    for nothing in ("", ' Nodes=""'):
        blocks = read(f"BlockName=a Nodes=n1\nBlockName=b{nothing}\nBlockName=c Nodes=n3\nBlockSizes=1,2\n")
        assert blocks.cluster.node("n3").path == ("c..c", "c")
        assert "1 (b)" in blocks.notes[0]


def test_blocks_without_sizes_are_one_level() -> None:
    """And a last, incomplete group of blocks is a group all the same."""
    assert [level.name for level in read("BlockName=b Nodes=n[1-2]\n").cluster.levels] == ["block"]
    text = "BlockName=a Nodes=n1\nBlockName=b Nodes=n2\nBlockName=c Nodes=n3\nBlockSizes=1,2\n"
    assert read(text).cluster.node("n3").path == ("c..c", "c")


@pytest.mark.parametrize(
    ("text", "complaint", "where", "fix"),
    [
        ("SwitchName=s Nodes=n1\nSwitchName=t Nodes=n1", r"'n1' appears twice \(first at f:1\)", "f:2", "one row"),
        ("SwitchName=s Nodes=n1\nSwitchName=s Nodes=n2", r"switch 's' appears twice \(first at f:1\)", "f:2", "once"),
        ("SwitchName=s Nodes=n[1-3],n2", "names a node twice", "f:1", "once"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "below itself", "f:1", "circle"),
        ("SwitchName=r Nodes=x\nSwitchName=a Switches=a", "'a' lies below itself", "f:2", "circle"),
        ("SwitchName=a Switches=leaf1\nSwitchName=leaf2 Nodes=n", "'leaf1' .* not described", "f:1", "'leaf2'"),
        ("SwitchName=a", "no switch or block lists a node", "f:1", "scontrol show topology"),
        ("SwitchName=a Switches=c\nSwitchName=b Switches=c\nSwitchName=c", "lists a node", "f:1", "scontrol"),
        (
            "SwitchName=t Switches=a,b\nSwitchName=u Switches=a,b\nSwitchName=a Nodes=n\nSwitchName=b Nodes=n",
            r"'n' appears twice \(first at f:3\)",
            "f:4",
            "below one switch",
        ),
        ("SwitchName=a Switches=b,c\nSwitchName=b Switches=a,c\nSwitchName=c Nodes=n", "below itself", "f:1", "circle"),
        # the whole circle is named, from the first of its switches in the file; r and x are not in it
        (
            "SwitchName=r Switches=b\nSwitchName=b Switches=c,x\nSwitchName=c Switches=d\nSwitchName=d Switches=b\n"
            "SwitchName=x Nodes=n",
            "'b' lies below itself: b > c > d > b\n",
            "f:2",
            "circle",
        ),
        ('SwitchName="" Nodes=n', "no name", "f:1", "name every switch"),
        ("SwitchName=a Node=n1", "unknown key 'Node'", "f:1", "did you mean 'Nodes'?"),
        ("Switchname=a Nodes=n1\nSwitch=b Nodes=n2", "unknown key 'Switch'", "f:2", "SwitchName"),
        ("SwitchName=a Nodes=n1 Nodes=n2", "stands twice", "f:1", "keep one"),
        ("SwitchName=a Nodes=n[1-", "broken", "f:1", "ranges like"),
        ("SwitchName=a Nodes=@all", "broken", "f:1", "ranges like"),
        ("SwitchName=a Nodes=n1 and more", "cannot read 'and more'", "f:1", "pairs"),
        ("SwitchName=a Nodes=n1 \\", "not finished", "f:1", "backslash"),
        ("SwitchName=a Nodes=n1\nInclude more.conf", "cannot read 'Include", "f:2", "pairs"),
        ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2", "switches and blocks", "f:2", "not both"),
        ("BlockName=b Nodes=n1\nBlockSizes=4,12", "12 is not the base size 4 times", "f:2", "sizes such as"),
        ("BlockName=b Nodes=n1\nBlockSizes=4,x", "BlockSizes is '4,x'", "f:2", "whole numbers"),
        ("BlockSizes=4", "no switch and no block", "f", "add lines"),
        ("RingName=r Nodes=n[1-4]", "a ring has no levels", "f:1", "a tree"),
        ("TorusName=t Dims=4x4x2 Nodes=n[1-32]", "a torus has no levels", "f:1", "a tree"),
    ],
)
def test_bad_files_are_refused(text: str, complaint: str, where: str, fix: str) -> None:
    """Each fault gives the line, what is wrong, and what to do."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read(text)
    assert caught.value.where == where
    assert fix in caught.value.fix


def test_absurd_sizes_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One range of 4e8 nodes, many ranges that add up to too much, a chain of switches without end."""
    with pytest.raises(TooLarge):
        read("SwitchName=s Nodes=n[0-400000000]")
    monkeypatch.setattr("topology.readers.slurm.MAX_NODES", 10)
    with pytest.raises(TooLarge):
        read("".join(f"SwitchName=s{i} Nodes=n{i}x[1-3]\n" for i in range(4)))
    monkeypatch.undo()
    chain = "".join(f"SwitchName=s{i} Switches=s{i + 1}\n" for i in range(2_000))
    # as a tree, and where s2000 lies below two
    for end in ("SwitchName=s2000 Nodes=n\n", "SwitchName=t Switches=s2000\nSwitchName=s2000 Nodes=n\n"):
        with pytest.raises(InvalidInput, match="deeper than"):
            read(chain + end)
    # a circle of 2,000 switches is told by its first and last
    with pytest.raises(InvalidInput, match=r"s0 > s1 > .* > s9 > \.\.\. > s0\n"):
        read(chain + "SwitchName=s2000 Switches=s0 Nodes=n\n")
