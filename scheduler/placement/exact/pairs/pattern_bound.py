"""Upper bound on the cells that a pair can cover, with prices for what a single row and a single column need.

A domain touched by r rows and q columns is a *shape*.  The widths q of the domains that a row touches add up to P or
more, and they are at most R; the heights r of the domains of a column add up to D, and they are at most S.  The
coverage bound knows the sums of both over all domains.  Here every width u(q) and every height v(r) has a weight as
well: with U the least weight of at most R widths that add up to P, and V that of at most S heights that add up to D,
all rows together weigh D U or more, sum r u(q) >= D U, and all columns sum q v(r) >= P V.  So for any multipliers and
weights

    D P <= lambda R D + mu S P - D U - P V + sum over k of max(0, max over (r, q) of
           min(c_k, r q) - lambda r - mu q + r u(q) + q v(r)).

Good weights come from a linear program over shapes and over *patterns*, the widths of a row and the heights of a
column; both are generated.  They are rounded to integers and then hold whatever they are.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.types import Pair
from scheduler.witnesses import PatternPrices
from scheduler.work_clock import spend
from topology.cluster import IndexArray

if TYPE_CHECKING:
    from ortools.linear_solver import pywraplp

UNIT = 1 << 16  # Parts of a cell: weights are integers, and this rounds away a thousandth of a cell at most
_PROGRAM_SECONDS, _ITERATION_SECONDS = 1e-3, 2e-8  # Of work: a program, and an iteration for each variable
_AROUND = 3  # Rows around c / q with which shapes are in the program from the start
_GAIN = 1e-6  # What a shape must gain to join it: the program works in floating point
_MISSING = 1000.0  # Price in cells of a row or column without a pattern: more than any pattern costs


class PatternBound:
    """The bound of one pair with some prices, in parts of ``UNIT``: what shapes are worth, and what they may lose."""

    def __init__(self, problem: GridProblem, pair: Pair, prices: PatternPrices) -> None:
        dp, pp = pair
        rows, columns = problem.rows, problem.columns
        self.prices, self._shape = prices, (columns, rows)
        self._widths, self._heights = np.array([0, *prices.widths]), np.array([0, *prices.heights])
        self.row_pattern, row_weight = lightest(self._widths, pp, columns)
        self.column_pattern, column_weight = lightest(self._heights, dp, rows)
        covered = prices.row * pp * rows + prices.column * dp * columns - rows * row_weight - columns * column_weight
        self.best = {c: max(0, int(self.worth(c).max())) for c in set(problem.capacities)}
        covered += sum(self.best[c] for c in problem.capacities)
        self.slack = covered - UNIT * problem.cells  # below 0 the pair is refuted

    def worth(self, capacity: int) -> IndexArray:
        """Return what each shape of a domain is worth, shape [P, D]: q - 1 first, then r - 1."""
        columns, rows = self._shape
        q, r = np.arange(1, columns + 1)[:, None], np.arange(1, rows + 1)[None, :]
        charged = self.prices.row * r + self.prices.column * q
        weighed = r * self._widths[1:, None] + q * self._heights[None, 1:]
        worth: IndexArray = UNIT * np.minimum(capacity, q * r) + weighed - charged
        return worth

    def shapes(self, capacity: int) -> list[tuple[int, int, int]]:
        """Return (q, r, regret) of the shapes that lose no more than the slack; (0, 0) = not in use.

        The regrets of all domains, what their shapes are worth less than the best, are at most the slack together.
        """
        regret = self.best[capacity] - self.worth(capacity)
        some = [(int(q) + 1, int(r) + 1, int(regret[q, r])) for q, r in np.argwhere(regret <= self.slack)]
        unused = self.best[capacity]
        return [(0, 0, unused), *some] if unused <= self.slack else some

    @cached_property
    def number_of_shapes(self) -> int:
        """How many shapes :meth:`shapes` has, over all different capacities."""
        return sum(len(self.shapes(capacity)) for capacity in self.best)


def lightest(weights: IndexArray, parts: int, total: int) -> tuple[tuple[int, ...], int]:
    """Return at most so many sizes that add up to the total or more and weigh least, descending, and their weight.

    :param weights: shape [total + 1], of each size, not negative; that of 0 is 0.
    """
    sizes = np.arange(total + 1)
    rest = np.maximum(0, sizes[:, None] - sizes[None, :])
    least = np.where(sizes == 0, 0, np.int64(1) << 60)
    chosen = []
    for _ in range(parts):
        weighed = least[rest] + weights[None, :]
        best = weighed.argmin(axis=1)
        chosen.append(best)
        least = weighed[sizes, best]
    pattern, left = [], total
    for best in reversed(chosen):
        pattern.append(size := int(best[left]))
        left = max(0, left - size)
    return tuple(sorted((size for size in pattern if size), reverse=True)), int(least[total])


def least_pattern_bound(problem: GridProblem, pair: Pair, *, rounds: int) -> PatternBound:
    """Return the bound with the best prices found: it is refuted, or nothing is to be gained, or rounds are over."""
    return _Master(problem, pair).least(rounds)


class _Master:
    """The linear program: the most cells of shapes whose rows and columns can be put together of patterns."""

    def __init__(self, problem: GridProblem, pair: Pair) -> None:
        from ortools.linear_solver import pywraplp

        dp, pp = pair
        rows, columns = problem.rows, problem.columns
        self._problem, self._pair = problem, pair
        self._solver = solver = pywraplp.Solver.CreateSolver("GLOP")
        inf = solver.infinity()
        self._many = {c: solver.Constraint(-inf, n) for c, n in Counter(problem.capacities).items()}
        self._touches = solver.Constraint(-inf, pp * rows), solver.Constraint(-inf, dp * columns)
        # of the sizes at least so large there are as many in shapes as the patterns ask
        self._wide = [solver.Constraint(0, inf) for _ in range(columns)]
        self._high = [solver.Constraint(0, inf) for _ in range(rows)]
        self._lines = solver.Constraint(rows, rows), solver.Constraint(columns, columns)
        self._objective = solver.Objective()
        self._objective.SetMaximization()
        for lines in self._lines:
            self._objective.SetCoefficient(without := solver.NumVar(0, inf, ""), -_MISSING)
            lines.SetCoefficient(without, 1)
        self._known: set[tuple[object, ...]] = set()
        for c in self._many:
            for q in range(1, min(columns, c) + 1):
                for r in range(max(1, c // q - _AROUND), min(rows, c // q + _AROUND + 1) + 1):
                    self._add_shape(c, q, r)

    def least(self, rounds: int) -> PatternBound:
        """Return the bound of the last prices, or the first that refutes."""
        from ortools.linear_solver import pywraplp

        for _ in range(rounds):
            status = self._solver.Solve()
            spend(_PROGRAM_SECONDS + _ITERATION_SECONDS * self._solver.iterations() * self._solver.NumVariables())
            if status != pywraplp.Solver.OPTIMAL:
                break
            worth = {c: _parts(one) for c, one in self._many.items()}
            bound = PatternBound(self._problem, self._pair, self._prices())
            if bound.slack < 0:
                break
            joined = self._add_pattern(self._wide, self._lines[0], bound.row_pattern)
            joined |= self._add_pattern(self._high, self._lines[1], bound.column_pattern)
            for c, paid in worth.items():
                if bound.best[c] > paid + UNIT * _GAIN:
                    q, r = np.unravel_index(int(bound.worth(c).argmax()), (self._problem.columns, self._problem.rows))
                    joined |= self._add_shape(c, int(q) + 1, int(r) + 1)
            if not joined:
                break
        return bound

    def _prices(self) -> PatternPrices:
        row, column = (_parts(one) for one in self._touches)
        widths, heights = (tuple(accumulate(_parts(one, -1) for one in at)) for at in (self._wide, self._high))
        return PatternPrices(row, column, widths, heights, UNIT)

    def _add_shape(self, capacity: int, q: int, r: int) -> bool:
        """Add a shape, unless it is there."""
        if (key := (capacity, q, r)) in self._known:
            return False
        self._known.add(key)
        shape = self._solver.NumVar(0, self._solver.infinity(), "")
        self._objective.SetCoefficient(shape, min(capacity, q * r))
        self._many[capacity].SetCoefficient(shape, 1)
        for touches, count in zip(self._touches, (r, q), strict=True):
            touches.SetCoefficient(shape, count)
        for at in self._wide[:q]:
            at.SetCoefficient(shape, r)
        for at in self._high[:r]:
            at.SetCoefficient(shape, q)
        return True

    def _add_pattern(self, at: list[pywraplp.Constraint], lines: pywraplp.Constraint, pattern: tuple[int, ...]) -> bool:
        """Add the sizes in which a line may be cut, unless they are there."""
        if (key := (id(at), *pattern)) in self._known:
            return False
        self._known.add(key)
        count = self._solver.NumVar(0, self._solver.infinity(), "")
        lines.SetCoefficient(count, 1)
        for size in range(max(pattern)):
            at[size].SetCoefficient(count, -sum(part > size for part in pattern))
        return True


def _parts(constraint: pywraplp.Constraint, sign: int = 1) -> int:
    """Return the price of a constraint in parts of a cell, not negative."""
    price: float = sign * constraint.dual_value()
    return max(0, round(UNIT * price))
