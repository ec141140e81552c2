"""The page of a replay: the cluster over time, what was used and who waited, what spread and failures cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arnold.exports.frames import Frames, frames
from arnold.pages.replay.chart import time_chart
from arnold.pages.replay.comparison import comparison_parts
from arnold.pages.replay.job_list import chosen_jobs, job_data
from arnold.pages.replay.packing import packed_frames, packed_json
from arnold.pages.replay.panels import panels
from arnold.pages.replay.spread_table import spread_rows
from arnold.pages.replay.waits import wait_chart, wait_rows
from simulator.metrics.summary import Summary
from simulator.past.buckets import round_step
from simulator.past.history import History
from simulator.past.series import series
from simulator.past.size_class import NAMES, size_class
from simulator.past.work import worst_ettr
from simulator.study.compared import Comparison
from simulator.words import duration, percent, plain
from topology.drawing.labels import inventory, plural
from topology.drawing.layout import Layout, layout
from topology.drawing.page import domain_tip, node_data
from topology.drawing.palette import ramp
from topology.drawing.svg import svg_drawing
from topology.drawing.templates import asset, render

OWN = "arnold.pages.replay"
SHARED = "arnold.pages"
"""Where the style sheet that all pages share lies."""

MOST_NAMED = 20_000
"""Jobs of the map of which the page knows more than their size: the largest."""

BUCKETS = 300
"""Most buckets of a chart."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the page says besides what it draws.

    :param title: name of the trace.
    :param policy: of the queue.
    :param algorithm: of placement.
    :param dropped: jobs that took no part, by reason.
    :param notes: what else is worth knowing.
    :param fragmentation: over the whole run.
    """

    title: str
    policy: str
    algorithm: str
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    fragmentation: float | None = None


def simulation_page(past: History, summary: Summary, told: Told, *, compared: Comparison | None = None) -> str:
    """One self-contained page; same input, same text.

    :param compared: other runs, of a study, to stand beside this one.
    """
    over_time = series(past, step=round_step(past.length, BUCKETS))
    charts, missing = panels(over_time, placed=past.cluster is not None)
    plan = layout(past.cluster) if past.cluster is not None else None
    map_data, seen = _map(past, plan) if plan is not None and len(plan.nodes) else ({}, 0)
    listed = chosen_jobs(past.jobs)
    waits = wait_rows(past.jobs)
    parts, compared_data = comparison_parts(compared) if compared is not None else ([], {})
    raw = {
        "cluster": _drawing(past, plan) if map_data and plan is not None else "",
        "waits": wait_chart(waits),
        "style": asset(SHARED, "pages.css") + asset(OWN, "replay.css") + _colours(),
        "behaviour": asset(OWN, "charts.js") + asset(OWN, "simulation.js"),
    }
    return render(
        OWN,
        "simulation.html.j2",
        raw=raw,
        drawn=[time_chart(chart) for chart in charts],
        parts=parts,
        title=told.title,
        headline=_headline(past, summary),
        lead=_lead(past, summary, told),
        told=told,
        facts=_facts(past, summary, told),
        charts=charts,
        missing=missing,
        why_no_map=_why_no_map(past, plan),
        sizes=list(enumerate(NAMES)),
        map_frames=len(map_data.get("times", ())),
        seen=seen,
        wait_rows=[(row.name, (f"{row.jobs:,}", percent(row.waited), *_of(row.wait))) for row in waits],
        spread=[
            (row.dp, f"{row.gangs:,}", f"{row.gpu_hours:,.0f}", percent(row.lost), row.length)
            for row in spread_rows(past)
        ],
        listed=len(listed),
        jobs=len(past.jobs),
        bucket=duration(float(over_time.edges[1] - over_time.edges[0])),
        data={
            "names": [], "places": [], "place": [], "gpus": [], "free": [], "flags": {},
            **(node_data(past.cluster, plan) if past.cluster is not None and plan is not None and map_data else {}),
            "origin": past.origin,
            "length": past.length,
            "edges": [round(edge, 3) for edge in over_time.edges.tolist()],
            "charts": {chart.key: chart.data for chart in charts} | compared_data,
            "map": map_data,
            "jobs": packed_json(job_data(listed, past.origin)),
        },
    )  # fmt: skip


def _drawing(past: History, plan: Layout) -> str:
    cluster = past.cluster
    assert cluster is not None
    return svg_drawing(
        plan,
        np.zeros(len(cluster), dtype=np.int32),
        ["idle"],
        title="The cluster over time",
        note=lambda shape: f"{len(shape.nodes):,}",
        tip=domain_tip(cluster),
    )


def _map(past: History, plan: Layout) -> tuple[dict[str, Any], int]:
    """What the script knows of the map, and how many jobs are on it."""
    found = frames(past)
    kept = _named(past, found)
    gpus = np.array([past.jobs[key].record.gpus for key in found.jobs])
    jobs = [past.jobs[key] for key in found.jobs[kept].tolist()]
    data = {
        "times": [round(time, 1) for time in found.times.tolist()],
        "start": liveliest(found),
        "cells": packed_frames(found.owner[:, plan.nodes], found.share[:, plan.nodes]),
        "classes": packed_json(size_class(gpus).tolist()),
        "named": packed_json({"place": np.flatnonzero(kept).tolist(), **job_data(jobs, past.origin)}),
    }
    return data, len(found.jobs)


def liveliest(found: Frames) -> int:
    """The first instant at which most jobs are seen: there the page begins."""
    return int(np.argmax([len(np.unique(row)) for row in found.owner]))


def _named(past: History, found: Frames) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Bool [jobs of the map]: the largest of them, by GPUs."""
    gpus = np.array([past.jobs[key].record.gpus for key in found.jobs])
    kept = np.zeros(len(gpus), dtype=np.bool_)
    kept[np.argsort(-gpus, kind="stable")[:MOST_NAMED]] = True
    return kept


def _why_no_map(past: History, plan: Layout | None) -> str:
    if past.cluster is None:
        return "GPUs were only counted in this run (--algorithm none): there is no map."
    if plan is not None and not len(plan.nodes):
        return "The cluster has too many nodes to draw each of them: there is no map."
    return ""


def _colours() -> str:
    """Colours of the classes of size."""
    sizes = ramp(len(NAMES))
    rules = [f".s{i} {{ fill: {colour}; background: {colour}; }}" for i, colour in enumerate(sizes)]
    return "\n".join(rules) + "\n"


def _headline(past: History, summary: Summary) -> str:
    wait = "none waited" if summary.wait is None or not summary.wait.max else f"mean wait {duration(summary.wait.mean)}"
    return f"{plural(summary.jobs, 'job')} on {past.capacity:,.0f} GPUs: {percent(summary.utilization)} in use, {wait}"


def _lead(past: History, summary: Summary, told: Told) -> list[str]:
    where = (
        "GPUs are only counted" if past.cluster is None else f"{inventory(past.cluster)}; placed by {told.algorithm}"
    )
    left = summary.jobs - summary.completed
    lines = [f"{where}. Queue policy {told.policy}."]
    if left:
        lines.append(f"{plural(left, 'job')} never found room.")
    if told.dropped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in told.dropped.items())
        lines.append(f"Left out: {reasons}.")
    return lines


def _facts(past: History, summary: Summary, told: Told) -> list[tuple[str, str, str]]:
    """Large number, what it is, small print."""
    wait, jct = summary.wait, summary.jct
    facts = [
        (duration(summary.makespan), "makespan", "first submission to last end"),
        (percent(summary.utilization), "utilisation", f"of {past.capacity:,.0f} GPUs over the makespan"),
        (duration(wait.mean if wait else None), "mean wait", f"95 % up to {duration(wait.p95 if wait else None)}"),
        (duration(jct.mean if jct else None), "mean completion", f"95 % up to {duration(jct.p95 if jct else None)}"),
        (percent(summary.goodput), "goodput", "work that got done, of all GPUs"),
        (percent(summary.ettr), "ETTR", f"worst hour {percent(worst_ettr(past))}; work over time since first starts"),
    ]
    if told.fragmentation is not None:
        facts.append((percent(told.fragmentation), "fragmentation", "of free GPUs, on nodes partly in use"))
    if summary.spread is not None:
        dp, pp = summary.spread
        facts.append((plain(dp), "mean DP spread", f"PP spread {plain(pp)}; of gangs"))
    return facts


def _of(found: Any) -> tuple[str, ...]:
    return tuple(duration(value) for value in (found.mean, found.p50, found.p95, found.p99, found.max))
