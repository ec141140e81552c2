"""A row for each of several things on one level axis: its mean as a dot, and the range around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from arnold.pages.axis import axis_range, log_range, log_ticks, round_ticks
from arnold.pages.plot import WIDTH, Plot
from ground.quantities import Kind
from topology.drawing.layout import fit
from topology.drawing.page_kit import circle, label, line, rect, svg

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


def row_chart(rows: Sequence[ChartRow], *, name: str, title: str, kind: Kind, log_from: float | None = None) -> str:
    """Return the chart as one ``<svg>``, ``name`` its class in the style sheet.

    :param log_from: where a logarithmic axis begins; ``None`` = the axis begins at 0, so that lengths can be compared.
    """
    most = [max(row.mean, row.stem[1]) for row in rows]
    ends = axis_range(most, kind, most=4) if log_from is None else log_range(most, kind, least=log_from)
    height = ROW * len(rows) + 30
    plot = Plot(WIDTH, height, MARGINS, ends, logarithmic=(log_from is not None, False))
    ticks = round_ticks(*ends, most=4, kind=kind) if log_from is None else log_ticks(plot.x, kind=kind)
    drawn = (part for i, row in enumerate(rows) for part in _row(row, plot, plot.top + ROW * i))
    return svg(f"chart {name}", WIDTH, height, [*plot.x_axis(ticks), *drawn], title=title)


def _row(row: ChartRow, plot: Plot, top: float) -> Iterator[str]:
    x, y = plot.x, top + BAR
    yield label(plot.left, top + NAME, fit(row.name, 12.0, plot.right - plot.left))
    yield line((x(row.stem[0]), y), (x(row.stem[1]), y), f"stem {row.tone}")
    if row.bar is not None:
        left, right = x(row.bar[0]) - 1, x(row.bar[1]) + 1
        yield rect(left, y - 8, right - left, 16, f"span {row.tone}", rx=3)
    yield circle(x(row.mean), y, 4.5, f"spot {row.tone}")
    yield rect(0, top, WIDTH, ROW, "hit", tip=row.tip)
