"""Pieces: how many domains are cut up in each way, and how many columns, with none of them by name.

The cells of a column in a domain are a *piece*.  A domain is cut into pieces that it has room for, and touches as many
rows as the largest; a column is made up of at most S.  How many domains and columns are cut in each way is a small
integer program, as of cutting stock: it knows no domain of a room and no column by name, and hence none of their
orders.  Without a solution the pair is refuted, where all cuts are in it.  Of a solution the pieces are dealt to
columns, and whole rows are laid on the domains that each has.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from ground.groups import grouped
from scheduler.placement.cpsat import Answer, Slice, solve
from scheduler.placement.exact.bands import partitions
from scheduler.placement.exact.lattice import PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.skeletons import EFFORT, realise
from scheduler.placement.types import Pair
from scheduler.work_clock import clock, spend
from topology.cluster import IntArray

if TYPE_CHECKING:
    from scheduler.placement import cp_model

Cut = tuple[int, ...]
"""Cells of each piece, descending."""

_CUTS = 5_000  # of all domains, or of columns, up to which they are counted: such a program takes a second
_ROOM_CUTS = 625  # The same of a domain
SOLUTIONS = 4  # of a pair that are looked at: more keep others waiting
_DEALS = 6  # of the pieces of a solution to columns: of those that are laid the first three mostly are
_CUT_SECONDS = 1e-5  # Of work to list a cut, with its terms


@dataclass(frozen=True, slots=True)
class Cuts:
    """How many there are of each."""

    columns: dict[Cut, cp_model.IntVar]
    domains: dict[tuple[int, Cut], cp_model.IntVar]  # by room


@dataclass(frozen=True)
class PieceCounts:
    """A grid on domains, and the pair that is asked for."""

    problem: GridProblem
    pair: Pair
    touches: int | None = None  # of domains by all columns together; None = as many as the pair allows

    @property
    def _largest(self) -> int:
        """Cells of the largest piece."""
        return min(self.problem.rows, max(self.problem.capacities))

    @cached_property
    def _smallest(self) -> int:
        """Cells of the smallest piece: all others of its column are the largest."""
        return max(1, self.problem.rows - (self.pair[0] - 1) * self._largest)

    @property
    def _most(self) -> int:
        """Domains that all columns may touch together."""
        allowed = self.pair[0] * self.problem.columns
        return allowed if self.touches is None else min(allowed, self.touches)

    def _domain_cuts(self, room: int) -> tuple[list[Cut], bool]:
        """Return the cuts of a domain in which no piece can be larger, but with all the largest; and whether these are
        all: those of few pieces come first.
        """
        cuts, rows = list[Cut](), self.problem.rows
        for pieces in range(1, min(self.problem.columns, room // self._smallest) + 1):
            cuts += [(height,) * pieces for height in range(self._smallest, -(-room // pieces)) if height <= rows]
            left = _ROOM_CUTS - len(cuts)
            full = [*islice(partitions(room, pieces, rows, self._smallest), max(0, left) + 1)][::-1]
            if len(full) > left:
                return cuts, False
            cuts += full
        return cuts, True

    @cached_property
    def _model(self) -> tuple[cp_model.CpModel, Cuts, bool] | None:
        """A model, its variables, and whether all cuts are in it; ``None`` = there are too many."""
        from scheduler.placement import cp_model

        model, (dp, pp), columns = cp_model.CpModel(), self.pair, self.problem.columns
        of_column = chain.from_iterable(
            [*partitions(self.problem.rows, pieces, self._largest)][::-1] for pieces in range(1, dp + 1)
        )
        column_cuts = [*islice(of_column, _CUTS + 1)]
        many = Counter(self.problem.capacities)
        cuts_of = {room: self._domain_cuts(room) for room in many}
        if not 0 < len(column_cuts) <= _CUTS or sum(len(listed) for listed, _ in cuts_of.values()) > _CUTS:
            return None
        cuts = Cuts({cut: model.new_int_var(0, columns, "") for cut in column_cuts}, {})
        model.add(sum(cuts.columns.values()) == columns)
        heights: list[cp_model.LinearExprT] = []  # rows that domains touch
        # by the cells of a piece
        given: dict[int, list[cp_model.LinearExprT]] = defaultdict(list)
        for room, (listed, _) in cuts_of.items():
            for cut in listed:
                cuts.domains[room, cut] = count = model.new_int_var(0, many[room], "")
                heights.append(cut[0] * count)
                for size, times in Counter(cut).items():
                    given[size].append(times * count)
            model.add(sum(cuts.domains[room, cut] for cut in listed) <= many[room])
        wanted = grouped(
            (size, times * count) for cut, count in cuts.columns.items() for size, times in Counter(cut).items()
        )
        larger: cp_model.LinearExprT = 0  # pieces that are not wanted, and serve for smaller ones
        for size in range(self._largest, 0, -1):
            smaller = model.new_int_var(0, columns * len(self.problem.capacities), "")
            model.add(sum(given[size]) + larger == sum(wanted[size]) + smaller)
            larger = smaller
        model.add(sum(len(cut) * count for cut, count in cuts.columns.items()) <= self._most)
        if pp < columns:
            model.add(sum(heights) <= pp * self.problem.rows)
        spend(_CUT_SECONDS * (len(cuts.columns) + len(cuts.domains)))
        return model, cuts, all(whole for _, whole in cuts_of.values())

    def fewest_touches(self, limit: Slice) -> int:
        """Return how many domains the columns touch together at least; 0 = nothing is known."""
        if self._model is None or not self._model[2]:
            return 0
        model, cuts, _ = self._model
        model.minimize(sum(len(cut) * count for cut, count in cuts.columns.items()))
        answer, solver = solve(model, limit)
        model.clear_objective()
        return self._most + 1 if answer == "no" else ceil(solver.best_objective_bound - 1e-6)

    def lay(self, limit: Slice, solutions: int) -> tuple[Answer, IntArray | None]:
        """Return ``"no"`` where two complete searches found no counts, or ``"yes"`` and where each cell lies, shape
        [rows, columns].

        :param limit: of each search, and its wall of all.
        :param solutions: that are looked at, each found with another seed, all but the first at random.
        """
        if self._model is None:
            return "unknown", None
        (model, cuts, whole), end = self._model, clock() + limit.wall
        for number in range(solutions):
            if clock() >= end:
                break
            seeded = replace(limit, wall=end - clock(), seed=limit.seed + number, random=number > 0)
            answer, solver = solve(model, seeded)
            if answer == "no" and whole and not number:
                return solve(model, replace(seeded, light=True, linearization=2))[0], None
            if answer != "yes":
                break
            chance = random.Random(seeded.seed)
            for _ in range(_DEALS):
                if clock() < end and (dealt := self._dealt(cuts, solver, chance)) is not None:
                    cells = self._laid(dealt, Slice(EFFORT, end - clock(), seeded.seed))
                    if cells is not None:
                        return "yes", cells
        return "unknown", None

    def _dealt(self, cuts: Cuts, solver: cp_model.CpSolver, chance: random.Random) -> IntArray | None:
        """Deal the pieces of a solution to columns, in some order: return the cells of columns in domains, shape
        [domains, columns]; ``None`` = one would have two pieces in a domain.
        """
        columns = [cut for cut, count in cuts.columns.items() for _ in range(solver.value(count))]
        chance.shuffle(columns)
        wanted = [(size, chance.random(), column) for column, cut in enumerate(columns) for size in cut]
        unused = grouped((room, domain) for domain, room in enumerate(self.problem.capacities))
        given: list[tuple[int, float, int]] = []
        for (room, sizes), count in cuts.domains.items():
            for _ in range(solver.value(count)):
                domain = unused[room].pop()
                given += [(size, chance.random(), domain) for size in sizes]
        given.sort()
        dealt = np.zeros((len(self.problem.capacities), self.problem.columns), dtype=np.int32)
        # the largest first, each of the smallest that is large enough
        for cells, _, column in sorted(wanted, reverse=True):
            fits = (i for i, (most, _, domain) in enumerate(given) if most >= cells and not dealt[domain, column])
            if (place := next(fits, None)) is None:
                return None
            dealt[given.pop(place)[2], column] = cells
        return dealt

    def _laid(self, dealt: IntArray, limit: Slice) -> IntArray | None:
        """Return where each cell lies, shape [rows, columns], each in a domain of its column; or nothing."""
        if self.pair[1] >= self.problem.columns:
            domains = np.arange(len(dealt), dtype=np.int32)
            return np.stack([np.repeat(domains, cells) for cells in dealt.T], axis=1)
        return realise(self.problem, dealt > 0, pp=self.pair[1], limit=limit)[0]


def count_pieces(search: PairSearch) -> None:
    """Decide open pairs by counts of the pieces of columns, and of rows, the cheapest first."""
    end = search.end_of(search.params.short_share)
    for pair in search.lattice.open():
        search.say(f"pieces for DP spread {pair[0]}, PP spread {pair[1]}")
        for view in sorted(search.views, key=lambda view: view.problem.columns):
            if search.lattice.is_built(pair) or search.lattice.is_refuted(pair) or clock() >= end:
                break
            counts = PieceCounts(view.problem, view.turn(pair))
            answer, cells = counts.lay(Slice(2 * EFFORT, end - clock(), search.limits.seed), SOLUTIONS)
            if cells is not None:
                search.build(view, cells, "pieces")
            elif answer == "no":
                sentence = (
                    f"two complete searches over the pieces that domains may be cut into found none that make up all "
                    f"groups, with no DP group on more than {pair[0]} domains and no PP group on more than {pair[1]}"
                )
                search.lattice.refute(pair, "pieces", sentence)
