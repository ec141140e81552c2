"""What lines touch at a closer level at least, given what they may touch at a broader one: racks inside minipods.

A line is a column or a row of the grid.  At the closer level alone all the roomiest racks serve; but a line that may
touch two minipods finds its racks in these two.  Counting says how many racks all lines together touch:

- Lines that touch one minipod each lie in it whole, so each minipod has a number of whole lines.
- Lines that touch up to S of them touch S times their number in all, and each time it is a part of a line that goes to
  racks of that minipod: a knapsack over the minipods with two budgets, touches of minipods and touches of racks.

A rack that q lines touch holds q times their length at most, so it is a list of chunks, each one touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topology.cluster import IndexArray


@dataclass(frozen=True)
class LineTouches:
    """Lines of equal length, and where there is room for their cells."""

    length: int
    lines: int
    rooms: Sequence[IndexArray]  # of each broader domain: cells that each closer domain in it can take
    most: float  # array elements that the knapsack may take in all

    def fewest(self, broader: int) -> int:
        """Return how many closer domains some line touches at least if each touches so many broader ones at most."""
        if broader not in self._known:
            self._known[broader] = self._fewest_whole() if broader == 1 else self._fewest_in_parts(broader)
        return self._known[broader]

    @cached_property
    def _known(self) -> dict[int, int]:
        return {}

    @cached_property
    def _chunks(self) -> list[IndexArray]:
        """For each broader domain the cells of its best touches: shape [touches], of one, of two, and so on."""
        found = []
        for room in self.rooms:
            whole = np.repeat(self.length, int((room // self.length).sum()))
            rest = np.sort(room % self.length)[::-1]
            found.append(np.cumsum(np.concatenate([whole, rest[rest > 0]])).astype(np.int64))
        return found

    def _fewest_whole(self) -> int:
        for touched in range(1, self.length + 1):
            if sum(self._whole(cells, touched) for cells in self._chunks) >= self.lines:
                return touched
        return self.length + 1  # there is no such placement

    def _whole(self, cells: IndexArray, touched: int) -> int:
        """Return how many whole lines a broader domain has room for, each over so many closer ones."""
        lines = int(cells[-1]) // self.length
        while lines and cells[min(lines * touched, len(cells)) - 1] < lines * self.length:
            lines -= 1
        return lines

    def _fewest_in_parts(self, broader: int) -> int:
        budget = broader * self.lines
        options = sum(min(self.lines, -(-int(c) // self.length)) for cells in self._chunks for c in cells)
        # beyond so many touches the knapsack is not made: what does not suffice with these needs more
        touches = min(sum(map(len, self._chunks)), int(self.most / (budget + 1) / max(options, 1)))
        # shape [touches of broader domains, touches of closer ones], the most cells
        held = np.zeros((budget + 1, touches + 1), dtype=np.int64)
        for cells in self._chunks:
            before = held.copy()
            for touch, most in enumerate(cells[:touches].tolist(), start=1):
                for parts in range(1, min(self.lines, budget, -(-most // self.length)) + 1):
                    taken = before[: budget + 1 - parts, : touches + 1 - touch] + min(most, parts * self.length)
                    np.maximum(held[parts:, touch:], taken, out=held[parts:, touch:])
        enough = np.flatnonzero(held[-1] >= self.length * self.lines)
        return -(-int(enough[0] if len(enough) else touches + 1) // self.lines)
