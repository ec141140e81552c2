"""What a study found, as drawings: means with their intervals, and queues over time with bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from arnold.pages.replay.chart import Line, TimeChart, time_chart
from arnold.pages.replay.ranges import Curve, Entry, load_chart, range_chart
from simulator.study.compared import Bands, Comparison, Group, Metric
from simulator.words import Kind

MOST_DRAWN = 8
"""Groups that are drawn: as many as there are colours."""


class Part(NamedTuple):
    """A drawing with its words.

    :param keys: colour and name of what is drawn, where that is not written beside it.
    """

    title: str
    note: str
    drawing: str
    keys: Sequence[tuple[int, str]]


def comparison_parts(compared: Comparison) -> tuple[list[Part], dict[str, Any]]:
    """The drawings, and what the script of the page knows of them, by chart."""
    colours = {name: i for i, name in enumerate(compared.names[:MOST_DRAWN])}
    parts = [part for metric in compared.differing if (part := _metric(compared, metric, colours)) is not None]
    charts = list(_over_time(compared, colours))
    keys = [(colour, name) for name, colour in colours.items()]
    parts += [Part(chart.title, chart.note, time_chart(chart), keys) for chart in charts]
    data = {chart.key: chart.data | {"edges": chart.edges.tolist()} for chart in charts}
    return parts, data


def _metric(compared: Comparison, metric: Metric, colours: dict[str, int]) -> Part | None:
    groups = [group for group in compared.groups if group.name in colours and group.bands.get(metric.column)]
    if not groups:
        return None
    note = f"{'Less' if metric.better == 'less' else 'More'} is better. Mean over seeds and its 95 % interval."
    if len(compared.loads) == 1:
        entries = [Entry(group.name, colours[group.name], _band(group, metric), group.seeds) for group in groups]
        return Part(metric.title, note, range_chart(metric.title, metric.kind, entries), ())
    curves = [
        Curve(name, colour, [(group.load, _band(group, metric)) for group in groups if group.name == name])
        for name, colour in colours.items()
        if any(group.name == name for group in groups)
    ]
    keys = [(curve.colour, curve.name) for curve in curves]
    drawing = load_chart(metric.title, metric.kind, curves)
    return Part(metric.title, f"By scale of load. {note}", drawing, keys)


def _band(group: Group, metric: Metric) -> Any:
    return group.bands[metric.column]


def _over_time(compared: Comparison, colours: dict[str, int]) -> Iterator[TimeChart]:
    load = compared.loads[-1]
    groups = [group for group in compared.groups if group.load == load and group.name in colours]
    said = f" At load {load:g}." if len(compared.loads) > 1 else ""
    kinds: tuple[tuple[str, str, str, Kind], ...] = (
        ("waiting", "Queue over time", "Jobs that wait, from the first to the last submission.", "count"),
        ("allocation", "Utilisation over time", "Share of GPUs that jobs hold, in the same time.", "share"),
    )
    for name, title, note, kind in kinds:
        found: list[tuple[Group, Bands]] = [(g, bands) for g in groups if (bands := getattr(g, name)) is not None]
        if not found:
            continue
        buckets = len(found[0][1].mean)
        lines = tuple(
            Line(group.name, colours[group.name], bands.mean, low=bands.low, high=bands.high) for group, bands in found
        )
        edges = np.linspace(0.0, compared.windows[load], buckets + 1)
        yield TimeChart(f"c-{name}", title, note + said + " Bands: 95 % over seeds.", kind, edges, lines)
