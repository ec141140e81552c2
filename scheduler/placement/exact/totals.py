"""What every domain does in total, for one pair (S, R): columns served, rows touched, cells held.

Per domain k: the number of columns q it serves, the rows r it touches, the cells n it holds, under the rectangle
inequalities; and for the rows the multisets of at most R domain widths that add up to P.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

BoolArray = npt.NDArray[np.bool_]

_MOST_OFFSETS = 12
_SCALES = (1, 2, 3)


def usable_domains(problem: GridProblem, pair: Pair) -> int:
    """How many domains a placement with this pair can use at most; the largest ones serve as well as any.

    Take columns as hyperedges over the domains that serve them.  Every row touches every connected component, so there
    are at most R of them, and a component with e columns has at most e * (S - 1) + 1 domains.  Hence at most
    P * (S - 1) + R domains; and the same with rows and columns exchanged.
    """
    dp, pp = pair
    by_columns = problem.columns * (dp - 1) + min(pp, problem.columns)
    by_rows = problem.rows * (pp - 1) + min(dp, problem.rows)
    return min(len(problem.capacities), by_columns, by_rows)


class Totals:
    """The variables and constraints that do not say which column and which row.

    :param spare_rows: see :class:`scheduler.placement.exact.skeleton.SkeletonModel`.
    """

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int) -> None:
        from ortools.sat.python import cp_model

        self.cp = cp_model.CpModel()
        self.problem = problem
        self.dp, self.pp = pair
        self._spare_rows = spare_rows
        self.capacities = problem.capacities[: usable_domains(problem, pair)]
        self.domains = range(len(self.capacities))
        self.width_is = [
            {q: self.cp.new_bool_var("") for q in range(min(problem.columns, c) + 1)} for c in self.capacities
        ]
        self.rows_at: dict[tuple[int, int], cp_model.IntVar] = {}
        self.cells = [self.cp.new_int_var(0, c, "") for c in self.capacities]
        self._rectangles()
        self._row_patterns()
        self._column_covers()
        self._equal_domains()

    def with_widths(self, widths: IntArray) -> cp_model.CpModel:
        """A copy of the model in which the number of columns each domain serves is given."""
        copy = self.cp.clone()
        for k, q in enumerate(widths):
            index = self.width_is[k][int(q)].index
            copy.add(copy.get_bool_var_from_proto_index(index) == 1)
        return copy

    def alike(self, widths: IntArray) -> Iterator[tuple[int, int]]:
        """Neighbours in the order of domains that are interchangeable: of equal capacity and width."""
        for j, k in pairwise(self.domains):
            if widths[k] and widths[j] == widths[k] and self.capacities[j] == self.capacities[k]:
                yield j, k

    def tallest(self, capacity: int, q: int) -> int:
        """Most rows that a domain of this capacity and width touches: a row need not use all q columns."""
        return min(self.problem.rows, capacity, -(-capacity // q) + self._spare_rows)

    def rows(self, k: int) -> cp_model.LinearExprT:
        """Rows that domain k touches."""
        return sum(self.rows_at[k, q] for q in self.width_is[k] if q)

    def width(self, k: int) -> cp_model.LinearExprT:
        """Columns that domain k serves."""
        return sum(q * is_q for q, is_q in self.width_is[k].items())

    def _rectangles(self) -> None:
        """N <= min(c, q * r), sum q <= S * P, sum r <= R * D, sum n = D * P, and a bound on the domains in use."""
        cp, rows = self.cp, self.problem.rows
        for k, capacity in enumerate(self.capacities):
            cp.add_exactly_one(self.width_is[k].values())
            by_width, by_remainder = [], []
            for q, is_q in self.width_is[k].items():
                if not q:
                    continue
                height, rest = divmod(capacity, q)
                top = self.tallest(capacity, q)
                r = self.rows_at[k, q] = cp.new_int_var(0, top, "")
                cp.add(r <= top * is_q)
                by_width.append(q * r)
                # beyond its full height a domain of width q can give at most (c mod q) more cells
                by_remainder.append(rest * r + (q - rest) * height * is_q if height < rows else q * rows * is_q)
            cp.add(self.cells[k] <= sum(by_width))
            cp.add(self.cells[k] <= sum(by_remainder))
        every = self.domains
        cp.add(sum(self.rows(k) for k in every) <= self.pp * rows)
        cp.add(sum(self.width(k) for k in every) <= self.dp * self.problem.columns)
        cp.add(sum(self.cells) == self.problem.cells)
        cp.add(
            sum((q - 1) * is_q for k in every for q, is_q in self.width_is[k].items() if q)
            >= self.problem.columns - self.pp
        )

    def _row_patterns(self) -> None:
        """Every row needs at most R domains whose widths add up to P: enough rows of every width or more."""
        cp, columns = self.cp, self.problem.columns
        patterns = list(minimal_patterns(columns, self.pp))
        rows_with = [cp.new_int_var(0, self.problem.rows, "") for _ in patterns]
        cp.add(sum(rows_with) == self.problem.rows)
        for q in range(1, columns + 1):
            wanted = [sum(w >= q for w in pattern) * y for pattern, y in zip(patterns, rows_with, strict=True)]
            cp.add(sum(r for (_, width), r in self.rows_at.items() if width >= q) >= sum(wanted))

    def _column_covers(self) -> None:
        """Every column needs domains that touch D rows together: enough column touches of every height."""
        heights = {(k, q): self.tallest(self.capacities[k], q) for k in self.domains for q in self.width_is[k] if q}
        for weight, least in cover_weights(self.problem.rows, self.dp, heights.values()):
            touches = [q * weight[height] * self.width_is[k][q] for (k, q), height in heights.items()]
            self.cp.add(sum(touches) >= least * self.problem.columns)

    def _equal_domains(self) -> None:
        """Domains of equal capacity are interchangeable: in descending width."""
        for k in self.domains[1:]:
            if self.capacities[k - 1] == self.capacities[k]:
                self.cp.add(self.width(k - 1) >= self.width(k))


def cover_weights(total: int, parts: int, heights: Iterable[int]) -> Iterator[tuple[dict[int, int], int]]:
    """Weights that every choice of at most ``parts`` heights with sum >= ``total`` must reach together.

    For an offset d < total / parts such a choice has ``sum (h - d)^+ >= total - parts * d``, and rounding each term up
    after scaling by m / (total - parts * d) leaves at least m.

    :returns: pairs of (weight of each height, least sum).
    """
    distinct = sorted(set(heights))
    low = [h for h in distinct if h * parts < total]
    for offset in [0, *low[-_MOST_OFFSETS:]]:
        left = total - parts * offset
        above = {h: max(0, h - offset) for h in distinct}
        yield {h: min(left, a) for h, a in above.items()}, left
        for scale in _SCALES:
            yield {h: min(scale, -(-scale * a // left)) for h, a in above.items()}, scale


def minimal_patterns(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Multisets of at most that many positive widths that add up to the total, each in descending order."""

    def extend(pattern: tuple[int, ...], left: int) -> Iterator[tuple[int, ...]]:
        if not left:
            yield pattern
            return
        room = parts - len(pattern)
        largest = min(pattern[-1] if pattern else total, left)
        for width in range(largest, 0, -1):
            if width * room < left:
                return
            yield from extend((*pattern, width), left - width)

    yield from extend((), total)
