"""The page of an answer, one file that fetches nothing; and its charts as files that bring their own colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from arnold.pages.capacity.tornado import TITLE, tornado_card, tornado_parts, tornado_plot
from arnold.pages.line_chart import card_of, chart_parts, keys_of, plot_of
from arnold.pages.plot import Plot
from simulator.capacity.question import AnswerRange, CapacityAnswer
from simulator.sheet import Chart, Sheet, TextTable
from topology.drawing.page_kit import label, line, render, source, svg

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
    return render(
        "arnold.pages.capacity",
        "capacity.html.j2",
        styles=("pages.css", "charts.css", "capacity.css"),
        title=answer.question,
        answer=answer,
        tiles=_tiles(answer),
        charts=[*map(card_of, sheet.charts), *map(tornado_card, answer.headline)],
        tables=(*sheet.tables, *(one.table() for one in answer.headline)),
        words=_columns_of_words,
        data={},
    )


def _tiles(answer: CapacityAnswer) -> list[tuple[str, str, str]]:
    """Return large number, what it is, small print: the answer first, then the ranges that are of something else."""
    figure = answer.figure
    first = [] if figure is None else [(figure.value, figure.words, figure.sure)]
    others = answer.ranges[1:] if figure is not None and figure.ranged else answer.ranges
    return first + [(found.value(found.p50), found.quantity, found.sentence) for found in others]


def _columns_of_words(table: TextTable) -> list[str]:
    """Return the headers of columns without a digit, which are aligned left."""
    columns = zip(table.headers, zip(*table.rows, strict=True), strict=True)
    return [header for header, cells in columns if not any(map(str.isdigit, "".join(cells)))]


def picture(chart: Chart) -> str:
    """Return a chart as an SVG file with its title, legend and colours.  Same input, same bytes."""
    plot = plot_of(chart)
    return _file(chart.title, keys_of(chart), plot, chart_parts(chart, plot))


def tornado_picture(found: AnswerRange) -> str:
    """Return the tornado of an answer as an SVG file.  Same input, same bytes."""
    plot = tornado_plot(found)
    return _file(TITLE, [("", f"{found.quantity}: {found.words}")], plot, tornado_parts(found, plot))


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
    address = "http://www.w3.org/2000/svg"
    return svg("chart", plot.width, plot.height + head, parts, title=title, xmlns=address) + "\n"
