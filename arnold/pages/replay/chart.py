"""Quantities over time as an inline drawing: steps from bucket to bucket, with bands where there are several runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

import numpy as np

from simulator.words import Kind, duration, label_of
from topology.cluster import FloatArray
from topology.drawing.svg import number

WIDTH, HEIGHT = 620.0, 206.0
LEFT, RIGHT, TOP, BOTTOM = 60.0, 10.0, 10.0, 26.0
FONT = 12

_CLOCK = (
    (1.0, (1, 2, 5, 10, 20, 30)),
    (60.0, (1, 2, 5, 10, 20, 30)),
    (3600.0, (1, 2, 3, 6, 12)),
    (86_400.0, (1, 2, 5, 10, 20, 50)),
)
"""Lengths of a second, a minute, an hour and a day, and round numbers of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One quantity.

    :param colour: number of a colour of the style sheet, ``l0`` to ``l7``.
    :param values: shape [buckets]; NaN = nothing is drawn.
    :param low: shape [buckets], lower end of a band; ``None`` = there is none.
    :param high: shape [buckets], its upper end.
    :param filled: whether the area below is tinted.
    """

    name: str
    colour: int
    values: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    filled: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TimeChart:
    """Lines over the buckets of a run.

    :param key: unique on its page.
    :param note: a sentence below the title.
    """

    key: str
    title: str
    note: str
    kind: Kind
    edges: FloatArray
    lines: tuple[Line, ...]

    @property
    def data(self) -> dict[str, object]:
        """What the script says when the pointer rests on a bucket."""
        return {
            "kind": self.kind,
            "lines": [[line.name, [_rounded(value) for value in line.values.tolist()]] for line in self.lines],
        }


def time_chart(chart: TimeChart) -> str:
    """The chart as one ``<svg class="time">``."""
    top = _top(chart)
    length = float(chart.edges[-1])

    def x(time: FloatArray) -> FloatArray:
        return LEFT + (WIDTH - LEFT - RIGHT) * time / length

    def y(value: FloatArray) -> FloatArray:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - np.clip(value, 0.0, top) / top)

    edges = x(chart.edges)
    parts = [
        f'<svg class="time" viewBox="0 0 {number(WIDTH)} {number(HEIGHT)}" width="{number(WIDTH)}" '
        f'height="{number(HEIGHT)}" role="img" aria-label="{escape(chart.title)}" data-chart="{chart.key}" '
        f'data-left="{number(LEFT)}" data-wide="{number(WIDTH - LEFT - RIGHT)}">',
        *_grid(chart, top, length),
    ]
    for line in chart.lines:
        if line.low is not None and line.high is not None:
            parts.append(f'<path class="band l{line.colour}" d="{_band(edges, y(line.low), y(line.high))}"/>')
        if line.filled:
            floor_ = np.full(line.values.shape, HEIGHT - BOTTOM)
            parts.append(f'<path class="band l{line.colour}" d="{_band(edges, floor_, y(line.values))}"/>')
    parts += [f'<path class="line l{line.colour}" d="{_steps(edges, y(line.values))}"/>' for line in chart.lines]
    bottom = number(HEIGHT - BOTTOM)
    parts.append(f'<line class="cursor" x1="-9" x2="-9" y1="{number(TOP)}" y2="{bottom}"/>')
    parts.append(
        f'<rect class="hit" x="{number(LEFT)}" y="0" width="{number(WIDTH - LEFT - RIGHT)}" height="{bottom}"/></svg>'
    )
    return "\n".join(parts)


def ticks_of(top: float, kind: Kind) -> list[float]:
    """Round numbers from 0 to a top, about four of them."""
    step = _round_time(top / 4) if kind == "seconds" else _round(top / 4)
    return [i * step for i in range(floor(top / step + 1e-9) + 1)]


def _round(rough: float) -> float:
    power = 10.0 ** floor(log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough * (1 - 1e-9))


def _round_time(rough: float) -> float:
    """Seconds between two marks of the axis of time: round in its unit."""
    for size, counts in _CLOCK:
        for count in counts:
            if count * size >= rough:
                return count * size
    day = _CLOCK[-1][0]
    return day * _round(rough / day)


def _top(chart: TimeChart) -> float:
    """The end of the upright axis: a round number above everything; shares near 1 end there."""
    found = [line.values for line in chart.lines] + [line.high for line in chart.lines if line.high is not None]
    most = float(np.nanmax([np.nanmax(values, initial=0.0) for values in found], initial=0.0))
    if chart.kind == "share" and most > 0.5:
        return 1.0
    if most <= 0.0:
        return 0.1 if chart.kind == "share" else 1.0
    step = _round(most / 4)
    return ceil(most / step - 1e-9) * step


def _axis_label(value: float, kind: Kind) -> str:
    """The same, short: ``15k``."""
    return f"{value / 1000:g}k" if kind == "count" and value >= 10_000 else label_of(value, kind)


def _grid(chart: TimeChart, top: float, length: float) -> Iterator[str]:
    right, bottom = number(WIDTH - RIGHT), HEIGHT - BOTTOM
    for tick in ticks_of(top, chart.kind):
        y = number(TOP + (bottom - TOP) * (1.0 - tick / top))
        yield f'<line class="rule" x1="{number(LEFT)}" x2="{right}" y1="{y}" y2="{y}"/>'
        label = _axis_label(tick, chart.kind)
        yield (
            f'<text class="axis" x="{number(LEFT - 7)}" y="{number(float(y) + 4)}" font-size="{FONT}" '
            f'text-anchor="end">{label}</text>'
        )
    step = _round_time(length / 7)
    for i in range(int(length / step + 1e-9) + 1):
        x = LEFT + (WIDTH - LEFT - RIGHT) * i * step / length
        anchor = "start" if i == 0 else "end" if x > WIDTH - RIGHT - 16 else "middle"
        label = duration(i * step) if i else "0"
        yield (
            f'<text class="axis" x="{number(x)}" y="{number(HEIGHT - 8)}" font-size="{FONT}" '
            f'text-anchor="{anchor}">{label}</text>'
        )


def _steps(edges: FloatArray, y: FloatArray) -> str:
    """A path along the buckets, interrupted where there is no value."""
    parts: list[str] = []
    last: str | None = None
    for i, value in enumerate(y.tolist()):
        if np.isnan(value):
            last = None
            continue
        height = number(value)
        if last is None:
            parts.append(f"M{number(edges[i])} {height}")
        elif height != last:
            parts.append(f"V{height}")
        following = number(edges[i + 1])
        if parts[-1].startswith("H"):
            parts[-1] = f"H{following}"
        else:
            parts.append(f"H{following}")
        last = height
    return "".join(parts)


def _band(edges: FloatArray, low: FloatArray, high: FloatArray) -> str:
    """An area between two step lines; where one has no value there is none."""
    parts = []
    for run in _runs(~(np.isnan(low) | np.isnan(high))):
        there = _steps(edges[run.start : run.stop + 1], high[run])
        back = [f"V{number(low[i])}H{number(edges[i])}" for i in range(run.stop - 1, run.start - 1, -1)]
        parts.append(there + "".join(back) + "Z")
    return "".join(parts)


def _runs(sound: Sequence[bool] | np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Iterator[slice]:
    padded = np.concatenate([[False], np.asarray(sound, dtype=np.bool_), [False]])
    turns = np.flatnonzero(padded[1:] != padded[:-1])
    for start, stop in turns.reshape(-1, 2).tolist():
        yield slice(start, stop)


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else float(f"{value:.4g}")
