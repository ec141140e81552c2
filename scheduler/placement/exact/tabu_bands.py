"""Column bands by tabu search: every domain in one band, moved until each band has room for all rows.

With the widths given, a domain of c cells hosts min(D, floor(c / w)) rows of a band of width w.  A band has S slots for
domains, and a placement exists where the domains in its slots host D rows, for every band.  The search starts with
the domains dealt in order of size, the largest to the widest band, and swaps domains of two bands: of all swaps
with the band that lacks most, the one that leaves the fewest cells without room.  A domain that was moved stays for
some steps, so that the search leaves the place where no swap helps.  All partitions of the columns are searched at
once, as one array.

Where slots stay empty, a domain with room to spare in its band may serve a second one (:func:`_shared_rows`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from scheduler.placement.exact.bands import lay_bands, partitions
from scheduler.placement.exact.params import DEFAULTS, ExactParams, TabuEffort
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from topology.cluster import BoolArray, IntArray

_NEVER = np.int32(1 << 30)  # Cells, more than any cluster has: a swap that must not be made


def tabu_bands(
    problem: GridProblem, pair: Pair, *, effort: TabuEffort, seed: int, params: ExactParams = DEFAULTS
) -> IntArray | None:
    """Return a placement of whole rows in bands; shape [rows, columns], the domain of each cell.

    :param pair: at most that many domains in a band, at most that many bands.
    :returns: ``None`` when none was found, which proves nothing.
    """
    dp, pp = pair
    bands = min(pp, problem.columns)
    listed = islice(partitions(problem.columns, bands), params.tabu_listed)
    search = _Bands.dealt(problem, dp, np.array(list(listed), dtype=np.int32))
    search = search.most_promising(min(effort.partitions, max(1, params.tabu_elements // search.swaps)))
    if not len(search.slots):
        return None
    rows_in = search.run(effort, np.random.default_rng(seed))
    return None if rows_in is None else lay_bands(problem, *rows_in)


@dataclass
class _Bands:
    """Domains in the slots of bands, for some partitions of the columns at once."""

    problem: GridProblem
    widths: IntArray  # shape [partitions, bands]
    capacities: IntArray  # shape [slots]: cells of the domains, the largest first, 0 for those that do not exist
    slots: IntArray  # shape [partitions, bands, S]: the domain in each slot

    @classmethod
    def dealt(cls, problem: GridProblem, dp: int, widths: IntArray) -> _Bands:
        """Deal the largest domains, S to a band, the largest to the widest."""
        bands = widths.shape[1]
        capacities = np.zeros(dp * bands, dtype=np.int32)
        some = problem.capacities[: dp * bands]
        capacities[: len(some)] = some
        slots = np.arange(dp * bands, dtype=np.int32).reshape(1, bands, dp).repeat(len(widths), axis=0)
        return cls(problem, widths, capacities, slots)

    @property
    def swaps(self) -> int:
        """Swaps of one band with all others, for one partition."""
        return self.slots.shape[2] * len(self.capacities)

    def most_promising(self, most: int) -> _Bands:
        """Return so many partitions with the fewest cells without room, of those that are not too narrow or too wide."""
        order = np.argsort(self.lacking().sum(axis=1), kind="stable")
        order = order[self._enough()[order]][:most]
        return _Bands(self.problem, self.widths[order], self.capacities, self.slots[order].copy())

    def _enough(self) -> BoolArray:
        """Return for each partition whether domains hold all cells if each goes to the band that suits it best.

        Where slots stay empty domains may be shared, and nothing is counted.
        """
        if not self.capacities[-1]:
            return np.ones(len(self.widths), dtype=np.bool_)
        rows = np.minimum(self.problem.rows, self.capacities[:, None] // self.widths[:, None, :])
        enough: BoolArray = (rows * self.widths[:, None, :]).max(axis=2).sum(axis=1) >= self.problem.cells
        return enough

    def hosted(self) -> IntArray:
        """Return the rows that each slot can host, shape [partitions, bands, S]."""
        rows: IntArray = np.minimum(self.problem.rows, self.capacities[self.slots] // self.widths[:, :, None])
        return rows

    def lacking(self) -> IntArray:
        """Return the cells of each band without room, shape [partitions, bands]."""
        cells: IntArray = self.widths * np.maximum(0, self.problem.rows - self.hosted().sum(axis=2))
        return cells

    def run(self, effort: TabuEffort, rng: np.random.Generator) -> tuple[IntArray, IntArray] | None:
        """Search; return the widths and the rows of each domain in each band, shape [domains, bands]."""
        every = np.arange(len(self.slots))
        best = np.full(len(self.slots), _NEVER)  # fewest cells without room, so far
        best_slots = self.slots.copy()
        until = np.zeros(self.slots.shape, dtype=np.int32)  # step up to which the domain in a slot stays
        for step in range(1, effort.steps + 1):
            hosted = self.hosted()
            short = np.maximum(0, self.problem.rows - hosted.sum(axis=2))
            lacking = self.widths * short
            left = lacking.sum(axis=1)
            better = left < best
            best[better] = left[better]
            best_slots[better] = self.slots[better]
            if not left.all():
                break
            # the band that lacks most, but not always: by a random factor between 1 and 1.5
            worst = (lacking * (1 + 0.5 * rng.random(lacking.shape))).argmax(axis=1)
            after = self._after_swaps(hosted, lacking, left, worst)
            stays = until > step
            held = stays[:, None] | stays[every, worst][:, :, None, None]
            # a swap that leaves fewer cells without room than ever may be made all the same
            after[held & (after >= best[:, None, None, None])] = _NEVER - 1
            pick = after.reshape(len(every), -1).argmin(axis=1)
            mine, other = np.divmod(pick, len(self.capacities))
            band, slot = np.divmod(other, self.slots.shape[2])
            one, two = (every, worst, mine), (every, band, slot)
            self.slots[one], self.slots[two] = self.slots[two], self.slots[one]
            until[one] = step + rng.integers(4, 11, len(every))
            until[two] = step + rng.integers(4, 11, len(every))
        return self._first_complete(best, best_slots)

    def _after_swaps(self, hosted: IntArray, lacking: IntArray, left: IntArray, worst: IntArray) -> IntArray:
        """Return the cells without room after each swap with one band.

        :param worst: shape [partitions], that band.
        :returns: shape [partitions, its S slots, bands, S slots]; ``_NEVER`` within the band.
        """
        rows, every = self.problem.rows, np.arange(len(self.slots))
        cells, short = self.capacities[self.slots], self.problem.rows - hosted.sum(axis=2)
        width, mine = self.widths[every, worst], hosted[every, worst]
        # rows that the band lacks without one of its domains and with one of another band, and the other way round
        comes = np.minimum(rows, cells // width[:, None, None])
        here = (short[every, worst][:, None] + mine)[:, :, None, None] - comes[:, None]
        goes = np.minimum(rows, cells[every, worst][:, :, None] // self.widths[:, None, :])
        there = (short[:, :, None] + hosted)[:, None] - goes[:, :, :, None]
        after = width[:, None, None, None] * np.maximum(0, here)
        after += self.widths[:, None, :, None] * np.maximum(0, there)
        # all other bands are as they were
        after += (left[:, None] - lacking[every, worst][:, None] - lacking)[:, None, :, None]
        after[every, :, worst] = _NEVER
        changed: IntArray = after
        return changed

    def _first_complete(self, left: IntArray, slots: IntArray) -> tuple[IntArray, IntArray] | None:
        """Return the widths and rows of the first partition in which every row has room, if need be in shared domains.

        :param left: shape [partitions], cells without room; ``slots``: the domain in each slot.
        """
        complete = np.flatnonzero(left == 0)
        for i in complete if len(complete) else range(len(slots)):
            rows_in = _shared_rows(self.problem, self.widths[i], self.capacities, slots[i])
            if rows_in is not None:
                return self.widths[i], rows_in
        return None


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
