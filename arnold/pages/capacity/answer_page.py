"""The page of an answer, one file that fetches nothing; and its charts as files that bring their own colours."""

from __future__ import annotations

from math import nan

from arnold.pages.line_chart import ChartLine, LineChart, card_of, chart_parts, plot_of
from simulator.capacity.capacity_question import CapacityAnswer
from simulator.capacity.sheet import Chart, Series, Sheet
from topology.drawing.elements import label, line, svg
from topology.drawing.templates import render, source
from topology.quantities import Kind, label_of

LEGEND = 20.0  # Height of a line of the legend of a file
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
        title=sheet.title,
        verdict=answer.verdict,
        charts=[card_of(chart_of(chart)) for chart in sheet.charts],
        tables=sheet.tables,
        assumptions=list(answer.assumptions),
        data={},
    )


def chart_of(chart: Chart) -> LineChart:
    """Return a chart of an answer as it is drawn; points have their values as tooltips."""
    kind: Kind = "share" if chart.percent else "count"
    return LineChart(
        chart.title,
        [_line(chart, series, colour, kind) for colour, series in enumerate(chart.series)],
        kind,
        ticks=chart.ticks,
        floor=chart.floor,
        ceiling=chart.ceiling,
        labels=(chart.x_label, chart.y_label),
        marks=chart.lines,
    )


def picture(chart: Chart) -> str:
    """Return a chart as an SVG file with its title, legend and colours.  Same input, same bytes."""
    drawn = chart_of(chart)
    plot = plot_of(drawn)
    head = 30.0 + LEGEND * ((len(drawn.keys) + 1) // 2)
    parts = [
        f"<style>{OWN}{source('arnold.pages', 'charts.css')}</style>",
        label(plot.left, 20, chart.title, kind="name", size=15),
    ]
    for i, (tone, name) in enumerate(drawn.keys):
        x, y = plot.left + plot.width / 2 * (i % 2), 40.0 + LEGEND * (i // 2)
        parts += [line((x, y - 4), (x + 18, y - 4), f"line {tone}"), label(x + 25, y, name)]
    parts += [f'<g transform="translate(0 {head:g})">', *chart_parts(drawn, plot), "</g>"]
    address = "http://www.w3.org/2000/svg"
    return svg("chart", plot.width, plot.height + head, parts, title=chart.title, xmlns=address) + "\n"


def _line(chart: Chart, series: Series, colour: int, kind: Kind) -> ChartLine:
    errors = series.errors or [0.0] * len(series.points)
    tips = []
    for (x, y), error in zip(series.points, errors, strict=True):
        place = next((words for at, words in chart.ticks if at == x), f"{chart.x_label} {label_of(x, 'count')}")
        half = f" ± {label_of(error, kind)}" if error else ""
        tips.append(f"{series.name}\n{place}: {label_of(nan if y is None else y, kind)}{half}")
    return ChartLine(
        series.name,
        colour,
        [x for x, _ in series.points],
        [nan if y is None else y for _, y in series.points],
        shape=series.shape,
        errors=series.errors,
        tips=() if series.shape in ("step", "dashes") else tips,
    )
