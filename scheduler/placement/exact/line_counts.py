"""How many cells of each line lie in domains of each kind: what decides a closer level where cross lines are free.

The lines are the columns of a grid, or its rows.  Where a pair lets every cross line touch as many racks as it has
cells, only the lines are left to count: each touches so many racks, in so many pods, and has all its cells there.  A
model says for each line how many domains of each kind it touches, from the broadest level to the closest; domains alike
are one kind, so that nothing is asked twice.  No solution refutes the pair; a solution is told apart by domains, and
its lines are laid side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.placement.cpsat import Answer, Slice, solve
from scheduler.placement.exact.skeletons import covers
from topology.cluster import IntArray

if TYPE_CHECKING:
    from scheduler.placement import cp_model

Kind = tuple[Any, ...]
"""The kinds of the domains in a domain, in order; of a closest one its room."""

_COVERS = 200  # Sets of domains for cross lines among which whole numbers are looked for, in tenths of a second


@dataclass(frozen=True)
class Counts:
    """What the lines have in domains that are alike, or in one of them."""

    domains: Sequence[int]
    touched: list[cp_model.IntVar]  # by line, domains
    cells: list[cp_model.LinearExprT]  # by line


@dataclass
class CountModel:
    """A model of all lines."""

    model: cp_model.CpModel
    apart: int  # levels whose domains are told apart though they are alike
    counts: list[list[Counts]]  # by level


@dataclass(frozen=True)
class LineCounts:
    """Lines of equal length, and nested domains where there is room for their cells."""

    length: int
    lines: int
    paths: IntArray  # shape [levels, closest domains], what each of these lies in, from the broadest level to itself
    room: IntArray  # shape [closest domains], cells that each takes
    touches: Sequence[int]  # by level, domains that a line may touch
    cross: Sequence[int]  # by level, domains that a cross line may touch

    def lay(self, limit: Slice) -> tuple[Answer, IntArray | None]:
        """Return whether the lines can be counted out, and the closest domain of each cell, shape [length, lines].

        A "no" is proved by a complete search.  A "yes" may come without cells: counts do not see whether domains alike
        can be told apart, nor all that cross lines need which may touch fewer domains than they have cells.
        """
        counted: tuple[CountModel, cp_model.CpSolver] | None = None
        # cross lines tell the domains apart that limit them
        least = max((level + 1 for level, most in enumerate(self.cross) if most < self.lines), default=0)
        for apart in range(least, len(self.paths) + 1):
            for before in (counted, None) if counted else (None,):
                made = self._model(apart, before)
                answer, solver = solve(made.model, limit)
                if answer == "yes":
                    break
            else:
                return answer, None
            counted = made, solver
        held = np.zeros((len(self.room), self.lines), dtype=np.int32)
        for counts in made.counts[-1]:
            held[self.paths[-1] == counts.domains[0]] = [solver.value(cells) for cells in counts.cells]
        return "yes", self._laid(held, limit)

    @cached_property
    def _kinds(self) -> list[dict[int, Kind]]:
        """By level, of each domain."""
        kinds: list[dict[int, Kind]] = [
            {int(domain): (int(room),) for domain, room in zip(self.paths[-1], self.room, strict=True)}
        ]
        for level in reversed(range(len(self.paths) - 1)):
            inside = defaultdict(list)
            for domain, closer in np.unique(self.paths[level : level + 2], axis=1).T.tolist():
                inside[domain].append(kinds[0][closer])
            kinds.insert(0, {domain: tuple(sorted(of_domain)) for domain, of_domain in inside.items()})
        return kinds

    def _model(self, apart: int, before: tuple[CountModel, cp_model.CpSolver] | None) -> CountModel:
        """Return a model in which the domains of so many levels are told apart.

        :param before: another one with a solution, which is to be kept.
        """
        from scheduler.placement import cp_model

        made = CountModel(cp_model.CpModel(), apart, [[] for _ in self.paths])
        cells = self._add(made, 0, np.unique(self.paths[0]).tolist(), None)
        for of_line in cells:
            made.model.add(of_line == self.length)
        for counts, most in zip(made.counts, self.touches, strict=True):
            for line in range(self.lines):
                made.model.add(sum(of_alike.touched[line] for of_alike in counts) <= most)
        if before is not None:
            for counts, kept in zip(made.counts, before[0].counts, strict=True):
                for together in kept:
                    inside = [of_alike for of_alike in counts if {*of_alike.domains} <= {*together.domains}]
                    for part, line in product(("touched", "cells"), range(self.lines)):
                        total = sum(getattr(of_alike, part)[line] for of_alike in inside)
                        made.model.add(total == before[1].value(getattr(together, part)[line]))
        for level, most in enumerate(self.cross):
            if most < self.lines:
                # a domain is touched by as many cross lines as a line has cells there, at least
                heights = []
                for together in made.counts[level]:
                    heights.append(made.model.new_int_var(0, self.length, ""))
                    for cells_of_line in together.cells:
                        made.model.add(cells_of_line <= heights[-1])
                made.model.add(sum(heights) <= most * self.length)
        return made

    def _add(
        self, made: CountModel, level: int, domains: Iterable[int], around: Counts | None
    ) -> list[cp_model.LinearExprT]:
        """Add the counts of some domains of a level, all those in the domains ``around``; return cells, by line."""
        model, alike = made.model, defaultdict[Kind, list[int]](list)
        total: list[cp_model.LinearExprT] = [0] * self.lines
        for domain in domains:
            alike[(domain,) if level < made.apart else self._kinds[level][domain]].append(domain)
        for some in alike.values():
            counts = Counts(some, [model.new_int_var(0, len(some), "") for _ in range(self.lines)], [])
            if around is not None:
                for inside, outside in zip(counts.touched, around.touched, strict=True):
                    model.add(inside <= len(some) // len(around.domains) * outside)
            if level == len(self.paths) - 1:
                (room,) = self._kinds[level][some[0]]
                for touched in counts.touched:
                    counts.cells.append(model.new_int_var(0, min(self.length, room * len(some)), ""))
                    model.add(counts.cells[-1] <= room * touched)
                model.add(sum(counts.cells) <= room * len(some))
            else:
                closer = np.unique(self.paths[level + 1, np.isin(self.paths[level], some)]).tolist()
                counts.cells.extend(self._add(made, level + 1, closer, counts))
            made.counts[level].append(counts)
            total = [before + cells for before, cells in zip(total, counts.cells, strict=True)]
        return total

    def _laid(self, held: IntArray, limit: Slice) -> IntArray | None:
        """Lay the lines side by side; ``held`` has shape [closest domains, lines]: cells that they have there."""
        order = np.lexsort(self.paths[::-1])
        closest = np.stack([np.repeat(order, of_line[order]) for of_line in held.T], axis=1)
        for level, most in enumerate(self.cross):
            domains = np.sort(self.paths[level][closest], axis=1)
            if 1 + np.count_nonzero(np.diff(domains, axis=1), axis=1).max() > most:
                return self._crossed(held, level, limit)
        places: IntArray = self.paths[-1][closest]
        return places

    def _crossed(self, held: IntArray, level: int, limit: Slice) -> IntArray | None:
        """Lay the lines so that cross lines touch few domains of one level: each follows a set of so many that serves
        all lines.
        """
        from scheduler.placement import cp_model

        domains, domain_of = np.unique(self.paths[level], return_inverse=True)
        cells = np.zeros((len(domains), self.lines), dtype=np.int32)
        np.add.at(cells, domain_of, held)
        model, sets = cp_model.CpModel(), covers(cells > 0, self.cross[level], _COVERS)
        followed = [model.new_int_var(0, self.length, "") for _ in sets]
        model.add(sum(followed) == self.length)
        # of each line in each domain the cells of each set, in the order of the sets
        on: dict[tuple[int, int], list[cp_model.IntVar | int]] = defaultdict(lambda: [0] * len(sets))
        for number, (cover, times) in enumerate(zip(sets, followed, strict=True)):
            for line in range(self.lines):
                options = np.flatnonzero(cover & (cells[:, line] > 0)).tolist()
                for domain in options:
                    on[domain, line][number] = model.new_int_var(0, self.length, "")
                model.add(sum(on[domain, line][number] for domain in options) == times)
        for (domain, line), of_sets in on.items():
            model.add(sum(of_sets) == int(cells[domain, line]))
        answer, solver = solve(model, limit)
        if answer != "yes":
            return None
        laid = np.empty((self.length, self.lines), dtype=np.int32)
        for line in range(self.lines):
            here = np.flatnonzero(cells[:, line]).tolist()
            in_order = [[solver.value(of_set) for of_set in on[domain, line]] for domain in here]
            domain_of_cell = np.repeat(np.tile(here, len(sets)), np.array(in_order).T.ravel())
            for domain in here:
                inside = np.flatnonzero(domain_of == domain)
                laid[domain_of_cell == domain, line] = np.repeat(self.paths[-1][inside], held[inside, line])
        return laid
