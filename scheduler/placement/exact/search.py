"""The lattice walk: refute and build pairs (S, R) until the cheapest one is proved, or time runs out.

Cheap things first, each applied to all open pairs before anything dearer is tried: counting on the edges, the product
and coverage bounds, band searches by bisection over cost, the rectangle table, then skeleton searches in growing
slices, two side by side, on the problem and its transpose.  Limits are in deterministic time, so the same seed gives
the same answer unless the wall clock runs out first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from time import perf_counter

from scheduler.placement.exact import sentences
from scheduler.placement.exact.bands import column_bands, partitions
from scheduler.placement.exact.bounds import CoverageBound, fewest_domains, product_bound
from scheduler.placement.exact.cpsat import Answer, Slice
from scheduler.placement.exact.edges import contiguous, whole_columns
from scheduler.placement.exact.lattice import Lattice
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.ragged import ragged_bands
from scheduler.placement.exact.rectangles import RectangleBound
from scheduler.placement.exact.workshop import Workshop
from scheduler.placement.types import Limits, Pair
from topology.cluster import IntArray

_TABLE_WORK_PER_SECOND = 6e8
"""Array elements of the rectangle table per second, measured on one core of a 2.x GHz server."""

_QUICK_TABLE = 1.5e8
"""Array elements up to which the rectangle table is made before anything is searched."""

_MANY_CELLS = 3000
"""Cells from which bands are first looked for with each domain in one band."""

_NARROW, _WIDEST = 20, 40
"""Columns up to which skeleton models are quick, and up to which they are of any use."""


@dataclass(frozen=True, slots=True)
class _View:
    """The problem or its transpose: ``turn`` takes pairs and cells from one to the other."""

    problem: GridProblem
    transposed: bool

    def turn(self, pair: Pair) -> Pair:
        return (pair[1], pair[0]) if self.transposed else pair

    def back(self, cells: IntArray) -> IntArray:
        return cells.T if self.transposed else cells

    def name(self, method: str) -> str:
        return f"{method}, transposed" if self.transposed else method


@dataclass(frozen=True, slots=True)
class _Task:
    """A search for one pair on one view, to be run beside another; it is told how many seconds are left."""

    pair: Pair
    view: _View
    search: Callable[..., tuple[Answer, IntArray | None]]


class Search:
    """One walk.  :meth:`run` does it all; the result is the lattice.

    :param alpha: weight of S.
    :param beta: weight of R.
    """

    def __init__(self, problem: GridProblem, *, alpha: float, beta: float, limits: Limits) -> None:
        self.lattice = Lattice(problem, alpha, beta)
        self._problem = problem
        self._views = (_View(problem, False), _View(problem.transposed, True))
        self._limits = limits
        self._end = perf_counter() + limits.seconds
        self._table: RectangleBound | None = None
        self._workshops: dict[tuple[Pair, bool], Workshop] = {}

    def run(self) -> Lattice:
        """Walk until the cheapest pair is proved or time runs out.

        :raises ValueError: the domains hold fewer cells than the grid has; a fault of the caller.
        """
        if sum(self._problem.capacities) < self._problem.cells:
            raise ValueError("the grid does not fit; the caller counts capacities first")
        self._edges()
        self._closed_forms()
        for stage in (self._rectangles_if_quick, self._few_bands, self._rectangles, self._more_bands):
            if not self.lattice.open():
                break
            stage()
        if not self.lattice.proved:
            self._skeletons()
        return self.lattice

    @property
    def complete(self) -> bool:
        """Whether the cheapest pair is proved."""
        return self.lattice.proved

    @property
    def _many_nodes(self) -> bool:
        """Whether models with the rows of a domain as integers get slow."""
        return self._problem.cells > _MANY_CELLS

    def _left(self) -> float:
        return self._end - perf_counter()

    def _edges(self) -> None:
        """S = 1 and R = 1, settled by counting; and the contiguous fill, so that a placement exists from the start."""
        most = self._problem.largest_pair
        for view in self._views:
            problem, longest = view.problem, view.turn(most)
            cells = whole_columns(problem)
            if cells is not None:
                self.lattice.build(view.back(cells), view.name("whole columns"))
            fewest = fewest_domains(problem.columns, [c // problem.rows for c in problem.capacities])
            refuted = (1, longest[1] if fewest is None else fewest - 1)
            self.lattice.refute(view.turn(refuted), "edges", sentences.edge(problem, refuted, view.transposed))
            self.lattice.build(view.back(contiguous(problem)), view.name("contiguous fill"))

    def _closed_forms(self) -> None:
        """The product bound for every S, then the coverage bound for what it leaves open, dearest first."""
        least = product_bound(self._problem)
        most_dp, most_pp = self._problem.largest_pair
        for dp in range(1, most_dp + 1):
            pp = min(most_pp, -int(-least // dp) - 1)
            self.lattice.refute((dp, pp), "product", sentences.product(least, (dp, pp)))
        pairs = self.lattice.open()
        if pairs:
            coverage = CoverageBound(self._problem)
            for pair in reversed(pairs):
                if not self.lattice.is_refuted(pair) and coverage.refutes(*pair):
                    covered = int(coverage.coverable(*pair))
                    self.lattice.refute(pair, "coverage", sentences.coverage(self._problem, pair, covered))

    def _rectangles_if_quick(self) -> None:
        if RectangleBound.work(self._problem, self.lattice.open()) < _QUICK_TABLE:
            self._rectangles()

    def _rectangles(self) -> None:
        """The exact rectangle table, for as many open pairs, from the cheapest, as time allows."""
        pairs = [p for p in self.lattice.open() if self._table is None or not self._table.knows(p)]
        allowed = _TABLE_WORK_PER_SECOND * max(0.0, min(0.35 * self._limits.seconds, self._left() - 0.5))
        while pairs and RectangleBound.work(self._problem, pairs) > allowed:
            pairs = pairs[: len(pairs) // 2]
        if not pairs:
            return
        self._limits.say("counting rectangles")
        self._table = RectangleBound(self._problem, pairs)
        for pair in reversed(pairs):
            if self._table.refutes(pair):
                covered = self._table.most_cells(pair)
                self.lattice.refute(pair, "rectangles", sentences.coverage(self._problem, pair, covered))

    def _few_bands(self) -> None:
        """Short band searches; with many nodes first those that do not have the rows of a domain as integers."""
        if self._many_nodes:
            self._sweep(partial(self._ragged, effort=0.5), share=0.3)
            self._sweep(partial(self._banded, partitions_each=2, effort=0.05, whole=True), share=0.15)
        else:
            self._sweep(partial(self._banded, partitions_each=2, effort=0.05), share=0.15)
            self._sweep(partial(self._ragged, effort=0.1), share=0.05)

    def _more_bands(self) -> None:
        if self._many_nodes:
            self._sweep(partial(self._banded, partitions_each=2, effort=0.4), share=1.0, narrow=True)
        else:
            self._sweep(partial(self._banded, partitions_each=12, effort=0.2), share=0.3)

    def _sweep(
        self,
        build: Callable[[_View, Pair], tuple[str, IntArray] | None],
        *,
        share: float,
        narrow: bool = False,
    ) -> None:
        """Try to build open pairs, by bisection over cost: one that can be built closes all dearer ones at once.

        :param share: part of the time limit for the sweep.
        :param narrow: only on the view with fewer columns.
        """
        views = [min(self._views, key=lambda view: view.problem.columns)] if narrow else self._views
        tried: set[Pair] = set()
        until = max(0.0, self._left() - share * self._limits.seconds)
        while pairs := [pair for pair in self.lattice.open() if pair not in tried]:
            pair = pairs[len(pairs) // 2]
            tried.add(pair)
            self._limits.say(f"bands for DP spread {pair[0]}, PP spread {pair[1]}")
            for view in views:
                if self._left() <= until:
                    return
                if (found := build(view, view.turn(pair))) is not None:
                    name, cells = found
                    self.lattice.build(view.back(cells), view.name(name))
                    if self.lattice.is_built(pair):
                        break

    def _banded(
        self, view: _View, pair: Pair, *, partitions_each: int, effort: float, whole: bool = False
    ) -> tuple[str, IntArray] | None:
        dp, pp = pair
        bands = min(pp, view.problem.columns)
        for widths in islice(partitions(view.problem.columns, bands), partitions_each):
            if self._left() <= 0:
                return None
            limit = Slice(effort, self._left(), self._limits.seed)
            cells = column_bands(view.problem, dp=dp, widths=widths, limit=limit, whole=whole)
            if cells is not None:
                return "column bands", cells
        return None

    def _ragged(self, view: _View, pair: Pair, *, effort: float) -> tuple[str, IntArray] | None:
        dp, pp = pair
        if pp == 1:
            return None
        widths = next(partitions(view.problem.columns, min(pp - 1, view.problem.columns)))
        limit = Slice(effort, self._left(), self._limits.seed, light=True)
        cells = ragged_bands(view.problem, dp=dp, widths=widths, limit=limit)
        return None if cells is None else ("ragged bands", cells)

    def _skeletons(self) -> None:
        """Skeleton searches in growing slices, open pairs from the dearest down, two at a time."""
        effort, turn = 0.25, 0
        while self._left() > 0 and not self.lattice.proved:
            tasks = [task for pair in reversed(self.lattice.open()) for task in self._tasks(pair, effort, turn)]
            if not tasks:
                return
            self._side_by_side(tasks)
            effort, turn = effort * 2, turn + 1

    def _tasks(self, pair: Pair, effort: float, turn: int) -> Iterable[_Task]:
        """What one round tries for a pair: more of its width profiles, on each narrow view."""
        narrow = [v for v in self._views if v.problem.columns <= _NARROW] or [
            v for v in self._views if v.problem.columns <= _WIDEST
        ]
        for view in narrow:
            yield _Task(pair, view, partial(self._workshop(view, pair).search, effort=effort, seed=turn))

    def _workshop(self, view: _View, pair: Pair) -> Workshop:
        if (pair, view.transposed) not in self._workshops:
            spare = self._spare_rows(view, pair)
            self._workshops[pair, view.transposed] = Workshop(view.problem, view.turn(pair), spare_rows=spare)
        return self._workshops[pair, view.transposed]

    def _spare_rows(self, view: _View, pair: Pair) -> int:
        if self._table is None or not self._table.knows(pair):
            return view.problem.rows
        return self._table.spare_columns(pair) if view.transposed else self._table.spare_rows(pair)

    def _side_by_side(self, tasks: Sequence[_Task]) -> None:
        """Run searches two at a time (or one, by ``limits.workers``); results are taken in the order of the tasks."""
        together = max(1, min(2, self._limits.workers))
        waiting = list(tasks)
        with ThreadPoolExecutor(max_workers=together) as pool:
            while waiting and self._left() > 0:
                batch, rest = waiting[:together], waiting[together:]
                self._limits.say(f"skeletons for DP spread {batch[0].pair[0]}, PP spread {batch[0].pair[1]}")
                results = pool.map(lambda task: task.search(wall=self._left()), batch)
                for task, (answer, cells) in zip(batch, results, strict=True):
                    if answer == "no":
                        self.lattice.refute(task.pair, "skeleton", sentences.skeleton(task.pair))
                    elif cells is not None:
                        self.lattice.build(task.view.back(cells), task.view.name("skeleton"))
                still = set(self.lattice.open())
                waiting = [task for task in rest if task.pair in still]
