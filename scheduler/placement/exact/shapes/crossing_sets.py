"""Crossing sets: which domains columns and rows touch, where every domain's numbers of columns and rows are given.

The cell where a column and a row cross lies in a domain that both touch, so each set of domains of a column meets each
set of a row.  The rows that the domains of a column touch add up to D or more; what is beyond are *holes*, rows that a
domain touches without a cell in the column.  A domain has as many holes as its rectangle has more cells than it holds.
So where little is to spare, few sets are possible, and a model says how many columns and rows have each of them.  It
knows no column and no row by name, and hence none of their orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.cpsat import Answer, Slice, solve
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.types import Pair
from scheduler.work_clock import spend
from topology.cluster import BoolArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_PAIR_SECONDS = 5e-6  # Of work to compare a set of a column with one of a row

DomainSet = tuple[int, ...]
Shape = tuple[int, int]  # (q, r), the columns and the rows that a domain touches; (0, 0) = not in use


class CrossingSets:
    """The sets that columns and rows may have.

    :param shapes: of every domain.
    :param most: sets of columns times sets of rows up to which they are compared.
    :param alone: sets up to which the columns, or the rows, are looked at without the others.
    """

    def __init__(self, problem: GridProblem, pair: Pair, shapes: Sequence[Shape], *, most: int, alone: int = 0) -> None:
        self._problem, self._shapes = problem, shapes
        self._sides = _sides(problem, pair, shapes)
        columns, rows = self._sides
        # lines on few domains have few sets
        first, second = (columns, rows) if columns.parts < rows.parts else (rows, columns)
        some = _sets(first, most)
        others = _sets(second, most // max(1, len(some)))
        # a list that was cut short says nothing
        self._alone = (first, some) if len(some) <= min(most, alone) else None
        self._columns, self._rows = (some, others) if first is columns else (others, some)
        self.few = len(some) * len(others) <= most

    def refuted_alone(self, limit: Slice) -> bool:
        """Return whether the columns without the rows, or the reverse, have no numbers: those on fewer domains."""
        if self._alone is None:
            return False
        model = _Model(self._problem, self._shapes)
        model.add(*self._alone)
        return solve(model.cp, limit)[0] == "no"

    def find(self, limit: Slice) -> tuple[Answer, BoolArray | None]:
        """Look for numbers of columns and rows, where sets are few.

        :returns: ``"no"`` where no placement of the pair has these shapes; with ``"yes"`` the columns that each domain
            serves, shape [domains, columns], for :mod:`scheduler.placement.exact.profiles.realise`.
        """
        spend(_PAIR_SECONDS * len(self._columns) * len(self._rows))
        model = _Model(self._problem, self._shapes)
        counts = model.add(self._sides[0], self._columns)
        model.cross(self._columns, counts, self._rows, model.add(self._sides[1], self._rows))
        answer, solver = solve(model.cp, limit)
        if answer != "yes":
            return answer, None
        serves = np.zeros((len(self._shapes), self._problem.columns), dtype=np.bool_)
        chosen = [some for some, count in zip(self._columns, counts, strict=True) for _ in range(solver.value(count))]
        for p, some in enumerate(chosen):
            serves[list(some), p] = True
        return "yes", serves


@dataclass(frozen=True, slots=True)
class _Side:
    """The columns, or the rows, and what is given of them."""

    lines: int  # how many there are
    parts: int  # domains that one touches at most
    cells: int  # of each
    sizes: tuple[int, ...]  # lines across that each domain touches: most cells that it has in one of these
    touched: tuple[int, ...]  # lines that each domain touches
    holes: tuple[int, ...]  # most holes of each domain


def _sides(problem: GridProblem, pair: Pair, shapes: Sequence[Shape]) -> tuple[_Side, _Side]:
    widths, heights = zip(*shapes, strict=True)
    held = [min(c, q * r) for c, (q, r) in zip(problem.capacities, shapes, strict=True)]
    spare = sum(held) - problem.cells
    holes = tuple(q * r and q * r - n + spare for (q, r), n in zip(shapes, held, strict=True))
    return (
        _Side(problem.columns, pair[0], problem.rows, heights, widths, holes),
        _Side(problem.rows, pair[1], problem.columns, widths, heights, holes),
    )


def _sets(side: _Side, most: int) -> list[DomainSet]:
    """Return the sets of domains that a line may touch; where there are more, some more than ``most``."""
    descending = sorted((k for k, size in enumerate(side.sizes) if size), key=lambda k: -side.sizes[k])
    found: list[DomainSet] = []
    waiting: list[tuple[int, DomainSet, int, int]] = [(0, (), 0, 0)]
    while waiting and len(found) <= most:
        first, some, cells, holes = waiting.pop()
        if cells >= side.cells and cells - side.cells <= holes:
            found.append(some)
        for i, k in enumerate(descending[first:], start=first):
            # even if all that follow are as large
            if cells + side.sizes[k] * (side.parts - len(some)) < side.cells or len(some) == side.parts:
                break
            waiting.append((i + 1, (*some, k), cells + side.sizes[k], holes + side.holes[k]))
    return found


class _Model:
    """How many columns, and how many rows, have each set."""

    def __init__(self, problem: GridProblem, shapes: Sequence[Shape]) -> None:
        from ortools.sat.python import cp_model

        cp = self.cp = cp_model.CpModel()
        # holes of each domain: its rectangle without the cells that it holds
        self._holes = []
        for capacity, (q, r) in zip(problem.capacities, shapes, strict=True):
            cells = cp.new_int_var(0, min(capacity, q * r), "")
            self._holes.append(q * r - cells)
        cp.add(sum(self._holes) == sum(q * r for q, r in shapes) - problem.cells)

    def add(self, side: _Side, sets: Sequence[DomainSet]) -> list[cp_model.IntVar]:
        """Add the columns, or the rows, and return how many have each set."""
        cp = self.cp
        holes: list[list[cp_model.IntVar]] = [[] for _ in side.sizes]
        lines: list[list[cp_model.IntVar]] = [[] for _ in side.sizes]
        counts = []
        for some in sets:
            count = cp.new_int_var(0, min(side.touched[k] for k in some), "")
            counts.append(count)
            for k in some:
                lines[k].append(count)
            if beyond := sum(side.sizes[k] for k in some) - side.cells:
                own = [cp.new_int_var(0, side.holes[k], "") for k in some]
                cp.add(sum(own) == beyond * count)
                for k, here in zip(some, own, strict=True):
                    cp.add(here <= min(beyond, side.sizes[k]) * count)
                    holes[k].append(here)
        cp.add(sum(counts) == side.lines)
        for k, touched in enumerate(side.touched):
            cp.add(sum(lines[k]) == touched)
            cp.add(sum(holes[k]) == self._holes[k])
        return counts

    def cross(
        self,
        columns: Sequence[DomainSet],
        column_counts: Sequence[cp_model.IntVar],
        rows: Sequence[DomainSet],
        row_counts: Sequence[cp_model.IntVar],
    ) -> None:
        """Add that every set of a column meets every set of a row."""
        used = [self._used(count) for count in row_counts]
        as_bits = [sum(1 << k for k in some) for some in rows]
        for some, count in zip(columns, column_counts, strict=True):
            bits, here = sum(1 << k for k in some), self._used(count)
            for other, across in zip(as_bits, used, strict=True):
                if not bits & other:
                    self.cp.add_bool_or(~here, ~across)

    def _used(self, count: cp_model.IntVar) -> cp_model.IntVar:
        """Return whether any line has a set."""
        used = self.cp.new_bool_var("")
        self.cp.add(count >= 1).only_enforce_if(used)
        self.cp.add(count == 0).only_enforce_if(~used)
        return used
