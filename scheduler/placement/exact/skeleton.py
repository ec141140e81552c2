"""Which domains serve which column: a relaxation strong enough to refute, and a skeleton to realise.

No solution of :class:`SkeletonModel` refutes a pair; a solution is a *skeleton*, the set of domains of each column, for
:mod:`scheduler.placement.exact.realise`.  The model has three parts: what every domain does in total
(:mod:`scheduler.placement.exact.totals`), which columns it serves, and, for R = 2, which two domains each row lies on
(:mod:`scheduler.placement.exact.service`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.placement.exact.cpsat import Answer, Slice, solve
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.service import ColumnPairs, FreeColumns, RowPairs
from scheduler.placement.exact.totals import BoolArray, Totals, usable_domains
from scheduler.placement.types import Pair
from topology.cluster import IntArray


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A solution.

    :param serves: shape [domains, columns], whether the domain may hold cells of the column.
    :param cells: shape [rows, columns], the domain of each cell, where the model is exact (R = 2).
    """

    serves: BoolArray
    cells: IntArray | None


class SkeletonModel:
    """The model of one pair, made once and solved as often as wanted.

    :param spare_rows: a domain with c cells in q columns may touch so many more rows than ceil(c / q).  With ``R * D``
        minus the least sum of rows of the rectangle bound nothing is lost, as the sum of ceil(n / q) over the domains
        is at least that; with less the search is faster and its ``"no"`` proves nothing.
    """

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int) -> None:
        self._fits = sum(problem.capacities[: usable_domains(problem, pair)]) >= problem.cells
        self._totals = Totals(problem, pair, spare_rows=spare_rows)
        self._service: ColumnPairs | FreeColumns
        self._row_pairs: RowPairs | None = None
        if pair[0] == 2 and pair[1] != 2:
            self._service = ColumnPairs(self._totals)
        else:
            self._service = FreeColumns(self._totals)
            if pair[1] == 2:
                self._row_pairs = RowPairs(self._totals, self._service.serves)

    def ask_for_row(self, prices: IntArray) -> None:
        """Leave only skeletons with a row as cheap as the average row is in every placement.

        All cells together cost at most ``sum prices * capacities``, so some row costs at most a D-th of that.

        :param prices: shape [usable domains], not negative: what a cell in a domain costs.
        """
        most = int(np.dot(prices, self._totals.capacities)) // self._totals.problem.rows
        self._service.add_row([int(price) for price in prices], most)

    def find(self, limit: Slice, widths: IntArray | None = None) -> tuple[Answer, Skeleton | None]:
        """Search for a skeleton.

        :param widths: shape [usable domains], the number of columns each domain serves; ``None`` = any.
        :returns: ``"no"``, or ``"yes"`` with the skeleton.
        """
        if not self._fits:
            return "no", None
        cp = self._totals.cp
        if widths is not None:
            cp = self._totals.with_widths(widths)
            self._service.order_alike(cp, widths)
        answer, solver = solve(cp, limit)
        if answer != "yes":
            return answer, None
        serves = np.array(self._service.found(solver), dtype=np.bool_)
        return "yes", Skeleton(serves, self._row_pairs.placement(solver, serves) if self._row_pairs else None)
