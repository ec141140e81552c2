"""The page of a study: every group's means with their intervals, over the load and over time."""

from __future__ import annotations

from collections.abc import Sequence

from arnold.pages.replay.comparison import MOST_DRAWN, comparison_parts
from simulator.study.compared import METRICS, Comparison, Group
from simulator.words import Kind, label_of
from topology.drawing.labels import plural
from topology.drawing.templates import asset, render

OWN = "arnold.pages.replay"
SHARED = "arnold.pages"


def study_page(compared: Comparison, *, notes: Sequence[str] = ()) -> str:
    """One self-contained page; same input, same text."""
    parts, data = comparison_parts(compared)
    shown = compared.differing
    runs = sum(group.seeds + group.diverged for group in compared.groups)
    left_out = compared.names[MOST_DRAWN:]
    said = [*notes]
    if same := ", ".join(f"{metric.title} {label_of(value, metric.kind)}" for metric, value in compared.same):
        said.append(f"The same in all runs: {same}.")
    if left_out:
        said.append(f"Drawn are the first {MOST_DRAWN}; the table has all. Not drawn: {', '.join(left_out)}.")
    return render(
        OWN,
        "study.html.j2",
        raw={
            "style": asset(SHARED, "pages.css") + asset(OWN, "replay.css"),
            "behaviour": asset(OWN, "charts.js"),
        },
        title=compared.title,
        headline=f"{plural(len(compared.names), 'way')} to schedule one trace",
        lead=f"{plural(runs, 'run')}: {plural(len(compared.groups), 'group')} of runs that differ in the seed alone.",
        parts=parts,
        columns=[metric.title for metric in shown],
        loads=len(compared.loads) > 1,
        rows=[_row(group, [metric.column for metric in shown]) for group in compared.groups],
        notes=said,
        data={
            "names": [], "places": [], "place": [], "gpus": [], "free": [], "flags": {},
            "length": compared.windows[compared.loads[-1]],
            "edges": [0.0, 1.0],
            "charts": data,
        },
    )  # fmt: skip


def _row(group: Group, columns: Sequence[str]) -> tuple[str, str, str, list[tuple[str, str, str]]]:
    """Name, load, runs, and mean, half width and difference from the first group of each column."""
    kinds = {metric.column: metric.kind for metric in METRICS}
    cells = []
    for column in columns:
        band = group.bands.get(column)
        if band is None:
            cells.append(("-", "", ""))
            continue
        other = group.against.get(column)
        difference = f"{_signed(other.mean, kinds[column])} ± {label_of(other.half, kinds[column])}" if other else ""
        half = f"± {label_of(band.half, kinds[column])}" if band.half else ""
        cells.append((label_of(band.mean, kinds[column]), half, difference))
    runs = str(group.seeds) + (f" (+{group.diverged} diverged)" if group.diverged else "")
    return group.name, f"{group.load:g}x", runs, cells


def _signed(value: float, kind: Kind) -> str:
    return ("+" if value > 0 else "") + label_of(value, kind)
