"""Bands: the columns are cut into b <= R bands of widths w_1 >= ... >= w_b, in each of which a row lies in one domain.

A row touches at most b domains, and with at most S domains in each band a column touches at most S.  What is left to
choose is how many rows each domain hosts in each band: a tabu search swaps domains between the slots of the bands.
*Split bands* are cut otherwise in some of their rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice
from math import inf

import numpy as np

from scheduler.placement.exact.bounds import TOGETHER
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from scheduler.work_clock import clock, cut_short, spend
from topology.cluster import BoolArray, IndexArray, IntArray


def partitions(total: int, parts: int, largest: int | None = None, smallest: int = 1) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a number as that many parts in descending order, the most even first.

    :param largest: part; ``None`` = any.
    """

    def with_largest(left: int, parts: int, largest: int) -> Iterator[tuple[int, ...]]:
        if parts == 1:
            if smallest <= left <= largest:
                yield (left,)
            return
        for first in range(-(-left // parts), min(largest, left - smallest * (parts - 1)) + 1):
            for rest in with_largest(left - first, parts - 1, first):
                yield (first, *rest)

    return with_largest(total, parts, total if largest is None else largest)


def lay_bands(rows: int, widths: Sequence[int], rows_in: IntArray) -> IntArray:
    """Return the domain of each cell, shape [rows, columns of all bands], from the rows of each domain in each band.

    :param rows_in: shape [domains, bands]; rows of a band beyond D are left out.
    """
    cells = np.empty((rows, sum(widths)), dtype=np.int32)
    left = 0
    for band, width in enumerate(widths):
        domains = np.repeat(np.arange(rows_in.shape[0], dtype=np.int32), rows_in[:, band])
        cells[:, left : left + width] = domains[:rows, None]
        left += width
    return cells


# Tabu search for domains in the slots of bands: the engine of whole-row bands.
#
# A band lacks rows of some width; S slots take a domain each, and a domain of c cells hosts floor(c / width) rows.  Of
# all swaps of a domain of the band that lacks most with one of another band, the one that leaves the fewest cells
# without room is made.  A domain that was moved stays for some steps, so that the search leaves the place where no swap
# helps. Many such problems (partitions of the columns into bands) are searched at once, as one array.


# Of work: to make a step, and to look at a swap
_SWAP_SECONDS, _ELEMENT_SECONDS = 2e-4, 2e-8

_LISTED = 240  # Partitions of the columns that are looked at, the most even first: all of them up to P = 16
_TRIES = 8  # Of these searched, and swaps in each: what can be had at all mostly takes a handful, in 1-2 ms
STAY = (5, 12)  # Steps for which a domain that was moved stays: drawn, from the first to below the second

_NEVER = np.int32(1 << 30)  # Cells, more than any cluster has: a swap that must not be made


@dataclass
class SlotSwaps:
    """Domains in the slots of bands, for some problems at once."""

    needs: IntArray  # shape [problems, bands]: rows that each band must have room for
    widths: IntArray  # shape [problems, bands]: cells of such a row
    capacities: IntArray  # shape [problems, domains]: cells of the domains, 0 for those that do not exist
    slots: IntArray  # shape [problems, bands, S]: the domain in each slot, each in one slot
    closed: BoolArray  # shape [problems, bands, S]: slots that keep their domain

    @property
    def swaps(self) -> int:
        """Swaps of one band with all others, for one problem."""
        _, bands, dp = self.slots.shape
        return int(dp * bands * dp)

    def __len__(self) -> int:
        """Return the number of problems."""
        return len(self.slots)

    def take(self, some: IntArray) -> SlotSwaps:
        """Return some of the problems, in that order."""
        return SlotSwaps(
            self.needs[some], self.widths[some], self.capacities[some], self.slots[some], self.closed[some]
        )

    def cells(self) -> IntArray:
        """Return the cells of the domain in each slot, shape [problems, bands, S]."""
        inside: IntArray = self.capacities[np.arange(len(self))[:, None, None], self.slots]
        return inside

    def hosted(self, cells: IntArray) -> IntArray:
        """Return the rows that each slot can host, shape [problems, bands, S], given the :meth:`cells` of each."""
        rows: IntArray = np.minimum(self.needs[:, :, None], cells // self.widths[:, :, None])
        return rows

    def lacking(self) -> IntArray:
        """Return the cells of each band without room, shape [problems, bands]."""
        cells: IntArray = self.widths * np.maximum(0, self.needs - self.hosted(self.cells()).sum(axis=2))
        return cells

    def run(self, steps: int, rng: np.random.Generator, end: float = inf) -> IntArray:
        """Search until one problem has room for all rows, or to the end of the time; keep the best slots of each.

        :returns: shape [problems], fewest cells without room.
        """
        every, size = np.arange(len(self)), self.slots.shape[1] * self.slots.shape[2]
        best, best_slots = np.full(len(self), _NEVER), self.slots.copy()
        until = np.zeros(self.slots.shape, dtype=np.int32)  # step up to which the domain in a slot stays
        for step in range(steps + 1):
            cells = self.cells()
            hosted = self.hosted(cells)
            lacking = self.widths * np.maximum(0, self.needs - hosted.sum(axis=2))
            left = lacking.sum(axis=1)
            better = left < best
            best[better], best_slots[better] = left[better], self.slots[better]
            if step == steps or not left.all() or clock() >= end:
                break
            # the band that lacks most, but not always: by a random factor between 1 and 1.5
            worst = (lacking * (1 + 0.5 * rng.random(lacking.shape))).argmax(axis=1)
            after = self._after_swaps(cells, hosted, lacking, worst)
            spend(_SWAP_SECONDS + _ELEMENT_SECONDS * after.size)
            stays = until > step
            held = stays[:, None] | stays[every, worst][:, :, None, None]
            # a swap that leaves fewer cells without room than ever may be made all the same
            after[held & (after >= best[:, None, None, None])] = _NEVER - 1
            after[self.closed[:, None] | self.closed[every, worst][:, :, None, None]] = _NEVER
            after = after.reshape(len(self), -1)
            pick = after.argmin(axis=1)
            mine, other = np.divmod(pick, size)
            # where no swap may be made a domain is swapped with itself
            other = np.where(after[every, pick] == _NEVER, worst * self.slots.shape[2] + mine, other)
            here, there = (every, worst, mine), (every, *np.divmod(other, self.slots.shape[2]))
            self.slots[here], self.slots[there] = self.slots[there], self.slots[here]
            until[here], until[there] = step + rng.integers(*STAY, (2, len(self)))
        self.slots = best_slots
        return best

    def _after_swaps(self, cells: IntArray, hosted: IntArray, lacking: IntArray, worst: IntArray) -> IntArray:
        """Return the cells without room after each swap with one band.

        :param cells: shape [problems, bands, S], as ``hosted``; ``lacking``: shape [problems, bands]; ``worst``: that
            band of each.
        :returns: shape [problems, S slots of the band, bands, S]; ``_NEVER`` within the band.
        """
        every = np.arange(len(self))
        short = self.needs - hosted.sum(axis=2)
        width, need = self.widths[every, worst], self.needs[every, worst]
        # rows that the band lacks without one of its domains and with one of another band, and the other way round
        comes = np.minimum(need[:, None, None], cells // width[:, None, None])
        here = (short[every, worst][:, None] + hosted[every, worst])[:, :, None, None] - comes[:, None]
        goes = np.minimum(self.needs[:, None], cells[every, worst][:, :, None] // self.widths[:, None])
        there = (short[:, :, None] + hosted)[:, None] - goes[:, :, :, None]
        after: IntArray = width[:, None, None, None] * np.maximum(0, here)
        after += self.widths[:, None, :, None] * np.maximum(0, there)
        # all other bands are as they were
        after += (lacking.sum(axis=1)[:, None] - lacking[every, worst][:, None] - lacking)[:, None, :, None]
        after[every, :, worst] = _NEVER
        return after


# Column bands by tabu search: every domain in one band, moved until each band has room for all rows.
#
# With the widths given, a domain of c cells hosts min(D, floor(c / w)) rows of a band of width w.  A band has S slots
# for domains, and a placement exists where the domains in its slots host D rows, for every band.  The search starts
# with the domains dealt in order of size, the largest to the widest band, and swaps domains of two bands, for all
# partitions of the columns at once.
#
# Where slots stay empty, a domain with room to spare in its band may serve a second one (:func:`_shared_rows`).


def tabu_bands(
    problem: GridProblem, pair: Pair, *, seed: int, searched: int = _TRIES, steps: int = _TRIES, end: float = inf
) -> IntArray | None:
    """Return a placement of whole rows in bands; shape [rows, columns], the domain of each cell.

    :param pair: at most that many domains in a band, at most that many bands.
    :param searched: partitions of the columns, those with the fewest cells without room first.
    :param steps: swaps in each; ``end``: of the time, by ``scheduler.work_clock``.
    :returns: ``None`` when none was found, which proves nothing.
    """
    search = _dealt(problem, pair)
    # the partitions with the fewest cells without room first
    order = np.argsort(search.lacking().sum(axis=1), kind="stable").astype(np.int32)
    if search.capacities[0, -1]:
        # without those too narrow or too wide for all: domains do not hold all cells even if each goes to the band that
        # suits it best; where slots stay empty domains may be shared, and that is not counted
        held = []
        rooms, many = np.unique(search.capacities[0], return_counts=True)
        for widths in search.widths:
            different = np.unique(widths)
            rows = np.minimum(problem.rows, rooms[:, None] // different)
            held.append(int(many @ (rows * different).max(axis=1)))
        order = order[np.array(held)[order] >= problem.cells]
    search = search.take(order[: min(searched, max(1, TOGETHER // search.swaps))])
    if not len(search):
        return None
    left = search.run(steps, np.random.default_rng(seed), end)
    complete = np.flatnonzero(left == 0)
    for i in complete if len(complete) else range(len(search)):
        rows_in = _shared_rows(problem, search.widths[i], search.capacities[i], search.slots[i])
        if rows_in is not None:
            return lay_bands(problem.rows, search.widths[i], rows_in)
    return None


def _dealt(problem: GridProblem, pair: Pair) -> SlotSwaps:
    """Deal the largest domains, S to a band, the largest to the widest, for each partition of the columns."""
    dp, bands = pair[0], min(pair[1], problem.columns)
    listed = islice(partitions(problem.columns, bands), _LISTED)
    widths = np.array(list(listed), dtype=np.int32)
    count = len(widths)
    capacities = np.zeros(dp * bands, dtype=np.int32)
    some = problem.capacities[: dp * bands]
    capacities[: len(some)] = some
    slots = np.arange(dp * bands, dtype=np.int32).reshape(1, bands, dp).repeat(count, axis=0)
    needs = np.full(widths.shape, problem.rows, dtype=np.int32)
    return SlotSwaps(
        needs, widths, capacities[None].repeat(count, axis=0), slots, np.zeros(slots.shape, dtype=np.bool_)
    )


def _shared_rows(problem: GridProblem, widths: IntArray, capacities: IntArray, slots: IntArray) -> IntArray | None:
    """Return the rows of each domain in each band, shape [domains, bands]: D in each band.

    Where a band has a row without room and a slot without rows, a domain of another band serves it too, with the nodes
    that its own band leaves over: those for which a row is too wide, and the rows that the band hosts beyond D.

    :param slots: shape [bands, S], the domain in each slot.
    :returns: ``None`` where that is not enough.
    """
    bands = len(widths)
    rows_in = np.zeros((len(capacities), bands), dtype=np.int32)
    home = np.zeros(len(capacities), dtype=np.int32)
    for band in range(bands):
        home[slots[band]] = band
        rows_in[slots[band], band] = np.minimum(problem.rows, capacities[slots[band]] // widths[band])
    beyond = rows_in.sum(axis=0) - problem.rows
    for band in range(bands):
        free = slots.shape[1] - np.count_nonzero(rows_in[:, band])
        while beyond[band] < 0:
            if not free:
                return None
            spare = capacities - rows_in @ widths
            freed = widths[home] * np.minimum(rows_in[np.arange(len(home)), home], np.maximum(0, beyond[home]))
            hosts = np.where(rows_in[:, band] > 0, 0, np.minimum(-beyond[band], (spare + freed) // widths[band]))
            k = int(hosts.argmax())
            if not hosts[k]:
                return None
            rows_in[k, band] = hosts[k]
            beyond[band] += hosts[k]
            free -= 1
            # its own band gives up as many rows as it takes
            given = max(0, -int((spare[k] - hosts[k] * widths[band]) // widths[home[k]]))
            rows_in[k, home[k]] -= given
            beyond[home[k]] -= given
    return rows_in


# Tabu search for domains in split bands: groups of columns that are cut otherwise in some of their rows.
#
# A group is a band, or two, and has slots for domains of their width.  In its *split rows* it is cut into more parts,
# and has slots for narrower domains in each: two halves of one band, or three parts of two bands, the middle one in
# both.  So a group needs as many split rows as the wide domains of its bands leave over.  Every split row touches one
# domain more, and all groups together may have so many.  Domains are swapped, with those of other groups and with those
# not in use, until each group has room and there are few enough split rows.


# Of work: to make a step, and to look at a swap
_SPLIT_STEP_SECONDS, _SPLIT_SWAP_SECONDS = 2e-4, 2e-7

_MOST_SWAPS = 1_000  # Looked at in a step, of a group with many slots at random: hundredths of a millisecond

_NO_SWAP = 1 << 60  # More cells than any cluster has: a swap that must not be made


PARTS = 5  # Of a group: a band, what is left and right in its split rows; a second band, and what is right of that
BANDS, CUTS = (0, 3), (1, 2, 4)  # Of these the bands, and the parts that split rows are cut into


@dataclass(frozen=True, slots=True)
class SplitGroup:
    """Some columns side by side."""

    bands: tuple[int, ...]  # widths: one band, or two that are split together
    cuts: tuple[int, ...]  # widths in split rows: none, two of one band, three of two bands
    wide: int  # slots in each band
    narrow: int  # slots in each part that split rows are cut into

    @property
    def width(self) -> int:
        """Columns in all."""
        return sum(self.bands)

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Width and slots of each of ``PARTS``, (0, 0) where there is no such part."""
        parts = [(0, 0)] * PARTS
        for at, widths, slots in ((BANDS, self.bands, self.wide), (CUTS, self.cuts, self.narrow)):
            for part, width in zip(at, widths, strict=False):
                parts[part] = width, slots
        return parts

    @property
    def overlaps(self) -> tuple[int, int, int, int]:
        """Columns that the left part has in the first band, the middle one in both, the right one in the second."""
        if not self.cuts:
            return 0, 0, 0, 0
        left, middle = self.cuts[:2]
        inner = self.bands[0] - left
        return left, inner, middle - inner, sum(self.cuts[2:])


class SplitSwaps:
    """Domains in the slots of groups, for one choice of groups.

    :param rows: of the grid.
    :param capacities: cells of the domains, those in use and all others.
    :param most_split: split rows that all groups may have together.
    :param whole: whether split rows hold whole rows of a domain alone.
    """

    def __init__(
        self,
        rows: int,
        groups: tuple[SplitGroup, ...],
        capacities: tuple[int, ...],
        *,
        most_split: int,
        whole: bool,
        rng: np.random.Generator,
    ) -> None:
        self._rows, self._count, self._most_split, self._rng = rows, len(groups), most_split, rng
        self._cells = rows * np.array([(*group.bands, 0)[:2] for group in groups]).T
        self._overlaps = np.array([group.overlaps for group in groups]).T
        self._parts = PARTS if any(len(group.bands) > 1 for group in groups) else BANDS[1]
        self._middle = np.maximum(1, self._overlaps[1] + self._overlaps[2])
        bands = sum(len(group.bands) for group in groups)
        self._row_cells = max(1, round(sum(group.width for group in groups) / (bands + 1)))
        parts = [(PARTS * i + j, *part) for i, group in enumerate(groups) for j, part in enumerate(group.parts)]
        units = [width if number % PARTS in CUTS and whole else 1 for number, width, _ in parts]
        self._units = np.array([*np.maximum(1, units), 1])
        widths = np.repeat([width for _, width, _ in parts], [slots for *_, slots in parts])
        order = np.argsort(-widths, kind="stable")
        size = max(len(order), len(capacities))
        # the last part is that of domains not in use
        self.part_of = np.full(size, PARTS * self._count)
        self.part_of[: len(order)] = np.repeat([part for part, *_ in parts], [slots for *_, slots in parts])[order]
        self._capacities = np.zeros(size, dtype=np.int64)
        self._capacities[: len(capacities)] = capacities
        self.domains = self._dealt(widths[order], size)  # in each slot
        self._until, self._step = np.zeros(size, dtype=np.int64), 0
        self._hosted = np.zeros(PARTS * self._count + 1, dtype=np.int64)
        np.add.at(self._hosted, self.part_of, self._in_part(self.domains, self.part_of))
        self.best = _NO_SWAP

    def _dealt(self, widths: IndexArray, size: int) -> IndexArray:
        """Return the largest domains in the widest slots; among slots of one width they are mixed."""
        domains = np.arange(size)
        for width in np.unique(widths):
            same = np.flatnonzero(widths == width)
            domains[same] = self._rng.permutation(same)
        return domains

    def _in_part(self, domains: IndexArray, parts: IndexArray) -> IndexArray:
        """Return the cells that domains hold in parts."""
        held: IndexArray = self._capacities[domains] // self._units[parts] * self._units[parts]
        return held

    def _weigh(self, group: IndexArray, parts: Sequence[IndexArray]) -> tuple[IndexArray, IndexArray]:
        """Return cells without room and split rows of groups, from the cells that domains hold in their parts."""
        left, inner, outer, right = self._overlaps[:, group]
        need, between = self._cells[0, group] - parts[0], parts[2]
        if self._parts < PARTS:
            short, split = self._weigh_band(need, (left, parts[1]), (inner, between))
            return short, np.minimum(split, self._rows)
        # what lies in the middle of two bands serves both, row by row
        between = between // self._middle[group]
        short, split = self._weigh_band(need, (left, parts[1]), (inner, inner * between))
        need = self._cells[1, group] - parts[3]
        other_short, other_split = self._weigh_band(need, (outer, outer * between), (right, parts[4]))
        return short + other_short, np.minimum(np.maximum(split, other_split), self._rows)

    def _weigh_band(
        self, need: IndexArray, left: tuple[IndexArray, IndexArray], right: tuple[IndexArray, IndexArray]
    ) -> tuple[IndexArray, IndexArray]:
        """Return cells without room and split rows of bands whose wide domains leave some cells.

        :param left: columns of the part on the left, and cells that domains hold there; ``right``: as these.
        """
        (left_width, first), (right_width, second) = left, right
        held = np.minimum(first, left_width * self._rows) + np.minimum(second, right_width * self._rows)
        short: IndexArray = np.maximum(0, need - held)
        # in so many split rows there is room for what the wide domains leave, whichever of both parts is full
        left_width, right_width = np.maximum(1, left_width), np.maximum(1, right_width)
        split = np.maximum(-((first - need) // right_width), -((second - need) // left_width))
        return short, np.maximum(split, np.maximum(0, -(-need // (left_width + right_width))))

    def split_rows(self) -> IndexArray:
        """Return the split rows that each group needs."""
        return self._weigh(np.arange(self._count), self._of_groups())[1]

    def inside(self, group: int) -> list[list[tuple[int, int]]]:
        """Return the domains in each part of a group, and the cells of each."""
        parts = [self.domains[self.part_of == PARTS * group + part] for part in range(PARTS)]
        return [[(int(k), int(self._capacities[k])) for k in domains if self._capacities[k]] for domains in parts]

    def _of_groups(self) -> list[IndexArray]:
        """Return the cells that domains hold in each part, of all groups."""
        return [self._hosted[part : PARTS * self._count : PARTS] for part in range(self._parts)]

    def run(self, steps: int) -> bool:
        """Search for so many steps more; return whether all groups have room."""
        every = np.arange(self._count)
        for _ in range(steps):
            short, split = self._weigh(every, self._of_groups())
            over = max(0, int(split.sum()) - self._most_split)
            left = int(short.sum()) + self._row_cells * over
            self.best = min(self.best, left)
            if left == 0:
                return True
            if cut_short():
                break
            self._step += 1
            # the group that lacks most, but not always: by a random factor between 1 and 2
            lacking = short + self._row_cells * over * split / max(1, int(split.sum()))
            self._swap(int((lacking * (1 + self._rng.random(self._count))).argmax()), short, split)
        return False

    def tighten(self, rows: int) -> None:
        """Allow for so many split rows fewer, after as many more turned out to be shared than was allowed for."""
        self._most_split -= rows
        self.best = self._row_cells * rows  # of what it has, at most

    def _swap(self, group: int, short: IndexArray, split: IndexArray) -> None:
        """Make the swap of a group with another, or with what is not in use, that leaves least to be wished for."""
        group_of = self.part_of // PARTS
        mine, others = np.flatnonzero(group_of == group), np.flatnonzero(group_of != group)
        if not len(others):
            return
        some = max(1, _MOST_SWAPS // len(others))
        if len(mine) > some:
            mine = self._rng.choice(mine, some, replace=False)
        after = self._after_swaps(mine[:, None], others[None, :], short, split)
        spend(_SPLIT_STEP_SECONDS + _SPLIT_SWAP_SECONDS * after.size)
        held = (self._until[mine] > self._step)[:, None] | (self._until[others] > self._step)[None, :]
        # a swap that leaves less than ever may be made all the same
        after[held & (after >= self.best)] = _NO_SWAP
        a, b = np.divmod(int(after.argmin()), after.shape[1])
        if after[a, b] == _NO_SWAP:
            return
        pair = np.array([mine[a], others[b]])
        np.subtract.at(self._hosted, self.part_of[pair], self._in_part(self.domains[pair], self.part_of[pair]))
        self.domains[pair] = self.domains[pair[::-1]]
        np.add.at(self._hosted, self.part_of[pair], self._in_part(self.domains[pair], self.part_of[pair]))
        self._until[pair] = self._step + self._rng.integers(*STAY, 2)

    def _after_swaps(self, mine: IndexArray, others: IndexArray, short: IndexArray, split: IndexArray) -> IndexArray:
        """Return what swaps leave: cells without room, and rows split beyond what is allowed, counted as cells.

        :param mine: slots of one group, shape [slots, 1]; ``others``: of others, shape [1, slots].
        """
        lacking: IndexArray = np.full(np.broadcast_shapes(mine.shape, others.shape), int(short.sum()))
        rows = np.full_like(lacking, int(split.sum()))
        for here, there in ((mine, others), (others, mine)):
            part = self.part_of[here]
            gain = self._in_part(self.domains[there], part) - self._in_part(self.domains[here], part)
            group = part // PARTS
            used = group < self._count
            known = np.minimum(group, self._count - 1)
            parts = [self._hosted[PARTS * known + i] + np.where(part % PARTS == i, gain, 0) for i in range(self._parts)]
            new_short, new_split = self._weigh(known, parts)
            lacking += np.where(used, new_short - short[known], 0)
            rows += np.where(used, new_split - split[known], 0)
        after: IndexArray = lacking + self._row_cells * np.maximum(0, rows - self._most_split)
        after[self._capacities[self.domains[mine]] == self._capacities[self.domains[others]]] = _NO_SWAP
        return after


# Split bands: fewer bands than R, some of which are cut into more parts in some of their rows.
#
# R bands have S R slots, and rows without an end in common: more domains than that have no place in them, nor have many
# sizes.  So the columns are cut into b < R bands.  In its *split rows* a band lies in two domains side by side, or two
# bands lie in three.  A column then touches the wide domains of its band and those of its own part, at most S; a group
# of bands with y slots in each part has y slots more than S for each band.
#
# The rows of a group can be put in any order.  So split rows of different groups are laid apart, and where there are at
# most (R - b) D of them in all a row touches at most R domains.  Domains are laid row after row, and where two share a
# row that counts like a split row.  With R - b = 1 no row can be both: parts then hold whole rows of a domain.


HeldCells = Sequence[tuple[int, int]]  # Domains, and the cells of each


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The groups of columns, and how many rows they touch at least with the largest domains in the widest slots."""

    touches: int
    groups: tuple[SplitGroup, ...]

    @property
    def bands(self) -> int:
        """Parts of a row that is split nowhere."""
        return sum(len(group.bands) for group in self.groups)

    def shared(self, *, whole: bool) -> int:
        """Return rows that two domains may share at most, one more where wide domains begin."""
        parts = [(width, group.wide) for group in self.groups for width in group.bands]
        if not whole:
            parts += [(width, group.narrow) for group in self.groups for width in group.cuts]
        return sum(slots for width, slots in parts if width > 1)


_PARTITIONS = 6  # Partitions of the columns for each number of groups, the most even first
_DOMAINS = 2  # Domains in use, more than suffice
# Plans that are searched, those that touch fewest rows, and as many swaps of each; then of each fourth four times as
# many, and of each fourth of these again. On 50 domains a swap takes a quarter of a millisecond
_PLANS, _FEWER = 24, 4
_NEAR = 0.005  # Part of the cells that may be without room after each of these rounds
_PLAN_SECONDS = 2e-5  # Of work: to make a plan


def split_bands(problem: GridProblem, pair: Pair, *, seed: int, end: float = inf) -> IntArray | None:
    """Return a placement of split bands; shape [rows, columns], the domain of each cell.

    :param end: when to stop, by ``scheduler.work_clock``.
    :returns: ``None`` when none was found, which proves nothing.
    """
    for joined in (False, True):
        plans = enumerate(_split_plans(problem, pair, joined=joined))
        left: Iterator[tuple[SplitPlan, SplitSwaps]] = (
            (plan, _search(problem, pair, plan, np.random.default_rng([seed, i]))) for i, plan in plans
        )
        steps, kept = _PLANS, _PLANS
        while kept > 1:
            near = []
            for plan, search in islice(left, kept):
                if clock() > end:
                    return None
                if search.run(steps):
                    cells = lay_split(problem, plan.groups, search, whole=_whole(plan, pair))
                    touched = 1 + (np.diff(np.sort(cells, axis=1), axis=1) != 0).sum(axis=1)
                    if not (beyond := int((touched > pair[1]).sum())):
                        return cells
                    search.tighten(beyond)
                    near.append((plan, search))
                # what is far off after some swaps stays so: its groups ask for other sizes than there are
                elif search.best <= _NEAR * problem.cells:
                    near.append((plan, search))
            left = iter(sorted(near, key=lambda plan_and_search: plan_and_search[1].best))
            steps, kept = steps * _FEWER, -(-kept // _FEWER)
    return None


def _whole(plan: SplitPlan, pair: Pair) -> bool:
    """Return whether split rows must not be shared."""
    return pair[1] - plan.bands == 1


def _search(problem: GridProblem, pair: Pair, plan: SplitPlan, rng: np.random.Generator) -> SplitSwaps:
    """Return the search for a plan; shared rows are allowed for, as far as there is room for them."""
    shared = plan.shared(whole=_whole(plan, pair))
    room = pair[1] * problem.rows - plan.touches
    most = (pair[1] - plan.bands) * problem.rows - min(shared, room) // 2
    return SplitSwaps(problem.rows, plan.groups, problem.capacities, most_split=most, whole=_whole(plan, pair), rng=rng)


def _split_plans(problem: GridProblem, pair: Pair, *, joined: bool) -> list[SplitPlan]:
    """Return the plans that touch fewest rows, of those that may touch no more than the pair allows.

    :param joined: whether some bands are split together.
    """
    dp, pp = pair
    # cells of the largest domains, so many of them; the last ones are partly used
    held = [0, *(min(problem.cells, total) for total in accumulate(problem.capacities))]
    enough = held.index(problem.cells)
    plans: dict[tuple[SplitGroup, ...], SplitPlan] = {}
    for count in range(-(-pp // 2), pp):
        # more slots than S each, and fewer than twice as many
        last = min(len(problem.capacities), enough + _DOMAINS, (2 * dp - 1) * count)
        for domains in range(max(enough, dp * count + 1), last + 1):
            for widths in islice(partitions(problem.columns, count), _PARTITIONS):
                extra = domains - dp * count
                for groups in (_joined if joined else _groups)(widths, dp, extra):
                    if groups not in plans:
                        plans[groups] = SplitPlan(_least_touches(held, groups), groups)
    spend(_PLAN_SECONDS * len(plans))
    fitting = [plan for plan in plans.values() if plan.touches <= pp * problem.rows]
    return sorted(fitting, key=lambda plan: plan.touches)[:_PLANS]


def _groups(widths: Sequence[int], dp: int, extra: int) -> Iterator[tuple[SplitGroup, ...]]:
    """Yield groups of columns of given widths with so many slots more than S each: the first or the last are split."""
    several = sum(width > 1 for width in widths)
    for count in range(1, several + 1):
        # columns of one do not split; widths descend
        for first in {0, several - count}:
            if more := _shares(extra, len(widths), range(first, first + count), dp):
                yield tuple(_group((width,), dp, y) for width, y in zip(widths, more, strict=True))


def _joined(widths: Sequence[int], dp: int, extra: int) -> Iterator[tuple[SplitGroup, ...]]:
    """Yield the same with one or two pairs of equal widths split together, and some of the others."""
    for pairs in (1, 2):
        # bands of two columns would have parts of one and two: hardly narrower than they are
        left, together = list(widths), list[int]()
        for width in sorted({width for width in widths if width > 2}, reverse=True):
            while left.count(width) > 1 and len(together) < pairs:
                together.append(width)
                left.remove(width)
                left.remove(width)
        if len(together) < pairs:
            return
        several = sum(width > 1 for width in left)
        for narrow in range(1, dp):
            joined = tuple(_group((width, width), dp, narrow) for width in together)
            rest = extra - pairs * narrow
            if rest == 0:
                yield (*joined, *(_group((width,), dp, 0) for width in left))
            for first in range(several):
                for last in range(first + 1, several + 1):
                    if more := _shares(rest, len(left), range(first, last), dp):
                        yield (*joined, *(_group((width,), dp, y) for width, y in zip(left, more, strict=True)))


def _shares(extra: int, size: int, some: range, dp: int) -> list[int]:
    """Return narrow slots of each group, so many shared out evenly to some; nothing where that cannot be."""
    if not len(some) <= extra <= (dp - 1) * len(some):
        return []
    more = [0] * size
    for i, at in enumerate(some):
        more[at] = (extra + len(some) - 1 - i) // len(some)
    return more


@lru_cache(maxsize=4096)
def _group(bands: tuple[int, ...], dp: int, narrow: int) -> SplitGroup:
    """Return a group that is split so that its parts have so many slots, and one not split with 0."""
    cuts: tuple[int, ...] = ()
    if narrow and len(bands) == 1:
        cuts = ((bands[0] + 1) // 2, bands[0] // 2)
    elif narrow:
        left, right = (-(-band * 2 // 3) for band in bands)
        cuts = (left, sum(bands) - left - right, right)
    return SplitGroup(bands, cuts, dp - narrow, narrow)


def _least_touches(held: Sequence[int], groups: Sequence[SplitGroup]) -> int:
    """Return a lower bound on the rows touched: the largest domains in the widest slots.

    :param held: cells of the largest domains, by how many they are.
    """
    slots: Counter[int] = Counter()
    for group in groups:
        for width in group.bands:
            slots[width] += group.wide
        for width in group.cuts:
            slots[width] += group.narrow
    touches, first = 0.0, 0
    for width in sorted(slots, reverse=True):
        last = min(first + slots[width], len(held) - 1)
        touches += (held[last] - held[first]) / width
        first = last
    return int(touches)


def lay_split(problem: GridProblem, groups: Sequence[SplitGroup], search: SplitSwaps, *, whole: bool) -> IntArray:
    """Return the domain of each cell: rows of a group that touch most where the other groups touch fewest."""
    split = search.split_rows()
    blocks = [
        _lay_group(problem.rows, group, search.inside(i), int(split[i]), whole=whole) for i, group in enumerate(groups)
    ]
    touches = [(np.diff(np.sort(block, axis=1), axis=1) != 0).sum(axis=1) for block in blocks]
    first = [0, *accumulate(group.width for group in groups)]
    cells = np.empty((problem.rows, problem.columns), dtype=np.int32)
    touched = np.zeros(problem.rows, dtype=np.int64)
    for i in sorted(range(len(blocks)), key=lambda i: -int(touches[i].max())):
        fewest, most = np.argsort(touched, kind="stable"), np.argsort(-touches[i], kind="stable")
        cells[fewest, first[i] : first[i + 1]] = blocks[i][most]
        touched[fewest] += touches[i][most]
    return cells


def _lay_group(rows: int, group: SplitGroup, parts: Sequence[HeldCells], split: int, *, whole: bool) -> IntArray:
    """Return the domain of each cell of a group, shape [rows, width]: split rows first."""
    cells = np.full((rows, group.width), -1, dtype=np.int32)
    # the cuts in split rows, then the bands in what these leave
    for split_part, numbers, widths in ((True, CUTS, group.cuts), (False, BANDS, group.bands)):
        for part, width, at in zip(numbers, widths, accumulate(widths, initial=0), strict=False):
            region = cells[: split if split_part else rows, at : at + width]
            free = region < 0
            room = int(free.sum())
            spare = rows * width if split_part and whole else max(0, sum(held for _, held in parts[part]) - room)
            begun = 0 if split_part else int(free[:split].sum())
            laid = _in_turn(parts[part], width, spare, begun)[:room]
            free[free] = np.arange(room) < len(laid)
            region[free] = laid
    return cells


def _in_turn(domains: HeldCells, width: int, spare: int, above: int) -> IntArray:
    """Return the domain of each cell, one domain after another, such that few rows are shared.

    After each comes, if there is one, a domain that ends with a row.  While there are cells to spare a domain leaves
    out what would share a row.

    :param above: cells that go to rows that others have begun.
    """
    waiting, laid, length = list(domains), [], -above
    while waiting:
        ends = [i for i, (_, held) in enumerate(waiting) if (length + held) % width == 0]
        domain, held = waiting.pop(ends[0] if ends else 0)
        beyond = (length + held) % width
        if beyond <= min(spare, held):
            held, spare = held - beyond, spare - beyond
        laid.append(np.full(held, domain, dtype=np.int32))
        length += held
    return np.concatenate(laid) if laid else np.empty(0, dtype=np.int32)
