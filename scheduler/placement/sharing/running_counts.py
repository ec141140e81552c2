"""A running job in the program that shares nodes out, as numbers of nodes: by the cases of S and R that it may have.

Cells that may be exchanged are not told apart.  Where whole rows (or columns) move alone, which cells move follows from
the numbers, so nothing is lost; elsewhere this is less than any placement satisfies, and good for bounds alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.sharing.running_part import RunningShare, any_moved
from scheduler.placement.sharing.share_part import SharePart
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


class CountedPart:
    """The variables of one running job."""

    def __init__(self, cp: cp_model.CpModel, share: RunningShare, sizes: IntArray) -> None:
        self.share = share
        demand = replace(share.demand, options=tuple(share.demand.options[i] for i in share.options))
        part = SharePart(cp, demand, sizes, optional=False)
        part.add_within(share.costs, share.most)
        self.takes: dict[int, cp_model.LinearExprT] = dict(part.takes)
        moved: list[cp_model.LinearExprT] = []
        for c, has in sorted(Counter(share.homes.tolist()).items()):
            left = cp.new_int_var(0, has, "")
            cp.add(left >= has - self.takes.get(c, 0))
            moved.append(left)
        self.moved: cp_model.LinearExprT = sum(moved)
        self.any_moved = any_moved(cp, share, moved)

    def targets(self, solver: cp_model.CpSolver) -> IntArray:
        """Return the class of each cell in a solution, shape [cells]; where whole rows or columns move alone."""
        demand = self.share.demand
        grid = self.share.homes.reshape(demand.rows, demand.columns)
        by_rows = self.share.moves_by == "rows"
        homes = (grid[:, 0] if by_rows else grid[0, :]).tolist()
        width = demand.columns if by_rows else demand.rows
        left = Counter({c: int(solver.value(takes)) // width for c, takes in self.takes.items()})
        stay = []
        for home in homes:
            stay.append(left[home] > 0)
            left[home] -= stay[-1]
        coming = left.elements()
        lines = np.array([c if stays else next(coming) for c, stays in zip(homes, stay, strict=True)], dtype=np.int32)
        spread = lines[:, None] if by_rows else lines[None, :]
        return np.broadcast_to(spread, grid.shape).reshape(-1).copy()
