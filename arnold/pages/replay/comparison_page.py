"""The page of a study: every group's means with their intervals, over the load and over time."""

from __future__ import annotations

from collections.abc import Sequence

from arnold.pages.replay.comparison import MOST_DRAWN, comparison_cards, in_words
from simulator.study.compared import ComparedMetric, Comparison, RunGroup
from topology.drawing.templates import render
from topology.quantities import label_of, plural


def study_page(compared: Comparison, *, notes: Sequence[str] = ()) -> str:
    """Return one self-contained page; same input, same text."""
    charts, data = comparison_cards(compared)
    shown = compared.differing
    runs = sum(group.seeds + group.diverged for group in compared.groups)
    left_out = compared.names[MOST_DRAWN:]
    said = [*notes]
    if same := ", ".join(f"{metric.title} {label_of(value, metric.kind)}" for metric, value in compared.same):
        said.append(f"The same in all runs: {same}.")
    if left_out:
        said.append(f"Drawn are the first {MOST_DRAWN}; the table has all. Not drawn: {', '.join(left_out)}.")
    return render(
        "arnold.pages.replay",
        "study.html.j2",
        styles=("pages.css", "charts.css", "replay.css"),
        scripts=("charts.js",),
        title=compared.title,
        headline=f"{plural(len(compared.names), 'way')} to schedule one trace",
        lead=f"{plural(runs, 'run')}: {plural(len(compared.groups), 'group')} of runs that differ in the seed alone.",
        charts=charts,
        columns=[metric.title for metric in shown],
        loads=len(compared.loads) > 1,
        rows=[_row(group, shown) for group in compared.groups],
        sentences=said,
        data={
            "length": compared.windows[compared.loads[-1]],
            "edges": [0.0, 1.0],
            "charts": data,
        },
    )


def _row(group: RunGroup, columns: Sequence[ComparedMetric]) -> tuple[str, str, str, list[tuple[str, str, str]]]:
    """Return name, load, runs, and mean, half width and difference from the first group of each column."""
    cells = []
    for metric in columns:
        band, other = group.bands.get(metric.column), group.against.get(metric.column)
        if band is None:
            cells.append(("-", "", ""))
            continue
        mean, _, half = in_words(band, metric.kind).partition(" ± ")
        sign = "+" if other and other.mean > 0 else ""
        difference = f"{sign}{label_of(other.mean, metric.kind)} ± {label_of(other.half, metric.kind)}" if other else ""
        cells.append((mean, f"± {half}" if half else "", difference))
    runs = str(group.seeds) + (f" (+{group.diverged} diverged)" if group.diverged else "")
    return group.name, f"{group.load:g}x", runs, cells
