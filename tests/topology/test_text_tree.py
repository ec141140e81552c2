"""The cluster as text: counts that add up, a tree that fits a screen."""

from hypothesis import given
from hypothesis import strategies as st

from topology.build import build_cluster
from topology.cluster import Node, State, count_states, node_states
from topology.generate import flag_some, fragment, minipods, nvl72, paper_cluster
from topology.summary import MAX_ROWS, TreeRow, text_tree, tree_rows


def test_a_small_tree_reads_as_expected() -> None:
    """Two pods, one with two racks, a busy, a slow and a faulty node: the whole text.

    The bar has 4 marks: where it stands for 3 nodes, the first kind gets the one left over.
    """
    rows = [
        Node("n0", ("p1", "r1"), 8, 8),
        Node("n1", ("p1", "r1"), 8, 0),
        Node("n2", ("p1", "r2"), 8, 8, 1.4),
        Node("n3", ("p2", "r3"), 8, 8, float("inf")),
    ]
    assert text_tree(build_cluster(["pod", "rack"], rows), bar_width=4).split("\n") == [
        "               nodes  free  busy  slow  faulty  █ free ░ busy ! slow x faulty",
        "cluster            4     1     1     1       1  █░!x",
        "├─ pod p1          3     1     1     1       0  ██░!",
        "│  ├─ rack r1      2     1     1     0       0  ██░░",
        "│  └─ rack r2      1     0     0     1       0  !!!!",
        "└─ pod p2          1     0     0     0       1  xxxx",
        "   └─ rack r3      1     0     0     0       1  xxxx",
    ]


def test_deeper_levels_are_shown_as_long_as_a_person_would_read_them() -> None:
    """2,046 nodes in 528 racks: minipods only.  Two blocks of four racks: both levels."""
    assert len(tree_rows(paper_cluster("9600"))) == 1 + 22
    assert len(tree_rows(nvl72(blocks=2, racks=4))) == 1 + 2 + 8
    assert len(tree_rows(nvl72(blocks=2, racks=4), depth=1)) == 1 + 2


def test_many_domains_are_one_line() -> None:
    """500 minipods: forty are listed and 460 counted in one line, with their nodes."""
    rows = tree_rows(minipods(minipods=500, nodes=5000))
    assert len(rows) == 1 + 40 + 1 <= MAX_ROWS
    assert (rows[-1].label, rows[-1].nodes) == ("460 more", 4600)


def test_nodes_without_a_switch_have_a_line() -> None:
    """A node that hangs on its pod, beside a rack, is not lost from the tree."""
    rows = [Node("n0", ("p1", "r1"), 8, 8), Node("n1", ("p1", ""), 8, 8), Node("n2", ("p2", "r2"), 8, 8)]
    labels = [row.label for row in tree_rows(build_cluster(["pod", "rack"], rows))]
    assert labels == ["cluster", "pod p1", "rack r1", "without a switch of their own", "pod p2", "rack r2"]


def test_a_cluster_without_levels_is_one_line() -> None:
    """Nothing to descend into."""
    assert [row.label for row in tree_rows(minipods(minipods=1, nodes=3).replace(levels=()))] == ["cluster"]


@given(st.floats(0, 1), st.integers(0, 5), st.integers(1, 8))
def test_counts_add_up_at_every_level(share: float, flags: int, pods: int) -> None:
    """Columns add up to the nodes of a line, minipods to the cluster, racks to their minipods."""
    busy = fragment(minipods(minipods=pods, nodes=40), share, seed=1)
    rows = tree_rows(flag_some(busy, min(flags, int(busy.idle.sum())), seed=1), depth=1)
    assert all(sum(row.counts) == row.nodes for row in rows)
    for column in range(len(rows[0].counts)):
        assert rows[0].counts[column] == sum(row.counts[column] for row in rows[1:])


@given(st.lists(st.integers(0, 50), min_size=5, max_size=5).filter(any), st.integers(1, 40))
def test_bars_have_their_length(counts: list[int], width: int) -> None:
    """Rounding never makes a bar longer or shorter, nor shows what is not there."""
    lengths = TreeRow("", "", sum(counts), tuple(counts)).bar(width)
    assert sum(lengths) == width
    assert all(length == 0 or count > 0 for length, count in zip(lengths, counts, strict=True))


def test_a_flag_outranks_use_and_states_add_up() -> None:
    """A slow node in use is slow, a faulty one faulty; degrees begin at 1.2 and 1.5."""
    rows = [
        Node("free", (), 8, 8),
        Node("partly", (), 8, 3),
        Node("busy", (), 8, 0),
        Node("kept_out", (), 8, 0),
        Node("slow", (), 8, 8, 1.19),
        Node("slower", (), 8, 0, 1.2),
        Node("slowest", (), 8, 4, 1.5),
        Node("faulty", (), 8, 0, float("inf")),
    ]
    states = node_states(build_cluster([], rows).with_kept_out({3: "excluded"}))
    assert [State(state).name.lower() for state in states] == [row.name for row in rows]
    assert count_states(states) == (1,) * 8
