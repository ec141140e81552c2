"""The live page: what a reader is told, whatever it missed, and what the page shows of a cluster."""

from __future__ import annotations

import asyncio
import json
import re
import time
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from arnold.pages.live_page import (
    AWAY,
    FINE,
    SLOW,
    ClusterPage,
    GangNumbers,
    LiveGang,
    LiveLook,
    RowLedger,
    draw,
    tables,
)
from tests.case_counts import examples
from topology.cluster import Cluster
from topology.flags import FAULTY, NodeFlag
from topology.generate import minipods

HOSTILE = "</script><img src=x onerror=alert(1)>"


class Reader:
    """Keeps the rows that it is told of, as the script of the page does."""

    def __init__(self) -> None:
        self.number, self.rows = -1, dict[str, dict[str, Any]]()

    def told(self, number: int, news: Mapping[str, Any]) -> None:
        """Take news."""
        self.number = number
        self.rows = {} if news["all"] else self.rows
        for table, keys in news["gone"].items():
            for key in keys:
                self.rows.get(table, {}).pop(key, None)
        for table, rows in news["rows"].items():
            self.rows.setdefault(table, {}).update(rows)


KEYS, VALUES = st.sampled_from("abc"), st.tuples(st.integers(0, 2))
TABLES = st.dictionaries(st.sampled_from(["nodes", "gangs"]), st.dictionaries(KEYS, VALUES))


@examples(300)
@given(st.lists(st.tuples(TABLES, st.booleans()), max_size=12))
def test_a_reader_that_missed_any_states_has_the_newest(states: list[tuple[Any, bool]]) -> None:
    """Whichever states a reader was told of, it has the rows of the newest when it was told of that; what it has
    already is not repeated.
    """
    ledger, reader = RowLedger(), Reader()
    for rows, told in states:
        ledger.take(rows)
        if told:
            reader.told(ledger.number, ledger.since(reader.number))
            assert {name: of for name, of in reader.rows.items() if of} == {name: of for name, of in rows.items() if of}
    again = ledger.since(ledger.number)
    assert (again["all"], again["rows"], again["gone"]) == (False, {}, {})


def test_what_a_ledger_has_forgotten_is_told_whole(monkeypatch: Any) -> None:
    """Rows that went are forgotten when they are many: whoever has not heard of them is told all there is."""
    monkeypatch.setattr("arnold.pages.live_page.MOST_GONE", 1)
    ledger = RowLedger()
    ledger.take({"gangs": {"a": (1,), "b": (1,), "c": (1,)}})
    before = ledger.number
    ledger.take({"gangs": {"c": (1,)}})  # two went
    news = ledger.since(before)
    assert (news["all"], news["rows"]) == (True, {"gangs": {"c": (1,)}})
    assert ledger.since(before + 1)["all"] is False


def test_a_state_of_another_process_is_told_whole() -> None:
    """A server that was started again knows nothing of the numbers that the one before gave."""
    ledger = RowLedger()
    ledger.take({"gangs": {"a": (1,)}})
    assert ledger.since(99)["all"] is True


def test_gangs_keep_their_numbers() -> None:
    """A gang has its colour as long as it is there; the number of one that ended is free for the next."""
    numbers = GangNumbers()
    numbers.keep(["a", "b", "c"])
    assert numbers.of == {"a": 1, "b": 2, "c": 3}
    numbers.keep(["c", "d", "a"])
    assert numbers.of == {"a": 1, "c": 3, "d": 2}


def made() -> tuple[Cluster, LiveLook]:
    """Two minipods of four nodes: a gang with two nodes, one of which its pods have yet to take; one that waits; a
    node of others; one slow, one faulty, one kept out.
    """
    cluster = minipods(minipods=2, nodes=8, rack_nodes=4)
    a, b, _, slow, faulty, *_ = cluster.names
    free = cluster.gpus.copy()
    free[[0, 2]] = 0
    flags = {
        3: NodeFlag(slow, "straggler", 1.3, evidence="GPU 3 lags", source="peers"),
        4: NodeFlag(faulty, "faulty", FAULTY),
    }
    look = LiveLook(
        cluster=cluster.replace(free_gpus=free, flags=flags, kept_out={5: "drained"}),
        holders={a: "team/llm", b: "team/llm"},
        gangs=[
            LiveGang(name="team/llm", phase="Released", gpus=16, pods="1/2", placed=True, spread=(2, 1), objective=1.3),
            LiveGang(
                name=f"team/{HOSTILE}", phase="Queued", gpus=64, priority=5, since=1000.0, message="needs 8 nodes"
            ),
        ],
        notes=["reservations may not be listed"],
    )
    return cluster, look


def test_the_rows_of_a_look() -> None:
    """Each node says whose it is, what of it is in use, and what is against it; a gang is in one of two tables."""
    cluster, look = made()
    square = {name: str(i) for i, name in enumerate(cluster.names)}
    rows = tables(look, {"team/llm": 7}, square)
    assert rows["nodes"] == {
        "0": (7, 8, FINE), "1": (7, 0, FINE), "2": (0, 8, FINE), "3": (0, 0, SLOW),
        "4": (0, 0, AWAY), "5": (0, 0, AWAY), "6": (0, 0, FINE), "7": (0, 0, FINE),
    }  # fmt: skip
    assert rows["placed"] == {"team/llm": (7, "Released", "1/2", 16, "2/1", "1.3", "", "")}
    assert rows["waiting"] == {f"team/{HOSTILE}": ("Queued", "needs 8 nodes", "", 64, 5, 1000.0)}
    assert {name: row[0] for name, row in rows["flags"].items()} == {
        cluster.names[3]: "straggler, 1.3 times slower", cluster.names[4]: "faulty", cluster.names[5]: "kept out",
    }  # fmt: skip
    # 16 of 64 GPUs are in use; of eight nodes two are in use, one is promised, a faulty and a kept out one are no use
    assert [fact[0] for fact in rows["facts"].values()] == ["25.0%", "3", "1", "1", "2", "3"]


def test_a_node_that_is_not_drawn_yet_is_told_of() -> None:
    """Its square comes with the next drawing; until then a note says that the map is not whole."""
    cluster, look = made()
    square = {name: str(i) for i, name in enumerate(cluster.names[:-1])}
    rows = tables(look, {"team/llm": 1}, square)
    assert len(rows["nodes"]) == 7
    assert any("1 node came" in note for note in rows["notes"])


class Source:
    """A cluster that a test moves."""

    name = "kube:made"

    def __init__(self) -> None:
        self.cluster, self.now = made()
        self.seen: float | None = None
        self.lost, self.changes, self.looks = "it is being read", 0, 0

    def look(self) -> LiveLook:
        """What there is."""
        self.looks += 1
        return self.now

    async def follow(self) -> None:
        """Nothing comes by itself."""
        await asyncio.Event().wait()


def told(page: ClusterPage, reader: Reader) -> dict[str, Any]:
    """What the reader is told now."""
    number, line = page.news(reader.number)
    news = json.loads(line)
    assert "\n" not in line
    reader.told(number, news)
    return dict(news)


def test_a_cluster_is_shown_when_it_was_seen_and_never_as_fine_when_it_is_lost() -> None:
    """Before it was read there are no rows, and why; when it is lost the rows stay with the time of their truth."""
    source = Source()
    page, reader = ClusterPage(source), Reader()
    asyncio.run(page.look())
    first = told(page, reader)
    assert (first["seen"], reader.rows) == (None, {"state": {"lost": ["it is being read"]}})
    source.seen, source.lost = time.time(), ""
    asyncio.run(page.look())
    news = told(page, reader)
    assert news["shape"] != first["shape"]
    assert reader.rows["state"] == {"lost": [""]}
    assert len(reader.rows["nodes"]) == 8
    source.lost = "the API server does not answer"
    asyncio.run(page.look())
    news = told(page, reader)
    # nothing but that it is lost; the time at which it was seen stands
    assert (news["rows"], news["gone"], news["seen"]) == ({"state": {"lost": [source.lost]}}, {}, source.seen)


def test_nothing_is_looked_at_when_nothing_came() -> None:
    """A look costs processor time: without news there is none."""
    source = Source()
    source.seen = time.time()
    page = ClusterPage(source)
    for _ in range(3):
        asyncio.run(page.look())
    assert source.looks == 1
    source.changes += 1
    asyncio.run(page.look())
    assert source.looks == 2


def test_the_page_fetches_nothing_from_elsewhere_and_runs_its_own_script_alone() -> None:
    """Its policy lets it run the one script whose hash it names; names of nodes are text in it."""
    cluster = minipods(minipods=1, nodes=2, rack_nodes=2).replace(names=(HOSTILE, "b"))
    drawing = draw(HOSTILE, cluster)
    script = drawing.html.rpartition("<script>")[2].partition("</script>")[0]
    hashed = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{hashed}';" in drawing.policy
    assert "connect-src 'self'" in drawing.policy
    assert not re.search(r"<img|<[^>]+(?:src|href)=|://", drawing.html)


def test_the_drawing_is_the_same_whatever_nodes_do() -> None:
    """What is in use and flagged comes with the news: neither makes readers load the page again, or stands there."""
    cluster, look = made()
    assert look.cluster is not None
    drawing = draw("kube:made", look.cluster)
    assert drawing == draw("kube:made", cluster)
    assert 'data-tip="minipod mp1' in drawing.html
    assert not re.search(r'data-tip="[^"]*(?:free|busy|faulty)', drawing.html)
