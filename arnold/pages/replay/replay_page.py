"""The page of a replay: the cluster over time, what was used, how long jobs waited, what spread and failures cost."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arnold.exports.frames import frames
from arnold.pages.line_chart import ChartCard, card_of
from arnold.pages.replay.comparison import comparison_cards
from arnold.pages.replay.job_tables import chosen_jobs, job_data, spread_rows, wait_chart
from arnold.pages.replay.panels import panels
from simulator.results.run_history import RunHistory
from simulator.results.run_summary import NAMES, RunSummary, size_class
from simulator.results.time_series import time_series
from simulator.study.compared import Comparison
from topology.cluster import Cluster
from topology.drawing.cluster_page import domain_tip, node_data, svg_drawing
from topology.drawing.layout import Layout, inventory, layout
from topology.drawing.palette import ramp
from topology.drawing.templates import render
from topology.quantities import duration, number, percent, plural

MOST_NAMED = 20_000  # Jobs of the map of which the page knows more than their size: the largest
BUCKETS = 300  # Most buckets of a chart
BY_SIZE = (
    "Bar: from the median to the 95th percentile; circle: mean; line: to the longest. Waits below a second stand at a "
    "second."
)


@dataclass(frozen=True, slots=True)
class Told:
    """What the page says besides what it draws."""

    title: str  # name of the trace
    policy: str  # of the queue
    algorithm: str  # of placement
    dropped: Mapping[str, int] = field(default_factory=dict)  # jobs that took no part, by reason
    notes: Sequence[str] = ()  # what else is worth knowing
    fragmentation: float | None = None  # over the whole run


def simulation_page(past: RunHistory, summary: RunSummary, told: Told, *, compared: Comparison | None = None) -> str:
    """Return one self-contained page; same input, same text.

    :param compared: other runs, of a study, to stand beside this one.
    """
    cluster = past.cluster
    over_time = time_series(past, most=BUCKETS)
    charts, missing = panels(over_time, placed=cluster is not None)
    plan = layout(cluster) if cluster is not None else None
    drawing, seen = "", 0
    nodes: dict[str, Any] = {}
    map_data: dict[str, Any] = {}
    if cluster is not None and plan is not None and len(plan.nodes):
        drawing, nodes = _drawing(cluster, plan), node_data(cluster, plan)
        seen, map_data = _map(past, plan)
    listed = chosen_jobs(past.jobs)
    waits = [one for one in summary.waits_by_size if one is not None]
    beside, compared_data = comparison_cards(compared) if compared is not None else ([], {})
    by_size = ChartCard("Wait by size of job", BY_SIZE, wait_chart(waits))
    return render(
        "arnold.pages.replay",
        "simulation.html.j2",
        raw={"cluster": drawing, "sizes_style": _colours()},
        styles=("pages.css", "charts.css", "replay.css"),
        scripts=("modes.js", "charts.js", "simulation.js"),
        charts=[*map(card_of, charts), by_size],
        compared=beside,
        title=told.title,
        headline=_headline(past, summary),
        lead=_lead(past, summary, told),
        told=told,
        tiles=_facts(past, summary, told),
        missing=missing,
        why_no_map=_why_no_map(past, plan),
        sizes=list(enumerate(NAMES)),
        map_frames=len(map_data.get("times", ())),
        seen=seen,
        wait_rows=waits,
        spread=spread_rows(past),
        listed=len(listed),
        jobs=len(past.jobs),
        bucket=duration(float(over_time.edges[1] - over_time.edges[0])),
        data={
            **nodes,
            "origin": past.origin,
            "length": past.length,
            "edges": [round(edge, 3) for edge in over_time.edges.tolist()],
            "charts": {chart.key: chart.data for chart in charts} | compared_data,
            "map": map_data,
            "jobs": _packed_json(job_data(listed, past.origin)),
        },
    )


def _drawing(cluster: Cluster, plan: Layout) -> str:
    return svg_drawing(
        plan,
        np.zeros(len(cluster), dtype=np.int32),
        ["idle"],
        title="The cluster over time",
        note=lambda shape: f"{len(shape.nodes):,}",
        tip=domain_tip(cluster),
    )


def _map(past: RunHistory, plan: Layout) -> tuple[int, dict[str, Any]]:
    """Return how many jobs are on the map, and what the script knows of it."""
    found = frames(past)
    gpus = np.array([past.jobs[key].record.gpus for key in found.jobs])
    kept = np.sort(np.argsort(-gpus, kind="stable")[:MOST_NAMED])
    jobs = [past.jobs[key] for key in found.jobs[kept].tolist()]
    owner, share = found.owner[:, plan.nodes], found.share[:, plan.nodes]
    # owners as differences from the frame before, int32 little-endian, then shares
    change = np.diff(owner, axis=0, prepend=np.zeros((1, owner.shape[1]), dtype=np.int32))
    data = {
        "times": [round(time, 1) for time in found.times.tolist()],
        # the page begins at the first instant at which most jobs are seen
        "start": int(np.argmax([len(np.unique(row)) for row in found.owner])),
        "cells": _packed(change.astype("<i4").tobytes() + share.tobytes()),
        "classes": _packed_json(size_class(gpus).tolist()),
        "named": _packed_json({"place": kept.tolist(), **job_data(jobs, past.origin)}),
    }
    return len(found.jobs), data


def _packed_json(value: Any) -> str:
    return _packed(json.dumps(value, allow_nan=False, separators=(",", ":")).encode())


def _packed(data: bytes) -> str:
    """Return much data in little text: deflated and in base64; ``unpack`` in simulation.js reads it."""
    return b64encode(zlib.compress(data, 9)).decode("ascii")


def _why_no_map(past: RunHistory, plan: Layout | None) -> str:
    if past.cluster is None:
        return "GPUs were only counted in this run (--algorithm none): there is no map."
    if plan is not None and not len(plan.nodes):
        return "The cluster has too many nodes to draw each of them: there is no map."
    return ""


def _colours() -> str:
    """Return colours of the classes of size."""
    sizes = ramp(len(NAMES))
    rules = [f".s{i} {{ --tone: {colour}; fill: {colour}; background: {colour}; }}" for i, colour in enumerate(sizes)]
    return "\n".join(rules) + "\n"


def _headline(past: RunHistory, summary: RunSummary) -> str:
    wait = summary.wait_seconds
    said = f"mean wait {duration(wait.mean)}" if wait is not None and wait.max else "none waited"
    return f"{plural(summary.jobs, 'job')} on {past.capacity:,.0f} GPUs: {percent(summary.utilization)} in use, {said}"


def _lead(past: RunHistory, summary: RunSummary, told: Told) -> list[str]:
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


def _facts(past: RunHistory, summary: RunSummary, told: Told) -> list[tuple[str, str, str]]:
    """Return tiles: large number, what it is, small print."""
    wait, jct = summary.wait_seconds, summary.jct_seconds
    facts = [
        (duration(summary.makespan_seconds), "makespan", "first submission to last end"),
        (percent(summary.utilization), "utilisation", f"of {past.capacity:,.0f} GPUs over the makespan"),
        (duration(wait.mean if wait else None), "mean wait", f"95% up to {duration(wait.p95 if wait else None)}"),
        (duration(jct.mean if jct else None), "mean completion", f"95% up to {duration(jct.p95 if jct else None)}"),
        (percent(summary.goodput), "goodput", "work that got done, of all GPUs"),
        (
            percent(summary.ettr),
            "ETTR",
            f"worst hour {percent(summary.ettr_worst_hour)}; work over time since first starts",
        ),
    ]
    if told.fragmentation is not None:
        facts.append((percent(told.fragmentation), "fragmentation", "of free GPUs, on nodes partly in use"))
    if summary.spread is not None:
        facts.append((number(summary.spread.dp), "mean DP spread", f"PP spread {number(summary.spread.pp)}; of gangs"))
    return facts
