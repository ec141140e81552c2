"""Stretches of time without overlap, and how much of any other stretch they cover."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CoveredTime:
    """The union of stretches, such as those in which a device computes."""

    start: Floats  # [stretches], seconds, ascending
    end: Floats  # [stretches], each at or before the next start
    before: Floats  # [stretches], seconds covered by those before

    @classmethod
    def of(cls, start: Floats, end: Floats) -> Self:
        """Return the union of stretches that may overlap, in any order."""
        order = np.argsort(start, kind="stable")
        start, end = start[order], np.maximum.accumulate(end[order]) if len(end) else end
        first = np.ones(len(start), dtype=np.bool_)
        first[1:] = start[1:] > end[:-1]
        last = np.append(first[1:], True)[: len(start)]
        start, end = start[first], end[last]
        return cls(start, end, np.concatenate([[0.0], np.cumsum(end - start)[:-1]])[: len(start)])

    @property
    def total(self) -> float:
        """Return seconds covered in all."""
        return float((self.end - self.start).sum())

    def until(self, moment: Floats | float) -> Floats:
        """Return seconds covered before each moment."""
        if not len(self.start):
            return np.zeros(np.shape(moment))
        place = np.maximum(np.searchsorted(self.start, moment, side="right") - 1, 0)
        inside = np.clip(moment, self.start[place], self.end[place]) - self.start[place]
        covered: Floats = self.before[place] + inside
        return covered

    def within(self, start: Floats | float, end: Floats | float) -> Floats:
        """Return seconds covered between two moments, or pairs of them."""
        return self.until(end) - self.until(start)
