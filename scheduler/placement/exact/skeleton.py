"""Which domains serve which column: a relaxation strong enough to refute, and a skeleton to realise.

Per domain k: the number of columns q it serves, the rows r it touches, the cells n it holds, all under the rectangle
inequalities; per column the domains that serve it (at most S) and the cells each gives; for the rows the multisets of
at most R domain widths that add up to P.  No solution refutes the pair.  A solution is a *skeleton* for
:mod:`scheduler.placement.exact.realise`.

For R = 2 the rows are explicit: y[j, k] rows lie on exactly the domains j and k, which is possible only if every column
is served by one of them.  In such rows domain j may hold any number of cells between those that only j serves and all
that j serves, so the model is exact: its skeletons can always be realised.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scheduler.placement.exact.cpsat import Answer, Slice, solve
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

BoolArray = npt.NDArray[np.bool_]

_ORDERED_DOMAINS = 20
"""Domains whose columns enter the lexicographic order of columns: its weights have to stay small integers."""


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


class SkeletonModel:
    """The model of one pair, made once and solved as often as wanted.

    :param spare_rows: a domain with c cells in q columns may touch so many more rows than ceil(c / q).  With ``R * D``
        minus the least sum of rows of the rectangle bound nothing is lost, as the sum of ceil(n / q) over the domains
        is at least that; with less the search is faster and its ``"no"`` proves nothing.
    """

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int) -> None:
        self._fits = sum(problem.capacities[: usable_domains(problem, pair)]) >= problem.cells
        self._model = _Model(problem, pair, spare_rows)

    def find(self, limit: Slice, widths: IntArray | None = None) -> tuple[Answer, BoolArray | None]:
        """Search for a skeleton.

        :param widths: shape [usable domains], the number of columns each domain serves; ``None`` = any.
        :returns: ``"no"``, or ``"yes"`` with the skeleton, shape [domains, columns].
        """
        if not self._fits:
            return "no", None
        cp = self._model.cp if widths is None else self._model.with_widths(widths)
        answer, solver = solve(cp, limit)
        if answer != "yes":
            return answer, None
        return "yes", np.array([[solver.boolean_value(b) for b in row] for row in self._model.serves], dtype=np.bool_)


class _Model:
    """The variables of one pair, and the families of constraints, each in a method of its own."""

    def __init__(self, problem: GridProblem, pair: Pair, spare_rows: int) -> None:
        from ortools.sat.python import cp_model

        self.cp = cp_model.CpModel()
        self._problem = problem
        self._dp, self._pp = pair
        self._spare_rows = spare_rows
        self._capacities = problem.capacities[: usable_domains(problem, pair)]
        self._domains = range(len(self._capacities))
        self.serves = [[self.cp.new_bool_var("") for _ in range(problem.columns)] for _ in self._domains]
        self._width_is = [
            {q: self.cp.new_bool_var("") for q in range(min(problem.columns, c) + 1)} for c in self._capacities
        ]
        self._rows_at: dict[tuple[int, int], cp_model.IntVar] = {}
        self._cells = [self.cp.new_int_var(0, c, "") for c in self._capacities]
        self._rectangles()
        self._row_patterns()
        self._columns()
        if self._pp == 2:
            self._row_pairs()
        self._symmetry()

    def with_widths(self, widths: IntArray) -> cp_model.CpModel:
        """A copy in which the number of columns each domain serves is given."""
        copy = self.cp.clone()
        for k, q in enumerate(widths):
            index = self._width_is[k][int(q)].index
            copy.add(copy.get_bool_var_from_proto_index(index) == 1)
        return copy

    def _rows(self, k: int) -> cp_model.LinearExprT:
        return sum(self._rows_at[k, q] for q in self._width_is[k] if q)

    def _width(self, k: int) -> cp_model.LinearExprT:
        return sum(q * is_q for q, is_q in self._width_is[k].items())

    def _rectangles(self) -> None:
        """N <= min(c, q * r), sum q <= S * P, sum r <= R * D, sum n = D * P, and a bound on the domains in use."""
        cp, rows = self.cp, self._problem.rows
        for k, capacity in enumerate(self._capacities):
            cp.add_exactly_one(self._width_is[k].values())
            by_width, by_remainder = [], []
            for q, is_q in self._width_is[k].items():
                if not q:
                    continue
                height, rest = divmod(capacity, q)
                # more rows than the full height are possible: a row need not use all q columns of the domain
                top = min(rows, capacity, height + (rest > 0) + self._spare_rows)
                r = self._rows_at[k, q] = cp.new_int_var(0, top, "")
                cp.add(r <= top * is_q)
                by_width.append(q * r)
                # beyond its full height a domain of width q can give at most (c mod q) more cells
                by_remainder.append(rest * r + (q - rest) * height * is_q if height < rows else q * rows * is_q)
            cp.add(self._cells[k] <= sum(by_width))
            cp.add(self._cells[k] <= sum(by_remainder))
            cp.add(sum(self.serves[k]) == self._width(k))
        every = self._domains
        cp.add(sum(self._rows(k) for k in every) <= self._pp * rows)
        cp.add(sum(self._width(k) for k in every) <= self._dp * self._problem.columns)
        cp.add(sum(self._cells) == self._problem.cells)
        cp.add(
            sum((q - 1) * is_q for k in every for q, is_q in self._width_is[k].items() if q)
            >= self._problem.columns - self._pp
        )
        for p in range(self._problem.columns):
            cp.add(sum(self.serves[k][p] for k in every) <= self._dp)

    def _row_patterns(self) -> None:
        """Every row needs at most R domains whose widths add up to P: enough rows of every width or more."""
        cp, columns = self.cp, self._problem.columns
        patterns = list(minimal_patterns(columns, self._pp))
        rows_with = [cp.new_int_var(0, self._problem.rows, "") for _ in patterns]
        cp.add(sum(rows_with) == self._problem.rows)
        for q in range(1, columns + 1):
            wanted = [sum(w >= q for w in pattern) * y for pattern, y in zip(patterns, rows_with, strict=True)]
            cp.add(sum(r for (_, width), r in self._rows_at.items() if width >= q) >= sum(wanted))

    def _columns(self) -> None:
        """Every column gets D cells, from a domain at most as many as the rows that domain touches."""
        cp, rows = self.cp, self._problem.rows
        gives = []
        for k, capacity in enumerate(self._capacities):
            top = min(rows, capacity)
            gives.append([cp.new_int_var(0, top, "") for _ in range(self._problem.columns)])
            for p, cells in enumerate(gives[k]):
                cp.add(cells <= top * self.serves[k][p])
                cp.add(cells <= self._rows(k))
            cp.add(sum(gives[k]) == self._cells[k])
        for p in range(self._problem.columns):
            cp.add(sum(gives[k][p] for k in self._domains) == rows)

    def _row_pairs(self) -> None:
        """R = 2: y[j, k] rows on exactly j and k, and the cells that each of the two gives them."""
        cp, columns = self.cp, self._problem.columns
        rows: list[list[cp_model.IntVar]] = [[] for _ in self._domains]
        load: list[list[cp_model.LinearExprT]] = [[] for _ in self._domains]
        total = []
        for j, first in enumerate(self._capacities):
            if first >= columns:
                alone = cp.new_int_var(0, min(self._problem.rows, first // columns), "")
                cp.add(alone == 0).only_enforce_if(~self._width_is[j][columns])
                total.append(alone)
                rows[j].append(alone)
                load[j].append(columns * alone)
            for k in range(j + 1, len(self._capacities)):
                top = min(self._problem.rows, (first + self._capacities[k]) // columns)
                if not top:
                    continue
                together = cp.new_int_var(0, top, "")
                paired = cp.new_bool_var("")
                cp.add(together == 0).only_enforce_if(~paired)
                for p in range(columns):
                    cp.add_bool_or(~paired, self.serves[j][p], self.serves[k][p])
                cells = {d: cp.new_int_var(0, self._capacities[d], "") for d in (j, k)}
                cp.add(cells[j] + cells[k] == columns * together)
                for one, other in ((j, k), (k, j)):
                    for q, is_q in self._width_is[one].items():
                        cp.add(cells[one] <= q * together).only_enforce_if(is_q)
                        wide = [is_w for w, is_w in self._width_is[other].items() if w >= columns - q]
                        cp.add_bool_or(~paired, ~is_q, *wide)
                    rows[one].append(together)
                    load[one].append(cells[one])
                total.append(together)
        cp.add(sum(total) == self._problem.rows)
        for k in self._domains:
            cp.add(sum(rows[k]) == self._rows(k))
            cp.add(sum(load[k]) == self._cells[k])

    def _symmetry(self) -> None:
        """Equal domains by descending width; columns in descending order as binary numbers."""
        for k in self._domains[1:]:
            if self._capacities[k - 1] == self._capacities[k]:
                self.cp.add(self._width(k - 1) >= self._width(k))
        ordered = min(len(self._capacities), _ORDERED_DOMAINS)
        value = [
            sum((1 << (ordered - 1 - k)) * self.serves[k][p] for k in range(ordered))
            for p in range(self._problem.columns)
        ]
        for left, right in pairwise(value):
            self.cp.add(left >= right)


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
