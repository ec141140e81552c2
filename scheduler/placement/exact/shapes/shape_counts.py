"""How many domains have which shape: a small integer model over what the pattern bound leaves possible.

The regrets of all shapes are at most the slack of the bound, so few shapes are left at the interesting pairs.  How
many domains of each capacity have each of them are whole numbers, and so is how many rows and columns follow each
pattern.  Where no counts satisfy all sums at once the pair is impossible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.cpsat import Answer, Slice, solve
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.exact.pairs.pattern_bound import UNIT, PatternBound
from scheduler.placement.exact.shapes.crossing_sets import Shape
from scheduler.placement.types import Pair

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_WEIGHTS = 10  # Different weights of shapes, a handful
_FINE = 100  # Parts of a cell in which regrets enter the model: small integers; each is rounded down


def shapes_refute(problem: GridProblem, pair: Pair, bound: PatternBound, *, patterns: int, effort: float) -> bool:
    """Return whether two searches find that no counts of shapes satisfy all sums; ``False`` proves nothing.

    :param bound: of the same pair, not refuted.
    :param patterns: ways to cut a row, or a column, up to which they are listed.
    :param effort: of each search, in CP-SAT's deterministic time.
    """
    counts = ShapeCounts(problem, pair, bound, patterns=patterns)
    # the second search has presolve, so that it is another one
    return counts.whole and all(
        counts.next(Slice(effort, 10 * effort, light=light))[0] == "no" for light in (True, False)
    )


def cuts(sizes: Iterable[int], parts: int, total: int, most: int) -> list[tuple[int, ...]] | None:
    """Return the multisets of at most so many sizes that reach the total, none with one too many; descending.

    :returns: ``None`` where there are more than ``most``.
    """
    descending = sorted(sizes, reverse=True)
    found: list[tuple[int, ...]] = []
    waiting: list[tuple[int, tuple[int, ...], int]] = [(0, (), total)]
    while waiting:
        first, cut, left = waiting.pop()
        if left <= 0:
            found.append(cut)
        elif len(cut) < parts:
            # even if all that follow are as large
            enough = [i for i in range(first, len(descending)) if descending[i] * (parts - len(cut)) >= left]
            waiting += [(i, (*cut, descending[i]), left - descending[i]) for i in enough]
        if len(found) > most:
            return None
    return found


class ShapeCounts:
    """The model of one pair, and a stream of its solutions: a count for each shape, and for each pattern of lines."""

    def __init__(self, problem: GridProblem, pair: Pair, bound: PatternBound, *, patterns: int) -> None:
        from ortools.sat.python import cp_model

        self._problem, self._pair, self._bound = problem, pair, bound
        self._many = Counter(problem.capacities)
        self._cp = cp_model.CpModel()
        self._count = {
            (c, q, r): self._cp.new_int_var(0, n, "") for c, n in self._many.items() for q, r, _ in bound.shapes(c)
        }
        self._add_sums()
        # whether all patterns are listed; places in a shape are those of the size and of how many lines have it
        of_rows = cuts(self._sizes(1), pair[1], problem.columns, patterns)
        of_columns = cuts(self._sizes(2), pair[0], problem.rows, patterns)
        self.whole = of_rows is not None and of_columns is not None
        self._add_lines(problem.rows, of_rows, 1, 2)
        self._add_lines(problem.columns, of_columns, 2, 1)

    def next(self, limit: Slice) -> tuple[Answer, list[Shape] | None]:
        """Return the shapes of all domains of a solution not given before; ``"no"`` = none is left."""
        self._cp.clear_objective()  # type: ignore[no-untyped-call]
        if limit.random:
            # towards another corner every time: where one choice has no placement, those like it seldom have
            weights = np.random.default_rng(limit.seed).integers(0, _WEIGHTS, len(self._count)).tolist()
            self._cp.maximize(sum(w * count for w, count in zip(weights, self._count.values(), strict=True)))
        answer, solver = solve(self._cp, limit)
        if answer != "yes":
            return answer, None
        chosen = {key: n for key, count in self._count.items() if (n := solver.value(count))}
        fewer = []  # the counts of a capacity add up, so another solution has fewer of one of these
        for key, n in chosen.items():
            fewer.append(less := self._cp.new_bool_var(""))
            self._cp.add(self._count[key] < n).only_enforce_if(less)
        self._cp.add_bool_or(fewer)
        shapes = [(c, (q, r)) for (c, q, r), n in chosen.items() for _ in range(n)]
        return "yes", [shape for _, shape in sorted(shapes, reverse=True)]

    def _total(self, value: Callable[[int, int, int], int]) -> cp_model.LinearExprT:
        return sum(value(*shape) * count for shape, count in self._count.items())

    def _add_sums(self) -> None:
        """Add how many domains of each capacity there are, and the sums of cells, touches and regrets."""
        cp, problem, (dp, pp) = self._cp, self._problem, self._pair
        for c, n in self._many.items():
            cp.add(sum(count for (own, _, _), count in self._count.items() if own == c) == n)
        cp.add(self._total(lambda c, q, r: min(c, q * r)) >= problem.cells)
        cp.add(self._total(lambda c, q, r: r) <= pp * problem.rows)  # noqa: ARG005
        cp.add(self._total(lambda c, q, r: q) <= dp * problem.columns)  # noqa: ARG005
        regret = {(c, q, r): _FINE * lost // UNIT for c in self._many for q, r, lost in self._bound.shapes(c)}
        cp.add(self._total(lambda *shape: regret[shape]) <= _FINE * self._bound.slack // UNIT)

    def _sizes(self, place: int) -> set[int]:
        return {shape[place] for shape in self._count if shape[place]}

    def _add_lines(self, lines: int, patterns: Sequence[tuple[int, ...]] | None, own: int, across: int) -> None:
        """Add that each line follows a pattern, where these are listed."""
        if patterns is None:
            return
        number = [self._cp.new_int_var(0, lines, "") for _ in patterns]
        self._cp.add(sum(number) == lines)
        for size in self._sizes(own):
            # of sizes at least so large there are as many as the patterns ask
            asked = sum(sum(part >= size for part in cut) * n for cut, n in zip(patterns, number, strict=True))
            self._cp.add(sum(shape[across] * x for shape, x in self._count.items() if shape[own] >= size) >= asked)
