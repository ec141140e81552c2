"""The frame that all quick rules share: admit, apply the rule, time it.

A rule never scores itself, and it knows nothing of a job's hard constraints (``holds``): the evaluator refuses what
breaks them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Literal, Protocol, Self, runtime_checkable

import numpy as np

from ground.errors import Infeasible, SolverTimeout
from scheduler.grid import Grid
from scheduler.job import Job
from scheduler.placement.admission import admissible, shortage
from scheduler.placement.types import Limits, Proposal
from scheduler.work_clock import clock, stopwatch
from topology.cluster import BoolArray, Cluster, IntArray, Level

RankOrder = Literal["job", "columns", "rows"]
"""Which cell gets which rank: as the job numbers its nodes; down the columns, ``r = p * D + d`` (consecutive ranks form
a DP group, Megatron's own order); along the rows, ``r = d * P + p`` (consecutive ranks form a PP group)."""


class GaveUp(Exception):
    """A rule ends without an answer, and says nothing of whether it admits one."""


@dataclass(frozen=True)
class Request:
    """What a rule may look at."""

    cluster: Cluster
    job: Job
    level: Level  # at which the job's spread counts
    admitted: BoolArray  # shape [nodes], the nodes that may be used; at least as many as the job has cells
    seed: int
    until: float = inf  # by the clock: a rule that takes long asks now and then whether there is time left

    @classmethod
    def of(cls, cluster: Cluster, job: Job, limits: Limits) -> Self:
        """Return what a rule may look at for a job; raises Infeasible when too few nodes are admitted."""
        level = cluster.level(job.level)
        if reason := shortage(cluster, job):
            raise Infeasible(reason)
        return cls(cluster, job, level, admissible(cluster, job), limits.seed)

    def check_time(self) -> None:
        """Raise SolverTimeout when time is up."""
        if clock() > self.until:
            raise SolverTimeout("time ran out", where="--time-limit", fix="give more seconds")

    @property
    def grid(self) -> Grid:
        """The job's cells."""
        return self.job.grid

    @property
    def level_index(self) -> int:
        """Depth of the job's level, 0 the broadest."""
        return self.cluster.level_index(self.level.name)

    @cached_property
    def pools(self) -> tuple[IntArray, ...]:
        """Admitted nodes of each domain of the job's level, neighbours of the closer levels side by side."""
        closer = [level.domain_of for level in self.cluster.levels[self.level_index :]]
        order = np.lexsort(tuple(reversed(closer)))
        order = order[self.admitted[order]].astype(np.int32)
        ends = np.cumsum(np.bincount(self.level.domain_of[order], minlength=len(self.level)))
        return tuple(np.split(order, ends[:-1]))


@dataclass(frozen=True, slots=True)
class Heuristic:
    """A placement algorithm made of one quick rule, which lists nodes; ranks 0, 1, 2, ... take them in order."""

    name: str
    summary: str
    rule: Callable[[Request], IntArray]
    """Returns shape [cells] or longer; raises Infeasible when it admits no placement, GaveUp when it ends without an
    answer."""
    order: RankOrder = "job"
    pod_by_pod: bool = False  # whether it looks at the nodes for each cell anew, which takes time with cells x nodes

    def in_time(self, until: float) -> Self:
        """Return it as a rule that gives up beyond ``until``, by the clock, if it takes long."""
        return replace(self, rule=lambda request: self.rule(replace(request, until=min(until, request.until))))

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Apply the rule to the admitted nodes; see :class:`scheduler.placement.types.PlacementAlgorithm`."""
        start = stopwatch()
        try:
            request = replace(Request.of(cluster, job, limits), until=clock() + limits.seconds)
            nodes = self.rule(request)[self.rank_of_cell(request.grid)].astype(np.int32)
        except Infeasible as refusal:
            return Proposal(None, infeasible=refusal.message, solve_seconds=stopwatch() - start)
        except GaveUp as why:
            return Proposal(None, notes=(f"{why}.",), solve_seconds=stopwatch() - start)
        except SolverTimeout:
            return Proposal(None, complete=False, solve_seconds=stopwatch() - start)
        return Proposal(nodes, in_order=True, solve_seconds=stopwatch() - start)

    def rank_of_cell(self, grid: Grid) -> IntArray:
        """Return the rank of each cell, shape [rows, columns]."""
        ranks = np.arange(grid.cells, dtype=np.int32)
        match self.order:
            case "job":
                return grid.node_rank
            case "columns":
                return ranks.reshape(grid.columns, grid.rows).T
            case "rows":
                return ranks.reshape(grid.rows, grid.columns)


@runtime_checkable
class AsksRules(Protocol):
    """A placement algorithm whose answer is never worse than what quick rules propose."""

    def quick_rules(self) -> Sequence[Heuristic]:
        """Return the rules."""
