"""Axes: from values to places on a drawing, and the round numbers that stand beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log, log10

from ground.quantities import Kind, label_of

_DAY = 86_400.0
_CLOCK = tuple(
    count * size
    for size, counts in (
        (1.0, (1, 2, 5, 10, 20, 30)),
        (60.0, (1, 2, 5, 10, 20, 30)),
        (3600.0, (1, 2, 3, 6, 12)),
        (_DAY, (1, 2, 5, 10, 20, 50)),
    )
    for count in counts
)
"""Steps of an axis of time, seconds: round numbers of seconds, minutes, hours and days."""

_MARKS: dict[Kind, tuple[float, ...]] = {
    "count": (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096),
    "seconds": (1, 60, 3600, 86_400, 604_800, 2_592_000, 31_536_000),  # to a week, thirty days and a year
}
"""What stands beside a logarithmic axis."""

_HAIR = 1e-9  # What rounding may make of a whole number of steps; values closer than this are drawn as one
Tick = tuple[float, str]  # A place on an axis and the words there


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels; what lies beyond an end of the axis stands there."""

    values: tuple[float, float]  # at both ends of the axis
    pixels: tuple[float, float]  # places of both ends
    logarithmic: bool = False  # whether equal ratios are equally far apart; then all values are above 0

    def __call__(self, value: float) -> float:
        """Return the place of a value; of NaN NaN."""
        low, high = self.values
        if self.logarithmic:
            low, high, value = log(low), log(high), log(max(value, low))
        # NaN stands first in both comparisons, which are false then: it comes out as it is
        share = min(max((value - low) / (high - low), 0.0), 1.0)
        return self.pixels[0] + (self.pixels[1] - self.pixels[0]) * share


def round_step(least: float, kind: Kind = "count") -> float:
    """Return the smallest round number that is not below: 1, 2 or 5 times a power of ten; of times what clocks show."""
    if kind == "seconds" and least >= 1.0:
        return next((step for step in _CLOCK if step >= least), _DAY * round_step(least / _DAY))
    power = 10.0 ** floor(log10(least))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= least * (1 - _HAIR))


def cells_between(pitch: float, room: float) -> int:
    """Return after how many cells, a round count, the next number stands, ``room`` wide; a cell is ``pitch`` wide."""
    return max(1, int(round_step(room / pitch)))


def round_ticks(low: float, high: float, *, most: int, kind: Kind = "count") -> list[Tick]:
    """Return round numbers from low to high, at most so many steps apart, with their words."""
    step = round_step((high - low) / most, kind)
    first = ceil(low / step - _HAIR)
    values = [round((first + i) * step, 12) for i in range(floor(high / step + _HAIR) - first + 1)]
    return _in_words(values, kind)


def log_ticks(scale: Scale, *, kind: Kind = "count", apart: float = 20.0) -> list[Tick]:
    """Return usual numbers along a logarithmic axis, at least so many pixels apart."""
    kept: list[float] = []
    for value in _MARKS[kind]:
        inside = scale.values[0] <= value <= scale.values[1]
        if inside and (not kept or abs(scale(value) - scale(kept[-1])) >= apart):
            kept.append(value)
    return _in_words(kept, kind)


def log_range(values: Sequence[float], kind: Kind, *, least: float) -> tuple[float, float]:
    """Return the ends of a logarithmic axis that holds all values from the least on, and ends on a usual number."""
    marks = [mark for mark in _MARKS[kind] if mark > least]
    return least, next((mark for mark in marks if mark >= max(values, default=0.0)), marks[-1])


def _in_words(values: Sequence[float], kind: Kind) -> list[Tick]:
    """Return values with their words beside an axis, all in thousands where the largest needs it: ``5k``, ``15k``."""
    thousands = kind == "count" and max(values, default=0.0) >= 10_000

    def words(value: float) -> str:
        if not value and kind == "seconds":
            return "0"
        return f"{value / 1000:g}k" if thousands and value else label_of(value, kind)

    return [(value, words(value)) for value in values]


def axis_range(
    values: Sequence[float], kind: Kind, *, most: int, floor_at: float | None = 0.0, ceiling: float | None = None
) -> tuple[float, float]:
    """Return the ends of an axis that holds all values, on round numbers where they are free.

    :param most: steps of the axis.
    :param floor_at: where it begins; ``None`` = below the least value.
    :param ceiling: where it ends; ``None`` = above the largest value, of large shares at 1.
    """
    low = min(values, default=0.0) if floor_at is None else floor_at
    high = max(values, default=low) if ceiling is None else ceiling
    if high - low < _HAIR:
        high = low + (0.1 if kind == "share" else abs(low) or 1.0)
        low = low if floor_at is not None else low - 0.5 * (abs(low) or 1.0)
    if kind == "share" and floor_at == 0.0 and high > 0.5 and ceiling is None:
        high = 1.0
    step = round_step((high - low) / most, kind)
    bottom = low if floor_at is not None else floor(low / step + _HAIR) * step
    return bottom, high if ceiling is not None else ceil(high / step - _HAIR) * step
