"""Which node a rank runs on: against a table written down."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from ground.files import Source
from health.collectives.diagnosis import Culprit, Diagnosis
from health.collectives.flagging import MOST_GPUS, flags_of, nodes_of, withheld
from health.collectives.recording import Member
from tests.facts import saying, says
from topology.flags import FAULTY, WARNING

NAME = st.from_regex(r"n[0-9]{1,3}", fullmatch=True)


@given(st.dictionaries(st.integers(0, 20), NAME, max_size=8), st.lists(st.none() | NAME, max_size=MOST_GPUS))
def test_nodes_by_rank(table: dict[int, str], hosts: list[str | None]) -> None:
    """What the file says goes before the host of the record; a member that neither knows has no node."""
    members = [Member(f"rank {i}", i, host) for i, host in enumerate(hosts)]
    text = "rank,node\n" + "".join(f"{rank},{node}\n" for rank, node in table.items())
    expected = {i: table.get(i, host) for i, host in enumerate(hosts)}
    assert nodes_of(members, Source("n.csv", text)) == {i: node for i, node in expected.items() if node is not None}
    assert nodes_of(members) == {i: host for i, host in enumerate(hosts) if host is not None}


@given(st.dictionaries(NAME, NAME, max_size=8), st.lists(st.none() | NAME, max_size=MOST_GPUS))
def test_nodes_by_host(table: dict[str, str], hosts: list[str | None]) -> None:
    """Hosts are translated where the file knows them; a member without host gets no node from it."""
    members = [Member(f"rank {i}", i, host) for i, host in enumerate(hosts)]
    text = "host,node\n" + "".join(f"{host},{node}\n" for host, node in table.items())
    expected = {i: table.get(host, host) for i, host in enumerate(hosts) if host is not None}
    assert nodes_of(members, Source("n.csv", text)) == expected


def test_hosts_are_found_in_other_spellings() -> None:
    """As a record calls them, with the domain or in capitals, or as the map does."""
    members = [Member("rank 0", 0, "N1.lan"), Member("rank 1", 1, "n2")]
    assert nodes_of(members, Source("n.csv", "host,node\nn1,a\nn2.lan,b\n")) == {0: "a", 1: "b"}


def test_the_same_row_twice_is_no_contradiction() -> None:
    """Only another node for the same rank is; 007 and 7 are one rank."""
    text = "rank,node\n7,n1\n007,n1\n"
    assert nodes_of([Member("rank 7", 7)] * 8, Source("n.csv", text)) == dict.fromkeys(range(8), "n1")
    with pytest.raises(InvalidInput, match=saying("rank 7", "another node")):
        nodes_of([], Source("n.csv", text + "7,n2\n"))


def test_the_host_of_more_ranks_than_a_node_has_is_no_node() -> None:
    """Sixteen ranks that all name one machine name the one that converted their dumps; eight may run on one."""
    nine = [Member(f"rank {i}", i, "login-1") for i in range(MOST_GPUS + 1)]
    assert nodes_of(nine[:-1]) == dict.fromkeys(range(MOST_GPUS), "login-1")
    assert nodes_of(nine) == {}
    assert nodes_of(nine, Source("n.csv", "rank,node\n2,n7\n")) == {2: "n7"}
    culprit = Diagnosis(tuple(nine), (), "failure", "not-launched", (Culprit(2, "certain"),))
    assert says(withheld(culprit, nodes_of(nine)), "9 ranks", "login-1")
    assert flags_of(culprit, nodes_of(nine), now=datetime(2026, 11, 28, tzinfo=UTC)) == []


def test_each_culprit_is_flagged_by_its_own_cause() -> None:
    """What has no factor costs a warning, and is never cleared by 1.0; a mistake of the program is no flag."""
    members = tuple(Member(f"rank {i}", i, f"n{i}") for i in range(4))
    culprits = (
        Culprit(1, "certain"),
        Culprit(2, "certain", cause="not-transmitted"),
        Culprit(3, "certain", cause="crossed-order"),
    )
    found = Diagnosis(members, (), "failure", "not-completed", culprits)
    flags = flags_of(found, nodes_of(members), now=datetime(2026, 11, 28, tzinfo=UTC))
    assert [(flag.node, flag.kind, flag.slowdown) for flag in flags] == [
        ("n1", "degraded", WARNING),
        ("n2", "faulty", FAULTY),
    ]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_names_that_every_machine_has_are_no_nodes(host: str) -> None:
    """A container that calls itself localhost says nothing; a map may say what is meant."""
    members = [Member("rank 0", 0, host), Member("rank 1", 1, "n1")]
    assert nodes_of(members) == {1: "n1"}
    assert nodes_of(members, Source("n.csv", f"host,node\n{host},n0\n")) == {0: "n0", 1: "n1"}
