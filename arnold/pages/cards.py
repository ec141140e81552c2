"""What templates of pages show of a chart (``cards`` in cards.html.j2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arnold.pages.line_chart import LineChart, line_chart


class ChartCard(NamedTuple):
    """A drawing with its words."""

    title: str
    note: str
    drawing: str  # markup
    keys: Sequence[tuple[str, str]] = ()  # class of the colour and name of what is drawn, where not written beside it


def card_of(chart: LineChart) -> ChartCard:
    """Return a drawn chart with its words."""
    return ChartCard(chart.title, chart.note, line_chart(chart), chart.keys)
