"""The grid of a job: its ranks cut into nodes, and which nodes each communication group touches.

A *cell* is one node: ``gpus_per_node`` consecutive ranks.  The cells form a grid of ``rows`` x ``columns``: a row is a
pipeline (PP) group, a column holds the cells of one pipeline stage, over which gradients are reduced (Megatron's
data-parallel group with context parallel): the DP group of the Arnold paper.

Tensor-parallel groups either lie inside a node or take several whole nodes.  Then each such group is as many rows of a
column, one below the other: its *parts*.  They are held inside one domain of ``tp_level``, so that there and at broader
levels a column touches as many domains as each DP group in it: those nodes of a stage that have the same part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from scheduler.rank_groups import CellGroups, RankNumbering, cell_groups, joined
from topology.errors import InvalidJob

if TYPE_CHECKING:
    from scheduler.job import Family, Parallelism
    from topology.cluster import IntArray

MOST_RANKS = 2**24  # of a job with context or expert groups, which are laid out by rank: a million nodes of 16 GPUs


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of a job, a row for each PP group and a column for each pipeline stage at node level."""

    rows: int
    columns: int
    node_rank: IntArray  # shape [rows, columns], the rank of each cell among the job's nodes
    groups: Mapping[Family, CellGroups]
    parts: int = 1  # nodes of a TP group; row r is part r mod parts of its group

    @property
    def cells(self) -> int:
        """Number of cells, which is the number of nodes the job needs."""
        return self.rows * self.columns

    @property
    def dp_group(self) -> IntArray:
        """Shape [rows, columns], the DP group of each cell: the nodes of a stage that have the same part of it."""
        import numpy as np

        row, column = np.indices((self.rows, self.columns), dtype=np.int32)
        return (column * self.parts + row % self.parts).astype(np.int32)

    def tied(self, families: Iterable[Family]) -> tuple[IntArray, IntArray]:
        """Return what stays together when no group of some families is split: in every column the same rows, in every
        row the same columns.

        :returns: shape [rows], the part that each row is in, and shape [columns], the same of columns; from 0.
        """
        import numpy as np

        row_of = np.arange(self.rows, dtype=np.int32)
        column_of = np.arange(self.columns, dtype=np.int32)
        for groups in map(self.groups.__getitem__, families):
            row, column = np.divmod(groups.cell, np.int32(self.columns))
            row_of = joined(row_of, row[column == 0], groups.group[column == 0])
            column_of = joined(column_of, column[row == 0], groups.group[row == 0])
        return row_of, column_of


def grid_of(parallelism: Parallelism, gpus_per_node: int) -> Grid:
    """Return the grid of node-sized cells.

    :raises InvalidJob: the groups do not cut into nodes evenly; the message names the dimension.
    """
    # not at the top: the options of commands are read from the module of jobs, and their help needs no arrays
    import numpy as np

    # a DP group, with context parallel, is a column; its members run along the rows
    node_rank = np.ascontiguousarray(_cells(parallelism, gpus_per_node).groups("faster", "slower").T)
    number = np.arange(node_rank.size, dtype=np.int32)
    cell_of_node = np.empty_like(number)
    cell_of_node[node_rank.ravel()] = number
    rows, columns = node_rank.shape
    touched = partial(cell_groups, gpus=gpus_per_node, cell_of_node=cell_of_node)
    row, column = np.divmod(number, np.int32(columns))
    alone, parts = CellGroups(number, number), parallelism.nodes_of_tp(gpus_per_node)
    groups: dict[Family, CellGroups] = {
        "tp": touched(parallelism.dense, "tp") if parts > 1 else alone,
        "cp": touched(parallelism.dense, "cp") if parallelism.cp > 1 else alone,
        "ep": touched(parallelism.expert, "ep") if parallelism.ep > 1 else alone,
        # gradients are reduced between the nodes of a stage that have the same part of it
        "dp": CellGroups(number, (column * parts + row % parts).astype(np.int32)),
        "pp": CellGroups(number, row),
    }
    return Grid(rows, columns, node_rank, groups, parts)


def shape_of(parallelism: Parallelism, gpus_per_node: int) -> tuple[int, int]:
    """Return rows and columns of the grid without building it; raises as :func:`grid_of`."""
    cells = _cells(parallelism, gpus_per_node).sizes
    return cells["faster"] * cells["slower"], cells["pp"]


def _cells(parallelism: Parallelism, gpus_per_node: int) -> RankNumbering:
    """Return how the cells are numbered: over rows that run faster than stages, stages (pp), and slower rows."""
    _check_sizes(parallelism, gpus_per_node)
    names = parallelism.order.split("-")
    at = names.index("pp") if parallelism.pp > 1 else len(names)
    left, room = {}, gpus_per_node
    # a node is filled with all that runs faster than pp, or a part of it; then with stages, or a part; and so on
    for part, axes in (("faster", names[:at]), ("pp", names[at : at + 1]), ("slower", names[at + 1 :])):
        size = prod(parallelism.dense.sizes[axis] for axis in axes)
        if size % room and room % size:
            many = [axis for axis in axes if parallelism.dense.sizes[axis] > 1]
            raise InvalidJob(
                f"{' * '.join(many)} = {size} does not cut into nodes: each node has room for {room} of its ranks",
                where=f"parallelism.{many[-1]}",
                fix=f"choose {many[-1]} so that {' * '.join(many)} is a multiple or a divisor of {room}",
            )
        inside = min(size, room)
        left[part] = size // inside
        room //= inside
    if room > 1:
        raise InvalidJob(
            f"the job has {parallelism.gpus} GPUs, less than one node of {gpus_per_node}",
            where="parallelism",
            fix="a gang is made of whole nodes: raise dp, or lower gpus_per_node to the node's real size",
        )
    return RankNumbering(left)


def _check_sizes(parallelism: Parallelism, gpus_per_node: int) -> None:
    """Refuse tensor-parallel groups that have parts of nodes, and more ranks than groups are laid out for."""
    tp, apart = parallelism.tp, parallelism.dense.stride("tp")
    if gpus_per_node % tp and tp % gpus_per_node:
        raise InvalidJob(
            f"tensor-parallel groups of {tp} GPUs neither divide a node of {gpus_per_node} GPUs nor fill whole nodes",
            where="parallelism.tp",
            fix=f"choose tp among the divisors and the multiples of {gpus_per_node}",
        )
    if tp > gpus_per_node and apart > 1:
        raise InvalidJob(
            f"in order {parallelism.order} the {tp} ranks of a tensor-parallel group are {apart} apart: they do not "
            f"fill whole nodes of {gpus_per_node} GPUs",
            where="parallelism.order",
            fix="let order begin with tp",
        )
    if 1 < tp <= gpus_per_node and gpus_per_node % (apart * tp):
        raise InvalidJob(
            f"in order {parallelism.order} the {tp} ranks of a tensor-parallel group are {apart} apart: some leave "
            f"their node of {gpus_per_node} GPUs",
            where="parallelism.order",
            fix="let order begin with tp: a tensor-parallel group that a node has room for stays inside it",
        )
    if parallelism.cp * parallelism.ep > 1 and parallelism.gpus > MOST_RANKS:
        raise InvalidJob(
            f"the job has {parallelism.gpus:,} GPUs; context and expert groups are laid out for up to {MOST_RANKS:,}",
            where="parallelism",
            fix="lower dp or pp, or check the degrees for a slip",
        )
