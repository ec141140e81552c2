"""Charts as inline drawings: axes, the plot between them, lines with bands, and rows with ranges.

An axis leads from values to places and has round numbers beside it.  A plot has two of them, rules, numbers and titles
along its borders.  A line chart shows quantities along an axis: lines or steps, with bands, dots and error bars.  A row
chart has a row for each of several things on one level axis: its mean as a dot, and the range around it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil, floor, isfinite, log, log10, nan
from typing import NamedTuple

from ground.quantities import Kind, label_of
from simulator.sheet import Chart, Series
from topology.drawing.layout import fit, text_width
from topology.drawing.page_kit import XY, area, circle, label, line, path, rect, svg

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
    return _in_words([round((first + i) * step, 12) for i in range(floor(high / step + _HAIR) - first + 1)], kind)


def _of_numbers(ticks: list[Tick], numbers: Iterable[float]) -> list[Tick]:
    """Return ticks of an axis: whole ones where all numbers on it are, as there is no half of what is counted."""
    whole = all(float(number).is_integer() for number in numbers)
    return [tick for tick in ticks if tick[0].is_integer()] if whole else ticks


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
        return [(x(across), y(upward)) for across, upward in values]

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


COLOURS = 8  # Colours of the style sheet, l0 to l7; a ninth line has the first again
HEIGHT, TITLED = 206.0, 290.0  # Of a chart whose page says what its axes are, and of one that says it itself
GAP = 8.0  # Pixels between the words of two marks at least
STEP = 48.0  # Pixels of a step of an upright axis, about
PAD = 0.04  # What stays free at both ends of an axis with dots, as a share of its values


def _corners(series: Series, values: Sequence[float]) -> list[XY]:
    """Return the corners of a line through values at the places of a series."""
    places = [x for x, _ in series.points]
    if series.shape != "step":
        return list(zip(places, values, strict=True))
    ends = [*places[1:], places[-1]]
    return list(chain.from_iterable(((x, y), (end, y)) for x, end, y in zip(places, ends, values, strict=False)))


def _toned(chart: Chart) -> list[tuple[str, Series]]:
    """Return each series with its class of the style sheet."""
    numbers = [i if series.colour is None else series.colour for i, series in enumerate(chart.series)]
    return [(f"l{number % COLOURS}", series) for number, series in zip(numbers, chart.series, strict=True)]


def keys_of(chart: Chart) -> list[tuple[str, str]]:
    """Return colour and name of each series, where there are several."""
    return [(tone, series.name) for tone, series in _toned(chart)] if len(chart.series) > 1 else []


def data_of(chart: Chart) -> dict[str, object]:
    """Return what the script of a page says when the pointer rests on a step: names and values."""
    # where the last step ends, nothing begins
    steps = [(series.name, series.values[:-1]) for series in chart.series]
    lines = [[name, [float(f"{y:.4g}") if isfinite(y) else None for y in values]] for name, values in steps]
    return {"kind": chart.kind, "lines": lines}


def line_chart(chart: Chart) -> str:
    """Return the chart as one ``<svg>``."""
    plot = plot_of(chart)
    return svg(
        "chart" + (" titled" if chart.x_label else "") + (" time" if chart.key else ""),
        plot.width,
        plot.height,
        chart_parts(chart, plot),
        title=chart.title,
        data_chart=chart.key or None,
        data_left=plot.left if chart.key else None,
        data_wide=plot.right - plot.left if chart.key else None,
    )


def plot_of(chart: Chart) -> Plot:
    """Return axes that hold all of a chart."""
    height, bottom = (TITLED, 44.0) if chart.x_label else (HEIGHT, 26.0)
    places = [x for series in chart.series for x, _ in series.points] + [x for x, _ in chart.ticks]
    left, right = min(places, default=0.0), max(places, default=1.0)
    if not all(series.shape == "step" for series in chart.series) or right <= left:
        pad = PAD * (right - left) or 0.5
        left, right = left - pad, right + pad
    heights: list[float] = []
    for series in chart.series:
        heights += [*series.values, *(chain(*series.band) if series.band else ())]
        heights += [y + error for y, error in zip(series.values, series.errors, strict=False)]
    finite = [y for y in heights if isfinite(y)]
    upward = axis_range(finite, chart.kind, most=int(height // STEP), floor_at=chart.floor, ceiling=chart.ceiling)
    return Plot(WIDTH, height, (60.0, 12.0, 20.0 if chart.lines else 10.0, bottom), (left, right), upward)


def chart_parts(chart: Chart, plot: Plot) -> Iterator[str]:
    """Yield what is in a chart: axes, marks, bands, lines, dots."""
    up = round_ticks(*plot.upward, most=int(plot.height // STEP), kind=chart.kind)
    if chart.kind == "count":
        up = _of_numbers(up, [y for series in chart.series for y in series.values if isfinite(y)])
    yield from plot.y_axis(up)
    if chart.key:
        along = round_ticks(*plot.across, most=7, kind="seconds")
    else:
        numbers = [x for series in chart.series for x, _ in series.points]
        along = _of_numbers(round_ticks(*plot.across, most=10), numbers)
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
    for tone, series in toned:
        bands = [series.band] if series.band else []
        if series.filled:
            bands.append(([plot.upward[0] if isfinite(y) else nan for y in series.values], series.values))
        for low, high in bands:
            yield area(plot.points(_corners(series, high)), plot.points(_corners(series, low)), f"band {tone}")
    for tone, series in toned:
        if series.shape != "dots":
            dashed = " dashes" if series.shape == "dashes" else ""
            yield path(plot.points(_corners(series, series.values)), f"line {tone}{dashed}")
    ticks = dict(chart.ticks)
    for tone, series in toned:
        tips, errors = series.tips, series.errors or [0.0] * len(series.points)
        if not tips and chart.x_label and series.shape not in ("step", "dashes"):
            # where each point is, and its value
            places = [ticks.get(x) or f"{chart.x_label} {label_of(x, 'count')}" for x, _ in series.points]
            halves = [f" ± {label_of(error, chart.kind)}" if error else "" for error in errors]
            points = zip(places, [label_of(y, chart.kind) for y in series.values], halves, strict=True)
            tips = [f"{series.name}\n{place}: {value}{half}" for place, value, half in points]
        for (place, _), value, error, tip in zip(series.points, series.values, errors, tips, strict=False):
            if isfinite(value):
                x, y = plot.x(place), plot.y(value)
                if error:
                    yield line((x, plot.y(value - error)), (x, plot.y(value + error)), f"stem {tone}")
                yield circle(x, y, 4, f"spot {tone}", tip=tip)
    if chart.key:
        yield line((-9, plot.top), (-9, plot.bottom), "cursor")
        yield rect(plot.left, 0, plot.right - plot.left, plot.bottom, "hit")


class ChartCard(NamedTuple):
    """A drawing with its words, as templates show it (``cards`` in cards.html.j2)."""

    title: str
    note: str
    drawing: str  # markup
    keys: Sequence[tuple[str, str]] = ()  # class of the colour and name of what is drawn, where not written beside it


def card_of(chart: Chart) -> ChartCard:
    """Return a drawn chart with its words."""
    return ChartCard(chart.title, chart.note, line_chart(chart), keys_of(chart))


ROW, NAME, BAR = 46.0, 15.0, 31.0
"""Height of a row, and where in it the name stands and the bar's middle lies, pixels.  Names stand above their bars, so
that a telephone shows both."""

MARGINS = (24.0, 32.0, 4.0, 26.0)  # Left, right, top and bottom, pixels: half of a number, of a telephone at the right


@dataclass(frozen=True, slots=True)
class ChartRow:
    """One row of the chart."""

    name: str
    tone: str  # class of the style sheet with its colour
    mean: float
    stem: tuple[float, float]  # ends of the thin line
    tip: str  # words of the tooltip
    bar: tuple[float, float] | None = None  # ends of the thick line; None = there is none
    dot_tone: str = ""  # of the mean and the thin line, where they are of something else than the thick one


def row_chart(rows: Sequence[ChartRow], *, name: str, title: str, kind: Kind, log_from: float | None = None) -> str:
    """Return the chart as one ``<svg>``, ``name`` its class in the style sheet.

    :param log_from: where a logarithmic axis begins; ``None`` = the axis begins at 0, so that lengths can be compared.
    """
    most = [max(row.mean, row.stem[1]) for row in rows]
    ends = axis_range(most, kind, most=4) if log_from is None else log_range(most, kind, least=log_from)
    height = ROW * len(rows) + 30
    plot = Plot(WIDTH, height, MARGINS, ends, logarithmic=(log_from is not None, False))
    ticks = round_ticks(*ends, most=4, kind=kind) if log_from is None else log_ticks(plot.x, kind=kind)
    parts = [*plot.x_axis(ticks)]
    for i, row in enumerate(rows):
        top = plot.top + ROW * i
        y, stem = top + BAR, [plot.x(end) for end in row.stem]
        parts.append(label(plot.left, top + NAME, fit(row.name, 12.0, plot.right - plot.left)))
        dot = row.dot_tone or row.tone
        thin = line((stem[0], y), (stem[1], y), f"stem {dot}")
        if row.bar is not None:
            left, right = plot.x(row.bar[0]) - 1, plot.x(row.bar[1]) + 1
            thick = rect(left, y - 8, right - left, 16, f"span {row.tone}", rx=3)
            parts += [thick, thin] if row.dot_tone else [thin, thick]
        else:
            parts.append(thin)
        parts.append(circle(plot.x(row.mean), y, 4.5, f"spot {dot}"))
        parts.append(rect(0, top, WIDTH, ROW, "hit", tip=row.tip))
    return svg(f"chart {name}", WIDTH, height, parts, title=title)
