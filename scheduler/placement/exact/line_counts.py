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
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.placement.cpsat import Answer, Slice, solve
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.skeletons import covers, whole_rows
from topology.cluster import IntArray

if TYPE_CHECKING:
    from scheduler.placement import cp_model

Kind = tuple[Any, ...]
"""The kinds of the domains in a domain, in order; of a closest one its room."""

_COVERS = 200  # Sets of domains for cross lines among which whole numbers are looked for, in tenths of a second


@dataclass(frozen=True)
class Counts:
    """What the lines have in domains that are alike, or in one of them: as variables, or as numbers."""

    domains: Sequence[int]
    touched: Sequence[cp_model.LinearExprT]  # by line, domains
    cells: Sequence[cp_model.LinearExprT]  # by line

    def values(self, solver: cp_model.CpSolver) -> Counts:
        """Return the numbers of a solution."""
        return Counts(self.domains, [*map(solver.value, self.touched)], [*map(solver.value, self.cells)])


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
        counted: list[list[Counts]] = []  # by level
        # cross lines tell the domains apart that limit them
        least = max((level + 1 for level, most in enumerate(self.cross) if most < self.lines), default=0)
        for apart in range(least, len(self.paths) + 1):
            for kept in (counted, []) if counted else ([],):
                model, counts = self._model(apart, kept)
                answer, solver = solve(model, limit)
                if answer == "yes":
                    break
            else:
                return answer, None
            counted = [[alike.values(solver) for alike in of_level] for of_level in counts]
        held = np.zeros((len(self.room), self.lines), dtype=np.int32)
        for alike in counted[-1]:
            held[self.paths[-1] == alike.domains[0]] = np.array(alike.cells)
        return "yes", self._laid(held, limit)

    @cached_property
    def _inside(self) -> list[dict[int, list[int]]]:
        """By level but the closest, of each domain those of the next level in it."""
        inside: list[dict[int, list[int]]] = []
        for level in range(len(self.paths) - 1):
            of_level = defaultdict[int, list[int]](list)
            for domain, closer in np.unique(self.paths[level : level + 2], axis=1).T.tolist():
                of_level[domain].append(closer)
            inside.append(of_level)
        return inside

    @cached_property
    def _kinds(self) -> list[dict[int, Kind]]:
        """By level, of each domain."""
        kinds: list[dict[int, Kind]] = [
            {int(domain): (int(room),) for domain, room in zip(self.paths[-1], self.room, strict=True)}
        ]
        for inside in reversed(self._inside):
            kinds.insert(0, {d: tuple(sorted(kinds[0][closer] for closer in of_d)) for d, of_d in inside.items()})
        return kinds

    def _model(self, apart: int, kept: Sequence[Sequence[Counts]]) -> tuple[cp_model.CpModel, list[list[Counts]]]:
        """Return a model in which the domains of so many levels are told apart though they are alike, and its variables
        by level.

        :param kept: by level, numbers that hold for domains together; none = any may.
        """
        from scheduler.placement import cp_model

        model, counts = cp_model.CpModel(), [list[Counts]() for _ in self.paths]

        def add(level: int, domains: Iterable[int], around: Counts | None) -> Sequence[cp_model.LinearExprT]:
            """Add the counts of some domains of a level, all those in the domains ``around``; return cells, by line."""
            alike, of_alike = defaultdict[Kind, list[int]](list), []
            for domain in domains:
                alike[(domain,) if level < apart else self._kinds[level][domain]].append(domain)
            for some in alike.values():
                touched = [model.new_int_var(0, len(some), "") for _ in range(self.lines)]
                if around is not None:
                    for inside, outside in zip(touched, around.touched, strict=True):
                        model.add(inside <= len(some) // len(around.domains) * outside)
                cells: Sequence[cp_model.LinearExprT]
                if level == len(self.paths) - 1:
                    (room,) = self._kinds[level][some[0]]
                    cells = [model.new_int_var(0, min(self.length, room * len(some)), "") for _ in touched]
                    for of_line, times in zip(cells, touched, strict=True):
                        model.add(of_line <= room * times)
                    model.add(sum(cells) <= room * len(some))
                else:
                    closer = [domain for outside in some for domain in self._inside[level][outside]]
                    cells = add(level + 1, closer, Counts(some, touched, []))
                counts[level].append(Counts(some, touched, cells))
                of_alike.append(cells)
            return [sum(of_line) for of_line in zip(*of_alike, strict=True)]

        for of_line in add(0, np.unique(self.paths[0]).tolist(), None):
            model.add(of_line == self.length)
        for of_level, most in zip(counts, self.touches, strict=True):
            for touched in zip(*(alike.touched for alike in of_level), strict=True):
                model.add(sum(touched) <= most)
        for of_level, before in zip(counts, kept, strict=bool(kept)):
            number_of = {domain: number for number, together in enumerate(before) for domain in together.domains}
            parts: list[list[Counts]] = [[] for _ in before]
            for alike in of_level:
                parts[number_of[alike.domains[0]]].append(alike)
            for together, inside in zip(before, parts, strict=True):
                for line in range(self.lines):
                    model.add(sum(alike.touched[line] for alike in inside) == together.touched[line])
                    model.add(sum(alike.cells[line] for alike in inside) == together.cells[line])
        for of_level, most in zip(counts, self.cross, strict=True):
            if most < self.lines:
                # a domain is touched by as many cross lines as a line has cells there, at least
                heights = []
                for alike in of_level:
                    heights.append(model.new_int_var(0, self.length, ""))
                    for cells in alike.cells:
                        model.add(cells <= heights[-1])
                model.add(sum(heights) <= most * self.length)
        return model, counts

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
        domains, domain_of = np.unique(self.paths[level], return_inverse=True)
        cells = np.zeros((len(domains), self.lines), dtype=np.int32)
        np.add.at(cells, domain_of, held)
        grid, serves = GridProblem(self.length, self.lines, tuple(cells.sum(axis=1).tolist())), cells > 0
        laid = whole_rows(grid, serves, covers(serves, self.cross[level], _COVERS), limit, held=cells)
        if laid is None:
            return None
        places = np.empty_like(laid)
        for domain, line in np.ndindex(cells.shape):
            inside = np.flatnonzero(domain_of == domain)
            places[laid[:, line] == domain, line] = np.repeat(self.paths[-1][inside], held[inside, line])
        return places
