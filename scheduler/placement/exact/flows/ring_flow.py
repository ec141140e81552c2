"""Ring flow: interval flow on columns that have no first and no last one.

Columns are interchangeable, so they may as well lie on a ring: a domain serves an arc of it, and a row is cut at up to
R of its joints.  Arcs across the joint of the last and the first column let all columns have equally many domains,
where intervals crowd in the middle.  A row is a *tiling* of the ring, its joints; there are few enough of them to be
listed where R is small, or the columns are few.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np

from scheduler.placement.exact.flows.listed_rows import Cut, ListedRowsDives
from scheduler.placement.exact.flows.whole_rows import FlowLimit, Segment
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.exact.pairs.bounds import CoverageBound
from scheduler.placement.types import Pair
from topology.cluster import IntArray


def ring_flow(problem: GridProblem, pair: Pair, *, limit: FlowLimit, coverage: CoverageBound) -> IntArray | None:
    """Return a placement in which every domain serves an arc of a ring of columns; ``None`` when none was found.

    Nothing found proves nothing.

    :returns: shape [rows, columns], the domain of each cell.
    """
    return _RingDives(problem, pair, coverage, limit).dive()


def count_tilings(problem: GridProblem, pair: Pair) -> int:
    """Return in how many ways a row may be cut."""
    return 1 + sum(comb(problem.columns, joints) for joints in range(2, min(pair[1], problem.columns) + 1))


def count_arcs(problem: GridProblem, pair: Pair, coverage: CoverageBound) -> int:
    """Return on how many arcs domains of different capacity may lie: the size of the model."""
    allowed = coverage.widths_worth(pair)
    columns = problem.columns
    return sum(1 if width == columns else columns for c in allowed for width in np.flatnonzero(allowed[c]) if width)


def _tilings(columns: int, pp: int) -> list[Cut]:
    """Return the tilings by arcs of columns l, ..., r - 1, counted on past the last column."""
    cuts = [joints for count in range(2, pp + 1) for joints in combinations(range(columns), count)]
    return [((0, columns),), *(tuple(zip(cut, (*cut[1:], cut[0] + columns), strict=True)) for cut in cuts)]


def _on_ring(left: int, right: int, columns: int) -> Segment:
    """Return an arc as it is listed: it begins at a column of the grid, and the whole ring at the first."""
    start = 0 if right - left >= columns else left % columns
    return start, start + min(right - left, columns)


class _RingDives(ListedRowsDives):
    """A depth-first search over arcs."""

    @cached_property
    def cuts(self) -> list[Cut]:
        """Every tiling of the ring by at most R arcs."""
        return _tilings(self.problem.columns, self.pp)

    def _to_serve(self) -> list[Segment]:
        columns = self.problem.columns
        arcs = [(left, left + width) for width in range(1, columns) for left in range(columns)]
        return [*arcs, (0, columns)]

    def _segments(self, place: Segment) -> list[Segment]:
        left, right = place
        columns = self.problem.columns
        if right - left == columns:
            shorter = [(i, i + columns - 1) for i in range(columns)]
        else:
            shorter = [(left + 1, right), (left, right - 1)]
        return sorted({(left, right), *(_on_ring(*s, columns) for s in shorter if s[0] < s[1])})

    def _pieces(self, place: Segment) -> list[Segment]:
        left, right = place
        columns = self.problem.columns
        if right - left == columns:  # all arcs of the ring
            return [*((i, i + width) for i in range(columns) for width in range(1, columns)), place]
        return [_on_ring(i, j, columns) for i in range(left, right) for j in range(i + 1, right + 1)]

    def _places(self) -> dict[int, Segment]:
        """Return the arcs of domains, wider ones where columns have fewer than S domains: short ones first."""
        columns = self.problem.columns
        arcs = dict(self._served())
        room = np.full(columns, self.dp)
        for place in arcs.values():
            room[self._columns(place)] -= 1
        for k in sorted(arcs, key=lambda k: (arcs[k][1] - arcs[k][0], k)):
            left, right = arcs[k]
            while right - left < columns and room[(left - 1) % columns]:
                left -= 1
                room[left % columns] -= 1
            while right - left < columns and room[right % columns]:
                room[right % columns] -= 1
                right += 1
            arcs[k] = _on_ring(left, right, columns)
        return arcs
