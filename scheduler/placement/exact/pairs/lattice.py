"""The lattice of pairs (S, R): which are refuted, which are built, and which are still open.

Feasibility is monotone, so a refutation holds for all pairs below it and a construction for all pairs above it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from scheduler.objective import TOLERANCE
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.types import Pair, ParetoPoint, Refutation, corners
from scheduler.witnesses import Witness
from topology.cluster import IntArray

_DRIFT = 1e-6  # Weight of a spread without affinity: too small to be worth a unit of the other, enough to break ties


def pair_cost(pair: Pair, alpha: float) -> float:
    """Return Eq. 2 of a pair."""
    return alpha * pair[0] + (1.0 - alpha) * pair[1]


def pair_worth(pair: Pair, alpha: float) -> float:
    """Return Eq. 2 of a pair; where one affinity is zero its spread would be free to drift, so it weighs a little."""
    drift = _DRIFT * (pair[0] + pair[1]) if alpha in (0.0, 1.0) else 0.0
    return pair_cost(pair, alpha) + drift


def pair_order(pair: Pair, alpha: float) -> tuple[float, int, Pair]:
    """Return by what pairs are compared, the least the best: worth, then the smaller maximum, then the smaller S."""
    return round(pair_worth(pair, alpha), 9), max(pair), pair


@dataclass
class Lattice:
    """What is known of each pair; grows only."""

    problem: GridProblem
    alpha: float  # weight of S
    beta: float  # weight of R
    refutations: list[Refutation] = field(default_factory=list, init=False)
    built: dict[Pair, IntArray] = field(default_factory=dict)
    builders: dict[Pair, str] = field(default_factory=dict)
    # Whether a pair of equal cost is open that has less of a spread without affinity: that is no goal, so only while
    # it is quick
    ties: bool = field(default=True, init=False)
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
        return self._undecided(self.cost, inf)

    def open(self) -> list[Pair]:
        """Return the undecided pairs that would be better than the best one built, by cost."""
        worth = self._worth if self.ties else self.cost
        return self._undecided(worth, worth(self.best) - TOLERANCE)

    def _undecided(self, worth: Callable[[Pair], float], limit: float) -> list[Pair]:
        """Return the pairs neither refuted nor built that are worth less than a limit, by cost."""
        end, found = self.problem.largest_pair[1] + 1, []
        built = dict(sorted(self.built, reverse=True))  # of the pairs with one S the least R
        for s, most in enumerate(self.most_refuted, start=1):
            end = min(end, built.get(s, end))
            for r in range(most + 1, end):
                if worth((s, r)) >= limit:
                    break
                found.append((s, r))
        return sorted(found, key=self._order)

    def bound(self) -> float:
        """Return the certified bound: no placement costs less."""
        return min(self.cost(pair) for pair in [*self.open(), self.best])

    def pareto(self) -> tuple[ParetoPoint, ...]:
        """Return the corners built, by S; proved where no undecided pair is better in one and as good in the other."""
        return tuple(
            ParetoPoint(s, r, (s == 1 or self.is_refuted((s - 1, r))) and (r == 1 or self.is_refuted((s, r - 1))))
            for s, r in corners(self.built)
        )

    def _worth(self, pair: Pair) -> float:
        return pair_worth(pair, self.alpha)

    def _order(self, pair: Pair) -> tuple[float, int, Pair]:
        return pair_order(pair, self.alpha)
