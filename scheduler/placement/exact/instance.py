"""From a cluster and a job to the abstract grid problem, and back.

With hard constraints the cells that must stay together are *blocks* (see :mod:`scheduler.placement.blocks`): the grid
is one of blocks, a domain takes whole blocks, and S and R are the same as those of the cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scheduler.job import Job
from scheduler.objective import job_level
from scheduler.placement.admission import admissible, shortage
from scheduler.placement.blocks import Blocks, blocks_at, capacity_by_level
from scheduler.placement.exact.problem import GridProblem
from topology.capacity import count_nodes
from topology.cluster import Cluster, IntArray, Level

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Instance:
    """One job on one cluster, with nodes up to some slowdown admitted.

    :param slowest: slowdown up to which nodes are admitted, 1.0 = no flagged node.
    """

    cluster: Cluster
    job: Job
    slowest: float

    @cached_property
    def level(self) -> Level:
        """The level at which spread counts."""
        return job_level(self.cluster, self.job)

    @cached_property
    def admitted(self) -> BoolArray:
        """Shape [nodes]."""
        return admissible(self.cluster, self.job, slowest=self.slowest)

    @cached_property
    def healthy(self) -> IntArray:
        """Shape [domains]: admitted nodes without a flag."""
        return count_nodes(self.level, self.admitted & (self.cluster.slowdown <= 1.0))

    @cached_property
    def blocks(self) -> Blocks:
        """What stays together in a domain of the level."""
        return blocks_at(self.cluster, self.job, self.cluster.level_index(self.level.name))

    @cached_property
    def room(self) -> IntArray:
        """Shape [domains]: blocks that each domain can take."""
        depth = self.cluster.level_index(self.level.name)
        return capacity_by_level(self.cluster, self.job, self.admitted)[depth] // self.blocks.size

    @cached_property
    def domains(self) -> IntArray:
        """Domains with room, the roomiest first: those that the grid problem numbers."""
        order = np.argsort(-self.room, kind="stable")
        return order[self.room[order] > 0].astype(np.int32)

    @cached_property
    def problem(self) -> GridProblem:
        """The grid of blocks on the domains with room."""
        return GridProblem(self.blocks.rows, self.blocks.columns, tuple(int(c) for c in self.room[self.domains]))

    @property
    def refusal(self) -> str:
        """Why no placement exists whatever the search does; empty when the blocks can be counted out."""
        if not self.admitted.any() or (len(self.job.holds) == 0 and self.problem.cells > int(self.room.sum())):
            return shortage(self.cluster, self.job) or self._too_few_admitted()
        if self.problem.cells > int(self.room.sum()):
            held = " and ".join(f"every {hold.family} group inside one {hold.level}" for hold in self.job.holds)
            return (
                f"holding {held} makes {self.problem.cells} blocks of {self.blocks.size} nodes, and the free nodes "
                f"have room for {int(self.room.sum())} such blocks"
            )
        return ""

    def _too_few_admitted(self) -> str:
        return (
            f"the job needs {self.job.grid.cells} free nodes, and {int(self.admitted.sum())} are no slower than "
            f"{self.slowest:g}"
        )

    def domain_of_cell(self, domain_of_block: IntArray) -> IntArray:
        """Shape [rows, columns] of cells, from an assignment of blocks."""
        return domain_of_block[self.blocks.row_of[:, None], self.blocks.column_of[None, :]]
