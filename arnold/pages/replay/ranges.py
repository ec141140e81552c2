"""Means with their intervals: a line for each group, or curves over the load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from arnold.pages.replay.chart import ticks_of
from simulator.study.compared import Band
from simulator.words import Kind, label_of
from topology.drawing.svg import number

WIDTH, ROW, LEFT, RIGHT, TOP, BOTTOM = 620.0, 30.0, 190.0, 20.0, 12.0, 26.0
TALL, SIDE = 220.0, 62.0


class Entry(NamedTuple):
    """A group's mean.

    :param colour: number of a colour of the style sheet.
    """

    name: str
    colour: int
    band: Band
    seeds: int


class Curve(NamedTuple):
    """A group's means over the load."""

    name: str
    colour: int
    points: Sequence[tuple[float, Band]]


def range_chart(title: str, kind: Kind, entries: Sequence[Entry]) -> str:
    """A dot at each mean, a stem over its interval; from 0 on, so that lengths may be compared."""
    height = TOP + ROW * len(entries) + BOTTOM
    top = _top(kind, [entry.band for entry in entries])

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(value, 0.0), top) / top

    parts = [_head("range", height, title)]
    for tick in ticks_of(top, kind):
        at = number(x(tick))
        parts.append(f'<line class="rule" x1="{at}" x2="{at}" y1="{number(TOP)}" y2="{number(height - BOTTOM)}"/>')
        parts.append(_axis_text(float(at), height - 8, label_of(tick, kind), "middle"))
    for i, entry in enumerate(entries):
        y = TOP + ROW * (i + 0.5)
        band = entry.band
        tip = f"{entry.name}\n{_said(band, kind)}\n{entry.seeds} runs"
        parts += [
            _axis_text(LEFT - 10, y + 4, _cut(entry.name), "end"),
            f'<line class="stem l{entry.colour}" x1="{number(x(band.mean - band.half))}" '
            f'x2="{number(x(band.mean + band.half))}" y1="{number(y)}" y2="{number(y)}"/>',
            f'<circle class="spot l{entry.colour}" cx="{number(x(band.mean))}" cy="{number(y)}" r="5"/>',
            f'<rect class="hit" x="0" y="{number(y - ROW / 2)}" width="{number(WIDTH)}" height="{number(ROW)}" '
            f'data-tip="{escape(tip)}"/>',
        ]
    return "\n".join([*parts, "</svg>"])


def load_chart(title: str, kind: Kind, curves: Sequence[Curve]) -> str:
    """Means over the scale of the load, each with its band."""
    loads = sorted({load for curve in curves for load, _ in curve.points})
    top = _top(kind, [band for curve in curves for _, band in curve.points])
    low, span = loads[0], (loads[-1] - loads[0]) or 1.0

    def x(load: float) -> float:
        return SIDE + (WIDTH - SIDE - RIGHT) * (0.04 + 0.92 * (load - low) / span)

    def y(value: float) -> float:
        return TOP + (TALL - TOP - BOTTOM) * (1.0 - min(max(value, 0.0), top) / top)

    parts = [_head("loads", TALL, title)]
    for tick in ticks_of(top, kind):
        at = number(y(tick))
        parts.append(f'<line class="rule" x1="{number(SIDE)}" x2="{number(WIDTH - RIGHT)}" y1="{at}" y2="{at}"/>')
        parts.append(_axis_text(SIDE - 7, float(at) + 4, label_of(tick, kind), "end"))
    parts += [_axis_text(x(load), TALL - 8, f"{load:g}x", "middle") for load in loads]
    for curve in curves:
        upper = [f"{number(x(load))} {number(y(band.mean + band.half))}" for load, band in curve.points]
        lower = [f"{number(x(load))} {number(y(band.mean - band.half))}" for load, band in reversed(curve.points)]
        parts.append(f'<path class="band l{curve.colour}" d="M{"L".join([*upper, *lower])}Z"/>')
        middle = [f"{number(x(load))} {number(y(band.mean))}" for load, band in curve.points]
        parts.append(f'<path class="line l{curve.colour}" d="M{"L".join(middle)}"/>')
    for curve in curves:
        parts.extend(_spots(curve, kind, x, y))
    return "\n".join([*parts, "</svg>"])


def _spots(curve: Curve, kind: Kind, x: Callable[[float], float], y: Callable[[float], float]) -> Iterator[str]:
    for load, band in curve.points:
        at = x(load), y(band.mean)
        tip = f"{curve.name}, load {load:g}\n{_said(band, kind)}"
        yield (
            f'<circle class="spot l{curve.colour}" cx="{number(at[0])}" cy="{number(at[1])}" r="4.5" '
            f'data-tip="{escape(tip)}"/>'
        )


def _said(band: Band, kind: Kind) -> str:
    return f"{label_of(band.mean, kind)} ± {label_of(band.half, kind)}" if band.half else label_of(band.mean, kind)


def _top(kind: Kind, bands: Sequence[Band]) -> float:
    most = max((band.mean + band.half for band in bands), default=0.0)
    if kind == "share" and most > 0.5:
        return 1.0
    return most * 1.06 if most > 0.0 else 1.0


def _head(name: str, height: float, title: str) -> str:
    return (
        f'<svg class="{name}" viewBox="0 0 {number(WIDTH)} {number(height)}" width="{number(WIDTH)}" '
        f'height="{number(height)}" role="img" aria-label="{escape(title)}">'
    )


def _axis_text(x: float, y: float, text: str, anchor: str) -> str:
    place = f'x="{number(x)}" y="{number(y)}"'
    return f'<text class="axis" {place} font-size="12" text-anchor="{anchor}">{escape(text)}</text>'


def _cut(name: str) -> str:
    return name if len(name) <= 28 else f"{name[:27]}…"
