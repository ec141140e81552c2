"""Slurm, select/cons_tres with topology/tree or topology/block, as of 25.11 and 26.05.

Source: SchedMD/slurm, ``src/plugins/topology/tree/eval_nodes_tree.c`` (_eval_nodes_topo),
``src/plugins/topology/block/eval_nodes_block.c`` and ``block_record.c``, topology.conf(5); read, not copied.

Slurm chooses nodes; ranks (SLURM_NODEID) follow the order of its node table, which is sorted by name, whatever the
order in which nodes were chosen.

Asked (``python -m benchmarks slurm``), 26.05.5 would start 8,000 jobs on random states on the nodes that stand here, or
refuse them too; so would 24.11.5 of 2,000 all but 8, with segments of more nodes than a base block, which it refuses.
The tree of 22.05 has another rule, by which two jobs of three get other nodes: a leaf that was taken still counts in
the switches above it, and a closer one need not be under a switch that holds the rest to replace the best so far.

Left out: required and excluded nodes, weights, ``--switches``, ``--contiguous``, ``--exclusive=topo``, dragonfly,
several topologies, consolidated and spread segments.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, log2
from typing import Literal, Self

import numpy as np

from ground.errors import Infeasible
from scheduler.placement.heuristic import Heuristic, RankOrder, Request
from scheduler.placement.node_order import by_natural_name
from topology.cluster import BoolArray, IntArray, Level, count_nodes

POWERS = (0, 1, 2, 3, 4)  # Base blocks are joined to blocks of 2 to these powers, Slurm's default without BlockSizes
Segment = Literal["none", "p", "d"]  # --segment: none, as many nodes as a PP group has, as many as a DP group has


def slurm_block(*, segment: Segment = "none", order: RankOrder = "job") -> Heuristic:
    """Make Slurm with blocks; as it is, entry point ``slurm-block``.

    Base blocks and BlockSizes are those of the cluster's file where it has them, else the domains of the job's level.
    """
    name, what = "slurm-block", "the fewest blocks, the last by best fit"
    if segment != "none":
        name, what = f"slurm-segment-{segment}", f"segments of {segment.upper()} nodes, each in the tightest block"
    return Heuristic(name, f"Slurm topology/block: {what}", partial(_blocks, segment=segment), order)


def _tree(request: Request) -> IntArray:
    """Take the nodes of one leaf switch (domain of the closest level) after another until there are enough."""
    switches = LeafSwitches(request.cluster.levels, request.admitted)
    nodes = by_natural_name(request.cluster, np.flatnonzero(request.admitted).astype(np.int32))
    leaf_of = request.cluster.levels[-1].domain_of[nodes]
    left = request.grid.cells
    taken = np.zeros(len(nodes), dtype=np.bool_)
    by_leaf = np.argsort(leaf_of, kind="stable")
    first = np.searchsorted(leaf_of, np.arange(len(request.cluster.levels[-1]) + 1), sorter=by_leaf)
    while left > 0:
        request.check_time()
        leaf = switches.take_best(left)
        on_leaf = by_leaf[first[leaf] : first[leaf + 1]][:left]
        taken[on_leaf] = True
        left -= len(on_leaf)
    return nodes[taken]


def _blocks(request: Request, *, segment: Segment) -> IntArray:
    """Take the nodes of one segment after another, each from blocks that topology/block picks for it.

    :raises Infeasible: no aggregate of blocks has room for a segment in as few blocks as it may use.
    """
    size = {"none": request.grid.cells, "p": request.grid.columns, "d": request.grid.rows}[segment]
    nodes = by_natural_name(request.cluster, np.flatnonzero(request.admitted).astype(np.int32))
    blocks = BaseBlocks.of(request)
    block_of = blocks.block_of[nodes]
    free = np.bincount(block_of, minlength=blocks.count).astype(np.int32)
    taken = np.zeros(len(nodes), dtype=np.bool_)
    segments = request.grid.cells // size
    for number in range(segments):
        request.check_time()
        amounts = place_segment(free, size, blocks.size, blocks.powers)
        if not amounts:
            which = f"segment {number + 1} of {segments} ({size} nodes)"
            raise Infeasible(f"Slurm: {which} has no room in as few blocks as it may use")
        for block, amount in amounts.items():
            taken[np.flatnonzero((block_of == block) & ~taken)[:amount]] = True
            free[block] -= amount
    return nodes[taken]


@dataclass(frozen=True, slots=True)
class BaseBlocks:
    """The base blocks of a cluster, in the order in which Slurm joins them."""

    block_of: IntArray  # shape [nodes], the base block of each node
    count: int  # of them, those without nodes among them
    size: int  # nodes that Slurm counts a base block as, all alike
    powers: tuple[int, ...]  # of 2, ascending: so many base blocks are joined to a block

    @classmethod
    def of(cls, request: Request) -> Self:
        """Return those of the cluster's file, or what Slurm would make of the domains of the job's level."""
        cluster, own = request.cluster, request.cluster.blocks
        if own is None:
            sizes = np.bincount(request.level.domain_of)
            return cls(request.level.domain_of, len(request.level), int(sizes.min()), POWERS)
        level, place = cluster.levels[-1], {name: place for place, name in enumerate(own.names)}
        block_of = np.array([place[name] for name in level.domains], dtype=np.int32)[level.domain_of]
        if own.sizes:
            return cls(
                block_of, len(place), own.sizes[0], tuple((s // own.sizes[0]).bit_length() - 1 for s in own.sizes)
            )
        # the first block with nodes says the size of all
        return cls(block_of, len(place), int(np.count_nonzero(block_of == block_of.min())), POWERS)


def place_segment(free: IntArray, need: int, base: int, powers: Sequence[int] = POWERS) -> dict[int, int]:
    """Return how many nodes of which base block a segment takes.

    Base blocks in their order form blocks, of 1, 2, 4, ... of them without BlockSizes.  The segment goes into a block
    of the smallest size that could hold it, of several into the one with the fewest nodes that does (of equal ones the
    last); inside it may touch only as many blocks of the next smaller size as it needs at least.  What no size could
    hold goes into the whole topology.

    :param free: shape [base blocks], free nodes of each.
    :param base: nodes of a base block, the same for all.
    :param powers: of 2, ascending from 0: how many base blocks a block of each size has.
    :returns: base block -> nodes; empty = no block has room.
    """
    least = ceil(log2(ceil(need / base)))
    width = next((1 << power for power in powers if power >= least), len(free))
    inner = max((1 << power for power in powers if power < least), default=1)
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
    """Take base blocks one after another: next to blocks in use, then best fit, of the aggregate before the block.

    Best fit = the fewest free nodes that hold the rest, else the most; of equal ones the last.  An aggregate has
    ``inner`` blocks, and ``budget`` of them may be touched.
    """
    around = dict.fromkeys({block // inner for block in blocks}, 0)
    rooms: list[int] = free.tolist()
    for block in blocks:
        around[block // inner] += rooms[block]
    amounts: dict[int, int] = {}
    used: set[int] = set()
    while need > 0:
        open_blocks = [
            (block // inner in used, _fit(around[block // inner], need), _fit(rooms[block], need), block)
            for block in blocks
            if block not in amounts and rooms[block] > 0 and (block // inner in used or len(used) < budget)
        ]
        if not open_blocks:
            return {}
        block = max(open_blocks)[-1]
        amounts[block] = min(need, rooms[block])
        need -= amounts[block]
        used.add(block // inner)
    return amounts


def _fit(room: int, need: int) -> tuple[bool, int]:
    """Return a key that sorts rooms from the worst fit to the best."""
    return (True, -room) if room >= need else (False, room)


class LeafSwitches:
    """Free nodes below every switch, which leaf switches are in use, and the choice of the next one in topology/tree.

    Of two leaf switches, climbing from them to where their paths meet: the one with a switch that holds what is left of
    the job is better, of two that do the one with fewer free nodes, and where neither does the one with more.  A leaf
    replaces the best one so far if it is as far from the leaves in use and better, or closer and under a switch that
    holds the rest.  Leaves are tried in the order of the cluster.

    The rule is not a total order, and a job that no switch but the core holds meets its odd side: while no other switch
    holds the rest, being closer counts nothing, and the job hops between pods.

    :param levels: from the broadest to the leaf switches; a core switch above all is understood.
    """

    def __init__(self, levels: tuple[Level, ...], admitted: BoolArray) -> None:
        self._free = [count_nodes(level, admitted).tolist() for level in levels]
        self._used = [[0] * len(level) for level in levels]
        self._paths = _paths(levels)
        self._total_used = 0
        pods: dict[int, list[int]] = {}
        for leaf, path in enumerate(self._paths):
            if self._free[-1][leaf]:
                pods.setdefault(path[-2] if len(path) > 1 else 0, []).append(leaf)
        self._open = [sorted(pod, key=lambda leaf: (-self._free[-1][leaf], leaf)) for pod in pods.values()]

    def take_best(self, left: int) -> int:
        """Return the next leaf switch for a job that still needs so many nodes; its nodes count as used."""
        best, pod_of_best = -1, self._open[0]
        for pod in sorted((pod for pod in self._open if pod), key=min):
            leaf = self._best_of_pod(pod, left)
            if best >= 0:
                better, fits = self._compare(leaf, best, left)
                distance, distance_of_best = self._distance(leaf), self._distance(best)
            if best < 0 or (distance < distance_of_best and fits) or (distance == distance_of_best and better):
                best, pod_of_best = leaf, pod
        pod_of_best.remove(best)
        gone = self._free[-1][best]
        for depth, switch in enumerate(self._paths[best]):
            self._free[depth][switch] -= gone
            self._used[depth][switch] += 1
        self._total_used += 1
        return best

    def _best_of_pod(self, pod: list[int], left: int) -> int:
        """Return the leaf under one switch with the fewest free nodes that suffice, else with the most."""
        free = self._free[-1]
        fitting = bisect_right(pod, -left, key=lambda leaf: -free[leaf])
        if not fitting:
            return pod[0]
        tightest = free[pod[fitting - 1]]
        return next(leaf for leaf in pod if free[leaf] == tightest)

    def _compare(self, leaf: int, best: int, left: int) -> tuple[bool, bool]:
        """Return whether the leaf is better, and whether a switch above it, below the common one, holds the rest."""
        path, path_of_best = self._paths[leaf], self._paths[best]
        depth = len(path) - 1
        while True:
            room, room_of_best = self._free[depth][path[depth]], self._free[depth][path_of_best[depth]]
            if room >= left or room_of_best >= left:
                return room >= left and not left <= room_of_best <= room, room >= left
            if depth == 0 or path[depth - 1] == path_of_best[depth - 1]:
                return room > room_of_best, False
            depth -= 1

    def _distance(self, leaf: int) -> int:
        """Return the sum of the hops from a leaf to all leaves in use, up to a factor of two."""
        path = self._paths[leaf]
        return len(path) * self._total_used - sum(self._used[depth][switch] for depth, switch in enumerate(path))


def _paths(levels: tuple[Level, ...]) -> list[tuple[int, ...]]:
    """Return for each leaf switch the switches above it and itself, from the broadest."""
    column: IntArray = np.arange(len(levels[-1]), dtype=np.int32)
    columns = [column]
    for level in reversed(levels[1:]):
        column = level.parent_of[column]
        columns.append(column)
    return list(zip(*(c.tolist() for c in reversed(columns)), strict=True))


slurm_tree = partial(Heuristic, "slurm-tree", "Slurm topology/tree: leaf switch by leaf switch, best fit", _tree)
# consecutive ranks are PP groups along the rows, DP groups down the columns
segment_p = partial(slurm_block, segment="p", order="rows")
segment_d = partial(slurm_block, segment="d", order="columns")
