"""S = 2: putting components together, each domain in one, until they have all columns and few enough row touches.

The columns of a placement fall into components, all of whose row touches together are R D at most.  A linear program
over the candidates says what a domain and a column are worth in row touches: its prices refute at once where even the
cheapest fractions cost too much, and rule out candidates that no packing within the budget has.  What is left is
searched depth first, domain by domain.

Prices are rounded to integers and then hold whatever they are: in a packing the row touches are the prices of all
domains and columns and, for each component, its *regret*, rows minus the prices of what it takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.placement.exact.components.column_components import Components
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.work_clock import spend
from topology.cluster import IndexArray

_NODE_SECONDS = 5e-5  # Of work to look at a node of the search
_UNIT = 1000  # Price of a row touch: prices are integers, and a thousandth of a row is as fine as rounding needs
_FIRST = 2000  # Candidates in the linear program to begin with, the cheapest for their columns
_MORE = 500  # Candidates that join it in each round, those of least regret
_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Prices:
    """What components pay for what they take, in thousandths of a row touch."""

    of_class: IndexArray  # shape [classes], of a domain
    of_column: int

    def regrets(self, components: Components) -> IndexArray:
        """Return what each component costs beyond the prices of what it takes."""
        paid = components.members @ self.of_class + components.columns * self.of_column
        return _UNIT * components.rows - paid


def master_prices(problem: GridProblem, components: Components) -> Prices:
    """Return prices from the linear program over the components, by column generation.

    minimise sum rows x, each domain in one component, sum of columns = P; domains and columns that no component takes
    cost as much as all rows together, so that there always is a solution.
    """
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    many = list(Counter(problem.capacities).values())
    domains = [solver.Constraint(float(n), float(n)) for n in many]
    columns = solver.Constraint(float(problem.columns), float(problem.columns))
    objective = solver.Objective()
    objective.SetMinimization()
    penalty = float(problem.rows * len(problem.capacities))
    for constraint in (*domains, columns):
        without = solver.NumVar(0.0, solver.infinity(), "")
        objective.SetCoefficient(without, penalty)
        constraint.SetCoefficient(without, 1.0)
    prices = Prices(np.zeros(len(many), dtype=np.int64), 0)
    joined = np.zeros(len(components), dtype=np.bool_)
    newest = np.argsort(components.rows / components.columns, kind="stable")[:_FIRST]
    for _ in range(_ROUNDS):
        for i in newest:
            joined[i] = True
            variable = solver.NumVar(0.0, solver.infinity(), "")
            objective.SetCoefficient(variable, float(components.rows[i]))
            columns.SetCoefficient(variable, float(components.columns[i]))
            for k in np.flatnonzero(components.members[i]):
                domains[k].SetCoefficient(variable, float(components.members[i, k]))
        if solver.Solve() != pywraplp.Solver.OPTIMAL:
            break
        prices = Prices(
            np.array([round(_UNIT * one.dual_value()) for one in domains], dtype=np.int64),
            round(_UNIT * columns.dual_value()),
        )
        regrets = prices.regrets(components)
        # rounding alone makes regrets of a few units
        cheap = np.flatnonzero((regrets < -len(problem.capacities)) & ~joined)
        if not len(cheap):
            break
        newest = cheap[np.argsort(regrets[cheap], kind="stable")[:_MORE]]
    return prices


class Packings:
    """All packings of components within R D row touches, one after another, those of little regret first.

    While they are gone through, row touches of components may be raised: what then costs too much is passed over.
    """

    def __init__(self, problem: GridProblem, pp: int, components: Components, prices: Prices, *, most: int) -> None:
        self.nodes = 0  # of the search tree
        self.pp = pp
        self._problem, self._prices, self._most = problem, prices, most
        self._many = np.array(list(Counter(problem.capacities).values()), dtype=np.int64)
        regrets = prices.regrets(components)
        self._least = min(0, int(regrets.min(initial=0)))
        within = regrets - self._least <= self._slack(self._many, problem.columns, pp * problem.rows)
        kept = components.where(within)
        self.components = replace(kept, rows=kept.rows.copy())
        self._regrets = regrets[within]
        self._failed: dict[tuple[bytes, int], int] = {}
        self._seen: set[tuple[int, ...]] = set()

    @property
    def stopped(self) -> bool:
        """Whether the limit of nodes was reached, so that no packing found means nothing."""
        return self.nodes >= self._most

    def rows_left(self, chosen: Sequence[int]) -> int:
        """Return the row touches that some components leave to others; negative where they are too many."""
        return self.pp * self._problem.rows - int(self.components.rows[list(chosen)].sum())

    def raise_rows(self, i: int, rows: int) -> None:
        """Note that a component touches so many rows or more."""
        self._regrets[i] += _UNIT * (rows - self.components.rows[i])
        self.components.rows[i] = rows

    def _slack(self, left: IndexArray, columns: int, rows: int) -> int:
        """Return the most regret, beyond the least, that so many row touches leave one component."""
        budget = _UNIT * rows - int(left @ self._prices.of_class) - columns * self._prices.of_column
        # each component touches D rows or more, so there are at most rows // D of them
        return budget - rows // self._problem.rows * self._least

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Yield packings, each as the places of its components."""
        every = np.arange(len(self.components), dtype=np.int64)
        yield from self._extend((), self._many, self._problem.columns, every)

    def _extend(
        self, chosen: tuple[int, ...], left: IndexArray, columns: int, candidates: IndexArray
    ) -> Generator[tuple[int, ...], None, bool]:
        """Yield the packings that begin with those chosen, for the domains and columns that are left.

        :returns: whether there may be any, here or where the same were chosen in another order.
        """
        if not left.any():
            if not columns and chosen not in self._seen:
                self._seen.add(chosen)
                yield chosen
            # while it was looked at its row touches may have been raised
            return not columns and self.rows_left(chosen) >= 0
        key = left.tobytes(), columns
        if self._failed.get(key, -1) >= self.rows_left(chosen):
            return False
        if self.stopped or chosen in self._seen:
            return True
        self._seen.add(chosen)
        self.nodes += 1
        spend(_NODE_SECONDS)
        every = self.components
        candidates = self._fitting(left, columns, self.rows_left(chosen), candidates)
        # each class of which domains are left needs a component: the one with the fewest to choose from
        takes = every.members[candidates] > 0
        options = np.where(left > 0, takes.sum(axis=0), len(candidates) + 1)
        some = candidates[takes[:, int(options.argmin())]]
        found = False
        for i in some[np.argsort(self._regrets[some], kind="stable")]:
            if self.rows_left((*chosen, int(i))) < 0:
                continue
            rest = left - every.members[i], columns - int(every.columns[i])
            found |= yield from self._extend(tuple(sorted((*chosen, int(i)))), *rest, candidates)
        if not found:
            # with as many rows as are left now, which may be fewer than at first
            self._failed[key] = max(self._failed.get(key, -1), self.rows_left(chosen))
        return found

    def _fitting(self, left: IndexArray, columns: int, rows: int, candidates: IndexArray) -> IndexArray:
        """Return the candidates for which there is room, and whose regret is not more than what is left allows."""
        every, slack = self.components, self._slack(left, columns, rows)
        fits = (self._regrets[candidates] - self._least <= slack) & (every.columns[candidates] <= columns)
        candidates = candidates[fits & (every.rows[candidates] <= rows)]
        # the dearest comparison for those alone that the others leave
        fitting: IndexArray = candidates[(every.members[candidates] <= left).all(axis=1)]
        return fitting
