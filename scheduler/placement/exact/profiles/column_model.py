"""Which columns each domain serves: one model for every S, and one for S = 2 in which no two columns are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from scheduler.placement.exact.profiles.width_model import DomainTotals
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


class FreeColumns:
    """Any S: a boolean for each domain and column, and the cells that it gives."""

    def __init__(self, totals: DomainTotals) -> None:
        cp, problem = totals.cp, totals.problem
        self._totals = totals
        self.serves = [[cp.new_bool_var("") for _ in range(problem.columns)] for _ in totals.domains]
        gives = []
        for k, capacity in enumerate(totals.capacities):
            cp.add(sum(self.serves[k]) == totals.width(k))
            top = min(problem.rows, capacity)
            gives.append([cp.new_int_var(0, top, "") for _ in range(problem.columns)])
            for p, cells in enumerate(gives[k]):
                # cells only in columns that it serves, and in each at most one of every row that it touches
                cp.add(cells <= top * self.serves[k][p])
                cp.add(cells <= totals.rows(k))
            cp.add(sum(gives[k]) == totals.cells[k])
        for p in range(problem.columns):
            # at most S domains in a column, which give its D cells
            cp.add(sum(self.serves[k][p] for k in totals.domains) <= totals.dp)
            cp.add(sum(gives[k][p] for k in totals.domains) == problem.rows)
        # columns are interchangeable: in descending order as binary numbers, the first domain its highest digit
        ordered = min(len(totals.capacities), totals.params.ordered_domains)
        value = [
            sum((1 << (ordered - 1 - k)) * self.serves[k][p] for k in range(ordered)) for p in range(problem.columns)
        ]
        for left, right in pairwise(value):
            cp.add(left >= right)

    def add_row(self, prices: Sequence[int], most: int) -> None:
        """Ask for a row that touches at most R domains and costs at most so much, by prices of a domain's cells."""
        cp = self._totals.cp
        touches = [cp.new_bool_var("") for _ in self._totals.domains]
        cp.add(sum(touches) <= self._totals.pp)
        cost = []
        for p in range(self._totals.problem.columns):
            # its cell in column p lies in one domain, which it touches and which serves the column
            takes = [cp.new_bool_var("") for _ in touches]
            cp.add_exactly_one(takes)
            for k, take in enumerate(takes):
                cp.add_implication(take, touches[k])
                cp.add_implication(take, self.serves[k][p])
                cost.append(prices[k] * take)
        cp.add(sum(cost) <= most)

    def order_alike(self, copy: cp_model.CpModel, widths: IntArray) -> None:
        """Put interchangeable domains in descending order as binary numbers too.

        Both orders at once lose nothing: of all ways to exchange columns and equal domains, the one that is largest
        when read row by row is in order both ways.
        """
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
        """Return for each domain whether it serves each column."""
        return [[solver.boolean_value(b) for b in row] for row in self.serves]


class ColumnPairs:
    """S = 2: how many columns lie on each domain alone and on each pair, so that no two columns are told apart.

    A column on the pair (j, k) gets D cells from the two, from each at most the rows it touches, so together they touch
    all D rows.  The columns of one pair can be taken to share its cells evenly.
    """

    def __init__(self, totals: DomainTotals) -> None:
        self._totals = totals
        self._columns_on: dict[tuple[int, ...], cp_model.IntVar] = {}
        self._serves: list[list[cp_model.LinearExprT]] = [[] for _ in totals.domains]
        self._load: list[list[cp_model.LinearExprT]] = [[] for _ in totals.domains]
        for k in totals.domains:
            self._alone(k)
        for pair in combinations(totals.domains, 2):
            self._together(pair)
        totals.cp.add(sum(self._columns_on.values()) == totals.problem.columns)
        for k in totals.domains:
            totals.cp.add(sum(self._serves[k]) == totals.width(k))
            totals.cp.add(sum(self._load[k]) == totals.cells[k])

    def _alone(self, k: int) -> None:
        """Add the columns that lie on one domain whole: each takes D of its cells, and it touches every row."""
        totals, rows = self._totals, self._totals.problem.rows
        if not (top := min(totals.capacities[k] // rows, totals.problem.columns)):
            return
        columns = self._columns_on[k,] = totals.cp.new_int_var(0, top, "")
        any_here = totals.cp.new_bool_var("")
        totals.cp.add(columns == 0).only_enforce_if(~any_here)
        totals.cp.add(totals.rows(k) == rows).only_enforce_if(any_here)
        self._serves[k].append(columns)
        self._load[k].append(rows * columns)

    def _together(self, pair: tuple[int, int]) -> None:
        """Add the columns that lie on two domains."""
        totals, rows = self._totals, self._totals.problem.rows
        cp = totals.cp
        top = min(sum(totals.capacities[d] for d in pair) // rows, totals.problem.columns)
        if not top:
            return
        columns = self._columns_on[pair] = cp.new_int_var(0, top, "")
        # at_least[i]: more than i columns, so that cells <= columns * rows, a product, becomes linear for each number
        at_least = [cp.new_bool_var("") for _ in range(top)]
        cp.add(sum(at_least) == columns)
        for more, fewer in pairwise(reversed(at_least)):
            cp.add_implication(more, fewer)
        # the D cells of a column lie in D rows, each touched by one of the two
        cp.add(sum(totals.rows(d) for d in pair) >= rows).only_enforce_if(at_least[0])
        cells = {d: cp.new_int_var(0, min(totals.capacities[d], top * rows), "") for d in pair}
        cp.add(sum(cells.values()) == rows * columns)
        for d in pair:
            # each of the two gives every column a cell, else the column would lie on the other alone
            cp.add(cells[d] >= columns)
            for count in range(top):
                # in each column at most a cell of every row that the domain touches
                within = cp.add(cells[d] <= (count + 1) * totals.rows(d))
                if count + 1 < top:
                    within.only_enforce_if(~at_least[count + 1])
            cp.add(cells[d] == 0).only_enforce_if(~at_least[0])
            self._serves[d].append(columns)
            self._load[d].append(cells[d])

    def add_row(self, prices: Sequence[int], most: int) -> None:
        """Ask for a row that touches at most R domains and costs at most so much, by prices of a domain's cells."""
        cp, top = self._totals.cp, self._totals.problem.columns
        touches = [cp.new_bool_var("") for _ in self._totals.domains]
        cp.add(sum(touches) <= self._totals.pp)
        cost: list[cp_model.LinearExprT] = []
        for on, columns in self._columns_on.items():
            # its cells in the columns of a pair, shared out between the two
            cells = [cp.new_int_var(0, top, "") for _ in on]
            cp.add(sum(cells) == columns)
            for k, count in zip(on, cells, strict=True):
                cp.add(count <= top * touches[k])
                cost.append(prices[k] * count)
        cp.add(sum(cost) <= most)

    def order_alike(self, copy: cp_model.CpModel, widths: IntArray) -> None:
        """Put interchangeable domains in descending order of the rows they touch: there are no columns to compare."""
        for j, k in self._totals.alike(widths):
            first, second = (
                copy.get_int_var_from_proto_index(self._totals.rows_at[d, int(widths[d])].index) for d in (j, k)
            )
            copy.add(first >= second)

    def found(self, solver: cp_model.CpSolver) -> list[list[bool]]:
        """Return for each domain whether it serves each column."""
        columns = [on for on, count in self._columns_on.items() for _ in range(solver.value(count))]
        return [[k in on for on in columns] for k in self._totals.domains]
