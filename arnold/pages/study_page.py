"""What a study found, as drawings and as a page: means with their intervals, and queues over time with bands."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from arnold.pages.charts import ChartCard, ChartRow, card_of, data_of, row_chart
from ground.quantities import Kind, label_of, plural
from simulator.confidence import Band
from simulator.sheet import Chart, Series
from simulator.study import ComparedMetric, Comparison, RunGroup
from topology.drawing.page_kit import render

MOST_DRAWN = 8  # Groups that are drawn: as many as there are colours


def study_page(compared: Comparison, *, notes: Sequence[str] = ()) -> str:
    """Return one self-contained page; same input, same text."""
    charts, data = comparison_cards(compared)
    shown = compared.differing
    runs = sum(group.runs + group.diverged for group in compared.groups)
    left_out = compared.names[MOST_DRAWN:]
    said = [*notes]
    if same := ", ".join(f"{metric.title} {label_of(value, metric.kind)}" for metric, value in compared.same):
        said.append(f"The same in all runs: {same}.")
    if left_out:
        said.append(f"Drawn are the first {MOST_DRAWN}; the table has all. Not drawn: {', '.join(left_out)}.")
    groups = plural(len(compared.groups), "group")
    of_groups = f": {groups} of runs that differ in the seed alone" if runs > len(compared.groups) else ""
    return render(
        "arnold.pages",
        "study.html.j2",
        styles=("pages.css", "charts.css", "replay.css"),
        scripts=("charts.js",),
        title=compared.title,
        headline=f"{plural(len(compared.names), 'way')} to schedule one trace",
        lead=f"{plural(runs, 'run')}{of_groups}.",
        charts=charts,
        columns=[metric.title for metric in shown],
        alone=all(group.runs < 2 for group in compared.groups),
        loads=len(compared.loads) > 1,
        rows=[_cells(group, shown) for group in compared.groups],
        sentences=said,
        data={"length": compared.windows[compared.loads[-1]], "edges": [0.0, 1.0], "charts": data},
    )


def comparison_cards(compared: Comparison) -> tuple[list[ChartCard], dict[str, Any]]:
    """Return the drawings, and what the script of the page knows of them, by chart."""
    colours = {name: i for i, name in enumerate(compared.names[:MOST_DRAWN])}
    cards = [card for metric in compared.differing if (card := _metric(compared, metric, colours)) is not None]
    charts = list(_over_time(compared, colours))
    data = {chart.key: data_of(chart) | {"edges": [x for x, _ in chart.series[0].points]} for chart in charts}
    return [*cards, *map(card_of, charts)], data


def _metric(compared: Comparison, metric: ComparedMetric, colours: Mapping[str, int]) -> ChartCard | None:
    drawn = [group for group in compared.groups if group.name in colours]
    bands = [(group, band) for group in drawn if (band := group.metrics.get(metric.column))]
    if not bands:
        return None
    note = f"{'Less' if metric.better == 'less' else 'More'} is better."
    if any(group.runs > 1 for group, _ in bands):
        note += " Mean over seeds and its 95% interval."
    if len(compared.loads) == 1:
        rows = [
            ChartRow(
                group.name,
                f"l{colours[group.name]}",
                band.mean,
                band.ends,
                f"{group.name}\n{band.label(metric.kind)}\n{plural(group.runs, 'run')}",
            )
            for group, band in bands
        ]
        return ChartCard(metric.title, note, row_chart(rows, name="range", title=metric.title, kind=metric.kind))
    lines = []
    for name, colour in colours.items():
        if points := [(group.load, band) for group, band in bands if group.name == name]:
            low, high = [max(band.ends[0], 0.0) for _, band in points], [band.ends[1] for _, band in points]
            tips = [f"{name}, load {load:g}\n{band.label(metric.kind)}" for load, band in points]
            means = [(load, band.mean) for load, band in points]
            lines.append(Series(name, means, colour=colour, band=(low, high), tips=tips))
    ticks, note = [(load, f"{load:g}x") for load in compared.loads], f"By scale of load. {note}"
    return card_of(Chart(metric.title, "", "", lines, floor=0.0, kind=metric.kind, note=note, ticks=ticks))


def _over_time(compared: Comparison, colours: Mapping[str, int]) -> Iterator[Chart]:
    load = compared.loads[-1]
    groups = [group for group in compared.groups if group.load == load and group.name in colours]
    words = f" At load {load:g}." if len(compared.loads) > 1 else ""
    if any(group.runs > 1 for group in groups):
        words += " Bands: 95% over seeds."
    kinds: tuple[tuple[str, str, str, Kind], ...] = (
        ("waiting", "Queue over time", "Jobs that wait, from the first to the last submission.", "count"),
        ("allocation", "Utilization over time", "Share of GPUs that jobs hold, in the same time.", "share"),
    )
    for name, title, note, kind in kinds:
        lines = []
        for group in groups:
            if (bands := getattr(group, name)) is None:
                continue
            edges = np.linspace(0.0, compared.windows[load], len(bands.mean) + 1).tolist()
            ends = (bands.low.tolist(), bands.high.tolist())
            colour = colours[group.name]
            points = [*zip(edges, [*bands.mean.tolist(), None], strict=True)]
            lines.append(Series(group.name, points, "step", band=ends, colour=colour))
        if lines:
            yield Chart(title, "", "", lines, floor=0.0, kind=kind, key=f"c-{name}", note=f"{note}{words}")


def _cells(group: RunGroup, columns: Sequence[ComparedMetric]) -> tuple[str, str, str, list[tuple[str, str, str]]]:
    """Return name, load, runs, and mean, half width and difference from the first group of each column."""
    cells = []
    for metric in columns:
        band, other = group.metrics.get(metric.column), group.against.get(metric.column)
        if band is None:
            cells.append(("-", "", ""))
            continue
        mean, _, half = band.label(metric.kind).partition(" ± ")
        difference = _difference(other, metric.kind) if other else ""
        cells.append((mean, f"± {half}" if half else "", difference))
    runs = str(group.runs) + (f" (+{group.diverged} diverged)" if group.diverged else "")
    return group.name, f"{group.load:g}x", runs, cells


def _difference(band: Band, kind: Kind) -> str:
    """Return a difference with its sign; of a single run nothing is known of chance, so it has no interval."""
    mean, half = (round(value, 2) if kind == "count" else value for value in (band.mean, band.half or 0.0))
    sign = "+" if mean > 0 else ""
    return f"{sign}{label_of(mean, kind)}" + ("" if band.half is None else f" ± {label_of(half, kind)}")
