"""Where jobs go that take no whole nodes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.occupancy import fewest_domains, tightest
from tests.case_counts import examples

RACK = np.array([0, 0, 1, 1, 2, 2], dtype=np.int32)
POD = np.array([0, 0, 0, 0, 1, 1], dtype=np.int32)
SIZE = 8


def best(free: list[int], gpus: int) -> list[int]:
    """Nodes that fit a job best, on six nodes in three racks and two pods."""
    room = np.array(free, dtype=np.int32)
    idle = room == SIZE
    levels = [(domain, np.bincount(domain[idle], minlength=3).astype(np.int32)) for domain in (POD, RACK)]
    return tightest(np.flatnonzero(room >= gpus), free=room, idle=idle, idle_in_domain=levels).tolist()


def test_the_fullest_node_in_use_comes_first() -> None:
    """Also when an idle node has as much room as it takes."""
    assert best([8, 3, 5, 8, 8, 8], 3) == [1]
    assert best([8, 3, 5, 8, 8, 8], 4) == [2]


def test_an_idle_node_is_broken_where_the_fewest_are_idle() -> None:
    """Broad levels first: pod 1 has two idle nodes, pod 0 three; then racks."""
    assert best([8, 8, 8, 0, 8, 8], 1) == [4, 5]
    assert best([8, 8, 8, 0, 8, 0], 1) == [4]
    assert best([8, 8, 8, 0, 0, 0], 1) == [2]


def test_nowhere_is_nowhere() -> None:
    """No node has room."""
    assert best([0] * 6, 1) == []


@given(free=st.lists(st.integers(0, SIZE), min_size=6, max_size=6), gpus=st.integers(1, SIZE))
@examples(100)
def test_the_rule_is_an_order_of_tuples(free: list[int], gpus: int) -> None:
    """All that are least by (idle, room, idle in the pod, idle in the rack), looked up one by one."""

    def key(node: int) -> tuple[int, ...]:
        idle = [other for other in range(6) if free[other] == SIZE]
        near = [sum(domain[other] == domain[node] for other in idle) for domain in (POD, RACK)]
        return (node in idle, free[node], *near)

    fitting = [node for node in range(6) if free[node] >= gpus]
    assert best(free, gpus) == [node for node in fitting if key(node) == min(map(key, fitting))]


@given(free=st.lists(st.integers(0, SIZE), min_size=6, max_size=6), gpus=st.integers(1, SIZE), count=st.integers(1, 6))
@examples(100)
def test_a_gang_of_parts_touches_the_fewest_pods(free: list[int], gpus: int, count: int) -> None:
    """Against all choices of nodes; every node once, each with room."""
    room = np.array(free, dtype=np.int32)
    rows = np.flatnonzero(room >= gpus)
    if len(rows) < count:
        return
    nodes = fewest_domains(rows, count, free=room, idle=room == SIZE, domain_of=[POD, RACK]).tolist()
    assert len(set(nodes)) == count
    assert set(nodes) <= set(rows.tolist())
    fewest = min(len(set(POD[list(choice)])) for choice in combinations(rows.tolist(), count))
    assert len(set(POD[nodes])) == fewest


def test_without_levels_the_fullest_nodes_are_taken() -> None:
    """Those in use before idle ones."""
    room = np.array([8, 4, 6, 8], dtype=np.int32)
    nodes = fewest_domains(np.arange(4), 3, free=room, idle=room == SIZE, domain_of=[])
    assert nodes.tolist() == [1, 2, 0]
