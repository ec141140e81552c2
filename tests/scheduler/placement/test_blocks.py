"""Blocks: cells that holds tie together, and the room for whole blocks."""

from __future__ import annotations

import numpy as np
import pytest

from ground.errors import UnknownName
from scheduler.job import Family, Hold, Job, Parallelism
from scheduler.placement.admission import blocks_at, capacity_by_level
from topology.build import build_cluster
from topology.cluster import Cluster, Node


def cluster_of(*leaves: tuple[str, str, int]) -> Cluster:
    """A cluster of (rack, leaf, nodes)."""
    rows = [Node(f"{leaf}-{i}", ("m", rack, leaf), 8, 8) for rack, leaf, size in leaves for i in range(size)]
    return build_cluster(["minipod", "rack", "leaf"], rows)


CLUSTER = cluster_of(("r0", "a", 5), ("r0", "b", 3), ("r1", "c", 7))


def job(*holds: tuple[Family, str], ep: int = 1, cp: int = 1, order: str = "tp-cp-ep-dp-pp") -> Job:
    """A job of 8 rows x 2 columns with one cell a rank."""
    return Job(
        "job",
        Parallelism(tp=8, cp=cp, ep=ep, dp=8 // cp, pp=2, order=order),
        holds=tuple(Hold(family, level) for family, level in holds),
    )


def test_without_holds_a_block_is_a_cell() -> None:
    """8 x 2 blocks of one cell, at every level."""
    blocks = blocks_at(CLUSTER, job(), 0)
    assert (blocks.rows, blocks.columns, blocks.size) == (8, 2, 1)
    assert blocks.of_cell.tolist() == np.arange(16).reshape(8, 2).tolist()


@pytest.mark.parametrize(
    ("family", "shape"),
    [("ep", (2, 2)), ("dp", (1, 2)), ("pp", (8, 1)), ("tp", (8, 2))],
)
def test_a_held_family_makes_its_groups_blocks(family: Family, shape: tuple[int, int]) -> None:
    """An expert group of 4 ranks is 4 rows of one column; a DP group a column; a PP group a row; a TP group a cell."""
    blocks = blocks_at(CLUSTER, job((family, "rack"), ep=4), 1)
    assert (blocks.rows, blocks.columns) == shape
    assert blocks.size == 16 // (shape[0] * shape[1])


def test_a_hold_binds_at_its_level_and_broader_ones_only() -> None:
    """What stays in one rack stays in one minipod, and may be spread over leaves."""
    held = job(("ep", "rack"), ep=4)
    assert [blocks_at(CLUSTER, held, depth).size for depth in range(4)] == [4, 4, 1, 1]


def test_groups_that_share_cells_make_one_block() -> None:
    """Experts before data before context parallelism: ep groups are {0, 1}, {2, 3}, ... and cp groups {r, r + 4}; both
    held tie rows {0, 1, 4, 5} and {2, 3, 6, 7} together.
    """
    both = job(("cp", "rack"), ("ep", "rack"), ep=2, cp=2, order="tp-ep-dp-cp-pp")
    assert blocks_at(CLUSTER, both, 1).row_of.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]


def test_holds_at_two_levels_nest() -> None:
    """Expert groups of 2 inside a leaf, PP groups inside a rack: rows 2i and 2i + 1 share a rack, 4 cells a block."""
    nested = job(("ep", "leaf"), ("pp", "rack"), ep=2)
    assert [blocks_at(CLUSTER, nested, depth).size for depth in range(3)] == [4, 4, 2]


def test_capacity_counts_whole_blocks_of_whole_blocks() -> None:
    """Leaves of 5, 3 and 7 nodes take 4, 2 and 6 cells in pairs; racks 6 and 6, of which 4 and 4 in fours; the
    minipod 8: two blocks of four, though it has 15 nodes.
    """
    nested = job(("ep", "leaf"), ("pp", "rack"), ep=2)
    minipod, rack, leaf = capacity_by_level(CLUSTER, nested, np.ones(15, dtype=bool))
    assert (minipod.tolist(), rack.tolist(), leaf.tolist()) == ([8], [4, 4], [4, 2, 6])


def test_a_hold_at_an_unknown_level_is_refused() -> None:
    """The error names the level."""
    with pytest.raises(UnknownName, match="'row'"):
        blocks_at(CLUSTER, job(("ep", "row")), 0)
