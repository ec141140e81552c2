"""Tabu search for domains in split bands: groups of columns that are cut otherwise in some of their rows.

A group is a band, or two, and has slots for domains of their width.  In its *split rows* it is cut into more parts, and
has slots for narrower domains in each: two halves of one band, or three parts of two bands, the middle one in both.  So
a group needs as many split rows as the wide domains of its bands leave over.  Every split row touches one domain more,
and all groups together may have so many.  Domains are swapped, with those of other groups and with those not in use,
until each group has room and there are few enough split rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.placement.exact.bands.slot_swaps import STAY
from scheduler.work_clock import spend
from topology.cluster import IndexArray

# Of work: to make a step, and to look at a swap
_STEP_SECONDS, _SWAP_SECONDS = 2e-4, 2e-7

_MOST_SWAPS = 1_000  # Looked at in a step, of a group with many slots at random: hundredths of a millisecond

_TIGHTENED = 8  # Split rows fewer where a placement has too many shared ones

_NEVER = 1 << 60  # More cells than any cluster has: a swap that must not be made


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
        self.part_of[: len(order)] = np.repeat([one for one, *_ in parts], [slots for *_, slots in parts])[order]
        self._capacities = np.zeros(size, dtype=np.int64)
        self._capacities[: len(capacities)] = capacities
        self.domains = self._dealt(widths[order], size)  # in each slot
        self._until, self._step = np.zeros(size, dtype=np.int64), 0
        self._hosted = np.zeros(PARTS * self._count + 1, dtype=np.int64)
        np.add.at(self._hosted, self.part_of, self._in_part(self.domains, self.part_of))
        self.best = _NEVER

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
        (one, first), (two, second) = left, right
        held = np.minimum(first, one * self._rows) + np.minimum(second, two * self._rows)
        short: IndexArray = np.maximum(0, need - held)
        # in so many split rows there is room for what the wide domains leave, whichever of both parts is full
        one, two = np.maximum(1, one), np.maximum(1, two)
        split = np.maximum(-((first - need) // two), -((second - need) // one))
        return short, np.maximum(split, np.maximum(0, -(-need // (one + two))))

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
            self._step += 1
            # the group that lacks most, but not always: by a random factor between 1 and 2
            lacking = short + self._row_cells * over * split / max(1, int(split.sum()))
            self._swap(int((lacking * (1 + self._rng.random(self._count))).argmax()), short, split)
        return False

    def tighten(self) -> None:
        """Allow for fewer split rows, after more rows turned out to be shared than was allowed for."""
        self._most_split -= _TIGHTENED
        self.best = self._row_cells * _TIGHTENED  # of what it has, at most

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
        spend(_STEP_SECONDS + _SWAP_SECONDS * after.size)
        held = (self._until[mine] > self._step)[:, None] | (self._until[others] > self._step)[None, :]
        # a swap that leaves less than ever may be made all the same
        after[held & (after >= self.best)] = _NEVER
        a, b = np.divmod(int(after.argmin()), after.shape[1])
        if after[a, b] == _NEVER:
            return
        one, two = mine[a], others[b]
        pair = np.array([one, two])
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
        after[self._capacities[self.domains[mine]] == self._capacities[self.domains[others]]] = _NEVER
        return after
