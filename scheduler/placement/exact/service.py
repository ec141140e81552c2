"""Which columns each domain serves, and for R = 2 which two domains each row lies on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.exact.totals import BoolArray, Totals
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_ORDERED_DOMAINS = 20
"""Domains whose columns enter the lexicographic order of columns: its weights have to stay small integers."""


class FreeColumns:
    """Any S: a boolean for each domain and column, and the cells that it gives."""

    def __init__(self, totals: Totals) -> None:
        cp, problem = totals.cp, totals.problem
        self._totals = totals
        self.serves = [[cp.new_bool_var("") for _ in range(problem.columns)] for _ in totals.domains]
        gives = []
        for k, capacity in enumerate(totals.capacities):
            cp.add(sum(self.serves[k]) == totals.width(k))
            top = min(problem.rows, capacity)
            gives.append([cp.new_int_var(0, top, "") for _ in range(problem.columns)])
            for p, cells in enumerate(gives[k]):
                cp.add(cells <= top * self.serves[k][p])
                cp.add(cells <= totals.rows(k))
            cp.add(sum(gives[k]) == totals.cells[k])
        for p in range(problem.columns):
            cp.add(sum(self.serves[k][p] for k in totals.domains) <= totals.dp)
            cp.add(sum(gives[k][p] for k in totals.domains) == problem.rows)
        self._order_columns(totals)

    def _order_columns(self, totals: Totals) -> None:
        """Columns are interchangeable: in descending order as binary numbers."""
        ordered = min(len(totals.capacities), _ORDERED_DOMAINS)
        value = [
            sum((1 << (ordered - 1 - k)) * self.serves[k][p] for k in range(ordered))
            for p in range(totals.problem.columns)
        ]
        for left, right in pairwise(value):
            totals.cp.add(left >= right)

    def add_row(self, prices: Sequence[int], most: int) -> None:
        """Ask for a row that touches at most R domains and costs at most so much, by prices of a domain's cells."""
        cp = self._totals.cp
        touches = [cp.new_bool_var("") for _ in self._totals.domains]
        cp.add(sum(touches) <= self._totals.pp)
        cost = []
        for p in range(self._totals.problem.columns):
            takes = [cp.new_bool_var("") for _ in touches]
            cp.add_exactly_one(takes)
            for k, take in enumerate(takes):
                cp.add_implication(take, touches[k])
                cp.add_implication(take, self.serves[k][p])
                cost.append(prices[k] * take)
        cp.add(sum(cost) <= most)

    def order_alike(self, copy: cp_model.CpModel, widths: IntArray) -> None:
        """Interchangeable domains: in descending order as binary numbers too, which goes together with the columns'."""
        for j, k in self._totals.alike(widths):
            first, second = (
                sum(
                    copy.get_bool_var_from_proto_index(b.index) * (1 << p)
                    for p, b in enumerate(reversed(self.serves[d]))
                )
                for d in (j, k)
            )
            copy.add(first >= second)

    def found(self, solver: cp_model.CpSolver) -> list[list[bool]]:
        """For each domain, whether it serves each column."""
        return [[solver.boolean_value(b) for b in row] for row in self.serves]


class ColumnPairs:
    """S = 2: how many columns lie on each domain alone and on each pair, so that no two columns are told apart.

    A column on the pair (j, k) gets D cells from the two, from each at most the rows it touches, so together they touch
    all D rows.  The columns of one pair can be taken to share its cells evenly.
    """

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._columns_on: dict[tuple[int, ...], cp_model.IntVar] = {}
        serves: list[list[cp_model.LinearExprT]] = [[] for _ in totals.domains]
        load: list[list[cp_model.LinearExprT]] = [[] for _ in totals.domains]
        for k in totals.domains:
            self._alone(k, serves, load)
        for j, k in combinations(totals.domains, 2):
            self._together(j, k, serves, load)
        totals.cp.add(sum(self._columns_on.values()) == totals.problem.columns)
        for k in totals.domains:
            totals.cp.add(sum(serves[k]) == totals.width(k))
            totals.cp.add(sum(load[k]) == totals.cells[k])

    def _alone(self, k: int, serves: list[list[cp_model.LinearExprT]], load: list[list[cp_model.LinearExprT]]) -> None:
        totals, rows = self._totals, self._totals.problem.rows
        if not (top := min(totals.capacities[k] // rows, totals.problem.columns)):
            return
        columns = self._columns_on[k,] = totals.cp.new_int_var(0, top, "")
        any_here = totals.cp.new_bool_var("")
        totals.cp.add(columns == 0).only_enforce_if(~any_here)
        totals.cp.add(totals.rows(k) == rows).only_enforce_if(any_here)
        serves[k].append(columns)
        load[k].append(rows * columns)

    def _together(
        self, j: int, k: int, serves: list[list[cp_model.LinearExprT]], load: list[list[cp_model.LinearExprT]]
    ) -> None:
        totals, rows = self._totals, self._totals.problem.rows
        cp = totals.cp
        top = min((totals.capacities[j] + totals.capacities[k]) // rows, totals.problem.columns)
        if not top:
            return
        columns = self._columns_on[j, k] = cp.new_int_var(0, top, "")
        at_least = [cp.new_bool_var("") for _ in range(top)]
        cp.add(sum(at_least) == columns)
        for more, fewer in pairwise(reversed(at_least)):
            cp.add_implication(more, fewer)
        cp.add(sum(totals.rows(d) for d in (j, k)) >= rows).only_enforce_if(at_least[0])
        cells = {d: cp.new_int_var(0, min(totals.capacities[d], top * rows), "") for d in (j, k)}
        cp.add(cells[j] + cells[k] == rows * columns)
        for d in (j, k):
            cp.add(cells[d] >= columns)
            for count in range(top):
                within = cp.add(cells[d] <= (count + 1) * totals.rows(d))
                if count + 1 < top:
                    within.only_enforce_if(~at_least[count + 1])
            cp.add(cells[d] == 0).only_enforce_if(~at_least[0])
            serves[d].append(columns)
            load[d].append(cells[d])

    def add_row(self, prices: Sequence[int], most: int) -> None:
        """Ask for a row that touches at most R domains and costs at most so much, by prices of a domain's cells."""
        cp, top = self._totals.cp, self._totals.problem.columns
        touches = [cp.new_bool_var("") for _ in self._totals.domains]
        cp.add(sum(touches) <= self._totals.pp)
        cost: list[cp_model.LinearExprT] = []
        for on, columns in self._columns_on.items():
            cells = [cp.new_int_var(0, top, "") for _ in on]
            cp.add(sum(cells) == columns)
            for k, count in zip(on, cells, strict=True):
                cp.add(count <= top * touches[k])
                cost.append(prices[k] * count)
        cp.add(sum(cost) <= most)

    def order_alike(self, copy: cp_model.CpModel, widths: IntArray) -> None:
        """Interchangeable domains: they touch rows in descending number."""
        for j, k in self._totals.alike(widths):
            first, second = (
                copy.get_int_var_from_proto_index(self._totals.rows_at[d, int(widths[d])].index) for d in (j, k)
            )
            copy.add(first >= second)

    def found(self, solver: cp_model.CpSolver) -> list[list[bool]]:
        """For each domain, whether it serves each column."""
        columns = [on for on, count in self._columns_on.items() for _ in range(solver.value(count))]
        return [[k in on for on in columns] for k in self._totals.domains]


class RowPairs:
    """R = 2: how many rows lie on each domain alone and on each pair, beside the columns that each domain serves.

    Rows on the pair (j, k) are possible only if every column is served by one of the two.  In such rows domain j may
    hold any number of cells between those that only j serves and all that j serves, so the model is exact: a solution
    is a placement.
    """

    def __init__(self, totals: Totals, serves: Sequence[Sequence[cp_model.IntVar]]) -> None:
        self._totals = totals
        self._rows_on: dict[tuple[int, ...], cp_model.IntVar] = {}
        self._cells_of_first: dict[tuple[int, ...], cp_model.LinearExprT] = {}
        rows: list[list[cp_model.IntVar]] = [[] for _ in totals.domains]
        load: list[list[cp_model.LinearExprT]] = [[] for _ in totals.domains]
        for k in totals.domains:
            self._alone(k, rows, load)
        for j, k in combinations(totals.domains, 2):
            self._together((j, k), serves, rows, load)
        totals.cp.add(sum(self._rows_on.values()) == totals.problem.rows)
        for k in totals.domains:
            totals.cp.add(sum(rows[k]) == totals.rows(k))
            totals.cp.add(sum(load[k]) == totals.cells[k])

    def _alone(self, k: int, rows: list[list[cp_model.IntVar]], load: list[list[cp_model.LinearExprT]]) -> None:
        totals, columns = self._totals, self._totals.problem.columns
        if totals.capacities[k] < columns:
            return
        alone = totals.cp.new_int_var(0, min(totals.problem.rows, totals.capacities[k] // columns), "")
        totals.cp.add(alone == 0).only_enforce_if(~totals.width_is[k][columns])
        self._rows_on[k,] = alone
        self._cells_of_first[k,] = columns * alone
        rows[k].append(alone)
        load[k].append(columns * alone)

    def _together(
        self,
        pair: tuple[int, int],
        serves: Sequence[Sequence[cp_model.IntVar]],
        rows: list[list[cp_model.IntVar]],
        load: list[list[cp_model.LinearExprT]],
    ) -> None:
        totals, cp, columns = self._totals, self._totals.cp, self._totals.problem.columns
        top = min(totals.problem.rows, sum(totals.capacities[k] for k in pair) // columns)
        if not top:
            return
        together = cp.new_int_var(0, top, "")
        paired = cp.new_bool_var("")
        cp.add(together == 0).only_enforce_if(~paired)
        for p in range(columns):
            cp.add_bool_or(~paired, *(serves[k][p] for k in pair))
        cells = {k: cp.new_int_var(0, totals.capacities[k], "") for k in pair}
        cp.add(sum(cells.values()) == columns * together)
        for one, other in (pair, pair[::-1]):
            for q, is_q in totals.width_is[one].items():
                cp.add(cells[one] <= q * together).only_enforce_if(is_q)
                wide = [is_w for w, is_w in totals.width_is[other].items() if w >= columns - q]
                cp.add_bool_or(~paired, ~is_q, *wide)
            rows[one].append(together)
            load[one].append(cells[one])
        self._rows_on[pair] = together
        self._cells_of_first[pair] = cells[pair[0]]

    def placement(self, solver: cp_model.CpSolver, serves: BoolArray) -> IntArray:
        """The placement that a solution is: shape [rows, columns], the domain of each cell.

        :param serves: shape [domains, columns], of the same solution.
        """
        blocks = []
        for on, count in self._rows_on.items():
            first, second = on[0], on[-1]
            block = np.where(serves[first], first, second)[None, :].repeat(solver.value(count), axis=0)
            surplus = int((block == first).sum()) - solver.value(self._cells_of_first[on])
            either = np.flatnonzero((block == first) & serves[second])
            block.flat[either[:surplus]] = second
            blocks.append(block)
        return np.concatenate(blocks).astype(np.int32)
