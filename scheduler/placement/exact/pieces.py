"""Pieces: how many domains are cut up in each way, and how many columns, with none of them by name.

The cells of a column in a domain are a *piece*.  A domain is cut into pieces that it has room for, and touches as many
rows as the largest; a column is made up of at most S.  How many domains and columns are cut in each way is a small
integer program, as of cutting stock: it knows no domain of a room and no column by name, and hence none of their
orders.  Without a solution the pair is refuted, where all cuts are in it.  Of a solution the pieces are dealt to
columns, and whole rows are laid on the domains that each has.

Where domains lie in broader ones, *pods*, a column is made up of *parts*, its pieces in one pod.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.cpsat import Answer, Slice, solve
from scheduler.placement.exact.bands import partitions
from scheduler.placement.exact.lattice import PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.skeletons import EFFORT, Pods, realise
from scheduler.placement.types import Pair
from scheduler.work_clock import clock, spend
from topology.cluster import IntArray

if TYPE_CHECKING:
    from scheduler.placement import cp_model

Cut = tuple[int, ...]
"""Cells of each piece, descending."""

_CUTS = 5_000  # of all domains, of columns or of parts, up to which they are counted: such a program takes a second
_ROOM_CUTS = 625  # The same of a domain
SOLUTIONS = 4  # of a pair that are looked at: more keep others waiting
_DEALS = 6  # of the pieces of a solution to columns: of those that are laid the first three mostly are
_CUT_SECONDS = 1e-5  # Of work to list a cut, with its terms


@dataclass(frozen=True, slots=True)
class PartKind:
    """What parts of columns count as."""

    cells: int
    pieces: int


@dataclass(frozen=True, slots=True)
class Cuts:
    """How many there are of each."""

    columns: dict[tuple[PartKind, ...], cp_model.IntVar]
    parts: dict[tuple[int, Cut], cp_model.IntVar]  # by pod
    domains: dict[tuple[int, int, Cut], cp_model.IntVar]  # by pod and room


@dataclass(frozen=True)
class PieceCounts:
    """A grid on domains in pods, all in one where pods do not count, and the pairs that are asked for."""

    rows: int
    columns: int
    pods: tuple[tuple[int, ...], ...]  # of each the room of its domains
    pair: Pair
    above: Pair = (1, 1)  # of pods
    touches: int | None = None  # of domains by all columns together; None = as many as the pair allows

    @cached_property
    def _largest(self) -> int:
        """Cells of the largest piece."""
        return min(self.rows, max(map(max, self.pods)))

    @cached_property
    def _smallest(self) -> int:
        """Cells of the smallest piece: all others of its column are the largest."""
        return max(1, self.rows - (self.pair[0] - 1) * self._largest)

    @property
    def _most(self) -> int:
        """Domains that all columns may touch together."""
        allowed = self.pair[0] * self.columns
        return allowed if self.touches is None else min(allowed, self.touches)

    @cached_property
    def _parts(self) -> dict[PartKind, list[Cut]]:
        """Parts of each kind, in one of several pods of as few pieces as can be, or one more; none = too many."""
        parts, alone, left = dict[PartKind, list[Cut]](), len(self.pods) == 1, _CUTS
        for cells in range(self.rows if alone else 1, self.rows + 1):
            fewest = -(-cells // self._largest)
            for pieces in range(fewest, (self.pair[0] if alone else min(self.pair[0], fewest + 1)) + 1):
                cuts = [*islice(partitions(cells, pieces, self._largest), left + 1)][::-1]
                left -= len(cuts)
                if left < 0:
                    return {}
                if cuts:
                    parts[PartKind(cells, pieces)] = cuts
        return parts

    @cached_property
    def _column_cuts(self) -> list[tuple[PartKind, ...]]:
        """The parts of a column, in all ways; none = too many."""
        kinds = sorted(self._parts, key=lambda kind: (-kind.cells, kind.pieces))
        cuts = list[tuple[PartKind, ...]]()
        waiting: list[tuple[tuple[PartKind, ...], int]] = [((), 0)]
        while waiting:
            parts, first = waiting.pop()
            cells, pieces = sum(part.cells for part in parts), sum(part.pieces for part in parts)
            if cells == self.rows:
                cuts.append(parts)
                if len(cuts) > _CUTS:
                    return []
            elif len(parts) < self.above[0]:
                for place, kind in enumerate(kinds[first:], start=first):
                    if cells + kind.cells <= self.rows and pieces + kind.pieces <= self.pair[0]:
                        waiting.append(((*parts, kind), place))
        return cuts

    def _domain_cuts(self, room: int) -> tuple[list[Cut], bool]:
        """Return the cuts of a domain in which no piece can be larger, but with all the largest; and whether these are
        all: those of few pieces come first.
        """
        cuts = list[Cut]()
        for pieces in range(1, min(self.columns, room // self._smallest) + 1):
            cuts += [(height,) * pieces for height in range(self._smallest, -(-room // pieces)) if height <= self.rows]
            left = _ROOM_CUTS - len(cuts)
            full = [*islice(partitions(room, pieces, self.rows, self._smallest), max(0, left) + 1)][::-1]
            if len(full) > left:
                return cuts, False
            cuts += full
        return cuts, True

    @cached_property
    def _model(self) -> tuple[cp_model.CpModel, Cuts, bool] | None:
        """A model, its variables, and whether all cuts are in it; ``None`` = there are too many."""
        from scheduler.placement import cp_model

        model, (dp, pp), several = cp_model.CpModel(), self.pair, len(self.pods) > 1
        cuts_of = {room: self._domain_cuts(room) for room in {room for rooms in self.pods for room in rooms}}
        if not self._column_cuts or sum(len(cuts_of[room][0]) for rooms in self.pods for room in set(rooms)) > _CUTS:
            return None
        cuts = Cuts({cut: model.new_int_var(0, self.columns, "") for cut in self._column_cuts}, {}, {})
        model.add(sum(cuts.columns.values()) == self.columns)
        of_kind: dict[PartKind, list[cp_model.LinearExprT]] = defaultdict(list)
        heights: list[cp_model.LinearExprT] = []  # rows that domains touch
        pod_heights: list[cp_model.LinearExprT] = []
        for pod, rooms in enumerate(self.pods):
            capacity = sum(rooms)
            # by the cells of a piece
            given: dict[int, list[cp_model.LinearExprT]] = defaultdict(list)
            wanted: dict[int, list[cp_model.LinearExprT]] = defaultdict(list)
            for room, many in Counter(rooms).items():
                counts = []
                for cut in cuts_of[room][0]:
                    counts.append(count := model.new_int_var(0, many, ""))
                    cuts.domains[pod, room, cut] = count
                    heights.append(cut[0] * count)
                    for size, times in Counter(cut).items():
                        given[size].append(times * count)
                model.add(sum(counts) <= many)
            # whether some part has so many cells
            reaches = [model.new_bool_var("") for _ in range(min(self.rows, capacity))] if several else []
            for lower, higher in pairwise(reaches):
                model.add_implication(higher, lower)
            pod_heights += reaches
            held = list[cp_model.LinearExprT]()
            for kind, of_kind_parts in self._parts.items():
                counts = []
                for part in of_kind_parts if kind.cells <= capacity and kind.pieces <= len(rooms) else ():
                    counts.append(count := model.new_int_var(0, min(self.columns, capacity // kind.cells), ""))
                    cuts.parts[pod, part] = count
                    for size, times in Counter(part).items():
                        wanted[size].append(times * count)
                of_kind[kind] += counts
                held.append(kind.cells * sum(counts))
                if reaches and counts:
                    model.add(sum(counts) <= self.columns * reaches[kind.cells - 1])
            model.add(sum(held) <= capacity)
            larger: cp_model.LinearExprT = 0  # pieces that are not wanted, and serve for smaller ones
            for size in range(self._largest, 0, -1):
                smaller = model.new_int_var(0, self.columns * len(rooms), "")
                model.add(sum(given[size]) + larger == sum(wanted[size]) + smaller)
                larger = smaller
            if len(cuts.parts) > _CUTS:
                return None
        for kind in self._parts:
            in_columns = [cut.count(kind) * count for cut, count in cuts.columns.items() if kind in cut]
            model.add(sum(of_kind[kind]) == sum(in_columns))
        model.add(sum(len(part) * count for (_, part), count in cuts.parts.items()) <= self._most)
        if pp < self.columns:
            model.add(sum(heights) <= pp * self.rows)
        if several and self.above[1] < self.columns:
            model.add(sum(pod_heights) <= self.above[1] * self.rows)
        spend(_CUT_SECONDS * (len(cuts.columns) + len(cuts.parts) + len(cuts.domains)))
        # of two pieces at most parts have as few as hold them, or one more
        return model, cuts, all(whole for _, whole in cuts_of.values()) and (dp <= 2 or not several)

    def fewest_touches(self, limit: Slice) -> int:
        """Return how many domains the columns touch together at least; 0 = nothing is known."""
        if self._model is None or not self._model[2]:
            return 0
        model, cuts, _ = self._model
        model.minimize(sum(len(part) * count for (_, part), count in cuts.parts.items()))
        answer, solver = solve(model, limit)
        model.clear_objective()
        return self._most + 1 if answer == "no" else ceil(solver.best_objective_bound - 1e-6)

    def lay(self, limit: Slice, solutions: int) -> tuple[Answer, IntArray | None]:
        """Return ``"no"`` where two complete searches found no counts, or ``"yes"`` and where each cell lies, shape
        [rows, columns], domains numbered pod by pod.

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
                    cells = self._laid(dealt, seeded, end)
                    if cells is not None:
                        return "yes", cells
        return "unknown", None

    def _dealt(self, cuts: Cuts, solver: cp_model.CpSolver, chance: random.Random) -> IntArray | None:
        """Deal the pieces of a solution to columns, in some order: return the cells of columns in domains, shape
        [domains, columns]; ``None`` = one would have two pieces in a domain.
        """
        columns = [cut for cut, count in cuts.columns.items() for _ in range(solver.value(count))]
        chance.shuffle(columns)
        waiting: dict[PartKind, list[tuple[int, Cut]]] = defaultdict(list)
        for (pod, part), count in cuts.parts.items():
            waiting[PartKind(sum(part), len(part))] += [(pod, part)] * solver.value(count)
        wanted: list[list[tuple[int, float, int]]] = [[] for _ in self.pods]
        for parts in waiting.values():
            chance.shuffle(parts)
        for column, cut in enumerate(columns):
            pods = set[int]()
            for kind in cut:
                place = next((place for place, (pod, _) in enumerate(waiting[kind]) if pod not in pods), None)
                if place is None:
                    return None
                pod, part = waiting[kind].pop(place)
                pods.add(pod)
                wanted[pod] += [(size, chance.random(), column) for size in part]
        first, dealt = 0, np.zeros((sum(map(len, self.pods)), self.columns), dtype=np.int32)
        for pod, rooms in enumerate(self.pods):
            unused: dict[int, list[int]] = defaultdict(list)
            for domain, room in enumerate(rooms, start=first):
                unused[room].append(domain)
            first += len(rooms)
            given: list[tuple[int, float, int]] = []
            for (of_pod, room, sizes), count in cuts.domains.items():
                for _ in range(solver.value(count) if of_pod == pod else 0):
                    domain = unused[room].pop()
                    given += [(size, chance.random(), domain) for size in sizes]
            given.sort()
            # the largest first, each of the smallest that is large enough
            for cells, _, column in sorted(wanted[pod], reverse=True):
                fits = (i for i, (most, _, domain) in enumerate(given) if most >= cells and not dealt[domain, column])
                if (place := next(fits, None)) is None:
                    return None
                dealt[given.pop(place)[2], column] = cells
        return dealt

    def _laid(self, dealt: IntArray, limit: Slice, end: float) -> IntArray | None:
        """Return where each cell lies, shape [rows, columns], each in a domain of its column; or nothing."""
        several = len(self.pods) > 1
        if self.pair[1] >= self.columns and (not several or self.above[1] >= self.columns):
            domains = np.arange(len(dealt), dtype=np.int32)
            return np.stack([np.repeat(domains, cells) for cells in dealt.T], axis=1)
        rooms = tuple(room for of_pod in self.pods for room in of_pod)
        pod_of = tuple(pod for pod, of_pod in enumerate(self.pods) for _ in of_pod)
        rounding, pods = Slice(EFFORT, end - clock(), limit.seed), Pods(pod_of, self.above) if several else None
        problem = GridProblem(self.rows, self.columns, rooms)
        return realise(problem, dealt > 0, pp=self.pair[1], limit=rounding, pods=pods)[0]


def count_pieces(search: PairSearch) -> None:
    """Decide open pairs by counts of the pieces of columns, and of rows, the cheapest first."""
    end = search.end_of(search.params.short_share)
    for pair in search.lattice.open():
        search.say(f"pieces for DP spread {pair[0]}, PP spread {pair[1]}")
        for view in sorted(search.views, key=lambda view: view.problem.columns):
            if search.lattice.is_built(pair) or search.lattice.is_refuted(pair) or clock() >= end:
                break
            grid = view.problem
            counts = PieceCounts(grid.rows, grid.columns, (grid.capacities,), view.turn(pair))
            answer, cells = counts.lay(Slice(2 * EFFORT, end - clock(), search.limits.seed), SOLUTIONS)
            if cells is not None:
                search.build(view, cells, "pieces")
            elif answer == "no":
                sentence = (
                    f"two complete searches over the pieces that domains may be cut into found none that make up all "
                    f"groups, with no DP group on more than {pair[0]} domains and no PP group on more than {pair[1]}"
                )
                search.lattice.refute(pair, "pieces", sentence)
