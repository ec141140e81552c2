"""The machines of a job: which ranks run on each, and which parallel groups it belongs to.

Machines are numbered by node rank, and a machine is a cell of the job's grid (:mod:`scheduler.grid`).  At this
level a TP group is one machine (or several, which follow each other), a PP group a row of the grid, a DP group a
column: one pipeline stage (or those of its machines that have the same part of it).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from ground.errors import InvalidJob
from ground.records import Count, JsonRecord
from scheduler.job import Job
from topology.cluster import IntArray
from topology.node_names import spell_names

UnitFamily = Literal["tp", "pp", "dp"]
UNIT_FAMILIES: tuple[UnitFamily, ...] = ("tp", "pp", "dp")


class JobMachine(JsonRecord):
    """A machine of the job."""

    node_rank: Count
    """Its number among the machines of the job; it holds the ranks from node_rank * gpus_per_node on."""
    node: str | None
    """Name of its node; null = no placement was given."""
    dp: Count
    """Row of the grid: its PP group; where a TP group takes several machines, as many rows of the grid count as one."""
    pp: Count
    """Column of the grid: its stage, and so its DP group."""
    part: Count
    """Which of the machines of its TP group; 0 where a machine has room for TP groups."""


@dataclass(frozen=True)
class Machines:
    """The machines of a job.

    :raises InvalidJob: stages share machines, so that these are in no one group of a family.
    """

    job: Job
    names: tuple[str, ...] = ()  # name of the node of each machine, by node rank; empty = unknown

    def __post_init__(self) -> None:
        if not self.job.grid.aligned:
            problem = f"stages of {self.job.name} begin inside machines: a machine is in no one DP group and PP group"
            fix = "choose degrees that give each machine one stage, or several whole ones"
            raise InvalidJob(problem, where="parallelism", fix=fix)

    def __len__(self) -> int:
        return self.job.grid.cells

    @property
    def ranks(self) -> int:
        """Number of ranks of the job."""
        return self.job.parallelism.gpus

    @cached_property
    def row(self) -> IntArray:
        """Shape [machines]: row of the grid, the number of the PP group."""
        return self._coordinate(0)

    @cached_property
    def column(self) -> IntArray:
        """Shape [machines]: column of the grid, the number of the DP group."""
        return self._coordinate(1)

    def _coordinate(self, axis: int) -> IntArray:
        node_rank = self.job.grid.node_rank
        coordinate = np.empty(node_rank.size, dtype=np.int32)
        coordinate[node_rank.ravel()] = np.indices(node_rank.shape, dtype=np.int32)[axis].ravel()
        return coordinate

    def of_rank(self, rank: int) -> int:
        """Return the machine that a rank runs on."""
        return rank // self.job.gpus_per_node

    def ranks_on(self, machine: int) -> int:
        """Return how many ranks a machine has; the last one may be filled in part."""
        return min(self.job.gpus_per_node, self.ranks - machine * self.job.gpus_per_node)

    def stage_of_rank(self, rank: int) -> int:
        """Return the pipeline stage, at node level, that a rank works on."""
        return int(self.column[self.of_rank(rank)])

    def group_of(self, family: UnitFamily) -> IntArray:
        """Return the number of the group whose ranks each machine has, shape [machines]."""
        parts = self.job.nodes_of_tp
        if family == "tp":
            # their node ranks follow each other
            return np.arange(len(self), dtype=np.int32) // np.int32(parts)
        return self.row if family == "pp" else self.column * parts + self.row % parts

    def unit_of(self, family: UnitFamily) -> IntArray:
        """Return the number of the group that each machine is evicted with, shape [machines].

        Where a TP group takes several machines these go together, as none of them works without the others: a PP group
        has all parts of the stages of a replica, a DP group all parts of a stage.
        """
        if family == "tp":
            return self.group_of("tp")
        return self.row // np.int32(self.job.nodes_of_tp) if family == "pp" else self.column

    def outlier_counts(self, ranks: Sequence[int]) -> IntArray:
        """Return how many of some ranks run on each machine, shape [machines]."""
        machines = np.array([self.of_rank(rank) for rank in ranks], dtype=np.int64)
        return np.bincount(machines, minlength=len(self)).astype(np.int32)

    def name(self, machine: int) -> str:
        """Return the name of a machine: its node, or ``machine12`` where that is unknown."""
        return self.names[machine] if self.names else f"machine{machine}"

    def spelled(self, which: Iterable[int]) -> str:
        """Return names of machines as a hostlist; one by one where a name is none that a hostlist can carry."""
        return spell_names(self.name(machine) for machine in which)

    def machine(self, node_rank: int) -> JobMachine:
        """Return a machine with its place in the grid."""
        node = self.names[node_rank] if self.names else None
        row, part = divmod(int(self.row[node_rank]), self.job.nodes_of_tp)
        return JobMachine(node_rank, node, row, int(self.column[node_rank]), part)
