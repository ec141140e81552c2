"""No run takes more than a share of the nodes out by flags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from ground.files import Source
from tests.case_counts import examples
from tests.facts import saying
from topology.flag_sources import UNKNOWN, Breaker
from topology.flags import FAULTY, NodeFlag
from topology.load import load_topology

RACKS = "node,rack\n" + "".join(f"n{i},r{i // 4}\n" for i in range(16))
"""Sixteen nodes in four racks."""


def faulty(*numbers: int) -> list[NodeFlag]:
    """Flags that take nodes out."""
    return [NodeFlag(f"n{number}", "faulty", FAULTY) for number in numbers]


def trips(breaker: Breaker, flags: list[NodeFlag], before: set[str] | None = None) -> bool:
    """Whether a run is refused."""
    try:
        breaker.check(flags, before=before or set(), where="x")
    except InvalidInput:
        return True
    return False


@given(st.integers(1, 200), st.integers(0, 200), st.integers(0, 200))
@examples(100)
def test_a_quarter_may_go_and_always_two(nodes: int, new: int, old: int) -> None:
    """Of all that would be out, those of before counted; a run that adds none is never refused."""
    flags, before = faulty(*range(old, old + new)), {f"n{i}" for i in range(old)}
    expected = new > 0 and old + new > max(2, nodes // 4)
    assert trips(Breaker(nodes), flags, before) == expected
    assert not trips(Breaker(nodes), faulty(*range(old)), before)
    assert not trips(Breaker(nodes), [NodeFlag(f"n{i}", "straggler", 2.0) for i in range(nodes)])


def test_half_of_a_rack_may_go() -> None:
    """Two of four nodes of a rack, four of sixteen in all; three of one rack are its switch."""
    cluster = load_topology(Source("cluster.csv", RACKS)).cluster
    breaker = Breaker(cluster=cluster)
    assert not trips(breaker, faulty(0, 1, 4, 5))
    assert trips(breaker, faulty(0, 1, 4, 5, 8))
    assert trips(breaker, faulty(0, 1, 2))
    assert trips(breaker, faulty(2), {"n0", "n1"})
    assert not trips(breaker, faulty(8), {"n0", "n1", "n2"})
    assert not trips(breaker, faulty(99, 0))


def test_nodes_count_in_every_spelling() -> None:
    """Hosts that call themselves with their domain are nodes of the cluster, and one that is named twice is one."""
    breaker = Breaker(cluster=load_topology(Source("cluster.csv", RACKS)).cluster)
    hosts = [NodeFlag(f"N{number}.lan", "faulty", FAULTY) for number in range(3)]
    assert trips(breaker, hosts)
    assert not trips(breaker, [*hosts[:2], *faulty(0, 1)])


def test_of_an_unknown_number_a_few_may_go() -> None:
    """Without the cluster four."""
    assert not trips(Breaker(), faulty(*range(UNKNOWN)))
    with pytest.raises(InvalidInput, match=saying("5", "unknown number")) as caught:
        Breaker().check(faulty(*range(UNKNOWN + 1)), where="x")
    assert "--yes" in caught.value.fix
