"""Shapes: how many columns and rows each domain touches, chosen first; few choices are left where slack is little.

The regrets of all shapes (q, r) are at most the slack of the pattern bound, and a small integer model counts the
domains of each capacity that have each of them.  With the shape of every domain given, *crossing sets* decide in
hundredths of a second on few domains, and for R = 2 a model of the columns in about one.  So many choices are looked
at: one of them mostly has a placement where there is one.  When none is left and each was excluded, by two searches
each, the pair is refuted.

**Crossing sets.**  The cell where a column and a row cross lies in a domain that both touch, so each set of domains of
a column meets each set of a row.  The rows that the domains of a column touch add up to D or more; what is beyond are
*holes*, rows that a domain touches without a cell in the column.  A domain has as many holes as its rectangle has more
cells than it holds.  So where little is to spare, few sets are possible, and a model says how many columns and rows
have each of them.  It knows no column and no row by name, and hence none of their orders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.cpsat import Answer, Slice, solve
from scheduler.placement.exact.bounds import UNIT, PatternBound
from scheduler.placement.exact.lattice import PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.skeletons import EFFORT, SkeletonModel, realise
from scheduler.placement.types import Pair
from scheduler.work_clock import clock, spend
from topology.cluster import BoolArray, IntArray

if TYPE_CHECKING:
    from scheduler.placement import cp_model

DomainSet = tuple[int, ...]
Shape = tuple[int, int]  # (q, r), the columns and the rows that a domain touches; (0, 0) = not in use

_SHAPES = 1000  # of a pair, up to which choices are looked at: on 48 x 12 cells choices of 990 had a placement
# Ways to cut a line, and sets of a column or of a row, up to which a model has a number of each: milliseconds when the
# sets are looked at alone, which refutes most choices
_NUMBERS = 5000
# Sets of a column times those of a row up to which they are compared: with more a choice takes seconds; and where a
# spread is 2, and the model of the columns decides most choices in a third of a second
_CROSSINGS, _CROSSINGS_OF_TWO = 400_000, 20_000
_EFFORT = 2.0  # of one choice: most that have a placement, or none, are decided in it
# Of work: to compare a set of a column with one of a row, and to take in a term of the sums over shapes and patterns
_PAIR_SECONDS, _TERM_SECONDS = 5e-6, 3e-6
_LOOK_SECONDS = 7e-7  # The same for a set that a line may touch, or a part of one
_LOOKED_AT = 500_000  # Of these on the way to all sets, up to which they are listed: a third of a second
_WEIGHTS = 10  # Different weights of shapes, a handful
_FINE = 100  # Parts of a cell in which regrets enter the model: small integers; each is rounded down
_OF_A_TURN = 4  # Choices: some take hundredths of a second and others seconds, so that two would wait for each other
_SEEDS_OF_A_SEARCH = 10_000  # Between the search of a verdict and its confirmation


def decide_shapes(search: PairSearch) -> None:
    """Decide choices of shapes of the open pairs with few of them, in turn, a few choices at a time."""
    end, waiting = search.end_of(search.params.long_share), list[ShapeChoices]()
    for pair in search.lattice.open():
        bound = search.patterns.get(pair)
        if bound is not None and bound.number_of_shapes <= _SHAPES:
            waiting.append(ShapeChoices(search, pair))
    while waiting and clock() < end:
        still = set(search.lattice.open())
        for choices in [choices for choices in waiting if choices.pair in still]:
            search.say(f"choices of shapes for DP spread {choices.pair[0]}, PP spread {choices.pair[1]}")
            choices.decide(end)
        waiting = [choices for choices in waiting if not choices.over and choices.pair in search.lattice.open()]


class ShapeChoices:
    """The choices of shapes of one pair."""

    def __init__(self, search: PairSearch, pair: Pair) -> None:
        self.pair = pair
        self._search = search
        self._counts = ShapeCounts(search.problem, pair, search.patterns[pair], patterns=_NUMBERS)
        # where R is 2 and columns are few a model of these is a placement; mostly no view is so
        narrow = [view for view in search.views if view.problem.columns <= search.params.narrow_columns]
        self._view = next((view for view in narrow if view.turn(pair)[1] == 2 < view.turn(pair)[0]), None)
        if self._view is not None:
            grid = self._view.problem
            self._skeletons = SkeletonModel(grid, self._view.turn(pair), spare_rows=grid.rows)
        self._used_up = False  # whether there is none left to look at
        self._looked_at: list[list[Shape]] = []
        self._undecided = False  # whether one was left so

    @property
    def over(self) -> bool:
        """Whether no choice is left to look at."""
        return self._used_up

    def decide(self, end: float) -> None:
        """Look at some more choices, two at once.

        Where one choice takes long another one mostly does not, and one that has a placement is enough.
        """
        choices: list[list[Shape]] = []
        # each is decided as if alone: where little time is left one after another
        while len(choices) < (_OF_A_TURN if end - clock() > _EFFORT else 1) and not self._used_up:
            number = len(self._looked_at)
            # every other one at random: on some clusters these have placements, on others those that come anyway
            limit = Slice(_EFFORT, end - clock(), number, light=True, random=number % 2 == 1)
            next_answer, next_shapes = self._counts.next(limit)
            self._used_up = next_answer != "yes"
            self._undecided |= next_answer == "unknown"
            if next_shapes is not None:
                choices.append(next_shapes)
                self._looked_at.append(next_shapes)
        answers = self._search.side_by_side([partial(self._decide, shapes, end) for shapes in choices])
        for answer, cells in answers:
            if cells is not None:
                self._search.lattice.build(cells, "shapes")
            self._undecided |= answer == "unknown"
        if self.over and not self._undecided and self._confirmed(end):
            sentence = (
                f"two complete searches went through all numbers of DP and PP groups that the domains may touch, and "
                f"found none with DP groups on at most {self.pair[0]} domains and PP groups on at most {self.pair[1]}"
            )
            self._search.lattice.refute(self.pair, "shapes", sentence)

    def _decide(
        self, shapes: Sequence[Shape], end: float, seed: int = 0, *, light: bool = False
    ) -> tuple[Answer, IntArray | None]:
        """Return ``"no"`` where no placement has the shapes, or the domain of each cell, shape [rows, columns]."""
        if clock() >= end:
            return "unknown", None
        limit = Slice(_EFFORT, end - clock(), seed, light=light)
        most = _CROSSINGS if self._view is None else _CROSSINGS_OF_TWO
        sets = CrossingSets(self._search.problem, self.pair, shapes, most=most, alone=_NUMBERS)
        if not sets.few and self._view is None:
            self._used_up = True  # other choices have as many
        if sets.refuted_alone(limit):
            return "no", None
        answer, serves = sets.find(limit) if sets.few else ("unknown", None)
        if serves is not None:
            rounding = Slice(EFFORT, end - clock(), seed)
            cells = realise(self._search.problem, serves, pp=self.pair[1], limit=rounding)[0]
            return ("unknown" if cells is None else "yes"), cells
        if answer == "no" or self._view is None:
            return answer, None
        answer, skeleton = self._skeletons.find(limit, [self._view.turn(shape) for shape in shapes])
        return answer, None if skeleton is None or skeleton.cells is None else self._view.back(skeleton.cells)

    def _confirmed(self, end: float) -> bool:
        """Return whether a second search says "no" to every choice, and to there being another."""
        if self._counts.next(Slice(_EFFORT, end - clock(), _SEEDS_OF_A_SEARCH))[0] != "no":
            return False
        again = [partial(self._decide, shapes, end, _SEEDS_OF_A_SEARCH, light=True) for shapes in self._looked_at]
        return all(answer == "no" for answer, _ in self._search.side_by_side(again))


class CrossingSets:
    """The sets that columns and rows may have.

    :param shapes: of every domain.
    :param most: sets of columns times sets of rows up to which they are compared.
    :param alone: sets up to which the columns, or the rows, are looked at without the others.
    """

    def __init__(self, problem: GridProblem, pair: Pair, shapes: Sequence[Shape], *, most: int, alone: int = 0) -> None:
        self._problem, self._shapes = problem, shapes
        self._sides = _sides(problem, pair, shapes)
        columns, rows = self._sides
        # lines on few domains have few sets
        first, second = (columns, rows) if columns.parts < rows.parts else (rows, columns)
        some = _sets(first, most)
        others = None if some is None else _sets(second, most // max(1, len(some)))
        self._alone = None if some is None or len(some) > alone else (first, some)
        self.few = some is not None and others is not None
        self._columns, self._rows = (some or [], others or []) if first is columns else (others or [], some or [])

    def refuted_alone(self, limit: Slice) -> bool:
        """Return whether the columns without the rows, or the reverse, have no numbers: those on fewer domains."""
        if self._alone is None:
            return False
        model = _Model(self._problem, self._shapes)
        model.add(*self._alone)
        return solve(model.cp, limit)[0] == "no"

    def find(self, limit: Slice) -> tuple[Answer, BoolArray | None]:
        """Look for numbers of columns and rows, where sets are few.

        :returns: ``"no"`` where no placement of the pair has these shapes; with ``"yes"`` the columns that each domain
            serves, shape [domains, columns], for :func:`scheduler.placement.exact.skeletons.realise`.
        """
        spend(_PAIR_SECONDS * len(self._columns) * len(self._rows))
        model = _Model(self._problem, self._shapes)
        counts = model.add(self._sides[0], self._columns)
        model.cross(self._columns, counts, self._rows, model.add(self._sides[1], self._rows))
        answer, solver = solve(model.cp, limit)
        if answer != "yes":
            return answer, None
        serves = np.zeros((len(self._shapes), self._problem.columns), dtype=np.bool_)
        chosen = [some for some, count in zip(self._columns, counts, strict=True) for _ in range(solver.value(count))]
        for p, some in enumerate(chosen):
            serves[list(some), p] = True
        return "yes", serves


@dataclass(frozen=True, slots=True)
class _Side:
    """The columns, or the rows, and what is given of them."""

    lines: int  # how many there are
    parts: int  # domains that one touches at most
    cells: int  # of each
    sizes: tuple[int, ...]  # lines across that each domain touches: most cells that it has in one of these
    touched: tuple[int, ...]  # lines that each domain touches
    holes: tuple[int, ...]  # most holes of each domain


def _sides(problem: GridProblem, pair: Pair, shapes: Sequence[Shape]) -> tuple[_Side, _Side]:
    widths, heights = zip(*shapes, strict=True)
    held = [min(c, q * r) for c, (q, r) in zip(problem.capacities, shapes, strict=True)]
    spare = sum(held) - problem.cells
    holes = tuple(q * r and q * r - n + spare for (q, r), n in zip(shapes, held, strict=True))
    return (
        _Side(problem.columns, pair[0], problem.rows, heights, widths, holes),
        _Side(problem.rows, pair[1], problem.columns, widths, heights, holes),
    )


def _sets(side: _Side, most: int) -> list[DomainSet] | None:
    """Return the sets of domains that a line may touch; ``None`` = there are more than ``most``, or too many to look
    at.
    """
    descending = sorted((k for k, size in enumerate(side.sizes) if size), key=lambda k: -side.sizes[k])
    found: list[DomainSet] = []
    waiting: list[tuple[int, DomainSet, int, int]] = [(0, (), 0, 0)]
    looked_at = 0
    while waiting:
        first, some, cells, holes = waiting.pop()
        if cells >= side.cells and cells - side.cells <= holes:
            found.append(some)
        before = len(waiting)
        for i, k in enumerate(descending[first:], start=first):
            # even if all that follow are as large
            if cells + side.sizes[k] * (side.parts - len(some)) < side.cells or len(some) == side.parts:
                break
            waiting.append((i + 1, (*some, k), cells + side.sizes[k], holes + side.holes[k]))
        looked_at += 1 + len(waiting) - before
        if len(found) > most or looked_at > _LOOKED_AT:
            break
    spend(_LOOK_SECONDS * looked_at)
    return None if len(found) > most or looked_at > _LOOKED_AT else found


class _Model:
    """How many columns, and how many rows, have each set."""

    def __init__(self, problem: GridProblem, shapes: Sequence[Shape]) -> None:
        from scheduler.placement import cp_model

        cp = self.cp = cp_model.CpModel()
        # holes of each domain: its rectangle without the cells that it holds
        self._holes = []
        for capacity, (q, r) in zip(problem.capacities, shapes, strict=True):
            cells = cp.new_int_var(0, min(capacity, q * r), "")
            self._holes.append(q * r - cells)
        cp.add(sum(self._holes) == sum(q * r for q, r in shapes) - problem.cells)

    def add(self, side: _Side, sets: Sequence[DomainSet]) -> list[cp_model.IntVar]:
        """Add the columns, or the rows, and return how many have each set."""
        cp = self.cp
        holes: list[list[cp_model.IntVar]] = [[] for _ in side.sizes]
        lines: list[list[cp_model.IntVar]] = [[] for _ in side.sizes]
        counts = []
        for some in sets:
            count = cp.new_int_var(0, min(side.touched[k] for k in some), "")
            counts.append(count)
            for k in some:
                lines[k].append(count)
            if beyond := sum(side.sizes[k] for k in some) - side.cells:
                own = [cp.new_int_var(0, side.holes[k], "") for k in some]
                cp.add(sum(own) == beyond * count)
                for k, here in zip(some, own, strict=True):
                    cp.add(here <= min(beyond, side.sizes[k]) * count)
                    holes[k].append(here)
        cp.add(sum(counts) == side.lines)
        for k, touched in enumerate(side.touched):
            cp.add(sum(lines[k]) == touched)
            cp.add(sum(holes[k]) == self._holes[k])
        return counts

    def cross(
        self,
        columns: Sequence[DomainSet],
        column_counts: Sequence[cp_model.IntVar],
        rows: Sequence[DomainSet],
        row_counts: Sequence[cp_model.IntVar],
    ) -> None:
        """Add that every set of a column meets every set of a row."""
        used = [self._used(count) for count in row_counts]
        as_bits = [sum(1 << k for k in some) for some in rows]
        for some, count in zip(columns, column_counts, strict=True):
            bits, here = sum(1 << k for k in some), self._used(count)
            for other, across in zip(as_bits, used, strict=True):
                if not bits & other:
                    self.cp.add_bool_or(~here, ~across)

    def _used(self, count: cp_model.IntVar) -> cp_model.IntVar:
        """Return whether any line has a set."""
        used = self.cp.new_bool_var("")
        self.cp.add(count >= 1).only_enforce_if(used)
        self.cp.add(count == 0).only_enforce_if(~used)
        return used


def cuts(sizes: Iterable[int], parts: int, total: int, most: int) -> list[tuple[int, ...]] | None:
    """Return the multisets of at most so many sizes that reach the total, none with one too many; descending.

    :returns: ``None`` where there are more than ``most``, or too many to look at.
    """
    descending = sorted(sizes, reverse=True)
    found: list[tuple[int, ...]] = []
    waiting: list[tuple[int, tuple[int, ...], int]] = [(0, (), total)]
    looked_at = 0
    while waiting:
        first, cut, left = waiting.pop()
        if left <= 0:
            found.append(cut)
        elif len(cut) < parts:
            # even if all that follow are as large
            enough = [i for i in range(first, len(descending)) if descending[i] * (parts - len(cut)) >= left]
            waiting += [(i, (*cut, descending[i]), left - descending[i]) for i in enough]
            looked_at += len(enough)
        if len(found) > most or looked_at > _LOOKED_AT:
            break
    spend(_LOOK_SECONDS * looked_at)
    return None if len(found) > most or looked_at > _LOOKED_AT else found


class ShapeCounts:
    """The model of one pair, and a stream of its solutions: a count for each shape, and for each pattern of lines."""

    def __init__(self, problem: GridProblem, pair: Pair, bound: PatternBound, *, patterns: int) -> None:
        from scheduler.placement import cp_model

        self._problem, self._pair, self._bound = problem, pair, bound
        self._many = Counter(problem.capacities)
        self._cp = cp_model.CpModel()
        self._count = {
            (c, q, r): self._cp.new_int_var(0, n, "") for c, n in self._many.items() for q, r, _ in bound.shapes(c)
        }
        # domains of each capacity, and the sums of cells, touches and regrets
        cp, (dp, pp) = self._cp, pair
        for c, n in self._many.items():
            cp.add(sum(count for (own, _, _), count in self._count.items() if own == c) == n)
        cp.add(self._total(lambda c, q, r: min(c, q * r)) >= problem.cells)
        cp.add(self._total(lambda c, q, r: r) <= pp * problem.rows)  # noqa: ARG005
        cp.add(self._total(lambda c, q, r: q) <= dp * problem.columns)  # noqa: ARG005
        regret = {(c, q, r): _FINE * lost // UNIT for c in self._many for q, r, lost in bound.shapes(c)}
        cp.add(self._total(lambda *shape: regret[shape]) <= _FINE * bound.slack // UNIT)
        # whether all patterns are listed; places in a shape are those of the size and of how many lines have it
        of_rows = cuts(self._sizes(1), pair[1], problem.columns, patterns)
        of_columns = cuts(self._sizes(2), pair[0], problem.rows, patterns)
        self._terms = 5 * len(self._count)
        self.whole = of_rows is not None and of_columns is not None
        self._add_lines(problem.rows, of_rows, 1, 2)
        self._add_lines(problem.columns, of_columns, 2, 1)

    def next(self, limit: Slice) -> tuple[Answer, list[Shape] | None]:
        """Return the shapes of all domains of a solution not given before; ``"no"`` = none is left."""
        self._cp.clear_objective()
        if limit.random:
            # towards another corner every time: where one choice has no placement, those like it seldom have
            weights = np.random.default_rng(limit.seed).integers(0, _WEIGHTS, len(self._count)).tolist()
            self._cp.maximize(sum(w * count for w, count in zip(weights, self._count.values(), strict=True)))
        spend(_TERM_SECONDS * self._terms)
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
            asked = [sum(part >= size for part in cut) * n for cut, n in zip(patterns, number, strict=True)]
            given = [shape[across] * x for shape, x in self._count.items() if shape[own] >= size]
            self._terms += len(asked) + len(given)
            self._cp.add(sum(given) >= sum(asked))
