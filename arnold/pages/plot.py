"""The part of a chart that has its data in it, with rules, numbers and titles along its borders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from arnold.pages.axis import Scale, Tick
from topology.drawing.page_kit import XY, label, line

WIDTH = 620.0  # Of a chart, pixels: two stand side by side on a page, with type of its own size


@dataclass(frozen=True, slots=True)
class Plot:
    """A rectangle between margins, from values to pixels in both directions."""

    width: float
    height: float
    margins: tuple[float, float, float, float]  # left, right, top and bottom, pixels
    across: tuple[float, float] = (0.0, 1.0)  # values at the left and at the right border
    upward: tuple[float, float] = (0.0, 1.0)  # values at the lower and at the upper border
    logarithmic: tuple[bool, bool] = (False, False)  # whether the axes across and upward are

    @property
    def left(self) -> float:
        """Left border."""
        return self.margins[0]

    @property
    def right(self) -> float:
        """Right border."""
        return self.width - self.margins[1]

    @property
    def top(self) -> float:
        """Upper border."""
        return self.margins[2]

    @property
    def bottom(self) -> float:
        """Lower border."""
        return self.height - self.margins[3]

    @property
    def x(self) -> Scale:
        """Places from the left."""
        return Scale(self.across, (self.left, self.right), self.logarithmic[0])

    @property
    def y(self) -> Scale:
        """Places from the top."""
        return Scale(self.upward, (self.bottom, self.top), self.logarithmic[1])

    def points(self, values: Iterable[XY]) -> list[XY]:
        """Return the places of pairs of values."""
        x, y = self.x, self.y
        return [(x(one), y(other)) for one, other in values]

    def x_axis(self, ticks: Iterable[Tick], *, rules: bool = True) -> Iterator[str]:
        """Yield the numbers below, each with an upright rule if asked for."""
        for value, words in ticks:
            x = self.x(value)
            if rules:
                yield line((x, self.top), (x, self.bottom), "rule")
            yield label(x, self.bottom + 18, words, anchor="end" if x > self.width - 16 else "middle")

    def y_axis(self, ticks: Iterable[Tick]) -> Iterator[str]:
        """Yield the numbers at the left, each with a level rule."""
        for value, words in ticks:
            y = self.y(value)
            yield line((self.left, y), (self.right, y), "rule")
            yield label(self.left - 7, y + 4, words, anchor="end")

    def titles(self, across: str, upward: str) -> Iterator[str]:
        """Yield what the axes show, below and at the left."""
        x, y = (self.left + self.right) / 2, (self.top + self.bottom) / 2
        yield label(x, self.height - 7, across, anchor="middle")
        yield label(14, y, upward, anchor="middle", transform=f"rotate(-90 14 {y:.2f})")
