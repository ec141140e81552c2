"""One job in a program that shares classes of nodes out, in one of its ways: on nodes of one size of those it may have.

A job that says the size of its nodes has one way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduler.placement.sharing.node_classes import NodeDemand
from scheduler.placement.sharing.share_part import SharePart, top
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


class JobWays:
    """The variables of one job; no class is of use to two of its ways, as nodes of a class have one size."""

    def __init__(self, cp: cp_model.CpModel, demands: Sequence[NodeDemand], sizes: IntArray, *, optional: bool) -> None:
        self.cp = cp
        self.ways = [SharePart(cp, one, sizes, optional=optional or len(demands) > 1) for one in demands]
        self.takes = {c: taken for way in self.ways for c, taken in way.takes.items()}
        presents = [way.present for way in self.ways]
        if optional:
            self.present = cp.new_bool_var("")
            cp.add(sum(presents) == self.present)
        elif len(presents) > 1:
            cp.add_exactly_one(presents)

    def together(self, costs: Sequence[cp_model.IntVar]) -> cp_model.IntVar:
        """Return the cost of the job, given that of each way, 0 where the job has another."""
        if len(costs) == 1:
            return costs[0]
        cost = self.cp.new_int_var(0, max(map(top, costs)), "")
        self.cp.add(cost == sum(costs))
        return cost

    def chosen(self, solver: cp_model.CpSolver) -> SharePart:
        """Return the way that the job has in a solution."""
        if len(self.ways) == 1:
            return self.ways[0]
        return next(way for way in self.ways if solver.boolean_value(way.present))

    def exclude(self, share: IntArray, *, cost: cp_model.IntVar, least: int) -> None:
        """Add that within this share, shape [classes], or less of it no placement costs less than that."""
        beyond = []
        for c, taken in self.takes.items():
            if share[c] < top(taken):
                more = self.cp.new_bool_var("")
                self.cp.add(taken > int(share[c])).only_enforce_if(more)
                beyond.append(more)
        dear = self.cp.new_bool_var("")
        self.cp.add(cost >= least).only_enforce_if(dear)
        self.cp.add_bool_or([*beyond, dear])
