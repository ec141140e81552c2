"""What whole PP groups can use of free nodes: by brute force, over seeds, and at the samples of a replay."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.capacity.cluster_question import parse_shape
from simulator.capacity.fragmentation import DRAWS, ShareKept, free_sampler, kept_by_seed, share_kept
from topology.generate import minipods


@given(free=st.lists(st.integers(0, 12), min_size=1, max_size=6), stages=st.integers(1, 8))
def test_whole_groups_by_taking_them(free: list[int], stages: int) -> None:
    """Groups are taken from the domains one by one until none has room for another."""
    left, used = list(free), 0
    while any(nodes >= stages for nodes in left):
        left[next(i for i, nodes in enumerate(left) if nodes >= stages)] -= stages
        used += stages
    expected = used / sum(free) if any(free) else None
    assert share_kept(np.array(free, dtype=np.int32), stages) == expected


def test_shares_over_seeds() -> None:
    """Four minipods of 8, half of the nodes in use: by shape and seed, all from 0 to 1; one node a group loses nothing.

    Groups of four lose no less than groups of two, which fit wherever those do.
    """
    shapes = [parse_shape(text, gpus_per_node=8) for text in ("8x1", "8x2", "8x4")]
    kept = kept_by_seed(minipods(minipods=4, nodes=32), 0.5, None, shapes)
    assert [shape.pp for shape in kept.shapes] == [2, 4]
    assert {len(shares) for shares in kept.shares} >= {DRAWS + 1} or min(map(len, kept.shares)) >= DRAWS
    for two, four in zip(*kept.shares, strict=True):
        assert two is not None
        assert four is not None
        assert 0.0 <= four <= two <= 1.0
    assert [one.p50 for one in kept.ranges] == sorted(one.p50 for one in kept.ranges)


def test_ranges_leave_out_states_without_a_free_node() -> None:
    """Of the three shares of one shape two are known, 0.5 and 1; of the other none, and it has no range."""
    shapes = tuple(parse_shape(text, gpus_per_node=8) for text in ("8x2", "8x4"))
    kept = ShareKept(shapes, ((0.5, None, 1.0), (None, None, None)), states=3, source="three states")
    (found,) = kept.ranges
    assert (found.p10, found.p90, found.draws) == (0.5, 1.0, 2)


def test_samples_at_equal_times() -> None:
    """From 10 to 40 every 10 seconds; a stretch gives those inside it, what is free then, and none beyond the end.

    A node is free when all of it is, and it is not out.
    """
    cluster = minipods(minipods=2, nodes=4)
    total = np.full(4, 8)
    sampler = free_sampler(cluster.levels[0], 10.0, 40.0, step=10.0)

    def passes(until: float, *free: int) -> None:
        pool = SimpleNamespace(free=np.array(free), total=total)
        sampler.elapsed(cast("Any", SimpleNamespace(pool=pool)), until)

    passes(5.0, 8, 8, 8, 8)
    assert sampler.samples == []
    passes(25.0, 8, 8, 8, 4)
    passes(29.0, 0, 0, 0, 0)
    total[0] = 0
    passes(1_000.0, 0, 8, 8, 8)
    sampled = [counted.tolist() for counted in sampler.samples]
    assert sampled == [[2, 1], [2, 1], [1, 2], [1, 2]]


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
def test_no_node_free(stages: int) -> None:
    """There is nothing to take a share of."""
    assert share_kept(np.zeros(3, dtype=np.int32), stages) is None
