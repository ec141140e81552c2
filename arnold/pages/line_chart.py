"""Quantities along an axis as an inline drawing: lines or steps, with bands, dots and error bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from math import isfinite, nan
from typing import NamedTuple

from arnold.pages.axis import axis_range, round_ticks
from arnold.pages.plot import WIDTH, Plot
from ground.quantities import label_of
from simulator.sheet import Chart, Series
from topology.drawing.layout import text_width
from topology.drawing.page_kit import XY, area, circle, label, line, path, rect, svg

COLOURS = 8  # Colours of the style sheet, l0 to l7; a ninth line has the first again
HEIGHT, TITLED = 206.0, 290.0  # Of a chart whose page says what its axes are, and of one that says it itself
GAP = 8.0  # Pixels between the words of two marks at least
PAD = 0.04  # What stays free at both ends of an axis with dots, as a share of its values


def _corners(one: Series, values: Sequence[float]) -> list[XY]:
    """Return the corners of a line through values at the places of a series."""
    places = [x for x, _ in one.points]
    if one.shape != "step":
        return list(zip(places, values, strict=True))
    ends = [*places[1:], places[-1]]
    return list(chain.from_iterable(((x, y), (end, y)) for x, end, y in zip(places, ends, values, strict=False)))


def _toned(chart: Chart) -> list[tuple[str, Series]]:
    """Return each series with its class of the style sheet."""
    numbers = [i if one.colour is None else one.colour for i, one in enumerate(chart.series)]
    return [(f"l{number % COLOURS}", one) for number, one in zip(numbers, chart.series, strict=True)]


def keys_of(chart: Chart) -> list[tuple[str, str]]:
    """Return colour and name of each series, where there are several."""
    return [(tone, one.name) for tone, one in _toned(chart)] if len(chart.series) > 1 else []


def data_of(chart: Chart) -> dict[str, object]:
    """Return what the script of a page says when the pointer rests on a step: names and values."""
    # where the last step ends, nothing begins
    steps = [(one.name, one.values[:-1]) for one in chart.series]
    lines = [[name, [float(f"{y:.4g}") if isfinite(y) else None for y in values]] for name, values in steps]
    return {"kind": chart.kind, "lines": lines}


def line_chart(chart: Chart) -> str:
    """Return the chart as one ``<svg>``."""
    plot = plot_of(chart)
    kind = "chart" + (" titled" if chart.x_label else "") + (" time" if chart.key else "")
    wide = plot.right - plot.left if chart.key else None
    parts = chart_parts(chart, plot)
    return svg(
        kind,
        plot.width,
        plot.height,
        parts,
        title=chart.title,
        data_chart=chart.key or None,
        data_left=plot.left if chart.key else None,
        data_wide=wide,
    )


def plot_of(chart: Chart) -> Plot:
    """Return axes that hold all of a chart."""
    height, bottom = (TITLED, 44.0) if chart.x_label else (HEIGHT, 26.0)
    places = [x for one in chart.series for x, _ in one.points] + [x for x, _ in chart.ticks]
    left, right = min(places, default=0.0), max(places, default=1.0)
    if not all(one.shape == "step" for one in chart.series) or right <= left:
        pad = PAD * (right - left) or 0.5
        left, right = left - pad, right + pad
    values = [y for one in chart.series for y in _heights(one) if isfinite(y)]
    upward = axis_range(values, chart.kind, most=_steps(height), floor_at=chart.floor, ceiling=chart.ceiling)
    return Plot(WIDTH, height, (60.0, 12.0, 20.0 if chart.lines else 10.0, bottom), (left, right), upward)


def _steps(height: float) -> int:
    """Return the steps of an upright axis: about 48 pixels each."""
    return int(height // 48)


def _heights(one: Series) -> Iterator[float]:
    """Yield all that an axis must hold of a line."""
    yield from one.values
    yield from chain(*one.band) if one.band else ()
    for y, error in zip(one.values, one.errors, strict=False):
        yield y + error


def chart_parts(chart: Chart, plot: Plot) -> Iterator[str]:
    """Yield what is in a chart: axes, marks, bands, lines, dots."""
    up = round_ticks(*plot.upward, most=_steps(plot.height), kind=chart.kind)
    if chart.kind == "count" and all(float(y).is_integer() for one in chart.series for y in one.values if isfinite(y)):
        up = [tick for tick in up if tick[0].is_integer()]  # there is no half of what is counted
    yield from plot.y_axis(up)
    along = round_ticks(*plot.across, most=7, kind="seconds") if chart.key else round_ticks(*plot.across, most=10)
    yield from plot.x_axis(chart.ticks or along, rules=False)
    if chart.x_label:
        yield from plot.titles(chart.x_label, chart.y_label)
    end = -GAP
    for place, words in sorted(chart.lines):
        x, wide = plot.x(place), text_width(words, 12.0)
        yield line((x, plot.top), (x, plot.bottom), "upright")
        # words stay within the borders, beside which numbers stand, and lower where they would lie on those before
        middle = min(max(x, plot.left + wide / 2), plot.right - wide / 2)
        yield label(middle, plot.top + (12 if middle - wide / 2 < end + GAP else -4), words, anchor="middle")
        end = middle + wide / 2
    toned = _toned(chart)
    for tone, one in toned:
        bands = [one.band] if one.band else []
        if one.filled:
            bands.append(([plot.upward[0] if isfinite(y) else nan for y in one.values], one.values))
        for low, high in bands:
            yield area(plot.points(_corners(one, high)), plot.points(_corners(one, low)), f"band {tone}")
    for tone, one in toned:
        if one.shape != "dots":
            dashed = " dashes" if one.shape == "dashes" else ""
            yield path(plot.points(_corners(one, one.values)), f"line {tone}{dashed}")
    for tone, one in toned:
        yield from _dots(one, tone, plot, one.tips or _tips(chart, one))
    if chart.key:
        yield line((-9, plot.top), (-9, plot.bottom), "cursor")
        yield rect(plot.left, 0, plot.right - plot.left, plot.bottom, "hit")


def _tips(chart: Chart, one: Series) -> Sequence[str]:
    """Return words for the points of a series: where each is, and its value."""
    if not chart.x_label or one.shape in ("step", "dashes"):
        return ()
    ticks, errors = dict(chart.ticks), one.errors or [0.0] * len(one.points)
    places = [ticks.get(x) or f"{chart.x_label} {label_of(x, 'count')}" for x, _ in one.points]
    halves = [f" ± {label_of(error, chart.kind)}" if error else "" for error in errors]
    values = [label_of(y, chart.kind) for y in one.values]
    return [f"{one.name}\n{at}: {value}{half}" for at, value, half in zip(places, values, halves, strict=True)]


def _dots(one: Series, tone: str, plot: Plot, tips: Sequence[str]) -> Iterator[str]:
    errors = one.errors or [0.0] * len(tips)
    for (place, _), value, error, tip in zip(one.points, one.values, errors, tips, strict=False):
        if isfinite(value):
            x, y = plot.x(place), plot.y(value)
            if error:
                yield line((x, plot.y(value - error)), (x, plot.y(value + error)), f"stem {tone}")
            yield circle(x, y, 4, f"spot {tone}", tip=tip)


class ChartCard(NamedTuple):
    """A drawing with its words, as templates show it (``cards`` in cards.html.j2)."""

    title: str
    note: str
    drawing: str  # markup
    keys: Sequence[tuple[str, str]] = ()  # class of the colour and name of what is drawn, where not written beside it


def card_of(chart: Chart) -> ChartCard:
    """Return a drawn chart with its words."""
    return ChartCard(chart.title, chart.note, line_chart(chart), keys_of(chart))
