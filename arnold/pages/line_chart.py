"""Quantities along an axis as an inline drawing: lines or steps, with bands, dots and error bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite, nan
from typing import Literal, NamedTuple

from arnold.pages.axis import Tick, axis_range, round_ticks
from arnold.pages.plot import WIDTH, Plot
from topology.drawing.elements import XY, area, circle, label, line, path, rect, svg
from topology.drawing.sizing import text_width
from topology.quantities import Kind

COLOURS = 8  # Colours of the style sheet, l0 to l7; a ninth line has the first again
HEIGHT, TITLED = 206.0, 290.0  # Of a chart whose page says what its axes are, and of one that says it itself
GAP = 8.0  # Pixels between the words of two marks at least
PAD = 0.04  # What stays free at both ends of an axis with dots, as a share of its values
LineShape = Literal["line", "step", "dots", "dashes"]


@dataclass(frozen=True, slots=True, eq=False)
class ChartLine:
    """One quantity of a chart."""

    name: str
    colour: int  # number of a colour of the style sheet
    # where values stand along the axis.  Steps go from each to the next; they may have one more than there are values,
    # the end of the last step
    places: Sequence[float]
    values: Sequence[float]  # NaN = nothing is drawn
    shape: LineShape = "line"
    band: tuple[Sequence[float], Sequence[float]] | None = None  # lower and upper ends of a band around the values
    filled: bool = False  # whether the area below is tinted
    errors: Sequence[float] = ()  # half the height of an error bar at each value; empty = none
    tips: Sequence[str] = ()  # words of the tooltip of each value, which then has a dot; empty = no dots

    @property
    def tone(self) -> str:
        """Class of the style sheet."""
        return f"l{self.colour % COLOURS}"

    def points(self, values: Sequence[float]) -> list[XY]:
        """Return the corners of a line through values at the places of this one."""
        if self.shape != "step":
            return list(zip(self.places, values, strict=True))
        ends = [*self.places[1:], self.places[-1]]
        return list(
            chain.from_iterable(((x, y), (end, y)) for x, end, y in zip(self.places, ends, values, strict=False))
        )


@dataclass(frozen=True, slots=True, eq=False)
class LineChart:
    """Lines on common axes."""

    title: str
    lines: Sequence[ChartLine]
    kind: Kind = "count"  # of the values
    key: str = ""  # by which the script of the page knows a chart over time, unique on its page; empty = it need not
    note: str = ""  # a sentence below the title
    ticks: Sequence[Tick] = ()  # places and words along the axis; empty = round numbers, or times where there is a key
    floor: float | None = 0.0  # where the upright axis begins; None = below the least value
    ceiling: float | None = None  # where it ends; None = above the largest value
    labels: tuple[str, str] | None = None  # what stands along the two axes; None = the title says it
    marks: Sequence[Tick] = ()  # places with an upright line, and the words there

    @property
    def keys(self) -> list[tuple[str, str]]:
        """Colour and name of each line, where there are several."""
        return [(one.tone, one.name) for one in self.lines] if len(self.lines) > 1 else []

    @property
    def data(self) -> dict[str, object]:
        """What the script says when the pointer rests on a step: lines, and where these begin and end."""
        lines = [[one.name, [float(f"{y:.4g}") if isfinite(y) else None for y in one.values]] for one in self.lines]
        return {"kind": self.kind, "lines": lines}


def line_chart(chart: LineChart) -> str:
    """Return the chart as one ``<svg>``."""
    plot = plot_of(chart)
    kind = "chart" + (" titled" if chart.labels else "") + (" time" if chart.key else "")
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


def plot_of(chart: LineChart) -> Plot:
    """Return axes that hold all of a chart."""
    height, bottom = (HEIGHT, 26.0) if chart.labels is None else (TITLED, 44.0)
    places = [x for one in chart.lines for x in one.places] + [x for x, _ in chart.ticks]
    left, right = min(places, default=0.0), max(places, default=1.0)
    if not all(one.shape == "step" for one in chart.lines) or right <= left:
        pad = PAD * (right - left) or 0.5
        left, right = left - pad, right + pad
    values = [y for one in chart.lines for y in _heights(one) if isfinite(y)]
    upward = axis_range(values, chart.kind, most=_steps(height), floor_at=chart.floor, ceiling=chart.ceiling)
    return Plot(WIDTH, height, (60.0, 12.0, 20.0 if chart.marks else 10.0, bottom), (left, right), upward)


def _steps(height: float) -> int:
    """Return the steps of an upright axis: about 48 pixels each."""
    return int(height // 48)


def _heights(one: ChartLine) -> Iterator[float]:
    """Yield all that an axis must hold of a line."""
    yield from one.values
    yield from chain(*one.band) if one.band else ()
    for y, error in zip(one.values, one.errors, strict=False):
        yield y + error


def chart_parts(chart: LineChart, plot: Plot) -> Iterator[str]:
    """Yield what is in a chart: axes, marks, bands, lines, dots."""
    up = round_ticks(*plot.upward, most=_steps(plot.height), kind=chart.kind)
    if chart.kind == "count" and all(float(y).is_integer() for one in chart.lines for y in one.values if isfinite(y)):
        up = [tick for tick in up if tick[0].is_integer()]  # there is no half of what is counted
    yield from plot.y_axis(up)
    along = round_ticks(*plot.across, most=7, kind="seconds") if chart.key else round_ticks(*plot.across, most=10)
    yield from plot.x_axis(chart.ticks or along, rules=False)
    if chart.labels is not None:
        yield from plot.titles(*chart.labels)
    end = -GAP
    for place, words in sorted(chart.marks):
        x, wide = plot.x(place), text_width(words, 12.0)
        yield line((x, plot.top), (x, plot.bottom), "upright")
        # words stay within the borders, beside which numbers stand, and lower where they would lie on those before
        middle = min(max(x, plot.left + wide / 2), plot.right - wide / 2)
        yield label(middle, plot.top + (12 if middle - wide / 2 < end + GAP else -4), words, anchor="middle")
        end = middle + wide / 2
    for one in chart.lines:
        bands = [one.band] if one.band else []
        if one.filled:
            bands.append(([plot.upward[0] if isfinite(y) else nan for y in one.values], one.values))
        for low, high in bands:
            yield area(plot.points(one.points(high)), plot.points(one.points(low)), f"band {one.tone}")
    for one in chart.lines:
        if one.shape != "dots":
            dashed = " dashes" if one.shape == "dashes" else ""
            yield path(plot.points(one.points(one.values)), f"line {one.tone}{dashed}")
    for one in chart.lines:
        yield from _dots(one, plot)
    if chart.key:
        yield line((-9, plot.top), (-9, plot.bottom), "cursor")
        yield rect(plot.left, 0, plot.right - plot.left, plot.bottom, "hit")


def _dots(one: ChartLine, plot: Plot) -> Iterator[str]:
    errors = one.errors or [0.0] * len(one.tips)
    for place, value, error, tip in zip(one.places, one.values, errors, one.tips, strict=False):
        if isfinite(value):
            x, y = plot.x(place), plot.y(value)
            if error:
                yield line((x, plot.y(value - error)), (x, plot.y(value + error)), f"stem {one.tone}")
            yield circle(x, y, 4, f"spot {one.tone}", tip=tip)


class ChartCard(NamedTuple):
    """A drawing with its words, as templates show it (``cards`` in cards.html.j2)."""

    title: str
    note: str
    drawing: str  # markup
    keys: Sequence[tuple[str, str]] = ()  # class of the colour and name of what is drawn, where not written beside it


def card_of(chart: LineChart) -> ChartCard:
    """Return a drawn chart with its words."""
    return ChartCard(chart.title, chart.note, line_chart(chart), chart.keys)
