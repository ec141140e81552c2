"""The file of a flag store: recognised by content, read as of any time, laid over a cluster, refused when broken."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.build import build_cluster
from topology.cluster import Node
from topology.errors import ArnoldError, InvalidInput
from topology.files import Source
from topology.flag_log import is_log, merge_by_node, read_log
from topology.flags import FAULTY, NodeFlag, merged
from topology.overlay import read_flags, with_flag_store
from topology.readers import load_topology

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

STORE = """\
{"arnold":"flag-store","version":1,"time":"2026-11-17T08:00:00Z","event":"opened"}
{"time":"2026-11-17T08:00:00Z","event":"raised","node":"n1","source":"what-if","steps":[{"kind":"straggler",\
"slowdown":1.5,"until":"2026-11-17T14:00:00Z","evidence":"S_w","seen":"2026-11-17T08:00:00Z"},{"kind":"straggler",\
"slowdown":1.2,"until":"2026-11-17T16:00:00Z","seen":"2026-11-17T09:00:00Z"}]}
{"time":"2026-11-17T10:00:00Z","event":"raised","node":"n9","source":"nvsentinel","steps":[{"kind":"faulty",\
"until":"2026-11-18T10:00:00Z","evidence":"GpuMemWatch","seen":"2026-11-17T10:00:00Z"}]}
{"time":"2026-11-17T11:00:00Z","event":"raised","node":"n1","source":"peers","steps":[{"kind":"straggler",\
"slowdown":1.3,"until":"2026-11-18T11:00:00Z","seen":"2026-11-17T11:00:00Z"}]}
{"time":"2026-11-17T13:00:00Z","event":"cleared","node":"n9","source":"nvsentinel","because":"replaced","by":"ada"}
"""

CLUSTER = build_cluster(["rack"], [Node(f"n{i}", ("r",), 8, 8) for i in range(1, 4)])


def test_recognised_by_content() -> None:
    """By its first line, however it is spaced; flag files and cluster files are none."""
    assert is_log(Source("x", STORE))
    assert is_log(Source("x", STORE.replace('{"arnold":', '{ "arnold" : ', 1)))
    assert not is_log(Source("x", '{"flags": []}'))
    assert not is_log(Source("x", "node,rack\n"))


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        (-5, {}),
        (-3, {"n1": 1.5}),
        (0, {"n1": 1.5, "n9": FAULTY}),
        (1, {"n1": 1.5}),
        (2, {"n1": 1.3}),
        (23, {}),
    ],
)
def test_what_held_at_any_time(hours: int, expected: dict[str, float]) -> None:
    """A step ends at its time without a line; at 14:00 the other source is the worst; 11:00 the next day it ends."""
    log = read_log(Source("store", STORE))
    assert {flag.node: flag.slowdown for flag in log.holding(NOON + hours * HOUR)} == expected


def test_a_store_is_laid_over_a_cluster() -> None:
    """Merged over the sources; nodes that the cluster does not have are left out and named, not an error."""
    cluster, notes = with_flag_store(CLUSTER, Source("store", STORE + '{"time"'), now=NOON)
    assert cluster.slowdown.tolist() == [1.5, 1.0, 1.0]
    assert cluster.flags[0].source == "what-if, peers"
    assert notes == (
        "store ends in an unfinished line of 7 bytes, left out",
        "flagged in store and no nodes of the cluster, left out: 1 (n9)",
    )


def test_flags_of_a_store_by_source() -> None:
    """For the tools that take flag files; as of a time."""
    flags = read_flags(Source("store", STORE), now=NOON)
    assert [(flag.node, flag.source, flag.slowdown) for flag in flags] == [
        ("n1", "peers", 1.3),
        ("n1", "what-if", 1.5),
        ("n9", "nvsentinel", FAULTY),
    ]


def test_load_topology_takes_either(tmp_path: Path) -> None:
    """--flags with a store, as with a flag file."""
    cluster, store = tmp_path / "cluster.csv", tmp_path / "flags"
    cluster.write_text("node,rack\nn1,r\nn2,r\n")
    store.write_text(STORE)
    loaded = load_topology(cluster, flags=[store], now=NOON)
    assert loaded.cluster.slowdown.tolist() == [1.5, 1.0]
    assert any("no nodes of the cluster, left out: 1 (n9)" in note for note in loaded.notes)


@pytest.mark.parametrize(
    ("line", "text", "complaint"),
    [
        (2, "", "Invalid JSON"),
        (3, '{"time":"2026-11-17T08:00:00Z","event":"raised","node":"n1"', "Invalid JSON"),
        (2, "[1]", "valid dictionary|object"),
        (3, '{"time":"2026-11-17T10:00:00Z","event":"burnt","node":"n1"}', "event: Input should be"),
        (3, '{"time":"2026-11-17T10:00:00","event":"cleared","node":"n1"}', "time: .*timezone"),
        (3, '{"time":"2026-11-17T10:00:00Z","event":"cleared"}', "names a node"),
        (3, '{"time":"2026-11-17T10:00:00Z","event":"cleared","node":"n1","bad":1}', "bad: Extra"),
        (3, '{"time":"2026-11-17T10:00:00Z","event":"rules"}', "has rules"),
        (
            3,
            '{"time":"2026-11-17T10:00:00Z","event":"raised","node":"n1","steps":[{"kind":"straggler","slowdown":0.5,'
            '"until":"2026-11-17T10:00:00Z","seen":"2026-11-17T10:00:00Z"}]}',
            "steps.0.slowdown: .*greater than or equal to 1",
        ),
        (4, '{"time":"2026-11-17T07:00:00Z","event":"cleared","node":"n1"}', "before the line above it"),
        (4, STORE.split("\n", maxsplit=1)[0].replace("08:00", "11:00"), "opens the store again"),
    ],
)
def test_a_broken_line_is_an_error_with_its_place(line: int, text: str, complaint: str) -> None:
    """Anywhere but at the end: nothing is flagged, or not flagged, on a history that cannot be read."""
    lines = STORE.split("\n")
    lines[line - 1] = text
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read_log(Source("store", "\n".join(lines)))
    assert caught.value.where == f"store:{line}"
    assert caught.value.fix


@settings(max_examples=100)
@given(st.integers(0, len(STORE)), st.text('n1[]{}-:,.\n"\ud7ff0', max_size=4), st.integers(0, 40))
def test_no_text_breaks_the_reader(at: int, inserted: str, removed: int) -> None:
    """A store with a piece replaced: lines or an ArnoldError."""
    text = STORE[:at] + inserted + STORE[at + removed :]
    with suppress(ArnoldError):
        read_log(Source("store", text)).holding(NOON)


FLAGS = st.lists(
    st.builds(
        lambda factor, source, kind, hours: NodeFlag(
            "n1",
            "faulty" if factor == FAULTY else kind,
            factor,
            source=source,
            until=None if hours is None else NOON + hours * HOUR,
        ),
        st.sampled_from([1.0, 1.2, 1.5, FAULTY]),
        st.sampled_from(["a", "b", ""]),
        st.sampled_from(["straggler", "degraded"]),
        st.sampled_from([None, 1, 2]),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60)
@given(FLAGS, st.randoms(use_true_random=False))
def test_merging_takes_the_worst_in_any_order(flags: list[NodeFlag], chance: object) -> None:
    """Idempotent where there is nothing to merge, commutative always."""
    shuffled = list(flags)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert merged(shuffled) == merged(flags)
    assert merged(flags).slowdown == max(flag.slowdown for flag in flags)
    assert merged(flags[:1]) == flags[0]
    assert merge_by_node(flags) == [merged(flags)]
