"""The lattice of pairs (S, R): which are refuted, which are built, and which are still open; and the search on it.

Feasibility is monotone, so a refutation holds for all pairs below it and a construction for all pairs above it.
:class:`PairSearch` is the state that all methods of one search share: the lattice, both views of its grid, the clock.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

from ground.quantities import decimal, plural
from scheduler.objective import TOLERANCE
from scheduler.placement.exact.bounds import SLACK, CoverageBound, PatternBound
from scheduler.placement.exact.params import DEFAULTS, ExactParams
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Limits, Pair, ParetoPoint, Refutation, corners
from scheduler.witnesses import Witness
from scheduler.work_clock import clock, side_by_side
from topology.cluster import IntArray

# The lattice of pairs (S, R): which are refuted, which are built, and which are still open.
#
# Feasibility is monotone, so a refutation holds for all pairs below it and a construction for all pairs above it.


def pair_cost(pair: Pair, alpha: float) -> float:
    """Return Eq. 2 of a pair."""
    return alpha * pair[0] + (1.0 - alpha) * pair[1]


def pair_order(pair: Pair, alpha: float) -> tuple[float, int, int, Pair]:
    """Return by what pairs are compared, the least the best: Eq. 2, of equals the one with less of a spread without
    affinity, then the smaller maximum, then the smaller S.
    """
    return round(pair_cost(pair, alpha), 9), sum(pair) if alpha in (0.0, 1.0) else 0, max(pair), pair


@dataclass
class Lattice:
    """What is known of each pair; grows only."""

    problem: GridProblem
    alpha: float  # weight of S
    beta: float  # weight of R
    refutations: list[Refutation] = field(default_factory=list, init=False)
    built: dict[Pair, IntArray] = field(default_factory=dict)
    builders: dict[Pair, str] = field(default_factory=dict)
    most: float = field(
        default=inf, init=False
    )  # Pairs of this cost or more are of no interest: as good is had elsewhere
    # For each S from 1 to the largest, the most R with which it is refuted; 0 = with none
    most_refuted: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.most_refuted = [0] * self.problem.largest_pair[0]

    def cost(self, pair: Pair) -> float:
        """Return Eq. 2 of a pair."""
        return self.alpha * pair[0] + self.beta * pair[1]

    def is_refuted(self, pair: Pair) -> bool:
        """Return whether no placement is as good as the pair in both."""
        dp, pp = pair
        return self.most_refuted[min(dp, len(self.most_refuted)) - 1] >= pp

    def is_built(self, pair: Pair) -> bool:
        """Return whether a placement as good as the pair is known."""
        return any(pair[0] >= dp and pair[1] >= pp for dp, pp in self.built)

    def refute(self, pair: Pair, by: str, sentence: str, witness: Witness | None = None) -> None:
        """Note that no placement is as good as the pair in both, and by what others can recount that."""
        if min(pair) < 1 or self.is_refuted(pair):
            return
        self.refutations.append(Refutation(pair, by, sentence, witness))
        dp, pp = pair
        for s in range(min(dp, len(self.most_refuted)) - 1, -1, -1):
            # smaller S are refuted with as many R or more
            if self.most_refuted[s] >= pp:
                break
            self.most_refuted[s] = pp

    def build(self, cells: IntArray, by: str) -> Pair:
        """Take in a placement, which must fit the capacities; its pair is counted here, not believed."""
        if not self.problem.fits(cells):
            raise AssertionError(f"{by} made a placement that does not fit")
        pair = self.problem.pair_of(cells)
        if not self.is_built(pair):
            self.built[pair] = cells
            self.builders[pair] = by
        return pair

    @property
    def best(self) -> Pair:
        """The cheapest pair built; of equal ones the smaller maximum, then the smaller S."""
        return min(self.built, key=self._order)

    @property
    def proved(self) -> bool:
        """Whether nothing cheaper than the best pair built exists."""
        return self.bound() >= self.cost(self.best) - TOLERANCE

    def undecided(self) -> list[Pair]:
        """Return all pairs neither refuted nor built, by cost."""
        return self._undecided(inf)

    def open(self) -> list[Pair]:
        """Return the undecided pairs that would be better than the best one built, by cost."""
        return self._undecided(min(self.cost(self.best) if self.built else inf, self.most) - TOLERANCE)

    def _undecided(self, limit: float) -> list[Pair]:
        """Return the pairs neither refuted nor built that cost less than a limit, by cost."""
        end, pairs = self.problem.largest_pair[1] + 1, []
        built = dict(sorted(self.built, reverse=True))  # of the pairs with one S the least R
        for s, most in enumerate(self.most_refuted, start=1):
            end = min(end, built.get(s, end))
            for r in range(most + 1, end):
                if self.cost((s, r)) >= limit:
                    break
                pairs.append((s, r))
        return sorted(pairs, key=self._order)

    def bound(self) -> float:
        """Return the certified bound: no placement costs less."""
        known = self.cost(self.best) if self.built else inf
        return min([*map(self.cost, self.open()), min(known, self.most)])

    def pareto(self) -> tuple[ParetoPoint, ...]:
        """Return the corners built, by S; proved where no undecided pair is better in one and as good in the other."""
        return tuple(
            ParetoPoint(s, r, (s == 1 or self.is_refuted((s - 1, r))) and (r == 1 or self.is_refuted((s, r - 1))))
            for s, r in corners(self.built)
        )

    def _order(self, pair: Pair) -> tuple[float, int, int, Pair]:
        return pair_order(pair, self.alpha)


# The state of a search of pairs (S, R), which all of its methods share; and both views of its grid.


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
            self._coverage[view.transposed] = CoverageBound(view.problem)
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
        """Return the row touches of the view that a pair allows beyond those it needs, at most.

        With so few rows in all that the bound of the same multipliers is below the cells no placement exists.
        """
        covered, prices = self.coverage.least(*pair)
        price = prices.column if view.transposed else prices.row
        spare = (covered - self.problem.cells + SLACK) * prices.unit
        return int(min(spare / price, view.problem.rows)) if price else view.problem.rows
