"""The cluster: a tree of domains in arrays, checked when it is built."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidTopology, TooLarge, UnknownName
from tests.case_counts import examples
from topology.build import build_cluster
from topology.cluster import MAX_LEVELS, Node
from topology.flags import FAULTY, NodeFlag, parse_slowdown

LEVELS = ("minipod", "rack")
NODES = (
    Node("n1", ("a", "r1"), 8, 8),
    Node("n2", ("a", "r1"), 8, 0),
    Node("n3", ("a", "r2"), 8, 8, 1.4),
    Node("n4", ("b", "r3"), 8, 8, FAULTY),
    Node("n5", ("b", ""), 4, 4),
)


def test_rows_become_arrays_and_rows_again() -> None:
    """What went in comes out, an implicit domain under the name of the switch it stands for."""
    cluster = build_cluster(LEVELS, NODES)
    assert list(cluster)[:4] == list(NODES[:4])
    assert cluster.node("n5").path == ("b", "b")
    assert cluster.idle.tolist() == [True, False, True, False, True]
    assert cluster.slowdown.tolist() == [1.0, 1.0, 1.4, math.inf, 1.0]
    assert [level.parent_of.tolist() for level in cluster.levels] == [[0, 0], [0, 0, 1, 1]]


def test_each_level_refines_the_one_above() -> None:
    """A domain's nodes all lie in its parent."""
    cluster = build_cluster(LEVELS, NODES)
    minipod, rack = cluster.levels
    assert (rack.parent_of[rack.domain_of] == minipod.domain_of).all()


def test_arrays_cannot_be_written_to() -> None:
    """A cluster is immutable: variants come from replace, with_busy, with_flags."""
    cluster = build_cluster(LEVELS, NODES)
    with pytest.raises(ValueError, match="read-only"):
        cluster.free_gpus[0] = 0
    assert cluster.with_busy([0]).free_gpus.tolist() == [0, 0, 8, 8, 4]
    assert cluster.emptied().free_gpus.tolist() == [8, 8, 8, 8, 4]
    assert cluster.free_gpus.tolist() == [8, 0, 8, 8, 4]


def test_of_two_flags_the_slower_counts() -> None:
    """Whatever the order in which they come."""
    flags = [NodeFlag("n1", "straggler", 1.2), NodeFlag("n1", "straggler", 1.5), NodeFlag("n3", "straggler", 1.1)]
    for order in (flags, flags[::-1]):
        slowdown = build_cluster(LEVELS, NODES, flags=order).slowdown
        assert slowdown[[0, 2]].tolist() == [1.5, 1.4]


def test_the_default_level_tells_nodes_apart() -> None:
    """The broadest level with more than one domain; without levels there is none."""
    cluster = build_cluster(LEVELS, NODES)
    assert cluster.level(None) is cluster.default_level()
    assert cluster.default_level().name == "minipod"
    assert build_cluster(LEVELS, NODES[:3]).default_level().name == "rack"
    assert build_cluster(LEVELS, NODES[:1]).default_level().name == "minipod"
    with pytest.raises(InvalidTopology, match="no levels"):
        build_cluster((), [Node("n", (), 8, 8)]).default_level()


def test_unknown_names_are_answered_with_the_meant_ones() -> None:
    """Levels and nodes."""
    cluster = build_cluster(LEVELS, NODES)
    with pytest.raises(UnknownName) as level:
        cluster.level("rak")
    with pytest.raises(UnknownName) as node:
        cluster.node("n44")
    assert "did you mean 'rack'" in level.value.fix
    assert "did you mean 'n4'" in node.value.fix


@pytest.mark.parametrize(
    ("levels", "nodes", "complaint"),
    [
        (LEVELS, [], "no nodes"),
        (LEVELS, [NODES[0], NODES[0]], r"'n1' appears twice \(first at row 0\)"),
        (LEVELS, [NODES[0], Node("n", ("b", "r1"), 8, 8)], "rack 'r1' lies in two domains of minipod: 'a' and 'b'"),
        (LEVELS, [Node("", ("a", "r1"), 8, 8)], "no name"),
        (LEVELS, [Node("n", ("a",), 8, 8)], "1 levels instead of 2"),
        (LEVELS, [Node("n", ("a", "r"), 0, 0)], "0 GPUs"),
        (LEVELS, [Node("n", ("a", "r"), 2**40, 0)], "GPUs"),
        (LEVELS, [Node("n", ("a", "r"), 8, 9)], "9 free GPUs of 8"),
        (LEVELS, [Node("n", ("a", "r"), 8, -1)], "-1 free GPUs"),
        (LEVELS, [Node("n\n", ("a", "r"), 8, 8)], "control characters"),
        (LEVELS, [Node("n", ("a\x1b", "r"), 8, 8)], "control characters"),
        (("rack", "rack"), [NODES[0]], "two levels are called 'rack'"),
        (("rack", ""), [NODES[0]], "a level has no name"),
        (tuple(map(str, range(MAX_LEVELS + 1))), [NODES[0]], f"{MAX_LEVELS + 1} levels"),
    ],
)
def test_what_cannot_be_is_refused(levels: tuple[str, ...], nodes: list[Node], complaint: str) -> None:
    """With the place of the fault and what to do."""
    with pytest.raises(InvalidTopology, match=complaint) as caught:
        build_cluster(levels, nodes, where=lambda i: f"row {i}")
    assert caught.value.fix


def test_a_cluster_without_end_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are counted while they come."""
    monkeypatch.setattr("topology.build.MAX_NODES", 10)
    endless = (Node(f"n{i}", ("a", "r"), 8, 8) for i in iter(int, 1))
    with pytest.raises(TooLarge):
        build_cluster(LEVELS, endless)


def test_places_are_looked_up_only_for_errors() -> None:
    """To find a line in a large JSON file takes long: doing so for every row would take hours."""
    asked: list[int] = []

    def spell(row: int) -> str:
        asked.append(row)
        return f"f:{row}"

    build_cluster(LEVELS, NODES, where=spell)
    assert asked == []
    with pytest.raises(InvalidTopology) as caught:
        build_cluster(LEVELS, [*NODES[:4], NODES[0]], where=spell)
    assert caught.value.where == "f:4"
    assert sorted(asked) == [0, 4]


@examples(60)
@given(st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from(["", "x", "y"])), min_size=1, max_size=20))
def test_any_paths_make_a_tree(paths: list[tuple[str, str]]) -> None:
    """Racks carry their minipod's name here, so that every path is possible; empty ones hang on what is above."""
    rows = [Node(f"n{i}", (m, f"{m}/{r}" if r else ""), 8, 8) for i, (m, r) in enumerate(paths)]
    cluster = build_cluster(LEVELS, rows)
    minipod, rack = cluster.levels
    assert (rack.parent_of[rack.domain_of] == minipod.domain_of).all()
    assert rack.implicit[rack.domain_of].tolist() == [not r for _, r in paths]
    together = {(int(minipod.domain_of[i]), m) for i, (m, _) in enumerate(paths)}
    assert len(together) == len({m for m, _ in paths}) == len(np.unique(minipod.domain_of))


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1.0), ("1.3", 1.3), (" 2. ", 2.0), ("1e1", 10), ("Faulty", FAULTY), ("9" * 23, 1e23)]
)
def test_slowdowns_as_people_write_them(text: str, value: float) -> None:
    """A factor, or faulty."""
    assert parse_slowdown(text) == value


@pytest.mark.parametrize("text", ["", "0.9", "-2", "nan", "inf", "1e999", "9" * 400, "1_3", "slow", "1,3", "\u0661"])
def test_other_slowdowns_are_refused(text: str) -> None:
    """Below 1, not finite, not a number."""
    with pytest.raises(ValueError, match="neither a finite factor"):
        parse_slowdown(text)


def test_a_flag_holds_up_to_its_end() -> None:
    """The end is exclusive; without bounds it always holds."""
    noon, one = datetime(2026, 11, 21, 12, tzinfo=UTC), datetime(2026, 11, 21, 13, tzinfo=UTC)
    flag = NodeFlag("n", "straggler", 1.5, since=noon, until=one)
    assert flag.active(noon)
    assert not flag.active(one)
    assert NodeFlag("n", "faulty", FAULTY).active(noon)


@pytest.mark.parametrize(("kind", "slowdown"), [("faulty", 1.5), ("straggler", FAULTY), ("straggler", 0.5)])
def test_a_flag_that_contradicts_itself_is_refused(kind: str, slowdown: float) -> None:
    """Faulty and infinite belong together; a slowdown is at least 1."""
    with pytest.raises(ValueError, match="slowdown"):
        NodeFlag("n", kind, slowdown)  # type: ignore[arg-type]
