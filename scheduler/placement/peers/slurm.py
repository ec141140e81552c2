"""Slurm, select/cons_tres with topology/tree or topology/block, as of 25.11.

Source: SchedMD/slurm, ``src/plugins/topology/tree/eval_nodes_tree.c`` (_eval_nodes_topo) and
``src/plugins/topology/block/eval_nodes_block.c``; read, not copied.

Slurm chooses nodes; ranks (SLURM_NODEID) follow the order of its node table, which is sorted by name, whatever the
order in which nodes were chosen.

Left out: required and excluded nodes, weights, ``--switches``, ``--contiguous``, ``--exclusive=topo``, dragonfly,
several topologies, consolidated and spread segments.
"""

from __future__ import annotations

from math import ceil, log2
from typing import Literal

import numpy as np

from scheduler.placement.heuristic import Heuristic, RankOrder, Request, by_rank
from scheduler.placement.peers.names import by_natural_name
from scheduler.placement.peers.switches import Switches
from topology.capacity import count_nodes
from topology.cluster import IntArray
from topology.errors import Infeasible

BLOCK_LEVELS = 4
"""Blocks are joined to aggregates of up to 2 to this power, Slurm's default without BlockSizes."""

Segment = Literal["none", "p", "d"]
"""``--segment``: none, as many nodes as a PP group has, as many as a DP group has."""


def slurm_tree(*, order: RankOrder = "job") -> Heuristic:
    """Entry point ``slurm-tree``."""
    return Heuristic("slurm-tree", "Slurm topology/tree: leaf switch by leaf switch, best fit", by_rank(_tree, order))


def slurm_block(*, segment: Segment = "none", order: RankOrder = "job") -> Heuristic:
    """Slurm with the domains of the job's level as base blocks."""

    def choose(request: Request) -> IntArray:
        size = {"none": request.grid.cells, "p": request.grid.columns, "d": request.grid.rows}[segment]
        return _blocks(request, size)

    name, what = "slurm-block", "the fewest blocks, the last by best fit"
    if segment != "none":
        name, what = f"slurm-segment-{segment}", f"segments of {segment.upper()} nodes, each in the tightest block"
    return Heuristic(name, f"Slurm topology/block: {what}", by_rank(choose, order))


def segment_p() -> Heuristic:
    """Entry point ``slurm-segment-p``; ranks along the rows, so that a segment is a PP group."""
    return slurm_block(segment="p", order="rows")


def segment_d() -> Heuristic:
    """Entry point ``slurm-segment-d``; ranks down the columns, so that a segment is a DP group."""
    return slurm_block(segment="d", order="columns")


def _tree(request: Request) -> IntArray:
    """Nodes of one leaf switch (domain of the closest level) after another until there are enough."""
    switches = Switches(request.cluster.levels, request.admitted)
    nodes = by_natural_name(request.cluster, np.flatnonzero(request.admitted).astype(np.int32))
    leaf_of = request.cluster.levels[-1].domain_of[nodes]
    left = request.grid.cells
    taken = np.zeros(len(nodes), dtype=np.bool_)
    while left > 0:
        on_leaf = np.flatnonzero(leaf_of == switches.take_best(left))[:left]
        taken[on_leaf] = True
        left -= len(on_leaf)
    return nodes[taken]


def _blocks(request: Request, segment: int) -> IntArray:
    """Nodes of one segment after another, each from blocks that topology/block picks for it.

    :raises Infeasible: no aggregate of blocks has room for a segment in as few blocks as it may use.
    """
    nodes = by_natural_name(request.cluster, np.flatnonzero(request.admitted).astype(np.int32))
    block_of = request.level.domain_of[nodes]
    base = int(np.bincount(request.level.domain_of).min())
    free = count_nodes(request.level, request.admitted)
    taken = np.zeros(len(nodes), dtype=np.bool_)
    segments = request.grid.cells // segment
    for number in range(segments):
        amounts = place_segment(free, segment, base)
        if not amounts:
            which = f"segment {number + 1} of {segments} ({segment} nodes)"
            raise Infeasible(f"Slurm: {which} has no room in as few blocks as it may use")
        for block, amount in amounts.items():
            taken[np.flatnonzero((block_of == block) & ~taken)[:amount]] = True
            free[block] -= amount
    return nodes[taken]


def place_segment(free: IntArray, need: int, base: int) -> dict[int, int]:
    """How many nodes of which base block a segment takes.

    Base blocks in their order form aggregates of 1, 2, 4, ... blocks.  The segment goes into an aggregate of the
    smallest size that could hold it, of several into the one with the fewest nodes that does (of equal ones the last);
    inside it may touch only as many aggregates of the next smaller size as it needs at least.

    :param free: shape [blocks], free nodes of each base block.
    :param base: nodes of a base block, the same for all (of uneven blocks, the smallest).
    :returns: block -> nodes; empty = no aggregate has room.
    """
    size = ceil(log2(ceil(need / base)))
    width = 1 << size if size <= BLOCK_LEVELS else len(free)
    inner = 1 << min(size - 1, BLOCK_LEVELS) if size > 0 else 1
    budget = ceil(need / (inner * base))
    if width == inner * budget:
        inner, budget = width, 1
    best, fewest = range(0), np.inf
    for start in range(0, len(free), width):
        blocks = range(start, min(start + width, len(free)))
        rooms = np.add.reduceat(free[start : blocks.stop], range(0, len(blocks), inner))
        if np.sort(rooms)[::-1][:budget].sum() >= need and rooms.sum() <= fewest:
            best, fewest = blocks, rooms.sum()
    return _fill(free, best, need, inner=inner, budget=budget)


def _fill(free: IntArray, blocks: range, need: int, *, inner: int, budget: int) -> dict[int, int]:
    """Base blocks one after another: next to blocks in use, then best fit, of the aggregate before the block.

    Best fit = the fewest free nodes that hold the rest, else the most; of equal ones the last.

    :param inner: blocks of an aggregate.
    :param budget: aggregates that may be touched.
    """
    around = dict.fromkeys({block // inner for block in blocks}, 0)
    for block in blocks:
        around[block // inner] += int(free[block])
    amounts: dict[int, int] = {}
    used: set[int] = set()
    while need > 0:
        open_blocks = [
            (block // inner in used, _fit(around[block // inner], need), _fit(int(free[block]), need), block)
            for block in blocks
            if block not in amounts and free[block] > 0 and (block // inner in used or len(used) < budget)
        ]
        if not open_blocks:
            return {}
        block = max(open_blocks)[-1]
        amounts[block] = min(need, int(free[block]))
        need -= amounts[block]
        used.add(block // inner)
    return amounts


def _fit(room: int, need: int) -> tuple[bool, int]:
    """Sorts rooms from the worst fit to the best."""
    return (True, -room) if room >= need else (False, room)
