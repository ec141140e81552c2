"""Which nodes a gang may use, and which of its cells must stay together, decided in one place for every algorithm.

A gang takes whole nodes: idle (no GPU in use), of the job's size, never faulty.  Slow nodes are admitted unless the job
says ``avoid: strict``; weighing them under ``avoid: price`` is the business of the algorithm that can, and it narrows
the admitted nodes with ``slowest``.  Hard constraints of a job (``holds``) concern groups, not nodes: they make blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from scheduler.job import Job
from topology.capacity import count_nodes, shortage_apart
from topology.cluster import BoolArray, Cluster, IntArray
from topology.flags import FAULTY, HEALTHY, NodeFlag


def admissible(cluster: Cluster, job: Job, *, slowest: float | None = None) -> BoolArray:
    """Return nodes that may host a cell of the job.

    :param slowest: admit nodes up to this slowdown, 1.0 = no flagged node; default by the job's ``avoid``: 1.0 when
        ``strict``, any otherwise.
    :returns: shape [nodes].
    """
    limit = _slowest(job) if slowest is None else slowest
    admitted: BoolArray = cluster.idle & (cluster.gpus == job.gpus_per_node) & (cluster.slowdown <= limit)
    return admitted


def flags_of_usable(cluster: Cluster, job: Job) -> tuple[NodeFlag, ...]:
    """Return flags of the nodes that the job could use if nothing were held against them, by node."""
    usable = (cluster.gpus == job.gpus_per_node) & (cluster.free_gpus == cluster.gpus)
    flagged = [flag for i, flag in cluster.flags.items() if usable[i] and flag.slowdown > HEALTHY]
    return tuple(sorted(flagged, key=lambda flag: flag.node))


def shortage(cluster: Cluster, job: Job) -> str:
    """Return why the job cannot fit whatever its shape: fewer admissible nodes than cells, and what holds the others.

    :returns: one sentence for the user; empty when there are enough nodes, in one trunk where nothing joins the trunks.
    :raises InvalidJob: the job cannot be cut into nodes.
    """
    admitted = admissible(cluster, job)
    free = int(admitted.sum())
    if free >= job.grid.cells:
        apart = shortage_apart(cluster, admitted, job.grid.cells)
        return apart and f"the job needs {job.grid.cells} free nodes of {job.gpus_per_node} GPUs {apart}"
    fits_size = cluster.gpus == job.gpus_per_node
    faulty = cluster.slowdown == FAULTY
    in_use = cluster.free_gpus != cluster.gpus
    whole_nodes = "" if fits_size.any() else ": ask for whole nodes"
    if whole_nodes and cluster.gpus_assumed:
        whole_nodes = f", which is assumed: give --gpus-per-node {job.gpus_per_node} if that is what they have"
    held = {
        f"with another number of GPUs{whole_nodes}": ~fits_size,
        "faulty": fits_size & faulty,
        "in use": fits_size & ~faulty & in_use,
        "flagged (avoid: strict)": fits_size & ~faulty & ~in_use & (cluster.slowdown > _slowest(job)),
    }
    others = ", ".join(f"{int(nodes.sum())} {why}" for why, nodes in held.items() if nodes.any())
    return (
        f"the job needs {job.grid.cells} free nodes of {job.gpus_per_node} GPUs, the cluster has {free} of "
        f"{len(cluster)}" + (f" ({others})" if others else "")
    )


def _slowest(job: Job) -> float:
    return HEALTHY if job.avoid == "strict" else inf


@dataclass(frozen=True, slots=True)
class Blocks:
    """The grid of blocks of one level: cell (r, c) is in block row ``row_of[r]`` and block column ``column_of[c]``.

    A hold keeps every group of a family inside one domain of a level, hence of every broader one.  At a level the cells
    of groups that share a cell stay together: a *block*, one cell without holds.  Groups run along whole rows or down
    columns in the same way everywhere, so blocks are equal, and those of a closer level cut those of a broader one.
    """

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
    """
    held = [hold.family for hold in job.holds if cluster.level_index(hold.level) >= depth]
    return Blocks(*job.grid.tied(held))


def capacity_by_level(cluster: Cluster, job: Job, usable: BoolArray) -> tuple[IntArray, ...]:
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
