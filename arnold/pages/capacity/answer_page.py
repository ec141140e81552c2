"""The page of an answer: verdict, charts, tables, assumptions.  One file that fetches nothing."""

from __future__ import annotations

from arnold.pages.capacity.answer_chart import chart_of
from arnold.pages.line_chart import card_of
from simulator.capacity.capacity_question import CapacityAnswer
from simulator.capacity.sheet import Sheet
from topology.drawing.templates import render


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
