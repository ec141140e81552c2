"""How many domains have which shape: a small integer model over what the pattern bound leaves possible.

The regrets of all shapes are at most the slack of the bound, so few shapes are left at the interesting pairs.  How
many domains of each capacity have each of them are whole numbers, and so is how many rows and columns follow each
pattern.  Where no counts satisfy all sums at once the pair is impossible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from scheduler.placement.exact.cpsat import Slice, solve
from scheduler.placement.exact.pattern_bound import UNIT, PatternBound
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_FINE = 100  # Parts of a cell in which regrets enter the model: small integers; each is rounded down


def shapes_refute(problem: GridProblem, pair: Pair, bound: PatternBound, *, patterns: int, effort: float) -> bool:
    """Return whether two searches find that no counts of shapes satisfy all sums; ``False`` proves nothing.

    :param bound: of the same pair, not refuted.
    :param patterns: ways to cut a row, or a column, up to which they are listed.
    :param effort: of each search, in CP-SAT's deterministic time.
    """
    left = [shape for c in set(problem.capacities) for shape in bound.shapes(c)]
    of_rows = cuts({q for q, _, _ in left if q}, pair[1], problem.columns, patterns)
    of_columns = cuts({r for _, r, _ in left if r}, pair[0], problem.rows, patterns)
    if of_rows is None or of_columns is None:
        return False
    model = _model(problem, pair, bound, of_rows, of_columns)
    # the second search has presolve, so that it is another one
    return all(solve(model, Slice(effort, 10 * effort, light=light))[0] == "no" for light in (True, False))


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


def _model(
    problem: GridProblem,
    pair: Pair,
    bound: PatternBound,
    of_rows: Sequence[tuple[int, ...]],
    of_columns: Sequence[tuple[int, ...]],
) -> cp_model.CpModel:
    """Return the model: a count for each shape that is left, and for each pattern of rows and of columns."""
    from ortools.sat.python import cp_model

    cp = cp_model.CpModel()
    many = Counter(problem.capacities)
    shapes = {c: bound.shapes(c) for c in many}
    count = {(c, q, r): cp.new_int_var(0, many[c], "") for c, some in shapes.items() for q, r, _ in some}
    for c, n in many.items():
        cp.add(sum(x for (own, _, _), x in count.items() if own == c) == n)

    def total(value: Callable[[int, int, int], int]) -> cp_model.LinearExprT:
        return sum(value(*shape) * x for shape, x in count.items())

    cp.add(total(lambda c, q, r: min(c, q * r)) >= problem.cells)
    cp.add(total(lambda c, q, r: r) <= pair[1] * problem.rows)  # noqa: ARG005
    cp.add(total(lambda c, q, r: q) <= pair[0] * problem.columns)  # noqa: ARG005
    regret = {(c, q, r): _FINE * lost // UNIT for c, some in shapes.items() for q, r, lost in some}
    cp.add(total(lambda *shape: regret[shape]) <= _FINE * bound.slack // UNIT)
    for lines, patterns, own, across in ((problem.rows, of_rows, 1, 2), (problem.columns, of_columns, 2, 1)):
        number = [cp.new_int_var(0, lines, "") for _ in patterns]
        cp.add(sum(number) == lines)
        for size in {shape[own] for shape in count if shape[own]}:
            # of sizes at least so large there are as many as the patterns ask
            asked = sum(sum(part >= size for part in cut) * n for cut, n in zip(patterns, number, strict=True))
            cp.add(sum(shape[across] * x for shape, x in count.items() if shape[own] >= size) >= asked)
    return cp
