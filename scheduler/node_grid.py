"""The grid of a job: its ranks cut into nodes, and which nodes each communication group touches.

A *cell* is one node: ``gpus_per_node`` consecutive ranks.  The cells form a grid of ``rows`` x ``columns``: a row is a
pipeline (PP) group, a column holds the cells of one pipeline stage, over which gradients are reduced (Megatron's
data-parallel group with context parallel): the DP group of the Arnold paper.

Tensor-parallel groups either lie inside a node or take several whole nodes.  Then each such group is as many rows of a
column, one below the other: its *parts*.  They are held inside one domain of ``tp_level``, so that there and at broader
levels a column touches as many domains as each DP group in it: those nodes of a stage that have the same part.

Nodes are filled in the order of ranks, so the last one may have fewer ranks than GPUs.  Where stages begin inside nodes
there are no such rows and columns: all cells stand in one column, and each is in the groups that its ranks are in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from ground.errors import InvalidJob
from scheduler.rank_groups import CellGroups, RankNumbering, cell_groups, groups_of_ranks, joined

if TYPE_CHECKING:
    from topology.cluster import IntArray

MOST_RANKS_IN_TURN = 2**20  # of a job with stages that share nodes, whose every rank is looked at
MOST_RANKS = 2**24  # of a job with context or expert groups, which are laid out by rank: a million nodes of 16 GPUs


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of a job, a row for each PP group and a column for each pipeline stage at node level."""

    rows: int
    columns: int
    node_rank: IntArray  # shape [rows, columns], the rank of each cell among the job's nodes
    groups: Mapping[str, CellGroups]  # by family
    parts: int = 1  # nodes of a TP group; row r is part r mod parts of its group
    # whether rows are PP groups and columns stages; false = stages share nodes, and all cells stand in one column
    aligned: bool = True

    @property
    def cells(self) -> int:
        """Number of cells, which is the number of nodes the job needs."""
        return self.rows * self.columns

    @property
    def cell_of_rank(self) -> tuple[IntArray, IntArray]:
        """The row and the column of each node rank, each of shape [cells]."""
        import numpy as np

        rows, columns = np.divmod(np.argsort(self.node_rank, axis=None), self.columns)
        return rows.astype(np.int32), columns.astype(np.int32)

    @property
    def dp_group(self) -> IntArray:
        """Shape [rows, columns], the DP group of each cell: the nodes of a stage that have the same part of it."""
        import numpy as np

        row, column = np.indices((self.rows, self.columns), dtype=np.int32)
        return (column * self.parts + row % self.parts).astype(np.int32)

    def tied(self, families: Iterable[str]) -> tuple[IntArray, IntArray]:
        """Return what stays together when no group of some families is split: in every column the same rows, in every
        row the same columns.

        :returns: shape [rows], the part that each row is in, and shape [columns], the same of columns; from 0.
        :raises InvalidJob: these are not equally many everywhere, which part-filled nodes can bring about.
        """
        import numpy as np

        row_of = np.arange(self.rows, dtype=np.int32)
        column_of = np.arange(self.columns, dtype=np.int32)
        families = tuple(families)
        for groups in map(self.groups.__getitem__, families):
            row, column = np.divmod(groups.cell, np.int32(self.columns))
            row_of = joined(row_of, row[column == 0], groups.group[column == 0])
            column_of = joined(column_of, column[row == 0], groups.group[row == 0])
        together = max((np.bincount(row_of), np.bincount(column_of)), key=np.ptp)
        if np.ptp(together):
            raise InvalidJob(
                f"the {' and '.join(families)} groups keep {together.max()} nodes together here and {together.min()} "
                f"there, as they share nodes; only equally many can be held",
                where="constraints",
                fix="choose degrees that fill whole nodes, or make the constraint soft (level and weight)",
            )
        return row_of, column_of


def grid_of(dense: RankNumbering, expert: RankNumbering, gpus_per_node: int) -> Grid:
    """Return the grid of node-sized cells.

    :param dense: how ranks are numbered for all layers but those of experts; ``expert``: for those of experts.
    :raises InvalidJob: TP groups do not cut into nodes evenly, or there are too many ranks.
    """
    # not at the top: the options of commands are read from the module of jobs, and their help needs no arrays
    import numpy as np

    _check_ranks(dense, expert)
    numbering = _cells(dense, gpus_per_node)
    aligned = numbering is not None
    # a DP group, with context parallel, is a column; its members run along the rows
    cells = (numbering or _in_turn(dense, gpus_per_node)).groups("faster", "slower")
    node_rank = np.ascontiguousarray(cells.T)
    number = np.arange(node_rank.size, dtype=np.int32)
    cell_of_node = np.empty_like(number)
    cell_of_node[node_rank.ravel()] = number
    rows, columns = node_rank.shape
    touched = partial(cell_groups, gpus=gpus_per_node, cell_of_node=cell_of_node)
    row, column = np.divmod(number, np.int32(columns))
    alone, parts = CellGroups(number, number), nodes_of_tp(dense, gpus_per_node)
    groups: dict[str, CellGroups] = {
        "tp": touched(dense, "tp") if parts > 1 else alone,
        "cp": touched(dense, "cp") if dense.sizes["cp"] > 1 else alone,
        "ep": touched(expert, "ep") if expert.sizes["ep"] > 1 else alone,
        # gradients are reduced between the nodes of a stage that have the same part of it
        "dp": CellGroups(number, (column * parts + row % parts).astype(np.int32))
        if aligned
        else groups_of_ranks(dense.groups("dp", "cp"), gpus=gpus_per_node),
        "pp": CellGroups(number, row) if aligned else touched(dense, "pp"),
    }
    return Grid(rows, columns, node_rank, groups, parts, aligned)


def shape_of(dense: RankNumbering, expert: RankNumbering, gpus_per_node: int) -> tuple[int, int]:
    """Return rows and columns of the grid without building it; raises as :func:`grid_of`."""
    _check_ranks(dense, expert)
    cells = (_cells(dense, gpus_per_node) or _in_turn(dense, gpus_per_node)).sizes
    return cells["faster"] * cells["slower"], cells["pp"]


def _cells(dense: RankNumbering, gpus_per_node: int) -> RankNumbering | None:
    """Return how the cells are numbered: over rows that run faster than stages, stages (pp), and slower rows.

    :returns: ``None`` where some nodes have a part of one stage and a part of the next.
    """
    _check_sizes(dense, gpus_per_node)
    if dense.ranks <= gpus_per_node:
        return RankNumbering({"faster": 1, "pp": 1, "slower": 1})
    names = list(dense.sizes)
    at = names.index("pp") if dense.sizes["pp"] > 1 else len(names)
    axes = {"faster": names[:at], "pp": names[at : at + 1], "slower": names[at + 1 :]}
    sizes = {part: prod(dense.sizes[axis] for axis in named) for part, named in axes.items()}
    slowest = max((part for part in sizes if sizes[part] > 1), key=list(sizes).index, default="faster")
    left, room = {}, gpus_per_node
    # a node is filled with all that runs faster than pp, or a part of it; then with stages, or a part; and so on
    for part, size in sizes.items():
        # of what runs slowest the last node may have less than others, as nothing follows it
        if part != slowest and size % room and room % size:
            return None
        left[part] = -(-size // room)
        room = max(1, room // size)
    return RankNumbering(left)


def _in_turn(dense: RankNumbering, gpus_per_node: int) -> RankNumbering:
    """Return how cells are numbered that share stages: one below the other, as their ranks follow each other."""
    if dense.ranks > MOST_RANKS_IN_TURN:
        raise InvalidJob(
            f"the job has {dense.ranks:,} GPUs, and stages that share nodes; such jobs are laid out for up to "
            f"{MOST_RANKS_IN_TURN:,}",
            where="parallelism",
            fix=f"choose dp so that tp * cp * dp is a multiple or a divisor of {gpus_per_node}",
        )
    return RankNumbering({"faster": -(-dense.ranks // gpus_per_node), "pp": 1, "slower": 1})


def nodes_of_tp(dense: RankNumbering, gpus_per_node: int) -> int:
    """Return how many nodes a TP group takes; 1 = it shares a node with others, or fills it."""
    return max(1, dense.sizes["tp"] // gpus_per_node)


def filling(dense: RankNumbering, gpus_per_node: int) -> tuple[str, ...]:
    """Return what is unusual about how the ranks fill their nodes, a sentence each; mostly nothing."""
    said = []
    nodes = -(-dense.ranks // gpus_per_node)
    if used := dense.ranks % gpus_per_node:
        which = f"the last of the {nodes:,} nodes" if nodes > 1 else "the node"
        said.append(f"{which} has ranks for {used} of its {gpus_per_node} GPUs, and is taken whole")
    if nodes > 1 and _cells(dense, gpus_per_node) is None:
        said.append("stages begin inside nodes, which are filled in the order of ranks: there is no grid of nodes")
    return tuple(said)


def _check_sizes(dense: RankNumbering, gpus_per_node: int) -> None:
    """Refuse tensor-parallel groups that have parts of nodes."""
    tp, apart = dense.sizes["tp"], dense.stride("tp")
    if gpus_per_node % tp and tp % gpus_per_node:
        raise InvalidJob(
            f"tensor-parallel groups of {tp} GPUs neither divide a node of {gpus_per_node} GPUs nor fill whole nodes",
            where="parallelism.tp",
            fix=f"choose tp among the divisors and the multiples of {gpus_per_node}",
        )
    if tp > gpus_per_node and apart > 1:
        raise InvalidJob(
            f"in order {'-'.join(dense.sizes)} the {tp} ranks of a tensor-parallel group are {apart} apart: they do "
            f"not fill whole nodes of {gpus_per_node} GPUs",
            where="parallelism.order",
            fix="let order begin with tp",
        )
    if 1 < tp <= gpus_per_node and gpus_per_node % (apart * tp):
        raise InvalidJob(
            f"in order {'-'.join(dense.sizes)} the {tp} ranks of a tensor-parallel group are {apart} apart: some leave "
            f"their node of {gpus_per_node} GPUs",
            where="parallelism.order",
            fix="let order begin with tp: a tensor-parallel group that a node has room for stays inside it",
        )


def _check_ranks(dense: RankNumbering, expert: RankNumbering) -> None:
    """Refuse more ranks than groups are laid out for."""
    if dense.sizes["cp"] * expert.sizes["ep"] > 1 and dense.ranks > MOST_RANKS:
        raise InvalidJob(
            f"the job has {dense.ranks:,} GPUs; context and expert groups are laid out for up to {MOST_RANKS:,}",
            where="parallelism",
            fix="lower dp or pp, or check the degrees for a slip",
        )
