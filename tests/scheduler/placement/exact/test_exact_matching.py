"""Which domain takes which part: fewest flagged nodes, then least room broken into."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.job import Hold, Job, Parallelism
from scheduler.placement.exact.problem import GridReduction
from tests.case_counts import examples
from topology.build import build_cluster
from topology.cluster import Cluster, IntArray, Node


def minipods(*pods: tuple[int, int]) -> Cluster:
    """Minipods of so many healthy and so many slow nodes."""
    states = [(m, slow) for m, (healthy, slow) in enumerate(pods) for slow in [False] * healthy + [True] * slow]
    nodes = [Node(f"n{i}", (f"m{m}",), 8, 8, 1.5 if slow else 1.0) for i, (m, slow) in enumerate(states)]
    return build_cluster(["minipod"], nodes)


def column(*sizes: int) -> IntArray:
    """Parts 0, 1, ... of these sizes below one another, shape [sum, 1]."""
    return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[:, None]


def chosen(cluster: Cluster, part_of_cell: IntArray) -> list[int]:
    """The minipod of each part."""
    job = Job("job", Parallelism(tp=8, dp=part_of_cell.size))
    domains = GridReduction(cluster, job, 1.5).domain_of_cell(part_of_cell)
    return [int(domains[part_of_cell == part][0]) for part in np.unique(part_of_cell)]


@pytest.mark.parametrize(
    ("pods", "sizes", "expected"),
    [
        ([(9, 0), (5, 0)], [4], [1]),  # 5 free nodes are broken into rather than 9
        ([(9, 0), (5, 0), (7, 0)], [4, 6], [1, 2]),  # the 9 stay whole
        ([(9, 0), (5, 0), (7, 0)], [4, 8], [1, 0]),  # only the 9 hold 8
        ([(9, 0), (3, 2)], [4], [0]),  # a slow node is worse than a large domain broken into
        ([(3, 6), (3, 2)], [4], [1]),  # one slow node either way: the smaller
        ([(4, 4), (2, 4)], [6], [0]),  # 2 slow nodes against 4
    ],
)
def test_by_hand(pods: list[tuple[int, int]], sizes: list[int], expected: list[int]) -> None:
    """Minipods as (healthy, slow) nodes."""
    assert chosen(minipods(*pods), column(*sizes)) == expected


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)).filter(any), min_size=1, max_size=5),
    st.lists(st.integers(1, 8), min_size=1, max_size=4),
)
@examples(200)
def test_no_other_choice_is_better(pods: list[tuple[int, int]], sizes: list[int]) -> None:
    """Against all ways to give the parts to different minipods with room: (slow nodes, room broken into)."""

    def price(domains: tuple[int, ...]) -> tuple[int, int]:
        slow = sum(max(0, size - pods[k][0]) for size, k in zip(sizes, domains, strict=True))
        return slow, sum(sum(pods[k]) for k in domains)

    ways = [
        domains
        for domains in permutations(range(len(pods)), len(sizes))
        if all(size <= sum(pods[k]) for size, k in zip(sizes, domains, strict=True))
    ]
    if ways:
        domains = tuple(chosen(minipods(*pods), column(*sizes)))
        assert len(set(domains)) == len(domains)
        assert price(domains) == min(map(price, ways))


def test_parts_are_named_as_the_problem_numbers_domains() -> None:
    """Parts 0 and 2 of three: the numbers between are free to be skipped."""
    part_of_cell = np.array([[0], [0], [2]], dtype=np.int32)
    assert chosen(minipods((3, 0), (2, 0), (1, 0)), part_of_cell) == [1, 2]


def test_blocks_are_counted_in_nodes() -> None:
    """A part of one block of 4 cells: m0 has 4 healthy nodes and room for two blocks, m1 3 and a slow one."""
    job = Job("job", Parallelism(tp=8, dp=4, ep=4), holds=(Hold("ep", "minipod"),))
    reduction = GridReduction(minipods((4, 4), (3, 1)), job, 1.5)
    assert reduction.room.tolist() == [2, 1]
    assert reduction.domain_of_cell(np.zeros((1, 1), dtype=np.int32)).tolist() == [[0]] * 4
