"""The class of nodes of each cell of a job, chosen cell by cell: all that a placement is worth follows from it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.sharing.node_classes import NodeDemand, TouchedDomains
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

MOST_CHOICES = 4_000  # Cells times classes of all jobs up to which each cell is decided: as many are in seconds

CellWays = frozenset[tuple[int, int]]  # Ways of jobs, each the number of the job and of the way


class CellChoice:
    """The variables of one job: for each *unit*, cells that go to one class together, which class.

    :param sizes: shape [classes], nodes of each; ``units``: shape [cells], the unit of each cell, row by row.
    :param present: whether the job is there at all; ``None`` = it is.
    """

    def __init__(
        self,
        cp: cp_model.CpModel,
        demand: NodeDemand,
        sizes: IntArray,
        units: IntArray,
        *,
        present: cp_model.IntVar | None = None,
    ) -> None:
        self.cp, self.demand, self.units = cp, demand, units
        self.goes: dict[int, dict[int, cp_model.IntVar]] = {}
        taken: dict[int, list[cp_model.LinearExprT]] = {}
        names, counts = np.unique(units, return_counts=True)
        for name, size in zip(names.tolist(), counts.tolist(), strict=True):
            places = [c for c in np.flatnonzero(demand.admits).tolist() if size <= sizes[c]]
            goes = self.goes[name] = {c: cp.new_bool_var("") for c in places}
            cp.add(sum(goes.values()) == (1 if present is None else present))
            for c, here in goes.items():
                taken.setdefault(c, []).append(size * here)
        self.takes: dict[int, cp_model.LinearExprT] = {c: sum(of_class) for c, of_class in taken.items()}

    def members(self, term: TouchedDomains) -> set[frozenset[int]]:
        """Return the units of each group."""
        members: dict[int, set[int]] = {}
        for group, unit in zip(term.groups.group.tolist(), self.units[term.groups.cell].tolist(), strict=True):
            members.setdefault(group, set()).add(unit)
        return {frozenset(group) for group in members.values()}

    def spread(self, term: TouchedDomains, members: Collection[frozenset[int]], *, hard: bool) -> cp_model.LinearExprT:
        """Return at least the largest number of domains that a group touches, given the units of each.

        :param hard: whether that is 1, by a constraint.
        """
        cp = self.cp
        several = [group for group in members if len(group) > 1]
        if not several:
            return 1
        domains = np.unique(term.domain_of[self.demand.admits]).tolist()
        spread = cp.new_int_var(1, 1 if hard else max(1, len(domains)), "")
        for group in sorted(map(sorted, several)):
            touches = {k: cp.new_bool_var("") for k in domains}
            for unit in group:
                for k, touch in touches.items():
                    here = [on for c, on in self.goes[unit].items() if term.domain_of[c] == k]
                    cp.add(sum(here) <= touch)
            cp.add(sum(touches.values()) <= spread)
        return spread

    def order(self) -> None:
        """Add that rows, and columns, are in order of the classes of their first cells, where they are alike and every
        cell is a unit: of placements that differ by exchanging some, one is enough.
        """
        cells = np.arange(self.demand.job.grid.cells).reshape(self.demand.job.grid.rows, -1)
        number = {
            cell: sum(c * on for c, on in self.goes[cell].items())
            for cell in (*cells[:, 0].tolist(), *cells[0].tolist())
        }
        for line in (cells[:, 0].tolist(), cells[0].tolist()):
            for one, following in pairwise(line):
                self.cp.add(number[one] <= number[following])

    def classes(self, solver: cp_model.CpSolver) -> IntArray:
        """Return the class of each cell in a solution, shape [cells]."""
        place = {
            name: next(c for c, on in goes.items() if solver.boolean_value(on)) for name, goes in self.goes.items()
        }
        return np.array([place[unit] for unit in self.units.tolist()], dtype=np.int32)


def ways_by_cell(demands: Sequence[Sequence[NodeDemand]]) -> CellWays:
    """Return the ways of some jobs of which a program may decide each cell: those of which blocks of nodes and cases of
    S and R do not say all, constraints at second hierarchies first, as long as all together are few.
    """
    wanted = [
        (not demand.beside, demand.job.grid.cells * int(demand.admits.sum()), j, w)
        for j, ways in enumerate(demands)
        for w, demand in enumerate(ways)
        if demand.beside or demand.job.soft or not demand.aligned
    ]
    chosen, left = set(), MOST_CHOICES
    for _, choices, j, w in sorted(wanted):
        if choices <= left:
            chosen.add((j, w))
            left -= choices
    return frozenset(chosen)
