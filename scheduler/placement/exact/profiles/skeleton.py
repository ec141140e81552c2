"""Which domains serve which column: a relaxation strong enough to refute, and a skeleton to realise.

A pair without a solution of :class:`SkeletonModel` is refuted; a solution is a *skeleton*, the domains of each column,
for :mod:`scheduler.placement.exact.profiles.realise`.  The model has three parts: what every domain does in total,
which columns it serves, and, for R = 2, which two domains each row lies on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.cpsat import Answer, Slice, solve
from scheduler.placement.exact.grid.params import DEFAULTS, ExactParams
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.exact.pairs.bounds import usable_domains
from scheduler.placement.exact.profiles.column_model import ColumnPairs, FreeColumns
from scheduler.placement.exact.profiles.width_model import DomainTotals
from scheduler.placement.types import Pair
from topology.cluster import BoolArray, IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A solution."""

    serves: BoolArray  # shape [domains, columns], whether the domain may hold cells of the column
    cells: IntArray | None  # shape [rows, columns], the domain of each cell, where the model is exact (R = 2)


class SkeletonModel:
    """The model of one pair, made once and solved as often as wanted; ``spare_rows`` as in ``WidthModel``."""

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int, params: ExactParams = DEFAULTS) -> None:
        self._fits = sum(problem.capacities[: usable_domains(problem, pair)]) >= problem.cells
        self._totals = DomainTotals(problem, pair, spare_rows=spare_rows, params=params)
        self._columns: ColumnPairs | FreeColumns
        self._row_pairs: RowPairs | None = None
        # pairs of rows need columns that can be told apart, so for (2, 2) the rows are counted and not the columns
        if pair[0] == 2 and pair[1] != 2:
            self._columns = ColumnPairs(self._totals)
        else:
            self._columns = FreeColumns(self._totals)
            if pair[1] == 2:
                self._row_pairs = RowPairs(self._totals, self._columns.serves)

    def ask_for_row(self, prices: IntArray) -> None:
        """Leave only skeletons with a row as cheap as the average row is in every placement.

        All cells together cost at most ``sum prices * capacities``, so some row costs at most a D-th of that; prices
        are integers, so that it may be rounded down.

        :param prices: shape [usable domains], not negative: what a cell in a domain costs.
        """
        most = int(np.dot(prices, self._totals.capacities)) // self._totals.problem.rows
        self._columns.add_row([int(price) for price in prices], most)

    def find(self, limit: Slice, widths: IntArray | None = None) -> tuple[Answer, Skeleton | None]:
        """Search for a skeleton; shape of widths [usable domains], the columns each domain serves, ``None`` = any."""
        if not self._fits:
            return "no", None
        cp = self._totals.cp
        if widths is not None:
            cp = self._totals.with_widths(widths)
            self._columns.order_alike(cp, widths)
        return self._find(limit, cp)

    def find_shapes(self, limit: Slice, shapes: Sequence[tuple[int, int]]) -> tuple[Answer, Skeleton | None]:
        """Search for a placement of S > 2, R = 2 where every domain touches so many columns and rows, (q, r).

        :param shapes: of all domains, of equal ones in descending order.
        """
        usable = len(self._totals.capacities)
        if not self._fits or any(q for q, _ in shapes[usable:]):
            # the largest domains serve as well
            return "no", None
        widths, heights = (np.array(one, dtype=np.int32) for one in zip(*shapes[:usable], strict=True))
        cp = self._totals.with_widths(widths, heights)
        # a number for each shape: only domains of the same one are interchangeable
        self._columns.order_alike(cp, widths * (self._totals.problem.rows + 1) + heights)
        return self._find(limit, cp)

    def _find(self, limit: Slice, cp: cp_model.CpModel) -> tuple[Answer, Skeleton | None]:
        answer, solver = solve(cp, limit)
        if answer != "yes":
            return answer, None
        serves = np.array(self._columns.found(solver), dtype=np.bool_)
        return "yes", Skeleton(serves, self._row_pairs.placement(solver, serves) if self._row_pairs else None)


class RowPairs:
    """R = 2: how many rows lie on each domain alone and on each pair, beside the columns that each domain serves.

    Rows on the pair (j, k) are possible only if every column is served by one of the two.  In such rows domain j may
    hold any number of cells between those that only j serves and all that j serves, so the model is exact: a solution
    is a placement.
    """

    def __init__(self, totals: DomainTotals, serves: Sequence[Sequence[cp_model.IntVar]]) -> None:
        self._totals = totals
        self._serves = serves
        self._rows_on: dict[tuple[int, ...], cp_model.IntVar] = {}
        self._cells_of_first: dict[tuple[int, ...], cp_model.LinearExprT] = {}
        self._rows: list[list[cp_model.IntVar]] = [[] for _ in totals.domains]
        self._load: list[list[cp_model.LinearExprT]] = [[] for _ in totals.domains]
        for k in totals.domains:
            self._alone(k)
        for pair in combinations(totals.domains, 2):
            self._together(pair)
        totals.cp.add(sum(self._rows_on.values()) == totals.problem.rows)
        for k in totals.domains:
            totals.cp.add(sum(self._rows[k]) == totals.rows(k))
            totals.cp.add(sum(self._load[k]) == totals.cells[k])

    def _alone(self, k: int) -> None:
        """Add the rows that lie on one domain whole: only where it serves every column."""
        totals, columns = self._totals, self._totals.problem.columns
        if totals.capacities[k] < columns:
            return
        alone = totals.cp.new_int_var(0, min(totals.problem.rows, totals.capacities[k] // columns), "")
        totals.cp.add(alone == 0).only_enforce_if(~totals.width_is[k][columns])
        self._rows_on[k,] = alone
        self._cells_of_first[k,] = columns * alone
        self._rows[k].append(alone)
        self._load[k].append(columns * alone)

    def _together(self, pair: tuple[int, int]) -> None:
        """Add the rows that lie on two domains."""
        totals, cp, columns = self._totals, self._totals.cp, self._totals.problem.columns
        top = min(totals.problem.rows, sum(totals.capacities[k] for k in pair) // columns)
        if not top:
            return
        together = cp.new_int_var(0, top, "")
        paired = cp.new_bool_var("")
        cp.add(together == 0).only_enforce_if(~paired)
        for p in range(columns):
            # every column is served by one of the two
            cp.add_bool_or(~paired, *(self._serves[k][p] for k in pair))
        cells = {k: cp.new_int_var(0, totals.capacities[k], "") for k in pair}
        cp.add(sum(cells.values()) == columns * together)
        for one, other in (pair, pair[::-1]):
            for q, is_q in totals.width_is[one].items():
                # of each row at most the q cells that it serves; with the same of the other, at least what only it does
                cp.add(cells[one] <= q * together).only_enforce_if(is_q)
                # implied, and found sooner so: the other serves the P - q columns that this one does not, or more
                wide = [is_w for w, is_w in totals.width_is[other].items() if w >= columns - q]
                cp.add_bool_or(~paired, ~is_q, *wide)
            self._rows[one].append(together)
            self._load[one].append(cells[one])
        self._rows_on[pair] = together
        self._cells_of_first[pair] = cells[pair[0]]

    def placement(self, solver: cp_model.CpSolver, serves: BoolArray) -> IntArray:
        """Return the placement that a solution is, shape [rows, columns]; ``serves`` is of the same solution."""
        blocks = []
        for on, count in self._rows_on.items():
            first, second = on[0], on[-1]
            # the first takes all that it serves, then gives the second what it has too much, where both serve
            block = np.where(serves[first], first, second)[None, :].repeat(solver.value(count), axis=0)
            surplus = int((block == first).sum()) - solver.value(self._cells_of_first[on])
            either = np.flatnonzero((block == first) & serves[second])
            block.flat[either[:surplus]] = second
            blocks.append(block)
        return np.concatenate(blocks).astype(np.int32)
