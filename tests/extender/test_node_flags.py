"""``arnold flags``: annotations of nodes, written, shown and taken off."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from arnold.commands.run import run
from extender.cluster_api.client import NODES
from extender.node_flags import NodeFlags
from ground.errors import InvalidInput, UnknownName
from tests.extender.fake_cluster import FakeCluster, stand_in, unreachable
from tests.extender.things import node_json
from tests.facts import says
from topology.flags import FAULTY, NodeFlag

SLOW, UNTIL = "arnold.dev/slowdown", "arnold.dev/slowdown-until"
LATER = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def api() -> FakeCluster:
    """Three nodes, one of them flagged, another by hand and wrongly."""
    api = FakeCluster()
    api.put(NODES, node_json("n1"))
    api.put(NODES, node_json("n2", annotations={SLOW: "1.3", "other": "stays"}))
    api.put(NODES, node_json("n3", annotations={SLOW: "slow"}))
    return api


def annotations(api: FakeCluster, name: str) -> dict[str, str]:
    """The annotations of a node."""
    found: dict[str, str] = api.find(NODES, name)["metadata"]["annotations"]
    return found


def test_apply(api: FakeCluster) -> None:
    """Each flag becomes annotations; the slower of two counts; what is there already is not written again."""
    flags = [
        NodeFlag("n1", "straggler", 1.25, until=LATER),
        NodeFlag("n2", "straggler", 1.1),
        NodeFlag("n2", "straggler", 1.3),
        NodeFlag("n3", "faulty", FAULTY),
    ]
    changes = asyncio.run(NodeFlags(api).apply(flags))
    assert [(change.node, change.done) for change in changes] == [
        ("n1", "applied"),
        ("n2", "unchanged"),
        ("n3", "applied"),
    ]
    assert annotations(api, "n1") == {SLOW: "1.25", UNTIL: "2030-01-01T00:00:00Z"}
    assert annotations(api, "n2") == {SLOW: "1.3", "other": "stays"}
    assert annotations(api, "n3") == {SLOW: "faulty"}
    assert [name for verb, _, name in api.asked if verb == "patch"] == ["n1", "n3"]


def test_apply_takes_an_old_end_away(api: FakeCluster) -> None:
    """A new flag without an end replaces one that had one."""
    asyncio.run(NodeFlags(api).apply([NodeFlag("n1", "straggler", 1.25, until=LATER)]))
    asyncio.run(NodeFlags(api).apply([NodeFlag("n1", "straggler", 1.25)]))
    assert annotations(api, "n1") == {SLOW: "1.25"}


def test_nodes_that_are_not_there(api: FakeCluster) -> None:
    """A slip in one name: nothing at all is written."""
    with pytest.raises(UnknownName, match="did you mean 'n1'"):
        asyncio.run(NodeFlags(api).apply([NodeFlag("n2", "faulty", FAULTY), NodeFlag("n11", "faulty", FAULTY)]))
    with pytest.raises(UnknownName):
        asyncio.run(NodeFlags(api).clear(["n9"]))
    assert "patch" not in {verb for verb, _, _ in api.asked}


def test_no_run_takes_most_of_a_cluster_out(api: FakeCluster) -> None:
    """Three of three nodes, two at once or one after the other: nothing is written without a person's word."""
    every = [NodeFlag(f"n{number}", "faulty", FAULTY) for number in (1, 2, 3)]
    with pytest.raises(InvalidInput, match="3 of 3 nodes"):
        asyncio.run(NodeFlags(api).apply(every))
    with pytest.raises(InvalidInput, match="3 of 3 nodes"):
        asyncio.run(NodeFlags(api).sync(every, known={}, now=datetime.now(UTC)))
    assert "patch" not in {verb for verb, _, _ in api.asked}
    asyncio.run(NodeFlags(api).apply(every[:2]))
    with pytest.raises(InvalidInput, match="3 of 3 nodes"):
        asyncio.run(NodeFlags(api).apply(every[2:]))
    changes = asyncio.run(NodeFlags(api, yes=True).apply(every))
    assert [change.done for change in changes] == ["unchanged", "unchanged", "applied"]


def test_flags_that_are_over_take_nothing_out(api: FakeCluster) -> None:
    """Annotations whose end is past stay where nobody takes them off, and their nodes are in use: one more may go."""
    for name in ("n1", "n2"):
        api.put(NODES, node_json(name, annotations={SLOW: "faulty", UNTIL: "2026-01-01T00:00:00Z"}))
    third = NodeFlag("n3", "faulty", FAULTY)
    asyncio.run(NodeFlags(api).apply([third]))
    asyncio.run(NodeFlags(api).sync([third], known={}, now=datetime.now(UTC)))
    assert annotations(api, "n3") == {SLOW: "faulty"}


def test_clear(api: FakeCluster) -> None:
    """Named nodes, or all that are flagged, also those whose flag cannot be read."""
    asyncio.run(NodeFlags(api).clear(["n2"]))
    assert annotations(api, "n2") == {"other": "stays"}
    changes = asyncio.run(NodeFlags(api).clear(None))
    assert [change.node for change in changes] == ["n3"]
    assert annotations(api, "n3") == {}


@pytest.fixture
def connected(api: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """The command line talks to the cluster in memory."""
    stand_in(api, monkeypatch)
    return api


def printed(args: list[str], capsys: pytest.CaptureFixture[str], *, code: int = 0) -> Any:
    """What a command prints with --json."""
    assert run(["flags", *args, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_commands(connected: FakeCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """List, apply and clear as documents: the same file as --flags of place."""
    listed = printed(["list"], capsys)
    assert listed["nodes"] == 3
    assert [(flag["node"], flag["slowdown"], flag["active"]) for flag in listed["flags"]] == [
        ("n2", "1.3", True),
        ("n3", "slow", False),
    ]
    assert "slow" in listed["flags"][1]["problem"]
    file = tmp_path / "flags.yaml"
    file.write_text(
        "flags:\n"
        "- {node: n1, kind: straggler, slowdown: 1.4}\n"
        "- {node: n2, kind: straggler, slowdown: 1.2, until: 2020-01-01T00:00:00Z}\n",
        encoding="utf-8",
    )
    applied = printed(["apply", str(file)], capsys)
    assert applied["expired"] == 1
    assert applied["changes"] == [{"node": "n1", "done": "applied", "slowdown": "1.4", "until": None, "before": None}]
    cleared = printed(["clear", "n[1-2]"], capsys)
    assert [(change["node"], change["done"]) for change in cleared["changes"]] == [("n1", "cleared"), ("n2", "cleared")]
    assert printed(["clear", "--all"], capsys)["changes"][0]["node"] == "n3"
    assert printed(["list"], capsys)["flags"] == []


def test_text(connected: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """For people: tables, and plain words when there is nothing."""
    assert run(["flags", "list"]) == 0
    assert "1.3" in capsys.readouterr().out
    assert run(["flags", "clear", "--all"]) == 0
    assert "cleared" in capsys.readouterr().out
    assert run(["flags", "list"]) == 0
    assert "none of 3 nodes is flagged" in capsys.readouterr().out
    assert run(["flags", "clear", "--all"]) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_a_flag_that_is_yet_to_come_has_not_ended(connected: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """Its annotation says from when on the node is slow."""
    connected.put(NODES, node_json("n1", annotations={SLOW: "1.4", "arnold.dev/slowdown-since": f"{LATER:%FT%TZ}"}))
    first, second, _ = printed(["list"], capsys)["flags"]
    assert (first["active"], first["begins"], second["begins"]) == (False, "2030-01-01T00:00:00Z", None)
    assert run(["flags", "list"]) == 0
    told = capsys.readouterr().out
    assert "begins 2030-01-01 00:00 UTC" in told
    assert "has ended" not in told


def test_what_never_held_has_not_ended(connected: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """A factor of 1 says that the node is not slow, and an end without a factor says nothing: neither is over."""
    connected.put(NODES, node_json("n1", annotations={SLOW: "1"}))
    connected.put(NODES, node_json("n2", annotations={UNTIL: f"{LATER:%FT%TZ}"}))
    connected.put(NODES, node_json("n3", annotations={SLOW: "1.3", UNTIL: "2020-01-01T00:00:00Z"}))
    assert [flag["active"] for flag in printed(["list"], capsys)["flags"]] == [False, False, False]
    assert run(["flags", "list"]) == 0
    told = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert says(told["n1"], "not slow")
    assert says(told["n2"], SLOW)
    assert says(told["n3"], "has ended")
    assert not says([told["n1"], told["n2"]], "has ended")


@pytest.mark.parametrize("args", [["clear"], ["clear", "n1", "--all"], ["clear", "n9"], ["apply", "missing.yaml"]])
def test_slips(connected: FakeCluster, args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Each ends with 2 and says what to do."""
    assert printed(args, capsys, code=2)["error"]["fix"]


def test_a_cluster_that_is_away(connected: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """Said as it is."""
    connected.fail_next("page", unreachable())
    error = printed(["list"], capsys, code=2)["error"]
    assert (error["kind"], error["fix"]) == ("Unreachable", "start it")
