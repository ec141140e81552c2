"""The abstract problem: a grid of cells, and domains that hold so many of them.

S is the largest number of domains a column touches (DP spread), R the largest number a row touches (PP spread).  A pair
(S, R) is *feasible* when some assignment of cells to domains keeps both; feasibility is monotone in S and in R.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduler.objective import spread
from scheduler.placement.types import Pair
from topology.cluster import IntArray


@dataclass(frozen=True)
class GridProblem:
    """Where a grid of cells may go.

    :param rows: D, number of PP groups.
    :param columns: P, number of pipeline stages.
    :param capacities: free cells of each domain, in descending order, none of them zero.
    """

    rows: int
    columns: int
    capacities: tuple[int, ...]

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
        """(S, R) of an assignment, as the evaluator counts spread.

        :param cells: shape [rows, columns], the domain of each cell.
        """
        position = np.indices(cells.shape, dtype=np.int32)
        return spread(position[1], cells), spread(position[0], cells)

    def holds(self, cells: IntArray) -> bool:
        """Whether an assignment has the right shape and fits the capacities."""
        if cells.shape != (self.rows, self.columns) or cells.min() < 0 or cells.max() >= len(self.capacities):
            return False
        used = np.bincount(cells.ravel(), minlength=len(self.capacities))
        return bool((used <= np.asarray(self.capacities)).all())
