"""The program that decides each cell of a job: to which class of nodes it goes, whatever nests in what.

A *class* is nodes that are alike in all that counts; of a hierarchy, in the tree or beside it, the program knows which
of its domains each class lies in, and nothing of how hierarchies lie in each other.  So one job by itself, several jobs
at once, running jobs that make room, a repair, and a job whose stages share nodes are all asked in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.placement.node_classes import TouchedDomains
from topology.cluster import BoolArray, IntArray

if TYPE_CHECKING:
    from scheduler.placement import cp_model


MOST_CHOICES = 4_000  # Cells times classes of all jobs up to which each cell is decided: as many are in seconds


class GroupCells(NamedTuple):
    """What the cells of some group are: units that may go somewhere, and where those are that stay."""

    units: tuple[int, ...]
    still: tuple[int, ...]  # domains that cells touch which stay where they are


class CellChoice:
    """The variables of one job: for each *unit*, cells that go to one class together, which class.

    :param admits: shape [classes], where units may go, or [units, classes], where each may; ``sizes``: shape [classes],
        nodes that each has for them.
    :param units: shape [cells], the unit of each cell, row by row; -1 = the cell stays where it is.
    :param homes: shape [cells], the class of each cell that stays; ``None`` = none does.
    :param present: whether the job is there at all; ``None`` = it is.
    """

    def __init__(
        self,
        cp: cp_model.CpModel,
        admits: BoolArray,
        sizes: IntArray,
        units: IntArray,
        *,
        homes: IntArray | None = None,
        present: cp_model.IntVar | None = None,
    ) -> None:
        from scheduler.placement import cp_model

        self._sum = cp_model.LinearExpr.sum
        self.cp, self.units, self._homes, self._sizes = cp, units, homes, sizes
        self._present = 1 if present is None else present
        self._admitted = np.flatnonzero(admits if admits.ndim == 1 else admits.any(axis=0))
        self.goes: dict[int, dict[int, cp_model.IntVar]] = {}
        self.touches: list[cp_model.IntVar] = []  # whether a group touches a domain, as far as units decide that
        taken: dict[int, list[cp_model.LinearExprT]] = {}
        names, counts = np.unique(units[units >= 0], return_counts=True)
        self._cells = dict(zip(names.tolist(), counts.tolist(), strict=True))
        for name, size in self._cells.items():
            open_to = self._admitted if admits.ndim == 1 else np.flatnonzero(admits[name])
            goes = self.goes[name] = {c: cp.new_bool_var("") for c in open_to.tolist() if size <= sizes[c]}
            cp.add(self._sum(list(goes.values())) == self._present)
            for c, here in goes.items():
                taken.setdefault(c, []).append(size * here)
        self.takes: dict[int, cp_model.LinearExprT] = {c: self._sum(of_class) for c, of_class in taken.items()}

    def members(self, term: TouchedDomains) -> list[GroupCells]:
        """Return the cells of each group, groups that are the same in units and domains once."""
        unit_of, group_of = self.units[term.groups.cell], term.groups.group
        moving = unit_of >= 0
        units: dict[int, list[int]] = {}
        for group, unit in np.unique(np.stack([group_of[moving], unit_of[moving]]), axis=1).T.tolist():
            units.setdefault(group, []).append(unit)
        still: dict[int, list[int]] = {}
        if self._homes is not None:
            touched = term.domain_of[self._homes[term.groups.cell[~moving]]]
            for group, domain in np.unique(np.stack([group_of[~moving], touched]), axis=1).T.tolist():
                still.setdefault(group, []).append(domain)
        groups = sorted({*units, *still})
        return list(
            dict.fromkeys(GroupCells(tuple(units.get(group, ())), tuple(still.get(group, ()))) for group in groups)
        )

    def hold(self, term: TouchedDomains) -> None:
        """Add that no group touches two domains."""
        for units, still in self.members(term):
            if still:
                for unit in units:
                    # the others stay, so the unit goes to them
                    self.cp.add(self._sum(self._inside(term, unit).get(still[0], [])) == self._present)
                continue
            places = [self._inside(term, unit) for unit in units]
            for place, other in pairwise(places):
                for domain in {**place, **other}:
                    self.cp.add(self._sum(place.get(domain, [])) == self._sum(other.get(domain, [])))

    def spread(self, term: TouchedDomains, members: Sequence[GroupCells] | None = None) -> cp_model.LinearExprT:
        """Return at least the most domains that a group touches; ``members``: its cells, where they are known."""
        cp, members = self.cp, self.members(term) if members is None else members
        # of a group with one unit alone, or none, no more is decided than that it touches a domain, or what it touches
        least = max(1, *(len(still) for _, still in members))
        several = [group for group in members if len(group.units) + len(group.still) > 1 and group.units]
        if not several:
            return least
        room = np.bincount(term.domain_of[self._admitted], weights=self._sizes[self._admitted]).astype(int).tolist()
        most = max(least, *(min(sum(map(bool, room)), len(units)) + len(still) for units, still in several))
        spread = cp.new_int_var(least, most, "")
        for units, still in several:
            touched: dict[int, cp_model.IntVar] = {}
            for unit in units:
                for domain, here in self._inside(term, unit).items():
                    if domain not in still:
                        if domain not in touched:
                            touched[domain] = cp.new_bool_var("")
                        cp.add(self._sum(here) <= touched[domain])
            cp.add(len(still) + self._sum(list(touched.values())) <= spread)
            cells = sum(self._cells[unit] for unit in units)
            if not still:
                # implied, and seen sooner so: the domains touched have room for all of the group
                fits = [min(cells, room[domain]) * touch for domain, touch in touched.items()]
                cp.add(self._sum(fits) >= cells * self._present)
            self.touches += touched.values()
        return spread

    def _inside(self, term: TouchedDomains, unit: int) -> Mapping[int, list[cp_model.IntVar]]:
        """Return for each domain the variables that put a unit into it."""
        inside: dict[int, list[cp_model.IntVar]] = {}
        for c, here in self.goes[unit].items():
            inside.setdefault(int(term.domain_of[c]), []).append(here)
        return inside

    def order(self, rows: int) -> None:
        """Add that rows, and columns, are in order of the classes of their first cells, where they are alike and every
        cell is a unit: of placements that differ by exchanging some, one is enough.
        """
        cells = np.arange(len(self.units)).reshape(rows, -1)
        number = {
            cell: sum(c * on for c, on in self.goes[cell].items())
            for cell in (*cells[:, 0].tolist(), *cells[0].tolist())
        }
        for line in (cells[:, 0].tolist(), cells[0].tolist()):
            for cell, following in pairwise(line):
                self.cp.add(number[cell] <= number[following])

    def classes(self, solver: cp_model.CpSolver) -> IntArray:
        """Return the class of each cell in a solution, shape [cells]."""
        place = {
            name: next(c for c, on in goes.items() if solver.boolean_value(on)) for name, goes in self.goes.items()
        }
        classes = np.zeros(len(self.units), dtype=np.int32) if self._homes is None else self._homes.copy()
        for cell in np.flatnonzero(self.units >= 0).tolist():
            classes[cell] = place[int(self.units[cell])]
        return classes
