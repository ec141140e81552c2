"""Blocks: cells that hard constraints tie together, and how many whole blocks a domain can take.

A hold keeps every group of a family inside one domain of a level, hence inside one domain of every broader level too.
At a level, the cells of groups that share a cell stay together: a *block*.  Communication groups run along whole rows
or down columns in the same way everywhere, so the blocks of a level form a coarser grid of equal blocks, and the blocks
of a closer level cut those of a broader one.  Without holds a block is one cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.job import Job
from topology.capacity import count_nodes
from topology.cluster import Cluster, IntArray


@dataclass(frozen=True, slots=True)
class Blocks:
    """The grid of blocks of one level: cell (r, c) is in block row ``row_of[r]`` and block column ``column_of[c]``."""

    row_of: IntArray
    column_of: IntArray

    @property
    def rows(self) -> int:
        """Number of block rows."""
        return int(self.row_of.max()) + 1

    @property
    def columns(self) -> int:
        """Number of block columns."""
        return int(self.column_of.max()) + 1

    @property
    def size(self) -> int:
        """Cells in each block."""
        return len(self.row_of) * len(self.column_of) // (self.rows * self.columns)

    @property
    def of_cell(self) -> IntArray:
        """Shape [rows of cells, columns of cells], the number of each cell's block, row by row."""
        return self.row_of[:, None] * np.int32(self.columns) + self.column_of[None, :]


def blocks_at(cluster: Cluster, job: Job, depth: int) -> Blocks:
    """Return the blocks that must stay inside one domain of the level of that depth.

    :param depth: index of the level, 0 the broadest; ``len(cluster.levels)`` stands for the nodes themselves.
    :raises UnknownName: a hold names a level that the cluster does not have.
    """
    grid = job.grid
    row_of = np.arange(grid.rows, dtype=np.int32)
    column_of = np.arange(grid.columns, dtype=np.int32)
    for hold in job.holds:
        if cluster.level_index(hold.level) < depth:
            continue
        groups = grid.groups[hold.family]
        row_of = _join(row_of, groups[:, 0])
        column_of = _join(column_of, groups[0])
    return Blocks(row_of, column_of)


def capacity_by_level(cluster: Cluster, job: Job, usable: npt.NDArray[np.bool_]) -> tuple[IntArray, ...]:
    """Return the cells that each domain can take in whole blocks, for every level.

    :param usable: shape [nodes].
    :returns: for each level shape [domains]: a multiple of the size of the level's blocks, at most the usable nodes.
    """
    capacities: list[IntArray] = []
    for depth in reversed(range(len(cluster.levels))):
        level = cluster.levels[depth]
        if capacities:
            cells = np.zeros(len(level), dtype=np.int32)
            np.add.at(cells, cluster.levels[depth + 1].parent_of, capacities[-1])
        else:
            cells = count_nodes(level, usable)
        size = blocks_at(cluster, job, depth).size
        # whole blocks alone: what is left over of a domain takes none
        capacities.append(cells // size * size)
    return tuple(reversed(capacities))


def _join(first: IntArray, second: IntArray) -> IntArray:
    """Return the finest partition that both partitions of the same things refine; classes numbered by first member."""
    label = np.arange(len(first), dtype=np.int32)
    while True:
        before = label
        for classes in (first, second):
            least = np.full(int(classes.max()) + 1, len(classes), dtype=np.int32)
            np.minimum.at(least, classes, label)
            label = least[classes]
        if np.array_equal(label, before):
            return np.unique(label, return_inverse=True)[1].astype(np.int32)
