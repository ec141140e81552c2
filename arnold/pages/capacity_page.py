"""The page of an answer of capacity planning; its charts as files that bring their own colours.

A tornado shows how far an answer goes as each input alone goes from its P10 to its P90, the widest first.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite

from arnold.pages.charts import (
    BAR,
    MARGINS,
    NAME,
    ROW,
    WIDTH,
    ChartCard,
    Plot,
    axis_range,
    card_of,
    chart_parts,
    keys_of,
    plot_of,
    round_ticks,
)
from ground.quantities import capitalised
from simulator.capacity.question import AnswerRange, CapacityAnswer, end_words
from simulator.sheet import Chart, Sheet, TextTable
from topology.drawing.layout import fit
from topology.drawing.page_kit import circle, label, line, rect, render, source, svg

ROOM = 0.14  # What stays free at both ends of the axis for words, as a share of its values
TITLE = "What decides"


def tornado_card(span: AnswerRange) -> ChartCard:
    """Return the drawing with its words."""
    plot = tornado_plot(span)
    note = (
        f"{capitalised(span.quantity)}: {span.words} of {span.draws:,} draws of all inputs; "
        "below, each input alone from its P10 to its P90 (words beside the bars), the others at their medians."
    )
    return ChartCard(TITLE, note, svg("chart range", plot.width, plot.height, tornado_parts(span, plot), title=TITLE))


def tornado_plot(span: AnswerRange) -> Plot:
    """Return axes that hold the whole range; what is infinite stands at the right border."""
    ends = [end for swing in span.swings for end in (swing.at_low, swing.at_high)]
    values = [value for value in (span.p10, span.p90, span.at_medians, *ends) if isfinite(value)] or [0.0]
    room = ROOM * (max(values) - min(values))
    across = axis_range([min(values) - room, max(values) + room], span.kind, most=5, floor_at=None)
    height = ROW * (1 + len(span.swings)) + 48
    return Plot(WIDTH, height, (*MARGINS[:3], 44.0), across)  # below: numbers, and the name of the axis


def tornado_parts(span: AnswerRange, plot: Plot) -> Iterator[str]:
    """Yield what is in the drawing: axis, the line of the medians, the whole range, a bar for each input."""
    x, middle = plot.x, plot.x(span.at_medians)
    ticks = round_ticks(*plot.across, most=5, kind=span.kind)
    if span.kind == "share" and min(span.p10, span.at_medians) >= 0.0 and max(span.p90, span.at_medians) <= 1.0:
        ticks = [tick for tick in ticks if 0.0 <= tick[0] <= 1.0]
    yield from plot.x_axis(ticks)
    yield label((plot.left + plot.right) / 2, plot.height - 7, span.quantity, anchor="middle")
    yield line((middle, plot.top), (middle, plot.bottom), "upright")
    ends = (x(span.p10), x(span.p90))
    y = plot.top + BAR
    yield from _row(plot, "all inputs, P10 to P90", y, ends, ("", ""), middle=middle)
    yield line((ends[0], y), (ends[1], y), "stem l0")
    yield circle(x(span.p50), y, 4.5, "spot l0", tip=f"{span.quantity}\n{span.words}")
    for i, swing in enumerate(span.swings, start=1):
        y = plot.top + ROW * i + BAR
        low, high = x(swing.at_low), x(swing.at_high)
        # the values of an input without an order have no words
        words = ("" if swing.low is None else end_words(swing.low), "" if swing.high is None else end_words(swing.high))
        yield from _row(plot, swing.words, y, (low, high), words, middle=middle)
        tip = f"{swing.words} {words[0]} to {words[1]}\n{span.value(swing.at_low)} to {span.value(swing.at_high)}"
        # the shorter one lies on the longer one where both go to one side
        for end, tone in sorted(((low, "l0"), (high, "l1")), key=lambda half: -abs(half[0] - middle)):
            yield rect(min(end, middle), y - 8, abs(end - middle), 16, f"span {tone}", tip=tip)


def _row(
    plot: Plot, name: str, y: float, ends: tuple[float, float], words: tuple[str, str], *, middle: float
) -> Iterator[str]:
    """Yield the name of a row, and words beside the ends of its bar, each on the side where the bar is not.

    :param middle: where the bars of both ends begin, px.
    """
    yield label(plot.left, y - BAR + NAME, fit(name, 12.0, plot.right - plot.left))
    low, high = ends
    # a bar whose low end is at the right has its words there
    marks = [(low, low <= high, words[0]), (high, high < low, words[1])]
    if (low - middle) * (high - middle) > 0.0 and all(words):
        # the bars of both ends lie over each other: both words stand where the longer one ends
        marks = [(max(ends) if low > middle else min(ends), low < middle, ", ".join(words))]
    for end, left, value in marks:
        yield label(end + (-5 if left else 5), y + 4, value, anchor="end" if left else "")


LEGEND = 20.0  # Height of a line of the legend of a file
TITLES = 60.0  # Where the title of a file begins at most, pixels
OWN = """
svg { --ink: #1d2329; --muted: #626c77; --line: #dde1e5; background: #ffffff;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
.name { fill: var(--ink); font-weight: 600; }
"""
"""What a page has besides the style sheet of charts."""


def answer_page(sheet: Sheet, answer: CapacityAnswer) -> str:
    """Return one self-contained page; same input, same text."""
    # tiles have a large number, what it is, and small print: the answer first, then the ranges of something else
    figure = answer.figure
    tiles = [] if figure is None else [(figure.value, figure.words, figure.sure)]
    others = answer.ranges[1:] if figure is not None and figure.ranged else answer.ranges
    tiles += [(span.value(span.p50), span.quantity, span.sentence) for span in others]

    def columns_of_words(table: TextTable) -> list[str]:
        """Return the headers of columns without a digit, which are aligned left."""
        columns = {header: "".join(row[i] for row in table.rows) for i, header in enumerate(table.headers)}
        return [header for header, cells in columns.items() if not any(map(str.isdigit, cells))]

    return render(
        "arnold.pages",
        "capacity.html.j2",
        styles=("pages.css", "charts.css", "capacity.css"),
        title=answer.question,
        answer=answer,
        tiles=tiles,
        charts=[*map(card_of, sheet.charts), *map(tornado_card, answer.headline)],
        tables=(*sheet.tables, *(span.table() for span in answer.headline)),
        words=columns_of_words,
        data={},
    )


def picture(chart: Chart) -> str:
    """Return a chart as an SVG file with its title, legend and colours.  Same input, same bytes."""
    plot = plot_of(chart)
    return _file(chart.title, keys_of(chart), plot, chart_parts(chart, plot))


def tornado_picture(span: AnswerRange) -> str:
    """Return the tornado of an answer as an SVG file.  Same input, same bytes."""
    plot = tornado_plot(span)
    return _file(TITLE, [("", f"{span.quantity}: {span.words}")], plot, tornado_parts(span, plot))


def _file(title: str, keys: Sequence[tuple[str, str]], plot: Plot, drawn: Iterable[str]) -> str:
    """Return a drawing with its title, legend and colours.

    :param keys: class of the colour and name of each line of the legend; without a class words alone.
    """
    head = 30.0 + LEGEND * ((len(keys) + 1) // 2)
    left = min(plot.left, TITLES)
    parts = [
        f"<style>{OWN}{source('arnold.pages', 'charts.css')}</style>",
        label(left, 20, title, kind="name", size=15),
    ]
    for i, (tone, name) in enumerate(keys):
        x, y = left + plot.width / 2 * (i % 2), 40.0 + LEGEND * (i // 2)
        swatch = [line((x, y - 4), (x + 18, y - 4), f"line {tone}")] if tone else []
        parts += [*swatch, label(x + (25 if tone else 0), y, name)]
    parts += [f'<g transform="translate(0 {head:g})">', *drawn, "</g>"]
    return svg("chart", plot.width, plot.height + head, parts, title=title, xmlns="http://www.w3.org/2000/svg") + "\n"
