"""A chart as one ``<svg>``: for a page, whose style sheet colours it, or as a file that brings its own colours."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from arnold.pages.capacity.axes import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axes, axes_of, round_ticks
from simulator.capacity.sheet import Chart, Series
from topology.drawing.svg import number
from topology.drawing.templates import asset

COLOURS = 6
"""Colours of series; a seventh has the first again."""

LEGEND = 20.0
"""Height of a line of the legend of a picture."""

OWN = """
svg { --ink: #1d2329; --muted: #626c77; --line: #dde1e5; --card: #ffffff; --accent: #1f6fb2; --slower: #d2700f;
  --good: #1a7f4e; --bad: #9b1c3d; --faint: #8b949e; --violet: #7150a8; background: var(--card);
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
"""


def chart_svg(chart: Chart) -> str:
    """The chart for a page; points carry ``data-tip``."""
    return _svg(chart, style="", head=0.0, body=list(_body(chart)))


def picture(chart: Chart) -> str:
    """The chart as an SVG file with its title, legend and colours.  Same input, same bytes."""
    head = 30.0 + LEGEND * ((len(chart.series) + 1) // 2 if len(chart.series) > 1 else 0)
    body = [
        f'<text class="name" x="{number(LEFT)}" y="20" font-size="15">{escape(chart.title)}</text>',
        *(_legend(chart) if len(chart.series) > 1 else ()),
        f'<g transform="translate(0 {number(head)})">',
        *_body(chart),
        "</g>",
    ]
    style = f"<style>{OWN}{asset('arnold.pages.capacity', 'chart.css')}</style>"
    return _svg(chart, style=style, head=head, body=body) + "\n"


def _svg(chart: Chart, *, style: str, head: float, body: list[str]) -> str:
    height = number(HEIGHT + head)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {number(WIDTH)} {height}" '
            f'width="{number(WIDTH)}" height="{height}" role="img" aria-label="{escape(chart.title)}">',
            *([style] if style else []),
            *body,
            "</svg>",
        ]
    )


def _legend(chart: Chart) -> Iterator[str]:
    for i, series in enumerate(chart.series):
        x, y = LEFT + 330.0 * (i % 2), 40.0 + LEGEND * (i // 2)
        yield f'<rect class="c{i % COLOURS}" x="{number(x)}" y="{number(y - 9)}" width="18" height="9" rx="2"/>'
        yield f'<text class="note" x="{number(x + 25)}" y="{number(y)}" font-size="12">{escape(series.name)}</text>'


def _body(chart: Chart) -> Iterator[str]:
    axes = axes_of(chart)
    yield from _grid(chart, axes)
    for place, word in chart.lines:
        x = number(axes.place_x(place))
        yield f'<line class="mark" x1="{x}" y1="{number(TOP)}" x2="{x}" y2="{number(HEIGHT - BOTTOM)}"/>'
        yield _text(axes.place_x(place), TOP - 4, word, anchor="middle")
    for i, series in enumerate(chart.series):
        yield from _series(chart, axes, series, f"s{i % COLOURS}")


def _grid(chart: Chart, axes: Axes) -> Iterator[str]:
    for tick in round_ticks(*axes.y):
        y = axes.place_y(tick)
        yield f'<line class="rule" x1="{number(LEFT)}" y1="{number(y)}" x2="{number(WIDTH - RIGHT)}" y2="{number(y)}"/>'
        yield _text(LEFT - 7, y + 4, spell(tick, percent=chart.percent), anchor="end")
    for place, word in chart.ticks or [(tick, spell(tick)) for tick in round_ticks(*axes.x, most=10)]:
        yield _text(axes.place_x(place), HEIGHT - BOTTOM + 18, word, anchor="middle")
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, chart.x_label, anchor="middle")
    middle = number((TOP + HEIGHT - BOTTOM) / 2)
    yield (
        f'<text class="note" x="13" y="{middle}" font-size="12.5" text-anchor="middle" '
        f'transform="rotate(-90 13 {middle})">{escape(chart.y_label)}</text>'
    )


def _series(chart: Chart, axes: Axes, series: Series, colour: str) -> Iterator[str]:
    run: list[tuple[float, float]] = []
    for x, y in [*series.points, (0.0, None)]:
        if y is not None:
            run.append((axes.place_x(x), axes.place_y(y)))
        elif run:
            if series.shape != "dots":
                yield f'<path class="{colour} {series.shape}" d="{_path(run, step=series.shape == "step")}"/>'
            run = []
    if series.shape in ("step", "dashes"):
        return
    errors = series.errors or [0.0] * len(series.points)
    for (x, y), error in zip(series.points, errors, strict=True):
        if y is None:
            continue
        left, low, high = number(axes.place_x(x)), axes.place_y(y - error), axes.place_y(y + error)
        if error:
            yield f'<line class="{colour}" x1="{left}" y1="{number(low)}" x2="{left}" y2="{number(high)}"/>'
        tip = f"{series.name}\n{_word(chart, x)}: {spell(y, percent=chart.percent)}"
        tip += f" ± {spell(error, percent=chart.percent)}" if error else ""
        yield f'<circle class="{colour}" cx="{left}" cy="{number(axes.place_y(y))}" r="3.6" data-tip="{escape(tip)}"/>'


def _path(points: list[tuple[float, float]], *, step: bool) -> str:
    parts = [f"M{number(points[0][0])} {number(points[0][1])}"]
    for x, y in points[1:]:
        parts.append(f"H{number(x)}V{number(y)}" if step else f"L{number(x)} {number(y)}")
    return "".join(parts)


def _text(x: float, y: float, words: str, *, anchor: str) -> str:
    place = f'x="{number(x)}" y="{number(y)}"'
    return f'<text class="note" {place} font-size="12.5" text-anchor="{anchor}">{escape(words)}</text>'


def _word(chart: Chart, x: float) -> str:
    """A place on the x axis in words."""
    return next((word for place, word in chart.ticks if place == x), f"{chart.x_label} {spell(x)}")


def spell(value: float, *, percent: bool = False) -> str:
    """A value of an axis as people read it."""
    if percent:
        return f"{100 * value:.4g} %"
    return f"{value:,.0f}" if abs(value) >= 1_000 and value == int(value) else f"{value:.4g}"
