"""The cluster CSV."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest

from ground.errors import InvalidInput, InvalidTopology
from ground.files import Source
from tests.facts import says
from topology.readers.cluster_csv import ClusterCsv
from topology.readers.reading import Reading
from topology.writers import TOPOLOGY_WRITERS

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def read(text: str) -> Reading:
    """Read a text called f."""
    return ClusterCsv().read(Source("f", text), levels=None, now=NOW)


HOUSE = """node,minipod,rack,gpus,free_gpus,slowdown
n0001,mp01,r01,8,8,
n0002,mp01,r01,8,0,
n0003,mp01,r02,8,8,1.4
n0004,mp02,r03,8,8,faulty
"""


def test_the_documented_example() -> None:
    """Levels in order, use, slowdown and faulty nodes as documented."""
    cluster = read(HOUSE).cluster
    assert [level.name for level in cluster.levels] == ["minipod", "rack"]
    assert cluster.node("n0001").path == ("mp01", "r01")
    assert [node.free_gpus for node in cluster] == [8, 0, 8, 8]
    assert [node.slowdown for node in cluster] == [1.0, 1.0, 1.4, math.inf]
    assert [node.free for node in cluster] == [True, False, True, False]


def test_attributes_are_optional_and_have_defaults() -> None:
    """Without columns, or with empty cells: 8 GPUs, all free, healthy."""
    for text in ("node,rack\nn1,r1\n", "node,rack,gpus,free_gpus,slowdown\nn1,r1,,,\n"):
        node = read(text).cluster.node("n1")
        assert (node.gpus, node.free_gpus, node.slowdown) == (8, 8, 1.0)


def test_free_gpus_default_to_the_gpus_of_the_node() -> None:
    """A node of 4 GPUs is free with 4; the columns may stand in any order."""
    cluster = read("node,rack,slowdown,free_gpus,gpus\nn1,r1,1.0,,4\nn2,r1,,3,4").cluster
    assert [(node.gpus, node.free_gpus) for node in cluster] == [(4, 4), (4, 3)]


def test_level_names_are_free() -> None:
    """Anything but the names of the attributes, also none at all."""
    cluster = read("node,data hall,NVLink domain\nn1,a,b\n").cluster
    assert [level.name for level in cluster.levels] == ["data hall", "NVLink domain"]
    assert read("node,gpus\nn1,8\n").cluster.levels == ()


@pytest.mark.parametrize("level", ["spine", "slice"])
def test_terms_of_networks_are_no_misspelt_attributes(level: str) -> None:
    """They have four letters of "since" in order, and name levels."""
    assert [one.name for one in read(f"node,{level},rack\nn1,s1,r1\n").cluster.levels] == [level, "rack"]


def test_an_empty_cell_hangs_the_node_on_the_broader_switch() -> None:
    """Uneven depth: n2 has no rack."""
    cluster = read("node,minipod,rack\nn1,a,r1\nn2,a,\n").cluster
    rack = cluster.level("rack")
    assert rack.implicit[rack.domain_of[1]]
    assert cluster.node("n2").path == ("a", "a")


def test_spaces_windows_lines_and_quotes_are_harmless() -> None:
    """Cells are stripped, empty lines skipped, commas allowed in quotes."""
    cluster = read('\nnode, rack \r\nn1, "row 1, rack 2"\r\n\r\nn2,b\r\n').cluster
    assert len(cluster) == 2
    assert cluster.levels[0].name == "rack"
    assert cluster.node("n1").path == ("row 1, rack 2",)


@pytest.mark.parametrize(
    ("text", "complaint", "where", "fix"),
    [
        ("node,rack\n", "no nodes", "", "list at least one"),
        ("node,rack\nn1,r1\nn2,r1\nn1,r2\n", r"'n1' appears twice \(first at f:2\)", "f:4", "one row"),
        ("node,minipod,rack\nn1,a,r\nn2,b,r\n", "rack 'r' lies in two domains of minipod", "f:3", "rename"),
        ("node,rack,gpus,free_gpus\nn1,r,8,9\n", "9 free GPUs of 8", "f:2", "between 0 and"),
        ("node,rack,gpus,free_gpus\nn1,r,8,-1\n", "-1 free GPUs", "f:2", "between 0 and"),
        ("node,rack,gpus\nn1,r,-8\n", "-8 GPUs", "f:2", "at least one"),
        ("node,rack,gpus\nn1,r,0\n", "0 GPUs", "f:2", "at least one"),
        ("node,rack,gpus\nn1,r,99999999999\n", "99999999999 GPUs", "f:2", "at most"),
        ("node,rack,gpus\nn1,r," + "9" * 5000, "not a whole number", "f:2", "write a number"),
        ("node,rack,gpus\nn1,r,eight\n", "gpus of node 'n1' is 'eight'", "f:2", "write a number"),
        ("node,rack,gpus\nn1,r,8.0\n", "'8.0', not a whole number", "f:2", "write a number"),
        ("node,rack,gpus\nn1,r,NaN\n", "'NaN', not a whole number", "f:2", "write a number"),
        ("node,rack,gpus\nn1,r,\uff18\n", "not a whole number", "f:2", "write a number"),
        ("node,rack,slowdown\nn1,r,nan\n", "'nan'", "f:2", "factor"),
        ("node,rack,slowdown\nn1,r,inf\n", "'inf'", "f:2", "factor"),
        ("node,rack,slowdown\nn1,r,1e999\n", "'1e999'", "f:2", "factor"),
        ("node,rack,slowdown\nn1,r,0.9\n", "'0.9'", "f:2", "factor"),
        ("node,rack,slowdown\nn1,r,-1.5\n", "'-1.5'", "f:2", "factor"),
        ("node,rack,slowdown\nn1,r,1_3\n", "'1_3'", "f:2", "factor"),
        ("node,rack,slowdown\nn1,r,bad\n", "'bad'", "f:2", "'faulty'"),
        ("node,rack,slowdown,until\nn1,r,1.5,soon\n", "until of node 'n1' is 'soon'", "f:2", "2026-11-17T14:00:00Z"),
        ("node,rack,slowdown,since\nn1,r,2,2026-11-17\n", "no time with a time zone", "f:2", "leave the cell empty"),
        ("node,slowdown,since\nn1,2,9999-12-31T23:59:59-08:00\n", "time with a time zone", "f:2", "leave"),
        (
            "node,slowdown,since,until\nn1,2,2026-11-17T14:00:00Z,2026-11-17T14:00:00Z\n",
            "ends before it begins",
            "f:2",
            "correct until",
        ),
        ("node,rack\nn1,r\nn2\n", "has 1 cells, the header 2", "f:3", "truncated"),
        ("node,rack\nn1,r,x\n", "has 3 cells, the header 2", "f:2", "every column"),
        ('node,rack\nn1,"r1\n', "not CSV", "f:2", "quotes"),
        ("node,rack\n,r\n", "a node has no name", "f:2", "name every node"),
        ("node,rack\nn\x1b[1,r\n", "control characters", "f:2", "printable"),
        ("node,rack\nn1,r\x07\n", "control characters", "f:2", "printable"),
        ("node,rack,rack\nn1,r,r\n", "two columns are called 'rack'", "f:1", "own name"),
        ("node,rack,\nn1,r,8\n", "column 3 has no name", "f:1", "name every column"),
        ("Node,rack\nn1,r\n", "first column is 'Node'", "f:1", "did you mean 'node'"),
        ("node;rack\nn1;r\n", "separated by ';'", "f:1", "commas"),
        ("node\track\nn1\tr\n", "separated by tabs", "f:1", "commas"),
        ("nodes,rack\nn1,r\n", "first column is 'nodes'", "f:1", "did you mean 'node'"),
        ("node,rack,free_gpu\nn1,r,8\n", "'free_gpu' looks like", "f:1", "did you mean 'free_gpus'?"),
        ("node,rack,GPUs\nn1,r,8\n", "'GPUs' looks like", "f:1", "did you mean 'gpus'?"),
        ("node,rack,gpus,slodown\nn1,r,8,1\n", "unknown column 'slodown'", "f:1", "did you mean 'slowdown'?"),
        ("node,rack,@rack\nn1,r,x\n", "'@rack' is called like the level 'rack'", "f:1", "rename one of the two"),
        ("node,rack,@\nn1,r,x\n", "a second hierarchy is called '@'", "f:1", "like @power"),
        ("node,@p,rack,@p\nn1,x,r,x\n", "two columns are called '@p'", "f:1", "own name"),
        ("node,@p\nn1,a\x07\n", "control characters", "f:2", "printable"),
        ("node," + ",".join(f"@p{i}" for i in range(9)) + "\nn" + ",x" * 9, "9 second hierarchies", "f:1", "at most 8"),
        ("node,rack,gpus,power\nn1,r,8,1\n", "unknown column 'power'", "f:1", "only gpus, free_gpus, slowdown"),
        ("node,rack,rails\nn1,r,0\n", "'n1' has 0 rails", "f:2", "such as 8"),
        ("node,rack,rails\nn1,r,a\n", "rails of node 'n1' is 'a'", "f:2", "write a number"),
        ("node,rail,gpus\nn1,1,8\n", "'rail' looks like", "f:1", "did you mean 'rails'?"),
        ("node,rack,cache\nn1,r,a\x07\n", "control characters", "f:2", "printable"),
        ("node," + ",".join(f"l{i}" for i in range(41)) + "\nn" + ",x" * 41, "42 columns", "f:1", "at most"),
    ],
)
def test_bad_tables_are_refused(text: str, complaint: str, where: str, fix: str) -> None:
    """Each fault gives the line, what is wrong, and what to do."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read(text)
    assert caught.value.where == where
    assert fix in caught.value.fix
    assert caught.value.exit_code == 2


def test_impossible_topologies_are_told_from_unreadable_files() -> None:
    """The kind of error says whether the file or what it says is at fault."""
    with pytest.raises(InvalidTopology):
        read("node,rack\nn1,a\nn1,a")


def test_columns_with_an_at_are_second_hierarchies_wherever_they_stand() -> None:
    """Power crosses racks; the node with an empty cell is in no power domain, and there a domain by itself."""
    cluster = read("node,@power,rack,gpus,@failure\nn1,p1,r1,8,f1\nn2,,r1,8,f1\nn3,p1,r2,4,f2\n").cluster
    assert [level.name for level in cluster.levels] == ["rack"]
    assert cluster.node("n2").second_path == ("", "f1")
    power = cluster.level("@power")
    assert power.domain_of.tolist() == [0, 1, 0]
    assert power.own_names() == ["p1", "", "p1"]
    assert [node.gpus for node in cluster] == [8, 8, 4]


def test_rails_are_network_cards_of_each_node() -> None:
    """A node without a number has none that is said; what is written is read again."""
    cluster = read("node,rack,rails\nn1,r1,8\nn2,r1,\nn3,r2,4\n").cluster
    assert cluster.rails == {0: 8, 2: 4}
    assert read(TOPOLOGY_WRITERS.load("csv").write(cluster).text).cluster.rails == cluster.rails
    assert cluster.subset(np.array([1, 2], dtype=np.int32)).rails == {1: 4}
    assert says(TOPOLOGY_WRITERS.load("slurm-conf").write(cluster).notes, "numbers of rails (2 of 3 nodes)")


def test_a_node_called_like_a_domain_is_not_in_it() -> None:
    """The domain that a node without one makes by itself is another than the domain of that name."""
    assert read("node,@power\nn1,n2\nn2,\n").cluster.level("@power").domain_of.tolist() == [0, 1]


def test_a_slowdown_has_a_begin_and_an_end() -> None:
    """One that is over or is to come when it is read is left out with a note; of the others the times are kept."""
    text = (
        "node,rack,slowdown,since,until\nn1,r,1.5,2026-11-20T00:00:00Z,2026-11-22T00:00:00+01:00\n"
        "n2,r,faulty,,2026-11-21T12:00:00Z\nn3,r,2,2026-11-21T12:00:01Z,\nn4,r,1.2,,\n"
    )
    reading = read(text)
    assert [*reading.cluster.slowdown] == [1.5, 1.0, 1.0, 1.2]
    (note,) = reading.notes
    assert says(note, "do not hold now", "2")
    flag = reading.cluster.flags[0]
    assert (flag.since, flag.until) == (datetime(2026, 11, 20, tzinfo=UTC), datetime(2026, 11, 21, 23, tzinfo=UTC))
    again = read(TOPOLOGY_WRITERS.load("csv").write(reading.cluster).text).cluster
    assert again.flags == reading.cluster.flags
