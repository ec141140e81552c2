"""The two axes of a chart: round numbers, and from values to places on the drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from simulator.capacity.sheet import Chart

LEFT, RIGHT, TOP, BOTTOM = 64.0, 16.0, 20.0, 48.0
WIDTH, HEIGHT = 720.0, 330.0


@dataclass(frozen=True, slots=True)
class Axes:
    """Where values stand.

    :param x: least and largest.
    :param y: least and largest.
    """

    x: tuple[float, float]
    y: tuple[float, float]

    def place_x(self, value: float) -> float:
        """Pixels from the left."""
        low, high = self.x
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low)

    def place_y(self, value: float) -> float:
        """Pixels from the top; values beyond the axis stand at its end."""
        low, high = self.y
        clipped = min(max(value, low), high)
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - clipped) / (high - low)


def axes_of(chart: Chart) -> Axes:
    """Axes that hold all points, ending on round numbers upwards."""
    points = [point for series in chart.series for point in series.points]
    xs = [x for x, _ in points] + [x for x, _ in chart.ticks] or [0.0, 1.0]
    ys = [y for _, y in points if y is not None]
    for series in chart.series:
        ys += [y + error for (_, y), error in zip(series.points, series.errors, strict=False) if y is not None]
    low = chart.floor if chart.floor is not None else min(ys, default=0.0)
    high = chart.ceiling if chart.ceiling is not None else max(ys, default=1.0)
    if high <= low:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    step = round_step(high - low)
    bottom = low if chart.floor is not None else floor(low / step + 1e-9) * step
    top = high if chart.ceiling is not None else ceil(high / step - 1e-9) * step
    left, right = min(xs), max(xs)
    pad = 0.04 * (right - left) if right > left else 0.5
    return Axes((left - pad, right + pad), (bottom, top))


def round_step(span: float, *, most: int = 6) -> float:
    """A step of 1, 2 or 5 times a power of ten that divides a span into at most so many."""
    power = 10.0 ** floor(log10(span / most))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0, 20.0) if span / (factor * power) <= most)


def round_ticks(low: float, high: float, *, most: int = 6) -> Sequence[float]:
    """Round numbers from low to high."""
    step = round_step(high - low, most=most)
    first = ceil(low / step - 1e-9)
    return [round((first + i) * step, 12) for i in range(floor(high / step + 1e-9) - first + 1)]
