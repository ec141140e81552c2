"""How many cells of each line lie in domains of each kind: what decides a closer level where cross lines are free.

The lines are the columns of a grid, or its rows.  Where a pair lets every cross line touch as many racks as it has
cells, only the lines are left to count: each touches so many racks, in so many pods, and has all its cells there.  A
model says for each line how many domains of each kind it touches, from the broadest level to the closest; domains alike
are one kind, so that nothing is asked twice, and all the closest in a domain are one: a line that touches so many of
them has no more cells than the roomiest hold.  It begins with a placement that is known, and minimises what lines touch
beyond the pair: what cannot be nothing refutes the pair.  A solution is told apart by domains, and its lines are laid
side by side; where cross lines may touch few pods, in bands of cross lines, each with its pods.

Before that each of the broadest domains goes whole to a line: then what a line has is a sum over its domains, and a
small model deals them out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.objective import spread
from scheduler.placement.cpsat import Answer, Slice, solve
from scheduler.work_clock import clock, spend
from topology.cluster import IntArray

if TYPE_CHECKING:
    from scheduler.placement import cp_model

Kind = tuple[Any, ...]
"""The kinds of the domains in a domain, in order; of a closest one its room."""

# Bands of cross lines up to which those of a placement are begun with; with more so few bands of any domains
_BANDS, _FEW = 12, 4
_ROUNDS = 3  # In which more and more of the closest domains are told apart
_SHARE_EFFORT = 0.1  # In deterministic time, to share out closest domains: each model of some tens of variables
# Prices of a touch at each closer level, in halves of a cell, at which what a line has is bounded where domains are
# dealt out: with the first two hundred deals of one question were looked at, with all of them one
_PRICES = (0, 1, 2, 3, 4, 6, 8)
# Numbers of touches at all levels together up to which domains are dealt out: of four levels tables took seconds
_COMBINATIONS = 100_000
# Of work: to add a way to share cells out, and an element of it
_WAY_SECONDS, _ELEMENT_SECONDS = 1e-5, 1e-9
_NONE = -(2**20)  # Cells of a line that touches what a domain has not: less than any sum of others makes up for


@dataclass(frozen=True)
class Counts:
    """What the lines have in domains that are alike, or in one of them: as variables, or as numbers."""

    domains: Sequence[int]
    touched: Sequence[cp_model.LinearExprT]  # by line, domains
    cells: Sequence[cp_model.LinearExprT]  # by line

    def values(self, solver: cp_model.CpSolver) -> Counts:
        """Return the numbers of a solution."""
        return Counts(self.domains, [*map(solver.value, self.touched)], [*map(solver.value, self.cells)])


@dataclass(frozen=True)
class CrossBand:
    """A band of cross lines that touch the same few domains."""

    size: cp_model.IntVar  # cross lines, each of so many neighbours as stay together
    cells: dict[int, list[cp_model.IntVar]]  # of each domain, by line


@dataclass(frozen=True)
class LineCounts:
    """Lines of equal length, and nested domains where there is room for their cells."""

    length: int
    lines: int
    # shape [levels, closest domains], what each of these lies in, from the broadest level to itself, in its order
    paths: IntArray
    room: IntArray  # shape [closest domains], cells that each takes
    touches: Sequence[int]  # by level, domains that a line may touch
    cross: Sequence[int]  # by level, domains that a cross line may touch; of the closest as many as it has cells
    together: Sequence[int]  # by level, neighbours in a line that lie in one domain: of a broader level a multiple

    def lay(
        self, limit: Slice, start: IntArray | None = None, *, counted: bool = False
    ) -> tuple[Answer, IntArray | None]:
        """Return whether the lines can be counted out, and where each cell lies, shape [length, lines]: the index of a
        closest domain.

        A "no" is proved by a complete search.  A "yes" may come without cells: counts do not see whether domains alike
        can be told apart, nor all that cross lines need which may touch fewer domains than they have cells.  Others may
        come with cells, where all lines touch fewer closest domains than some did before.

        :param start: shape [length, lines], a placement that may touch more.
        :param counted: whether that they can be counted out is known: cells alone are looked for.
        """
        if self._limited >= 0:
            answer, _, cells = self._count(len(self.paths) - 1, {}, limit, start, banded=True)
            if answer != "yes" or cells is None:
                # in bands a "no" proves nothing
                answer = "yes" if counted else self._refuted(limit)
            return answer, cells
        if not self._whole and (cells := self._dealt(limit)) is not None:
            return "yes", cells
        answer, counts, cells = self._count(0, {}, limit, start)
        for apart in range(1, len(self.paths)):
            if counts:
                kept = dict(enumerate(counts))
                _, counts, cells = self._count(apart, kept, limit, start)
                if not counts:
                    answer, counts, cells = self._count(apart, {}, limit, start)
        if answer == "unknown" and self._whole:
            answer = self._refuted(limit)
        return answer, cells

    @cached_property
    def _whole(self) -> list[int]:
        """Levels at which each line lies in one domain, and cross lines are limited: to domains of all lines."""
        return [level for level, most in enumerate(self.cross) if most < self.lines and self.touches[level] == 1]

    @cached_property
    def _limited(self) -> int:
        """The closest other level at which cross lines are limited, and domains told apart; -1 = there is none."""
        limited = (level for level, most in enumerate(self.cross) if most < self.lines and level not in self._whole)
        return max(limited, default=-1)

    @cached_property
    def _most_cells(self) -> list[dict[Kind, IntArray]]:
        """By level, of each kind of domain the cells that a line has there at most, by the domains of this level (none,
        or this one) and of each closer one that it touches: shape [2, touches + 1 of the next level, ...]; negative
        where there is no such way, or fewer touches do as well.
        """
        tables: list[dict[Kind, IntArray]] = [{kind: np.array([0, *kind]) for kind in self._kinds[-1].values()}]
        for level in reversed(range(len(self._inside))):
            of_level: dict[Kind, IntArray] = {}
            for kind in dict.fromkeys(self._kinds[level].values()):
                cells = self._sums([tables[0][closer] for closer in kind], level + 1)[-1]
                cells = np.where(cells > 0, cells // self.together[level] * self.together[level], _NONE)
                best = cells
                for axis in range(cells.ndim):
                    best = np.maximum.accumulate(best, axis)
                for axis in range(cells.ndim):
                    more, fewer = np.moveaxis(cells, axis, 0)[1:], np.moveaxis(best, axis, 0)[:-1]
                    more[more <= fewer] = _NONE
                of_level[kind] = np.stack([np.full_like(cells, _NONE), cells])
                of_level[kind].flat[0] = 0
            tables.insert(0, of_level)
        return tables

    def _sums(self, tables: Sequence[IntArray], level: int) -> list[IntArray]:
        """Return the cells that a line has at most in the first domains of a level, for each number of them from none
        on, by touches of this level and of each closer one, up to those that a line may have.

        :param tables: of each domain, as in ``_most_cells``.
        """
        sums: list[IntArray] = [np.zeros((1,) * tables[0].ndim, dtype=np.int32)]
        for table in tables:
            shape = [
                min(before + here - 1, most + 1)
                for before, here, most in zip(sums[-1].shape, table.shape, self.touches[level:], strict=True)
            ]
            cells, ways = np.full(shape, _NONE, dtype=np.int32), np.argwhere(table >= 0).tolist()
            for way in ways:
                before = sums[-1][tuple(slice(max(0, most - here)) for most, here in zip(shape, way, strict=True))]
                into = cells[tuple(slice(here, here + wide) for here, wide in zip(way, before.shape, strict=True))]
                np.maximum(into, before + table[tuple(way)], out=into)
            spend(len(ways) * (_WAY_SECONDS + _ELEMENT_SECONDS * cells.size))
            sums.append(cells)
        return sums

    def _dealt(self, limit: Slice) -> IntArray | None:
        """Deal the broadest domains out, each whole to a line, and return where each cell lies, shape [length, lines];
        ``None`` = that is not known to be possible.
        """
        from scheduler.placement import cp_model

        if len(self._kinds[0]) < self.lines or np.prod(np.add(self.touches, 1)) > _COMBINATIONS:
            return None
        lines, model = range(self.lines), cp_model.CpModel()
        alike_in = defaultdict[Kind, list[int]](list)
        for domain, kind in self._kinds[0].items():
            alike_in[kind].append(domain)
        has = {domain: [model.new_bool_var("") for _ in lines] for domain in self._kinds[0]}
        for of_domain in has.values():
            model.add_at_most_one(of_domain)
        for line in lines:
            model.add(sum(of_domain[line] for of_domain in has.values()) <= self.touches[0])
        for prices in product(_PRICES, repeat=len(self.touches) - 1):
            # of each kind of domain the cells beyond what their touches cost, at most
            gains = {
                kind: int((2 * table[1] - np.tensordot(prices, np.indices(table[1].shape), axes=1)).max())
                for kind, table in self._most_cells[0].items()
            }
            wanted = 2 * self.length - int(np.dot(prices, self.touches[1:]))
            for line in lines:
                model.add(sum(gains[kind] * has[domain][line] for domain, kind in self._kinds[0].items()) >= wanted)
        end = clock() + min(limit.wall, limit.effort)
        while clock() < end:
            answer, solver = solve(model, replace(limit, wall=end - clock(), workers=None))
            if answer != "yes":
                return None
            dealt = [[domain for domain in has if solver.value(has[domain][line])] for line in lines]
            held = [self._held(domains) for domains in dealt]
            too_few = [domains for domains, of_line in zip(dealt, held, strict=True) if of_line is None]
            if not too_few:
                return self._laid(np.stack([of_line for of_line in held if of_line is not None], axis=1), (), solver)
            for domains, line in product(too_few, lines):
                # those alike, or some of them alone, are too few as well
                fewer, more = Counter(self._kinds[0][domain] for domain in domains), list[cp_model.IntVar]()
                for kind, alike in alike_in.items():
                    of_line = [has[domain][line] for domain in alike]
                    if kind in fewer:
                        is_more = model.new_bool_var("")
                        model.add(sum(of_line) > fewer[kind]).only_enforce_if(is_more)
                        of_line = [is_more]
                    more += of_line
                model.add_bool_or(more)
        return None

    def _held(self, domains: Sequence[int]) -> IntArray | None:
        """Return the cells of a line in each of the closest domains, where it has all of some broadest ones; ``None`` =
        it would touch more than it may.
        """
        held = np.zeros(len(self.room), dtype=np.int32)

        def hand_out(level: int, domains: Sequence[int], touched: IntArray, left: int) -> None:
            """Hand cells out to domains of a level in which a line has so many at least with these touches."""
            tables = [self._most_cells[level][self._kinds[level][domain]] for domain in domains]
            sums = self._sums(tables, level)
            for domain, table, before, after in zip(
                domains[::-1], tables[::-1], sums[-2::-1], sums[:0:-1], strict=True
            ):
                most, ways = after[tuple(touched)], np.argwhere(table >= 0)
                rest = touched - ways
                fit = ((rest >= 0) & (rest < before.shape)).all(axis=1)
                of_way = before[tuple(rest[fit].T)] + table[tuple(ways[fit].T)]
                way = ways[fit][int(np.argmax(of_way == most))]
                touched, here = touched - way, min(left, int(table[tuple(way)]))
                left -= here
                if not here:
                    continue
                if level == len(self._inside):
                    held[np.searchsorted(self.paths[-1], domain)] = here
                else:
                    hand_out(level + 1, self._inside[level][domain], way[1:], here)

        cells = self._sums([self._most_cells[0][self._kinds[0][domain]] for domain in domains], 0)[-1]
        if cells.max() < self.length:
            return None
        hand_out(0, domains, np.argwhere(cells >= self.length)[0], self.length)
        return held

    def _count(
        self,
        apart: int,
        kept: Mapping[int, Sequence[Counts]],
        limit: Slice,
        start: IntArray | None,
        *,
        banded: bool = False,
    ) -> tuple[Answer, list[list[Counts]], IntArray | None]:
        """Return whether there are counts; by level counts, which may be beyond them where all lines touch fewer than
        some did before; and, where all but the closest domains are told apart, where each cell lies, or nothing.

        :param apart: levels whose domains are told apart though they are alike; ``kept``, ``start``: as of ``_model``
            and ``lay``.
        :param banded: in bands of cross lines, each of which touches few domains together: a "no" proves nothing.
        """
        told: set[int] = set()  # closest domains, where counts of all those around them together were not enough
        numbers: list[list[Counts]] = []
        line_of = np.indices((self.length, self.lines))[1]
        known = inf if start is None else spread(line_of, start)
        for _ in range(_ROUNDS):
            model, counts, beyond = self._model(apart, kept, told)
            bands = self._add_bands(model, counts, start) if banded else []
            if start is not None and (told or not kept):
                self._suggest(model, counts, beyond, start)
            answer, solver = solve(model, limit)
            if answer != "yes":
                return answer, [], None
            if solver.objective_value > 0:
                answer = "no" if solver.best_objective_bound > 0 else "unknown"
                # after the first round the start is what was laid in the round before
                if start is None or spread(line_of, start) <= self.touches[-1] + max(map(solver.value, beyond)):
                    return answer, [], None
            numbers = [[alike.values(solver) for alike in of_level] for of_level in counts]
            if apart < len(self.paths) - 1:
                break
            held = np.zeros((len(self.room), self.lines), dtype=np.int32)
            crowded = set[int]()
            for alike in numbers[-1]:
                inside = np.searchsorted(self.paths[-1], alike.domains)
                held[inside] = _shared(self.room[inside], alike, limit)
                if (np.count_nonzero(held[inside], axis=0) > alike.touched).any():
                    crowded.update(alike.domains)
            start = self._laid(held, bands, solver)
            if not crowded:
                return answer, numbers, start if answer == "yes" or spread(line_of, start) < known else None
            told |= crowded
        return answer, numbers, None

    def _refuted(self, limit: Slice) -> Answer:
        """Return whether there are counts of lines and cross lines that touch no domain beyond."""
        model, counts, beyond = self._model(self._limited + 1, {}, ())
        model.clear_objective()
        for of_line in beyond:
            model.add(of_line == 0)
        for of_level, most in zip(counts, self.cross, strict=True):
            if most < self.lines:
                model.add(sum(self._rectangle(model, alike) for alike in of_level) <= most * self.length)
        return solve(model, replace(limit, workers=None, linearization=2))[0]

    def _laid(self, held: IntArray, bands: Sequence[CrossBand], solver: cp_model.CpSolver) -> IntArray:
        """Return where each cell lies, shape [length, lines]; ``held`` has shape [closest domains, lines]."""
        order = np.lexsort(self.paths[::-1])
        if not bands:
            return np.stack([np.repeat(order, of_line[order]) for of_line in held.T], axis=1)
        level, domains = self._limited, [*bands[0].cells]
        # by band and line its cells in each domain of the limited level
        laid = np.concatenate(
            [
                np.stack(
                    [np.repeat(domains, [*map(solver.value, line)]) for line in zip(*band.cells.values(), strict=True)],
                    axis=1,
                )
                for band in bands
            ]
        ).repeat(self.together[level], axis=0)
        placed = np.empty((self.length, self.lines), dtype=np.int32)
        for domain, line in product(domains, range(self.lines)):
            inside = order[self.paths[level, order] == domain]
            placed[laid[:, line] == domain, line] = np.repeat(inside, held[inside, line])
        return placed

    @cached_property
    def _inside(self) -> list[dict[int, list[int]]]:
        """By level but the closest, of each domain those of the next level in it."""
        inside: list[dict[int, list[int]]] = []
        for level in range(len(self.paths) - 1):
            of_level = defaultdict[int, list[int]](list)
            for domain, closer in np.unique(self.paths[level : level + 2], axis=1).T.tolist():
                of_level[domain].append(closer)
            inside.append(of_level)
        return inside

    @cached_property
    def _kinds(self) -> list[dict[int, Kind]]:
        """By level, of each domain."""
        kinds: list[dict[int, Kind]] = [
            {int(domain): (int(room),) for domain, room in zip(self.paths[-1], self.room, strict=True)}
        ]
        for inside in reversed(self._inside):
            kinds.insert(0, {d: tuple(sorted(kinds[0][closer] for closer in of_d)) for d, of_d in inside.items()})
        return kinds

    def _model(
        self, apart: int, kept: Mapping[int, Sequence[Counts]], told: Collection[int]
    ) -> tuple[cp_model.CpModel, list[list[Counts]], list[cp_model.IntVar]]:
        """Return a model in which the domains of so many levels are told apart though they are alike, its variables by
        level, and by line the closest domains that it touches beyond those that it may: it minimises their sum.

        :param kept: by level, numbers that hold for domains together, so that none is touched beyond; none = any may.
        :param told: closest domains that are told apart.
        """
        from scheduler.placement import cp_model

        model, counts = cp_model.CpModel(), [list[Counts]() for _ in self.paths]

        def add(level: int, domains: Iterable[int], around: Counts | None) -> Sequence[cp_model.LinearExprT]:
            """Add the counts of some domains of a level, all those in the domains ``around``; return cells, by line."""
            closest, alike, of_alike = level == len(self.paths) - 1, defaultdict[Kind, list[int]](list), []
            for domain in domains:
                # the closest in a domain count as one kind
                kind = () if closest and domain not in told else (domain,)
                alike[kind if closest or level < apart else self._kinds[level][domain]].append(domain)
            for some in alike.values():
                touched = [model.new_int_var(0, len(some), "") for _ in range(self.lines)]
                if around is not None:
                    for inside, outside in zip(touched, around.touched, strict=True):
                        model.add(inside <= len(some) // len(around.domains) * outside)
                cells: Sequence[cp_model.LinearExprT]
                if closest:
                    rooms = [self._kinds[level][domain][0] for domain in some]
                    cells = [model.new_int_var(0, min(self.length, sum(rooms)), "") for _ in touched]
                    _reach(model, cells, touched, rooms)
                else:
                    closer = [domain for outside in some for domain in self._inside[level][outside]]
                    cells = add(level + 1, closer, Counts(some, touched, []))
                    room = int(self.room[self.paths[level] == some[0]].sum())
                    for of_line, times in zip(cells, touched, strict=True):
                        model.add(of_line <= room * times)
                        if self.together[level] > 1:
                            model.add(of_line == self.together[level] * model.new_int_var(0, self.length, ""))
                counts[level].append(Counts(some, touched, cells))
                of_alike.append(cells)
            return [sum(of_line) for of_line in zip(*of_alike, strict=True)]

        for of_line in add(0, np.unique(self.paths[0]).tolist(), None):
            model.add(of_line == self.length)
        beyond = [] if kept else [model.new_int_var(0, self.length, "") for _ in range(self.lines)]
        model.minimize(sum(beyond))
        for of_level, most in zip(counts[: -1 if kept else None], self.touches, strict=False):
            for line, touched in enumerate(zip(*(alike.touched for alike in of_level), strict=True)):
                model.add(sum(touched) <= most + (beyond[line] if of_level is counts[-1] else 0))
        for level in self._whole:
            used = [model.new_bool_var("") for _ in counts[level]]
            for alike, is_used in zip(counts[level], used, strict=True):
                for has in alike.touched:
                    model.add(has <= is_used)
            model.add(sum(used) <= self.cross[level])
        for level, before in kept.items():
            number_of = {domain: number for number, together in enumerate(before) for domain in together.domains}
            parts: list[list[Counts]] = [[] for _ in before]
            for alike in counts[level]:
                parts[number_of[alike.domains[0]]].append(alike)
            for together, inside in zip(before, parts, strict=True):
                for line in range(self.lines):
                    model.add(sum(alike.touched[line] for alike in inside) <= together.touched[line])
                    model.add(sum(alike.cells[line] for alike in inside) == together.cells[line])
        return model, counts, beyond

    def _rectangle(self, model: cp_model.CpModel, alike: Counts) -> cp_model.IntVar:
        """Return how many cross lines touch a domain: no line has more cells there."""
        height = model.new_int_var(0, self.length, "")
        width = [model.new_bool_var("") for _ in range(self.lines + 1)]
        model.add_exactly_one(width)
        model.add(sum(alike.touched) == sum(wide * is_wide for wide, is_wide in enumerate(width)))
        for cells in alike.cells:
            model.add(cells <= height)
        for wide, is_wide in enumerate(width):
            model.add(sum(alike.cells) <= wide * height).only_enforce_if(is_wide)
        return height

    def _suggest(
        self,
        model: cp_model.CpModel,
        counts: Sequence[Sequence[Counts]],
        beyond: Sequence[cp_model.IntVar],
        start: IntArray,
    ) -> None:
        """Suggest what a placement counts to."""
        from scheduler.placement import cp_model

        for level, of_level in enumerate(counts):
            places, touches = self.paths[level, start], np.zeros(self.lines, dtype=np.int64)
            for alike in of_level:
                here = np.isin(places, alike.domains)
                touched = [len(set(line[inside])) for line, inside in zip(places.T, here.T, strict=True)]
                touches += touched
                hints = [*zip(alike.touched, touched, strict=True)]
                if level == len(self.paths) - 1:  # of broader ones cells are sums of these
                    hints += zip(alike.cells, here.sum(axis=0).tolist(), strict=True)
                for variable, value in hints:
                    assert isinstance(variable, cp_model.IntVar)
                    model.add_hint(variable, value)
        for variable, value in zip(beyond, np.maximum(touches - self.touches[-1], 0).tolist(), strict=False):
            model.add_hint(variable, value)

    def _add_bands(
        self, model: cp_model.CpModel, counts: Sequence[Sequence[Counts]], start: IntArray | None
    ) -> list[CrossBand]:
        """Add bands of cross lines, with the domains of the limited level that each touches, no more than a cross line
        may, and the broader ones; they begin with those of a placement.
        """
        level, together = self._limited, self.together[self._limited]
        cross_lines, places = self.length // together, None if start is None else self.paths[level, start[::together]]
        begun = [] if places is None else _bands_of(places, self.cross[level])
        if not 0 < len(begun) <= _BANDS:
            places, begun = None, []
        bands = [CrossBand(model.new_int_var(0, cross_lines, ""), {}) for _ in begun or range(_FEW)]
        model.add(sum(band.size for band in bands) == cross_lines)
        for number, band in enumerate(bands):
            entered = {
                (at, alike.domains[0]): model.new_bool_var("") for at in range(level + 1) for alike in counts[at]
            }
            for at, most in enumerate(self.cross[: level + 1]):
                model.add(sum([enters for (broader, _), enters in entered.items() if broader == at]) <= most)
            for alike in counts[level]:
                (domain,) = alike.domains
                here = self.paths[level] == domain
                room = min(cross_lines, int(self.room[here].sum()) // together)
                band.cells[domain] = [model.new_int_var(0, room, "") for _ in range(self.lines)]
                for line, cells in enumerate(band.cells[domain]):
                    for at in range(level + 1):
                        model.add(cells <= room * entered[at, int(self.paths[at, here][0])])
                    if places is not None:
                        model.add_hint(cells, int(np.count_nonzero(places[begun[number][1], line] == domain)))
                if places is not None:
                    model.add_hint(entered[level, domain], domain in begun[number][0])
            for of_line in zip(*band.cells.values(), strict=True):
                model.add(sum(of_line) == band.size)
            if places is not None:
                model.add_hint(band.size, len(begun[number][1]))
        for alike in counts[level]:
            for of_line, *of_bands in zip(alike.cells, *(band.cells[alike.domains[0]] for band in bands), strict=True):
                model.add(together * sum(of_bands) == of_line)
        return bands


def _shared(rooms: IntArray, alike: Counts, limit: Slice) -> IntArray:
    """Share out closest domains among the lines that count cells there, shape [domains, lines], so that lines touch few
    beyond those that they count.
    """
    from scheduler.placement import cp_model

    touches, wanted = np.array(alike.touched), np.array(alike.cells)
    # one line after another, over one domain after another
    ends, upto = np.cumsum(rooms), np.cumsum(wanted)
    in_turn = np.minimum.outer(ends, upto) - np.maximum.outer(ends - rooms, upto - wanted)
    shared: IntArray = np.maximum(in_turn, 0).astype(np.int32)
    if (np.count_nonzero(shared, axis=0) <= touches).all():
        return shared
    model, cells, beyond = cp_model.CpModel(), list[list[cp_model.IntVar]](), list[cp_model.IntVar]()
    for room in rooms.tolist():
        cells.append([model.new_int_var(0, min(room, most), "") for most in wanted.tolist()])
        model.add(sum(cells[-1]) <= room)
    for line, (most, many) in enumerate(zip(touches.tolist(), wanted.tolist(), strict=True)):
        touched = [model.new_bool_var("") for _ in cells]
        for of_domain, touch in zip(cells, touched, strict=True):
            model.add(of_domain[line] <= many * touch)
        model.add(sum(of_domain[line] for of_domain in cells) == many)
        beyond.append(model.new_int_var(0, len(rooms), ""))
        model.add(sum(touched) <= most + beyond[-1])
    model.minimize(sum(beyond))
    answer, solver = solve(model, replace(limit, effort=_SHARE_EFFORT, workers=None))
    if answer == "yes":
        shared = np.array([[solver.value(has) for has in of_domain] for of_domain in cells], dtype=np.int32)
    return shared


def _bands_of(places: IntArray, most: int) -> list[tuple[frozenset[int], IntArray]]:
    """Group the cross lines of a placement in bands that touch few domains: the domains of each, and its cross lines.

    :param places: shape [cross lines, lines], the domain of each cell; ``most``: domains of a band.
    """
    touched = [frozenset(cross_line) for cross_line in places.tolist()]
    bands: list[frozenset[int]] = []
    for domains, _ in Counter(touched).most_common():
        number = next((i for i, band in enumerate(bands) if len(band | domains) <= most), None)
        if number is None:
            bands.append(domains)
        else:
            bands[number] |= domains
    band_of = np.array([next(i for i, band in enumerate(bands) if domains <= band) for domains in touched])
    return [(band, np.flatnonzero(band_of == number).astype(np.int32)) for number, band in enumerate(bands)]


def _reach(
    model: cp_model.CpModel,
    cells: Sequence[cp_model.LinearExprT],
    touched: Sequence[cp_model.LinearExprT],
    rooms: Sequence[int],
) -> None:
    """Add that the cells of a line, and of all, lie in no more of some domains than it touches: the roomiest at best.

    :param cells: by line, and so ``touched``; ``rooms``: of each domain.
    """
    rooms = sorted(rooms, reverse=True)
    model.add(sum(cells) <= sum(rooms))
    for of_line, times in zip((*cells, sum(cells)), (*touched, sum(touched)), strict=True):
        for roomier, room in enumerate(rooms):
            # what the roomiest hold is concave in their number: below a straight line for each room
            if not roomier or room < rooms[roomier - 1]:
                model.add(of_line <= sum(rooms[:roomier]) + room * (times - roomier))
