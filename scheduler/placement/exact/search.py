"""The lattice walk: refute and build pairs (S, R) until the cheapest one is proved, or time runs out.

Cheap things first, each applied to all open pairs before anything dearer is tried.  Limits are in deterministic time,
so the same seed gives the same answer unless the wall clock runs out first.
"""

from __future__ import annotations

from scheduler.placement.exact import build, refute
from scheduler.placement.exact.lattice import Lattice
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.rounds import Rounds
from scheduler.placement.exact.walk import Walk
from scheduler.placement.types import Limits

_STAGES = (
    refute.count_edges,
    refute.apply_closed_forms,
    build.build_cheapest,
    refute.count_rectangles_if_quick,
    build.build_few_bands,
    refute.count_rectangles,
    build.build_cut_rows,
    build.build_more_bands,
)


class Search:
    """One walk.  :meth:`run` does it all; the result is the lattice.

    :param alpha: weight of S.
    :param beta: weight of R.
    """

    def __init__(self, problem: GridProblem, *, alpha: float, beta: float, limits: Limits) -> None:
        self._walk = Walk(problem, alpha=alpha, beta=beta, limits=limits)
        self._in_time = False

    @property
    def lattice(self) -> Lattice:
        """What is known so far."""
        return self._walk.lattice

    @property
    def complete(self) -> bool:
        """Whether the search ended by itself: the cheapest pair is proved, or nothing was left to try in time."""
        return self.lattice.proved or self._in_time

    def run(self) -> Lattice:
        """Walk until the cheapest pair is proved or time runs out.

        :raises ValueError: the domains hold fewer cells than the grid has; a fault of the caller.
        """
        if sum(self._walk.problem.capacities) < self._walk.problem.cells:
            raise ValueError("the grid does not fit; the caller counts capacities first")
        for stage in _STAGES:
            stage(self._walk)
            if not self.lattice.open():
                break
        if not self.lattice.proved:
            Rounds(self._walk).run()
        self._in_time = self._walk.left > 0
        return self.lattice

    def fill_front(self, *, seconds: float) -> None:
        """Build and refute pairs that the best one did not need, for the Pareto front, with cheap methods only."""
        self._walk.extend(seconds)
        refute.apply_coverage(self._walk, self.lattice.undecided())
        build.build_front(self._walk)
