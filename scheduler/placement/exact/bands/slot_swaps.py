"""Tabu search for domains in the slots of bands: the engine of whole-row and of credit bands.

A band lacks rows of some width; S slots take a domain each, and a domain of c cells hosts floor(c / width) rows.  Of
all swaps of a domain of the band that lacks most with one of another band, the one that leaves the fewest cells without
room is made.  A domain that was moved stays for some steps, so that the search leaves the place where no swap helps.
Many such problems (partitions of the columns into bands) are searched at once, as one array.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.work_clock import spend
from topology.cluster import BoolArray, IntArray

# Of work: to make a step, and to look at a swap
_SWAP_SECONDS, _ELEMENT_SECONDS = 2e-4, 2e-8

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

    def run(self, steps: int, rng: np.random.Generator) -> IntArray:
        """Search until one problem has room for all rows; keep the best slots of each.

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
            if step == steps or not left.all():
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
            one, two = (every, worst, mine), (every, *np.divmod(other, self.slots.shape[2]))
            self.slots[one], self.slots[two] = self.slots[two], self.slots[one]
            until[one], until[two] = step + rng.integers(*STAY, (2, len(self)))
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
