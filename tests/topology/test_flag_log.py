"""A flag store for those who read it: recognised, read as of any time, laid over a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from health.flags import open_ledger
from tests.case_counts import examples
from tests.facts import saying, says
from topology.build import build_cluster
from topology.cluster import Node
from topology.flag_sources import flags_over_time, is_store, open_log, read_flags, with_flags
from topology.flags import (
    FAULTY,
    WARNING,
    EventName,
    FlagEvent,
    FlagKind,
    HeldFlag,
    NodeFlag,
    expected_slowdown,
    merge_by_node,
    merged,
)
from topology.load import load_topology

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

CLUSTER = build_cluster(["rack"], [Node(f"n{i}", ("r",), 8, 8) for i in range(1, 4)])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """n1: slow by what-if until 14:00, less so until 16:00, by peers from 11:00; n9: faulty, lifted at 13:00."""
    path = tmp_path / "flags.db"

    def event(hours: int, name: EventName, node: str, source: str, *steps: HeldFlag, by: str = "") -> FlagEvent:
        return FlagEvent(time=NOON + hours * HOUR, event=name, node=node, source=source, steps=steps, by=by)

    def step(node: str, source: str, slowdown: float, hours: int) -> HeldFlag:
        kind: FlagKind = "faulty" if slowdown == FAULTY else "straggler"
        return HeldFlag(NodeFlag(node, kind, slowdown, source=source, until=NOON + hours * HOUR), seen=NOON - 4 * HOUR)

    with open_ledger(path, now=NOON - 4 * HOUR) as ledger:
        what_if = step("n1", "what-if", 1.5, 2), step("n1", "what-if", 1.2, 4)
        ledger.write(
            [
                event(-4, "raised", "n1", "what-if", *what_if),
                event(-2, "raised", "n9", "nvsentinel", step("n9", "nvsentinel", FAULTY, 22)),
                event(-1, "raised", "n1", "peers", step("n1", "peers", 1.3, 23)),
                event(1, "cleared", "n9", "nvsentinel", by="ada"),
            ]
        )
    return path


def test_recognised_by_its_first_bytes(store: Path, tmp_path: Path) -> None:
    """Flag files, cluster files, standard input and what is not there are none."""
    assert is_store(store)
    for name, text in (("flags.json", '{"flags": []}'), ("cluster.csv", "node,rack\n")):
        (tmp_path / name).write_text(text)
        assert not is_store(tmp_path / name)
    assert not is_store("-")
    assert not is_store(tmp_path / "missing")


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
def test_what_held_at_any_time(store: Path, hours: int, expected: dict[str, float]) -> None:
    """A step ends at its time without an event; at 14:00 the other source is the worst; 11:00 the next day it ends."""
    with open_log(store) as log:
        assert {flag.node: flag.slowdown for flag in log.holding(NOON + hours * HOUR)} == expected


def test_a_store_is_laid_over_a_cluster(store: Path) -> None:
    """Merged over the sources; nodes that the cluster does not have are left out and named, not an error."""
    cluster, notes = with_flags(CLUSTER, store, now=NOON)
    assert cluster.slowdown.tolist() == [1.5, 1.0, 1.0]
    assert cluster.flags[0].source == "what-if, peers"
    (note,) = notes
    assert says(note, str(store), "left out", "1 (n9)")


def test_every_slowdown_that_was_ever_held(store: Path) -> None:
    """By which `arnold flags sync` knows its own annotations."""
    with open_log(store) as log:
        assert log.slowdowns() == {"n1": {1.5, 1.2, 1.3}, "n9": {FAULTY}}
        assert log.nodes() == {"n1", "n9"}


def test_what_sources_hold_together_was_held_too(tmp_path: Path) -> None:
    """Two warnings are 1.27, which is what `sync` writes: without it the annotation would outlive a lift."""
    path = tmp_path / "flags.db"
    with open_ledger(path, now=NOON) as ledger:
        ledger.record([NodeFlag("n1", "degraded", WARNING, source=source) for source in ("a", "b")], now=NOON)
        expected = {flag.slowdown for flag in ledger.holding(NOON)}
        ledger.lift(["n1"], now=NOON + HOUR, because="replaced", by="ada")
        assert expected < ledger.slowdowns()["n1"]


def test_flags_of_a_store_by_source(store: Path) -> None:
    """For the tools that take flag files; as of a time."""
    flags = read_flags(store, now=NOON)
    assert [(flag.node, flag.source, flag.slowdown) for flag in flags] == [
        ("n1", "peers", 1.3),
        ("n1", "what-if", 1.5),
        ("n9", "nvsentinel", FAULTY),
    ]


def test_load_topology_takes_either(store: Path, tmp_path: Path) -> None:
    """--flags with a store, as with a flag file."""
    cluster = tmp_path / "cluster.csv"
    cluster.write_text("node,rack\nn1,r\nn2,r\n")
    loaded = load_topology(cluster, flags=[store], now=NOON)
    assert loaded.cluster.slowdown.tolist() == [1.5, 1.0]
    assert says(loaded.notes, str(store), "left out", "1 (n9)")


def test_events_as_json_lines_are_no_flag_file(tmp_path: Path) -> None:
    """An export, or a store of an earlier version, however it is spaced: refused with the command that helps."""
    for text in ('{"arnold":"flag-store","version":1}', '\n { "arnold" : "flag-store", "version": 2}'):
        path = tmp_path / "flags.jsonl"
        path.write_text(text)
        with pytest.raises(InvalidInput, match="JSON lines") as caught:
            read_flags(path)
        assert says(caught.value.fix, f"arnold flags import --from flag-store {path} --store NEW")


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


BELIEVED = st.lists(
    st.builds(
        lambda factor, source, kind, probability: NodeFlag("n1", kind, factor, source=source, probability=probability),
        st.floats(1.0, 4.0),
        st.sampled_from(["a", "b", "c", "kubernetes"]),
        st.sampled_from(["straggler", "degraded"]),
        st.one_of(st.none(), st.floats(0.001, 1.0)),
    )
    | st.builds(lambda source: NodeFlag("n1", "degraded", WARNING, source=source), st.sampled_from(["a", "b", "c"])),
    min_size=1,
    max_size=5,
)


@examples(200)
@given(BELIEVED, BELIEVED)
def test_more_evidence_never_lowers_the_price(flags: list[NodeFlag], more: list[NodeFlag]) -> None:
    """Nor how likely the node is at fault; and no price is above the largest factor that anything says."""
    likely, price = expected_slowdown(flags)
    likelier, dearer = expected_slowdown([*flags, *more])
    assert likelier >= likely - 1e-12
    assert dearer >= price - 1e-9
    assert 1.0 <= price <= max(flag.belief[1] for flag in flags) + 1e-9


def test_three_weak_sources_that_agree_outrank_one() -> None:
    """A warning is right once in ten, and then the node is 1.5 times slower: 1.05.

    Odds of 1 to 9 beside 1 to 99 before are 11 to 1; three of them make 11^3 / 99 = 13.4 to 1, so 0.93 and
    1 + 0.93 * 0.5.  The same source thrice is one.
    """
    sources = ("peers", "nvsentinel", "collectives")
    warnings = [NodeFlag("n1", "degraded", WARNING, source=source) for source in sources]
    assert merged(warnings[:1]) == warnings[0]
    likely, price = expected_slowdown(warnings)
    assert (likely, price) == pytest.approx((13.444 / 14.444, 1.4654), abs=1e-3)
    strong = NodeFlag("n2", "straggler", 1.4, source="what-if")
    assert merged(warnings).slowdown > merged([strong]).slowdown
    assert merged([warnings[0]] * 3).slowdown == WARNING
    # half as likely, half of the excess
    assert merged([NodeFlag("n3", "straggler", 1.4, probability=0.5, source="a")]).slowdown == pytest.approx(1.2)


@examples(60)
@given(FLAGS, st.randoms(use_true_random=False))
def test_merging_takes_the_worst_in_any_order(flags: list[NodeFlag], chance: object) -> None:
    """Idempotent where there is nothing to merge, commutative always."""
    shuffled = list(flags)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert merged(shuffled) == merged(flags)
    assert merged(flags).slowdown == max(flag.slowdown for flag in flags)
    assert merged(flags[:1]) == flags[0]
    assert merge_by_node(flags) == [merged(flags)]


def test_over_time_is_what_stands_at_every_instant(store: Path) -> None:
    """The intervals of the whole history, asked at quarter hours around all changes, give the flags that stand then."""
    with open_log(store) as log:
        held = list(log.over_time())
        assert {(flag.node, flag.source) for flag in held} == {("n1", "what-if"), ("n1", "peers"), ("n9", "nvsentinel")}
        for quarter in range(-20, 110):
            at = NOON + quarter * HOUR / 4
            active: dict[tuple[str, str], float] = {}
            for flag in held:
                if flag.active(at):
                    key = flag.node, flag.source
                    active[key] = max(flag.slowdown, active.get(key, 1.0))
            assert active == {(flag.node, flag.source): flag.slowdown for flag in log.standing(at)}


def test_over_time_reads_files_and_stores(store: Path, tmp_path: Path) -> None:
    """Of a file all flags, whenever they hold, and a node that the cluster does not have is an error with its place; of
    a store those of the nodes that the cluster has, and a note on the others.
    """
    held, notes = flags_over_time(store, CLUSTER.index_of)
    assert {flag.node for flag in held} == {"n1"}
    (note,) = notes
    assert says(note, str(store), "left out", "1 (n9)")
    file = tmp_path / "flags.json"
    file.write_text('[{"node": "n1", "kind": "faulty", "until": "2020-01-01T00:00:00Z"}]')
    assert [flag.node for flag in flags_over_time(file, CLUSTER.index_of)[0]] == ["n1"]
    with pytest.raises(InvalidInput, match=saying("no node 'n1'")):
        flags_over_time(file, ["n2"])


def test_flags_of_a_store_hold_for_nodes_in_another_spelling(store: Path) -> None:
    """The store has n1 with a host's short name, the cluster with its domain: a fault must not get lost."""
    cluster = build_cluster(["rack"], [Node("N1.example.com", ("r",), 8, 8)])
    held, notes = flags_over_time(store, cluster.index_of)
    assert {flag.node for flag in held} == {"N1.example.com"}
    (note,) = notes
    assert says(note, str(store), "left out", "1 (n9)")


def test_evidence_adds_up_over_spellings(tmp_path: Path) -> None:
    """Two sources that warn of one node, one of which names it with its domain, are 1.27 together, as in a file."""
    path = tmp_path / "flags.db"
    with open_ledger(path, now=NOON) as ledger:
        named = {"a": "n1", "b": "N1.example.com"}
        ledger.record([NodeFlag(node, "degraded", WARNING, source=by) for by, node in named.items()], now=NOON)
    held, _ = with_flags(CLUSTER, path, now=NOON)
    (flag,) = held.flags.values()
    assert (flag.node, flag.slowdown) == ("n1", pytest.approx(1.27, abs=0.005))
