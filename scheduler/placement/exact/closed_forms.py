"""Closed forms: the best pair of a grid by counting alone, in microseconds, with what no pair is below.

Nearly every gang of up to some hundred nodes ends here.  Three facts are enough (docs: exact.md): the fewest domains
that take whole columns, or whole rows, are the least R where S = 1, and the least S where R = 1; every other pair has
S, R >= 2; and S * R is at least what the product bound says.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np

from scheduler.objective import TOLERANCE
from scheduler.placement.exact.bounds import contiguous, fewest_for_lines, product_bound, whole_columns
from scheduler.placement.exact.lattice import pair_cost, pair_order
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
    proved: bool  # whether no pair has less of Eq. 2
    fill: Fill
    transposed: bool

    @property
    def cells(self) -> IntArray:
        """Shape [rows, columns], the domain of each cell."""
        view = self.problem.transposed if self.transposed else self.problem
        made = whole_columns(view) if self.fill == "whole columns" else contiguous(view)
        assert made is not None, "the pair was counted, so there is a placement"
        return made.T if self.transposed else made


def closed_form(problem: GridProblem, alpha: float) -> ClosedForm:
    """Return the best of whole columns, whole rows and domains filled one by one; the grid fits its domains.

    It is the answer of the whole search wherever it is proved.
    """
    forms: list[tuple[Pair, Fill, bool]] = [(pair, "whole columns", pair[0] > 1) for pair in edge_pairs(problem)]
    # domains filled one by one give S = 1 or R = 1 on no fewer domains, or else no less than (2, 2)
    if not forms or min(pair_order(pair, alpha) for pair, *_ in forms) > pair_order((2, 2), alpha):
        dp, pp = contiguous_pair(problem.rows, problem.columns, problem.capacities)
        forms.append(((dp, pp), "contiguous", False))
        pp, dp = contiguous_pair(problem.columns, problem.rows, problem.capacities)
        forms.append(((dp, pp), "contiguous", True))
    pair, fill, transposed = min(forms, key=lambda form: pair_order(form[0], alpha))
    cost = pair_cost(pair, alpha)
    rival = _cheapest_rival(problem, alpha, cost)
    least = inf if rival is None else pair_cost(rival, alpha)
    return ClosedForm(problem, pair, cost, min(cost, least), least >= cost - TOLERANCE, fill, transposed)


def least_cost(problem: GridProblem, alpha: float) -> float:
    """Return what Eq. 2 is at least, whatever the placement; the grid fits its domains."""
    pairs = edge_pairs(problem)
    if rival := _cheapest_rival(problem, alpha, min((pair_cost(pair, alpha) for pair in pairs), default=inf)):
        pairs.append(rival)
    # where no pair of either kind is known nothing is less than one domain
    return min((pair_cost(pair, alpha) for pair in pairs), default=1.0)


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


def _cheapest_rival(problem: GridProblem, alpha: float, most: float) -> Pair | None:
    """Return the cheapest pair with S, R >= 2 that the product bound leaves; ``None`` = none costs less than ``most``.

    Pairs with S = 1 or R = 1 are settled by counting: those below the fewest domains do not exist.
    """
    if pair_cost((2, 2), alpha) >= most - TOLERANCE:
        return None
    most_dp, most_pp = problem.largest_pair
    least = product_bound(problem)
    best: Pair | None = None
    for dp in range(2, most_dp + 1):
        pair = dp, max(2, -int(-least // dp))
        if pair_cost((dp, 2), alpha) >= most - TOLERANCE:
            break
        if pair[1] <= most_pp and (best is None or pair_cost(pair, alpha) < pair_cost(best, alpha)):
            best = pair
    return best


# Rectangles cut out of the largest domain: S = 2 or R = 2 where one domain is much larger than the rest.
#
# The largest domain lies under all cells, and every other one in use covers a rectangle of rows by columns.  Where the
# rectangles share no columns, a column touches two domains at most; where they go round the rows, each of them adds one
# domain to the rows that it has, and S = 2 comes with R = 1 + ceil(sum of heights / D).  Unbalanced trees have such
# clusters: half of the nodes below one switch, the others below many.


def cut_outs(problem: GridProblem) -> IntArray | None:
    """Return the domain of each cell, shape [rows, columns], with at most two domains a column; ``None`` = not so."""
    # cells on each of the largest domains but the first, as few of them as hold all cells
    sizes: list[int] = []
    left = problem.cells - problem.capacities[0]
    for capacity in problem.capacities[1:]:
        if left <= 0:
            break
        sizes.append(min(capacity, left))
        left -= capacity
    # each rectangle is as narrow as its height allows, and then one column wider where that saves most rows
    widths = [max(1, -(-size // problem.rows)) for size in sizes]
    if sum(widths) > problem.columns:
        return None
    saved = [(_saving(size, width), k) for k, (size, width) in enumerate(zip(sizes, widths, strict=True))]
    heapq.heapify(saved)
    for _ in range(problem.columns - sum(widths) if saved else 0):
        _, k = saved[0]
        widths[k] += 1
        heapq.heapreplace(saved, (_saving(sizes[k], widths[k]), k))
    heights = [-(-size // width) for size, width in zip(sizes, widths, strict=True)]
    cells = np.zeros((problem.rows, problem.columns), dtype=np.int32)
    row = column = 0
    for k, (size, width, height) in enumerate(zip(sizes, widths, heights, strict=True), 1):
        rows = (row + np.arange(size) // width) % problem.rows
        cells[rows, column + np.arange(size) % width] = k
        row, column = row + height, column + width
    return cells


def _saving(size: int, width: int) -> float:
    """Return what one column more changes the height by, rows in fractions: negative."""
    return size / (width + 1) - size / width
