"""The state of a search of pairs (S, R), which all of its methods share; and both views of its grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ground.quantities import decimal, plural
from scheduler.placement.exact.grid.params import DEFAULTS, ExactParams
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.exact.pairs.bounds import CoverageBound, RectangleBound
from scheduler.placement.exact.pairs.lattice import Lattice
from scheduler.placement.exact.pairs.pattern_bound import PatternBound
from scheduler.placement.types import Limits, Pair
from scheduler.work_clock import clock, side_by_side
from topology.cluster import IntArray

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GridView:
    """The problem or its transpose: ``turn`` takes pairs from one to the other, ``back`` cells."""

    problem: GridProblem
    transposed: bool

    def turn(self, pair: Pair) -> Pair:
        """Return a pair of the problem as the view sees it, or back again."""
        return (pair[1], pair[0]) if self.transposed else pair

    def back(self, cells: IntArray) -> IntArray:
        """Return cells of the view as cells of the problem."""
        return cells.T if self.transposed else cells


class PairSearch:
    """The state that all methods of one search share: the lattice, both views of the problem, and the clock."""

    def __init__(self, lattice: Lattice, limits: Limits, params: ExactParams = DEFAULTS) -> None:
        self.lattice = lattice
        self.problem = lattice.problem
        self.views = (GridView(self.problem, False), GridView(self.problem.transposed, True))
        self.limits = limits
        self.params = params
        self.table: RectangleBound | None = None
        self.patterns: dict[Pair, PatternBound] = {}  # of the pairs that were asked about
        self._coverage: dict[bool, CoverageBound] = {}  # of the problem, and of its transpose
        self.stopped = False  # Whether time ran out with methods left to try
        self._end = clock() + limits.seconds

    @property
    def coverage(self) -> CoverageBound:
        """The coverage bound of the problem."""
        return self.coverage_of(self.views[0])

    def coverage_of(self, view: GridView) -> CoverageBound:
        """Return the coverage bound of a view, with its table, which is made once."""
        if view.transposed not in self._coverage:
            self._coverage[view.transposed] = CoverageBound(view.problem, self.params)
        return self._coverage[view.transposed]

    @property
    def left(self) -> float:
        """Seconds left."""
        return self._end - clock()

    def end_of(self, share: float) -> float:
        """Return when a part of the search stops, by ``scheduler.work_clock``, that may take so much of the limit."""
        return clock() + min(self.left, share * self.limits.seconds)

    @property
    def complete(self) -> bool:
        """Whether the search ended by itself: the cheapest pair is proved, or nothing was left to try in time."""
        return self.lattice.proved or not self.stopped

    def extend(self, seconds: float) -> None:
        """Let the search go on for so many seconds from now."""
        self._end = clock() + seconds

    def say(self, method: str) -> None:
        """Show what is tried, and how far the search is: the best pair built, the bound, how many pairs are open."""
        lattice = self.lattice
        if self.limits.progress is None or not lattice.built:
            return
        (dp, pp), still = lattice.best, len(lattice.open())
        known = f"best ({dp}, {pp}) at {decimal(lattice.cost((dp, pp)))}, bound {decimal(lattice.bound())}"
        self.limits.say(f"{known}, {plural(still, 'open pair')}: {method}")

    def build(self, view: GridView, cells: IntArray, by: str) -> None:
        """Take in a placement made on one of the views."""
        self.lattice.build(view.back(cells), f"{by}, transposed" if view.transposed else by)

    def side_by_side(self, searches: Sequence[Callable[[], T]]) -> list[T]:
        """Run searches at once, up to two where ``limits.workers`` allows; results in the order of the searches."""
        return side_by_side(searches, workers=min(2, self.limits.workers))

    def spare_rows(self, view: GridView, pair: Pair) -> int:
        """Return the row touches of the view to spare for a pair; all rows where the rectangle table does not reach."""
        if self.table is None or not self.table.knows(pair):
            return view.problem.rows
        return self.table.spare_columns(pair) if view.transposed else self.table.spare_rows(pair)
