"""``arnold flags sync``: a store's flags as annotations, and from there in front of the gangs."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from arnold.commands.run import run
from extender.cluster_api.client import NODES
from extender.fleet.hosts import host_of
from extender.node_flags import NodeFlags
from extender.objects import decode_node
from health.flags import open_ledger
from tests.extender.fake_cluster import FakeCluster, stand_in
from tests.extender.things import gang_pods, node_json, plan_all, state_of
from tests.facts import says
from topology.flags import FAULTY, NodeFlag

SLOW, UNTIL = "arnold.dev/slowdown", "arnold.dev/slowdown-until"
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def cluster(**annotations: dict[str, str]) -> FakeCluster:
    """Nodes with annotations."""
    api = FakeCluster()
    for name, given in annotations.items():
        api.put(NODES, node_json(name, annotations=given))
    return api


def synced(api: FakeCluster, *held: NodeFlag, known: dict[str, list[float]] | None = None) -> dict[str, str | None]:
    """Slowdown of each node of which the store has heard, after a sync."""
    changes, _ = asyncio.run(NodeFlags(api).sync(held, known=known or {}, now=NOW))
    return {change.node: change.slowdown for change in changes}


def flag(node: str, slowdown: float, *, hours: float = 24) -> NodeFlag:
    """What the store holds."""
    return NodeFlag(node, "faulty" if slowdown == FAULTY else "straggler", slowdown, until=NOW + hours * HOUR)


def test_what_is_held_is_written_and_what_is_no_longer_held_is_taken_off() -> None:
    """Known by the slowdowns that the store once held."""
    api = cluster(n1={}, n2={SLOW: "1.3", UNTIL: "2026-11-18T00:00:00Z"}, n3={SLOW: "1.4"})
    after = synced(api, flag("n1", 1.5), known={"n1": [1.5], "n2": [1.2, 1.3], "n3": [1.2]})
    # n3 carries a factor that the store never held: somebody else's
    assert after == {"n1": "1.5", "n2": None, "n3": "1.4"}
    assert api.find(NODES, "n1")["metadata"]["annotations"] == {SLOW: "1.5", UNTIL: "2026-11-18T12:00:00Z"}
    assert api.find(NODES, "n2")["metadata"]["annotations"] == {}


def test_nodes_are_found_in_other_spellings() -> None:
    """With a domain or without, as a host calls itself: the worst of both counts, and comes off again."""
    api = cluster(n1={}, **{"n2.ec2.internal": {}})
    assert synced(api, flag("n1.lan", 1.5), flag("n1", 1.2), flag("N2", FAULTY)) == {
        "n1": "1.5",
        "n2.ec2.internal": "faulty",
    }
    assert synced(api, known={"n1.lan": [1.5], "N2": [FAULTY]}) == {"n1": None, "n2.ec2.internal": None}
    changes = asyncio.run(NodeFlags(api).apply([flag("N2", 1.3)]))
    assert [(change.node, change.slowdown) for change in changes] == [("n2.ec2.internal", "1.3")]
    (cleared,) = asyncio.run(NodeFlags(api).clear(["n2"]))
    assert cleared.done == "cleared"


def test_what_somebody_else_holds_stays_where_it_is_worse() -> None:
    """Faulty by hand stays; a lesser word, an ended one and an unreadable one give way."""
    api = cluster(
        n1={SLOW: "faulty"}, n2={SLOW: "1.1"}, n3={SLOW: "3", UNTIL: "2026-11-17T11:00:00Z"}, n4={SLOW: "slow"}
    )
    names = ("n1", "n2", "n3", "n4")
    after = synced(api, *(flag(name, 1.5) for name in names), known={name: [1.5] for name in names})
    assert after == {"n1": "faulty", "n2": "1.5", "n3": "1.5", "n4": "1.5"}


def test_our_own_worse_word_is_lowered() -> None:
    """The store held 1.7 and now holds 1.5."""
    assert synced(cluster(n1={SLOW: "1.7"}), flag("n1", 1.5), known={"n1": [1.7, 1.5]}) == {"n1": "1.5"}


@pytest.mark.parametrize(("hours", "writes"), [(23, 0), (12.1, 0), (11.9, 1), (30, 1)])
def test_an_end_that_moves_a_little_is_no_write(hours: float, writes: int) -> None:
    """The store's flag ends in 24 hours: an annotation that ends in 12 to 24 hours does for it."""
    end = (NOW + hours * HOUR).isoformat().replace("+00:00", "Z")
    api = cluster(n1={SLOW: "1.5", UNTIL: end})
    synced(api, flag("n1", 1.5), known={"n1": [1.5]})
    assert [verb for verb, _, _ in api.asked].count("patch") == writes


def test_nodes_that_are_gone_are_named() -> None:
    """A store outlives nodes; the others are written all the same."""
    changes, strangers = asyncio.run(
        NodeFlags(cluster(n1={})).sync([flag("n1", 1.5), flag("n9", 1.5)], known={"n8": [1.1]}, now=NOW)
    )
    assert ([change.node for change in changes], strangers) == (["n1"], ["n9"])


def test_from_a_finding_to_the_extender(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Recorded, synced, and seen by the fleet; lifted, synced, and gone.  The command is called as a user does."""
    api = cluster(n1={}, n2={})

    stand_in(api, monkeypatch)
    store, now = tmp_path / "flags.db", datetime.now(UTC)
    found = [NodeFlag("n1", "straggler", 1.97, source="what-if"), NodeFlag("gone", "straggler", 1.2, source="what-if")]
    with open_ledger(store, now=now) as ledger:
        ledger.record(found, now=now)

    def sync() -> Any:
        assert run(["flags", "sync", "--store", str(store), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    def seen() -> float | None:
        host = host_of(decode_node(api.find(NODES, "n1")))
        held = host.flag(datetime.now(UTC), ())
        return None if held is None else held.slowdown

    said = sync()
    assert [(change["node"], change["done"]) for change in said["changes"]] == [("n1", "applied")]
    assert said["strangers"] == ["gone"]
    assert seen() == 1.97
    assert sync()["changes"][0]["done"] == "unchanged"
    with open_ledger(store, now=now) as ledger:
        ledger.lift(["n1"], now=now, because="mended", by="ada")
    assert sync()["changes"][0]["done"] == "cleared"
    assert seen() is None
    assert run(["flags", "sync", "--store", str(store)]) == 0
    assert says(capsys.readouterr().out, "no nodes of the cluster", "gone")


def test_a_synced_flag_moves_a_gang() -> None:
    """Four cells of a column fit into either minipod of four; the flagged one is left, and comes back when it is taken
    off.  The nodes that the planner sees are those that the sync has annotated.
    """
    api = FakeCluster()
    for m in range(2):
        for i in range(4):
            api.put(NODES, node_json(f"m{m}-{i}", f"mp{m}"))
    names = [f"m{m}-{i}" for m in range(2) for i in range(4)]

    def planned() -> set[str]:
        nodes = [decode_node(api.find(NODES, name)) for name in names]
        return set(plan_all(state_of(nodes, gang_pods("g", 4)), now=NOW)["g"].plan.nodes)

    first = planned()
    assert len({name[:2] for name in first}) == 1
    bad = min(first)
    synced(api, flag(bad, 1.97), known={bad: [1.97]})
    assert planned() == set(names) - first
    synced(api, known={bad: [1.97]})
    assert planned() == first
