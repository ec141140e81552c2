"""What is known about the pairs (S, R): which are refuted, which are built, and which are still open.

Feasibility is monotone, so a refutation holds for all pairs below it and a construction for all pairs above it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair, ParetoPoint, Refutation
from topology.cluster import IntArray

_SAME = 1e-9
_DRIFT = 1e-6


@dataclass
class Lattice:
    """The state of a walk; grows only.

    :param alpha: weight of S; :param beta: weight of R.
    """

    problem: GridProblem
    alpha: float
    beta: float
    refutations: list[Refutation] = field(default_factory=list)
    built: dict[Pair, IntArray] = field(default_factory=dict)
    builders: dict[Pair, str] = field(default_factory=dict)

    def cost(self, pair: Pair) -> float:
        """Eq. 2 of a pair."""
        return self.alpha * pair[0] + self.beta * pair[1]

    def is_refuted(self, pair: Pair) -> bool:
        """Whether no placement is as good as the pair in both."""
        return any(pair[0] <= r.pair[0] and pair[1] <= r.pair[1] for r in self.refutations)

    def is_built(self, pair: Pair) -> bool:
        """Whether a placement as good as the pair is known."""
        return any(pair[0] >= dp and pair[1] >= pp for dp, pp in self.built)

    def refute(self, pair: Pair, by: str, sentence: str) -> None:
        """Note that no placement is as good as the pair in both."""
        if min(pair) >= 1 and not self.is_refuted(pair):
            self.refutations.append(Refutation(pair, by, sentence))

    def build(self, cells: IntArray, by: str) -> Pair:
        """Take in a placement; its pair is counted here, not believed.

        :raises AssertionError: the placement does not fit the capacities, a fault of its maker.
        """
        if not self.problem.holds(cells):
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
        return self.bound() >= self.cost(self.best) - _SAME

    def undecided(self) -> list[Pair]:
        """All pairs neither refuted nor built, by cost."""
        dp, pp = self.problem.largest_pair
        pairs = ((s, r) for s in range(1, dp + 1) for r in range(1, pp + 1))
        return sorted((p for p in pairs if not self.is_refuted(p) and not self.is_built(p)), key=self._order)

    def open(self) -> list[Pair]:
        """Undecided pairs that would be better than the best one built, by cost."""
        limit = self._worth(self.best) - _SAME
        return [pair for pair in self.undecided() if self._worth(pair) < limit]

    def bound(self) -> float:
        """Certified: no placement costs less."""
        return min(self.cost(pair) for pair in [*self.open(), self.best])

    def pareto(self) -> tuple[ParetoPoint, ...]:
        """Corners built, by S; proved where nothing better in one and as good in the other is left undecided."""
        corners = [p for p in self.built if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in self.built)]
        return tuple(ParetoPoint(dp, pp, self._is_corner(dp, pp)) for dp, pp in sorted(corners))

    def _is_corner(self, dp: int, pp: int) -> bool:
        left_refuted = dp == 1 or self.is_refuted((dp - 1, pp))
        below_refuted = pp == 1 or self.is_refuted((dp, pp - 1))
        return left_refuted and below_refuted

    def _worth(self, pair: Pair) -> float:
        """The cost; where one affinity is zero its spread would be free to drift, so there it weighs a little."""
        drift = _DRIFT if self.alpha in (0.0, 1.0) else 0.0
        return self.cost(pair) + drift * sum(pair)

    def _order(self, pair: Pair) -> tuple[float, int, Pair]:
        return round(self._worth(pair), 9), max(pair), pair
