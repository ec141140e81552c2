"""Closed forms: the best pair of a grid by counting alone, in microseconds, with what no pair is below.

Nearly every gang of up to some hundred nodes ends here.  Three facts are enough (docs: exact.md): the fewest domains
that take whole columns, or whole rows, are the least R where S = 1, and the least S where R = 1; every other pair has
S, R >= 2; and S * R is at least what the product bound says.  Where one affinity is zero a fourth is added: rows on two
domains each are had from the fewest domains that hold all cells, unless these are more than rows by two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Literal

import numpy as np

from scheduler.objective import TOLERANCE
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.exact.pairs.bounds import contiguous, fewest_for_lines, product_bound, whole_columns
from scheduler.placement.exact.pairs.cut_outs import fewest_cut_outs
from scheduler.placement.exact.pairs.lattice import pair_cost, pair_order, pair_worth
from scheduler.placement.exact.pairs.row_chains import chained_rows
from scheduler.placement.types import Pair
from topology.cluster import IntArray

Fill = Literal["whole columns", "contiguous", "cut-outs", "chains"]

FILLS: Mapping[Fill, Callable[[GridProblem], IntArray | None]] = MappingProxyType(
    {"whole columns": whole_columns, "contiguous": contiguous, "cut-outs": fewest_cut_outs, "chains": chained_rows}
)
"""What makes the placements that counting gives: shape [rows, columns], the domain of each cell."""


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """The best of the placements that counting gives, and a bound."""

    problem: GridProblem
    pair: Pair
    cost: float  # Eq. 2 of the pair
    bound: float  # no pair has less of Eq. 2
    proved: bool  # whether no pair has less of Eq. 2
    fill: Fill
    transposed: bool

    @property
    def cells(self) -> IntArray:
        """Shape [rows, columns], the domain of each cell."""
        view = self.problem.transposed if self.transposed else self.problem
        made = FILLS[self.fill](view)
        assert made is not None, "the pair was counted, so there is a placement"
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
    worth = partial(pair_worth, alpha=alpha)
    rival = _cheapest_rival(problem, worth, worth(pair))
    if rival is not None and alpha in (0.0, 1.0):
        found += _without_affinity(problem, alpha)
        pair, fill, transposed = min(found, key=lambda one: pair_order(one[0], alpha))
        worth = partial(pair_cost, alpha=alpha)
        rival = _cheapest_rival(problem, worth, worth(pair))
    cost = pair_cost(pair, alpha)
    proved = rival is None or worth(rival) >= worth(pair) - TOLERANCE
    bound = cost if rival is None else min(cost, pair_cost(rival, alpha))
    return ClosedForm(problem, pair, cost, bound, proved, fill, transposed)


def fills_without_affinity(alpha: float) -> tuple[tuple[Fill, bool], ...]:
    """Return what is looked at beside the edges where one affinity is zero, and whether on the transposed grid.

    Less of that spread is looked for by these alone: it is no goal.
    """
    return ("cut-outs", alpha == 0.0), ("chains", alpha == 1.0)


def _without_affinity(problem: GridProblem, alpha: float) -> Iterator[tuple[Pair, Fill, bool]]:
    """Yield the pairs of these fills, as far as they exist."""
    for fill, transposed in fills_without_affinity(alpha):
        cells = FILLS[fill](problem.transposed if transposed else problem)
        if cells is not None:
            yield problem.pair_of(cells.T if transposed else cells), fill, transposed


def least_cost(problem: GridProblem, alpha: float) -> float:
    """Return what Eq. 2 is at least, whatever the placement; the grid fits its domains."""
    pairs = edge_pairs(problem)
    cost = partial(pair_cost, alpha=alpha)
    if (rival := _cheapest_rival(problem, cost, min(map(cost, pairs), default=inf))) is not None:
        pairs.append(rival)
    # where no pair of either kind is known nothing is less than one domain
    return min(map(cost, pairs), default=1.0)


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


def _cheapest_rival(problem: GridProblem, worth: Callable[[Pair], float], most: float) -> Pair | None:
    """Return the cheapest pair with S, R >= 2 that the product bound leaves; ``None`` = none is worth less than most.

    Pairs with S = 1 or R = 1 are settled by counting: those below the fewest domains do not exist.
    """
    if worth((2, 2)) >= most - TOLERANCE:
        return None
    most_dp, most_pp = problem.largest_pair
    least = product_bound(problem)
    best: Pair | None = None
    for dp in range(2, most_dp + 1):
        pair = dp, max(2, -int(-least // dp))
        if worth((dp, 2)) >= most - TOLERANCE:
            break
        if pair[1] <= most_pp and (best is None or worth(pair) < worth(best)):
            best = pair
    return best
