"""Closed forms: the best pair of a grid by counting alone, in microseconds, with what no pair is below.

Nearly every gang of up to some hundred nodes ends here.  Three facts are enough (docs/exact.md): the fewest domains
that take whole columns, or whole rows, are the least R where S = 1, and the least S where R = 1; every other pair has
S, R >= 2; and S * R is at least what the product bound says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np

from scheduler.objective import TOLERANCE
from scheduler.placement.exact.bounds import contiguous, fewest_for_lines, product_bound, whole_columns
from scheduler.placement.exact.lattice import pair_order, pair_worth
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from topology.cluster import IntArray

Fill = Literal["whole columns", "contiguous"]


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """The best of the placements that counting gives, and a bound."""

    problem: GridProblem
    pair: Pair
    cost: float  # Eq. 2 of the pair
    bound: float  # no pair has less of Eq. 2
    proved: bool  # whether no pair is better, by Eq. 2 or, where one affinity is zero, by the smaller spreads
    fill: Fill
    transposed: bool

    @property
    def cells(self) -> IntArray:
        """Shape [rows, columns], the domain of each cell."""
        view = self.problem.transposed if self.transposed else self.problem
        made = whole_columns(view) if self.fill == "whole columns" else contiguous(view)
        assert made is not None, "the pair was counted, so there are whole columns"
        return made.T if self.transposed else made


def closed_form(problem: GridProblem, alpha: float) -> ClosedForm:
    """Return the best of whole columns, whole rows and domains filled one by one; the grid fits its domains.

    It is the answer of the whole search wherever it is proved.
    """
    found: list[tuple[Pair, Fill, bool]] = [(pair, "whole columns", pair[0] > 1) for pair in edge_pairs(problem)]
    # domains filled one by one give S = 1 or R = 1 on no fewer domains, or else no less than (2, 2)
    if not found or min(pair_order(pair, alpha) for pair, *_ in found) > pair_order((2, 2), alpha):
        dp, pp = contiguous_pair(problem.rows, problem.columns, problem.capacities)
        found.append(((dp, pp), "contiguous", False))
        pp, dp = contiguous_pair(problem.columns, problem.rows, problem.capacities)
        found.append(((dp, pp), "contiguous", True))
    pair, fill, transposed = min(found, key=lambda one: pair_order(one[0], alpha))
    cost, worth = alpha * pair[0] + (1.0 - alpha) * pair[1], pair_worth(pair, alpha)
    rival = _cheapest_rival(problem, alpha, worth)
    proved = rival is None or pair_worth(rival, alpha) >= worth - TOLERANCE
    bound = cost if rival is None else min(cost, alpha * rival[0] + (1.0 - alpha) * rival[1])
    return ClosedForm(problem, pair, cost, bound, proved, fill, transposed)


def least_cost(problem: GridProblem, alpha: float) -> float:
    """Return what Eq. 2 is at least, whatever the placement; the grid fits its domains."""
    pairs = edge_pairs(problem)
    worth = min((pair_worth(pair, alpha) for pair in pairs), default=inf)
    if (rival := _cheapest_rival(problem, alpha, worth)) is not None:
        pairs.append(rival)
    # where no pair of either kind is known nothing is less than one domain
    return min((alpha * dp + (1.0 - alpha) * pp for dp, pp in pairs), default=1.0)


def edge_pairs(problem: GridProblem) -> list[Pair]:
    """Return the least pairs with S = 1, and with R = 1, as far as there are any."""
    pairs = []
    if (fewest := fewest_for_lines(problem.rows, problem.columns, problem.capacities)) is not None:
        pairs.append((1, fewest))
    if (fewest := fewest_for_lines(problem.columns, problem.rows, problem.capacities)) is not None and fewest > 1:
        pairs.append((fewest, 1))
    return pairs


def contiguous_pair(rows: int, columns: int, capacities: Sequence[int]) -> Pair:
    """Return (S, R) of the cells filled column by column, from the largest domain on.

    Domain after domain begins in the order of the cells, so a line touches one domain more wherever the next differs.

    :param capacities: descending, at least ``rows * columns`` together.
    """
    cells, filled, used = rows * columns, 0, 0
    while filled < cells:
        filled += capacities[used]
        used += 1
    if used == 1:
        return 1, 1
    if used == 2:
        return 2 if capacities[0] % rows else 1, min(2, columns)
    domain = np.repeat(np.arange(used), capacities[:used])[:cells].reshape(columns, rows)
    dp = 1 if rows == 1 else 1 + int(np.count_nonzero(domain[:, 1:] != domain[:, :-1], axis=1).max())
    pp = 1 if columns == 1 else 1 + int(np.count_nonzero(domain[1:] != domain[:-1], axis=0).max())
    return dp, pp


def _cheapest_rival(problem: GridProblem, alpha: float, worth: float) -> Pair | None:
    """Return the cheapest pair with S, R >= 2 that the product bound leaves; ``None`` = none is cheaper than a worth.

    Pairs with S = 1 or R = 1 are settled by counting: those below the fewest domains do not exist.
    """
    if pair_worth((2, 2), alpha) >= worth - TOLERANCE:
        return None
    most_dp, most_pp = problem.largest_pair
    least = product_bound(problem)
    best: Pair | None = None
    for dp in range(2, most_dp + 1):
        pair = dp, max(2, -int(-least // dp))
        if pair_worth((dp, 2), alpha) >= worth - TOLERANCE:
            break
        if pair[1] <= most_pp and (best is None or pair_worth(pair, alpha) < pair_worth(best, alpha)):
            best = pair
    return best
