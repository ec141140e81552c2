"""The abstract problem, and how a job on a cluster becomes one: a grid of cells, and domains that hold so many of them.

S is the largest number of domains a column touches (DP spread), R the largest number a row touches (PP spread).  A pair
(S, R) is *feasible* when some assignment of cells to domains keeps both; feasibility is monotone in S and in R.

With hard constraints the cells that must stay together are *blocks* (:class:`scheduler.placement.admission.Blocks`):
the grid is one of blocks, a domain takes whole blocks, and S and R are the same as those of the cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ground.quantities import one_of
from scheduler.job import Job
from scheduler.objective import spread
from scheduler.placement.admission import Blocks, admissible, blocks_at, capacity_by_level, shortage
from scheduler.placement.types import Pair
from topology.cluster import BoolArray, Cluster, IntArray, Level, count_nodes
from topology.flags import HEALTHY


@dataclass(frozen=True)
class GridProblem:
    """Where a grid of D rows (PP groups) and P columns (stages) may go."""

    rows: int
    columns: int
    capacities: tuple[int, ...]  # free cells of each domain, in descending order, none of them zero

    @property
    def cells(self) -> int:
        """Cells to place."""
        return self.rows * self.columns

    @property
    def largest_pair(self) -> Pair:
        """A pair that no placement exceeds."""
        return min(len(self.capacities), self.rows), min(len(self.capacities), self.columns)

    @cached_property
    def transposed(self) -> GridProblem:
        """The same problem with rows and columns, and hence S and R, exchanged."""
        return GridProblem(self.columns, self.rows, self.capacities)

    def pair_of(self, cells: IntArray) -> Pair:
        """Return (S, R) of an assignment, shape [rows, columns], as the evaluator counts spread."""
        position = np.indices(cells.shape, dtype=np.int32)
        return spread(position[1], cells), spread(position[0], cells)

    def fits(self, cells: IntArray) -> bool:
        """Return whether an assignment has the right shape and keeps to the capacities."""
        if cells.shape != (self.rows, self.columns) or cells.min() < 0 or cells.max() >= len(self.capacities):
            return False
        used = np.bincount(cells.ravel(), minlength=len(self.capacities))
        return bool((used <= np.asarray(self.capacities)).all())


@dataclass(frozen=True)
class GridReduction:
    """One job on one cluster, with nodes up to some slowdown admitted (1.0 = none that is flagged), reduced to a grid
    problem; and the way back.
    """

    cluster: Cluster
    job: Job
    slowest: float

    @cached_property
    def level(self) -> Level:
        """The level at which spread counts."""
        return self.cluster.level(self.job.level)

    @cached_property
    def admitted(self) -> BoolArray:
        """Shape [nodes]."""
        return admissible(self.cluster, self.job, slowest=self.slowest)

    @cached_property
    def healthy(self) -> IntArray:
        """Shape [domains]: admitted nodes without a flag."""
        return count_nodes(self.level, self.admitted & (self.cluster.slowdown <= HEALTHY))

    @cached_property
    def blocks(self) -> Blocks:
        """What stays together in a domain of the level."""
        return blocks_at(self.cluster, self.job, self.cluster.level_index(self.level.name))

    @cached_property
    def room(self) -> IntArray:
        """Shape [domains]: blocks that each domain can take."""
        if not self.job.holds_groups:
            return count_nodes(self.level, self.admitted)
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
        return GridProblem(self.blocks.rows, self.blocks.columns, tuple(self.room[self.domains].tolist()))

    @property
    def refusal(self) -> str:
        """Why no placement exists whatever the search does; empty when the blocks can be counted out."""
        too_few, holds = self.problem.cells > int(self.room.sum()), self.job.holds_on(self.cluster)
        if not self.admitted.any() or (too_few and not holds):
            return shortage(self.cluster, self.job) or (
                f"the job needs {self.job.grid.cells} free nodes, and {int(self.admitted.sum())} are no slower than "
                f"{self.slowest:g}"
            )
        if too_few:
            held = " and ".join(f"every {hold.family} group inside one {one_of(hold.level)}" for hold in holds)
            return (
                f"holding {held} makes {self.problem.cells} blocks of {self.blocks.size} nodes, and the free nodes "
                f"have room for {int(self.room.sum())} such blocks"
            )
        return ""

    def domain_of_cell(self, part_of_block: IntArray, *, closer_first: bool = False) -> IntArray:
        """Match the parts of a placement to real domains: fewest flagged nodes first, then best fit.

        A placement with some (S, R) stays one when the cells of a domain move together to another domain with room for
        them.  Of all matchings of parts to domains the one with fewest flagged nodes is taken, then the one with least
        room in the domains touched, so that large free domains stay whole.

        :param part_of_block: shape [rows, columns] of blocks: domains as the grid problem numbers them, read as parts.
        :param closer_first: before that, fewest domains of the next closer level, if there is one.
        :returns: shape [rows, columns] of cells, the domain of each by its index at the job's level.
        """
        parts, sizes = np.unique(part_of_block, return_counts=True)
        room = self.room[self.domains].astype(np.int64)
        part, domain = np.nonzero(sizes[:, None] <= room[None, :])
        flagged = np.maximum(sizes[part] * self.blocks.size - self.healthy[self.domains].astype(np.int64)[domain], 0)
        depth = self.cluster.level_index(self.level.name) + 1
        closer_first = closer_first and depth < len(self.cluster.levels)
        if not closer_first and not flagged.any():
            # best fit: the smallest part has the tightest domain that holds it, and so on, which no matching is below
            tightest, taken = np.argsort(room, kind="stable"), 0
            domain_of = np.zeros(int(parts.max()) + 1, dtype=np.int32)
            for smallest in np.argsort(sizes, kind="stable"):
                taken += int(np.searchsorted(room[tightest[taken:]], sizes[smallest]))
                domain_of[parts[smallest]] = self.domains[tightest[taken]]
                taken += 1
            return self._cells_of(domain_of[part_of_block])
        from ortools.graph.python import linear_sum_assignment

        # one flagged node costs more than all room together, which makes the order lexicographic
        total = int(room.sum()) * self.blocks.size + 1
        cost = flagged * total + room[domain] * self.blocks.size
        if closer_first:
            # how many domains of the next closer level each part touches in each domain, at least; one of them costs
            # more than all flagged nodes together
            closer = self.cluster.levels[depth]
            free = count_nodes(closer, self.admitted)
            fewest = np.zeros((len(sizes), len(self.domains)), dtype=np.int64)
            for k, number in enumerate(self.domains):
                inside = np.sort(free[closer.parent_of == number])[::-1]
                fewest[:, k] = np.searchsorted(np.cumsum(inside), sizes * self.blocks.size) + 1
            cost += fewest[part, domain] * total * (self.problem.cells * self.blocks.size + 1)
        assignment = linear_sum_assignment.SimpleLinearSumAssignment()
        assignment.add_arcs_with_cost(part, domain, cost)
        # the solver wants as many parts as domains: those beyond the real ones are empty and may go anywhere for free
        if len(idle := np.arange(len(parts), len(room))):
            anywhere = np.tile(np.arange(len(room)), len(idle))
            assignment.add_arcs_with_cost(np.repeat(idle, len(room)), anywhere, np.zeros(len(anywhere), dtype=np.int64))
        if assignment.solve() != assignment.OPTIMAL:
            raise AssertionError("the parts came from these domains, so they fit")
        domain_of_part = np.zeros(int(parts.max()) + 1, dtype=np.int32)
        for i, p in enumerate(parts):
            domain_of_part[p] = self.domains[assignment.right_mate(i)]
        return self._cells_of(domain_of_part[part_of_block])

    def _cells_of(self, domain_of_block: IntArray) -> IntArray:
        """Return shape [rows, columns] of cells from that of blocks."""
        return domain_of_block[self.blocks.row_of[:, None], self.blocks.column_of[None, :]]

    def part_of_block(self, nodes: IntArray) -> IntArray:
        """Return a placement that keeps all holds as one of the grid problem, shape [rows, columns] of blocks.

        :param nodes: shape [rows, columns] of cells.
        """
        number = np.full(len(self.level), -1, dtype=np.int32)
        number[self.domains] = np.arange(len(self.domains), dtype=np.int32)
        # blocks lie in one domain each, so any cell says where
        rows, columns = (np.unique(of, return_index=True)[1] for of in (self.blocks.row_of, self.blocks.column_of))
        part: IntArray = number[self.level.domain_of[nodes[np.ix_(rows, columns)]]]
        return part


def counted_where_held(cluster: Cluster, job: Job) -> Job:
    """Return the job with its spread counted at the broadest level of all that it counts or holds at; without holds
    the job itself.

    Only there can it be counted out whether all holds can be kept: blocks lie in one domain at their level and broader
    ones.  At a closer level of its own the search sees no such hold.
    """
    if not (holds := job.holds_on(cluster)):
        return job
    levels = [cluster.level(job.level), *(cluster.level(hold.level) for hold in holds)]
    return job.replace(level=min(levels, key=lambda level: cluster.level_index(level.name)).name)
