"""Set flow: interval flow with any sets of columns in place of intervals, for few columns and few different capacities.

Columns have no order, so nothing asks for intervals or arcs: a domain may serve any set of columns, and hosts rows on
all of it or on all but one.  A row is a *partition* of the columns into at most R sets.  On eight columns there are 255
sets and a thousand partitions into three, and where many domains are equal a linear program over them is small.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations

from scheduler.placement.exact.flows.listed_rows import Cut, ListedRowsDives
from scheduler.placement.exact.flows.whole_rows import FlowLimit, Segment
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.exact.pairs.bounds import CoverageBound
from scheduler.placement.types import Pair
from topology.cluster import IntArray


def set_flow(problem: GridProblem, pair: Pair, *, limit: FlowLimit, coverage: CoverageBound) -> IntArray | None:
    """Return a placement in which every domain serves a set of columns; ``None`` when none was found.

    Nothing found proves nothing.

    :returns: shape [rows, columns], the domain of each cell.
    """
    return _SetDives(problem, pair, coverage, limit).dive()


def count_sets(problem: GridProblem, pair: Pair, coverage: CoverageBound) -> int:
    """Return how many sets of columns domains of different capacity may serve: the size of the model."""
    allowed = coverage.widths_worth(pair)
    every = range(1, 1 << problem.columns)
    return sum(bool(allowed[c][chosen.bit_count()]) for c in allowed for chosen in every)


def partitions(columns: int, parts: int) -> list[Cut]:
    """Return the ways to divide the columns into at most so many sets, each a tuple of columns."""
    found: list[list[Segment]] = [[]]
    for column in range(columns):
        found = [
            [*sets[:i], (*(sets[i] if i < len(sets) else ()), column), *sets[i + 1 :]]
            for sets in found
            for i in range(min(len(sets) + 1, parts))
        ]
    return [tuple(sets) for sets in found]


class _SetDives(ListedRowsDives):
    """A depth-first search over sets of columns."""

    def _columns(self, place: Segment) -> list[int]:
        return list(place)

    def _to_serve(self) -> list[Segment]:
        columns = range(self.problem.columns)
        return [some for width in range(1, len(columns) + 1) for some in combinations(columns, width)]

    def _segments(self, place: Segment) -> list[Segment]:
        return [place, *(combinations(place, len(place) - 1) if len(place) > 1 else ())]

    @cached_property
    def cuts(self) -> list[Cut]:
        """Every partition of the columns into at most R sets."""
        return partitions(self.problem.columns, self.pp)

    def _pieces(self, place: Segment) -> list[Segment]:
        """Return all its parts: with the sets given, the program is small."""
        return [part for width in range(1, len(place) + 1) for part in combinations(place, width)]
