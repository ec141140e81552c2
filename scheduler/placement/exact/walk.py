"""The state that all parts of one walk share: the lattice, both views of the problem, and the clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import TypeVar

from scheduler.placement.exact.lattice import Lattice
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.rectangles import RectangleBound
from scheduler.placement.types import Limits, Pair
from topology.cluster import IntArray

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class View:
    """The problem or its transpose: ``turn`` takes pairs from one to the other, ``back`` cells."""

    problem: GridProblem
    transposed: bool

    def turn(self, pair: Pair) -> Pair:
        """A pair of the problem as the view sees it, or back again."""
        return (pair[1], pair[0]) if self.transposed else pair

    def back(self, cells: IntArray) -> IntArray:
        """Cells of the view as cells of the problem."""
        return cells.T if self.transposed else cells

    def name(self, method: str) -> str:
        """What to call a method that was used on this view."""
        return f"{method}, transposed" if self.transposed else method


class Walk:
    """What is known and how much time is left.

    :param alpha: weight of S.
    :param beta: weight of R.
    """

    def __init__(self, problem: GridProblem, *, alpha: float, beta: float, limits: Limits) -> None:
        self.problem = problem
        self.lattice = Lattice(problem, alpha, beta)
        self.views = (View(problem, False), View(problem.transposed, True))
        self.limits = limits
        self.table: RectangleBound | None = None
        self._end = perf_counter() + limits.seconds

    @property
    def left(self) -> float:
        """Seconds left."""
        return self._end - perf_counter()

    def extend(self, seconds: float) -> None:
        """Let the walk go on for so many seconds from now."""
        self._end = perf_counter() + seconds

    def build(self, view: View, cells: IntArray, by: str) -> None:
        """Take in a placement made on one of the views."""
        self.lattice.build(view.back(cells), view.name(by))

    def side_by_side(self, searches: Sequence[Callable[[], T]]) -> list[T]:
        """Run searches at once, as many as ``limits.workers`` allows up to two; results in the order of the searches.

        A solve releases the interpreter lock, so threads are enough.
        """
        together = min(2, self.limits.workers, len(searches))
        if together < 2:
            return [search() for search in searches]
        with ThreadPoolExecutor(max_workers=together) as pool:
            return list(pool.map(lambda search: search(), searches))

    def spare_rows(self, view: View, pair: Pair) -> int:
        """Row touches of the view to spare for a pair, by the rectangle table; all rows where it does not reach."""
        if self.table is None or not self.table.knows(pair):
            return view.problem.rows
        return self.table.spare_columns(pair) if view.transposed else self.table.spare_rows(pair)
