"""The page of an answer: verdict, charts, tables, assumptions.  One file that fetches nothing."""

from __future__ import annotations

from arnold.pages.capacity.chart import COLOURS, chart_svg
from simulator.capacity.sheet import Sheet
from topology.drawing.templates import asset, render

OWN = "arnold.pages.capacity"
SHARED = "arnold.pages"
"""Where the style sheet that all pages share lies."""


def capacity_page(sheet: Sheet) -> str:
    """One self-contained page; same input, same text."""
    keys = [[(series.name, i % COLOURS) for i, series in enumerate(chart.series)] for chart in sheet.charts]
    return render(
        OWN,
        "capacity.html.j2",
        raw={"style": asset(SHARED, "pages.css") + asset(OWN, "chart.css") + asset(OWN, "capacity.css")},
        title=sheet.title,
        verdict=sheet.verdict,
        charts=list(zip(sheet.charts, keys, strict=True)),
        drawn=[chart_svg(chart) for chart in sheet.charts],
        tables=sheet.tables,
        assumptions=list(sheet.assumptions),
        data={},
    )
