"""The page of a replay: the cluster over time, what was used, how long jobs waited, what spread and failures cost."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from arnold.pages.charts import ChartCard, ChartRow, card_of, data_of, row_chart
from arnold.pages.study_page import comparison_cards
from ground.quantities import HOUR, Kind, duration, number, percent, plural
from simulator.history import ENDED, RunHistory
from simulator.results import NAMES, RunSummary, SizeWaits, TimeSeries, size_class
from simulator.sheet import Chart, Series, TextTable
from simulator.sim_job import SimJob
from simulator.study import Comparison
from topology.cluster import FloatArray, IntArray
from topology.drawing.layout import DETAIL, Layout, inventory, layout
from topology.drawing.page_kit import colour_ramp, render
from topology.drawing.renderers import node_data, svg_drawing

if TYPE_CHECKING:
    from simulator.replay import Replay

MOST_JOBS = 4_000  # Jobs in the table; of longer traces those that waited longest, then those with most GPU time
LEAST_WAIT = 1.0  # Seconds at the left end of the axis of waits; shorter ones stand there


def chosen_jobs(jobs: Sequence[SimJob], most: int = MOST_JOBS) -> list[SimJob]:
    """Return jobs in order of submission: half are those that waited longest, half those with most GPU time."""
    if len(jobs) <= most:
        return list(jobs)
    by_wait = sorted(jobs, key=lambda job: (job.submitted - job.first_start, job.key))[: most // 2]
    taken = {job.key for job in by_wait}
    by_work = sorted(jobs, key=lambda job: (-job.units * job.record.duration, job.key))
    more = [job for job in by_work if job.key not in taken][: most - len(by_wait)]
    return sorted([*by_wait, *more], key=lambda job: job.key)


def job_data(jobs: Sequence[SimJob], origin: float) -> dict[str, list[Any]]:
    """Return columns; times in seconds since the first submission."""

    def rounded(seconds: float) -> float | None:
        return round(seconds, 1) if isfinite(seconds) else None

    return {
        "id": [job.record.job_id for job in jobs],
        "user": [job.record.user for job in jobs],
        "queue": [job.record.queue for job in jobs],
        "gpus": [job.record.gpus for job in jobs],
        "submit": [rounded(job.submitted - origin) for job in jobs],
        "wait": [rounded(job.first_start - job.submitted) for job in jobs],
        "took": [rounded(job.end - job.first_start) for job in jobs],
        "spread": [job.spread[0] if job.spread else None for job in jobs],
        "restarts": [len(job.runs) for job in jobs],
    }


def wait_chart(rows: Sequence[SizeWaits]) -> str:
    """Return a drawing: from the median to the 95th percentile a bar, a dot at the mean, a line to the largest."""
    drawn = []
    for row in rows:
        wait = row.wait
        tip = (
            f"{row.name}\n{plural(row.jobs, 'job')}, {percent(row.waited)} of them waited\nmean {duration(wait.mean)}, "
            f"median {duration(wait.p50)}\n95% up to {duration(wait.p95)}, longest {duration(wait.max)}"
        )
        tone = f"s{NAMES.index(row.name)}"
        drawn.append(ChartRow(row.name, tone, wait.mean, (wait.p50, wait.max), tip, bar=(wait.p50, wait.p95)))
    return row_chart(drawn, name="waits", title="Wait by size of job", kind="seconds", log_from=LEAST_WAIT)


def gangs_by_spread(past: RunHistory) -> list[tuple[int, int, float, float | None, float]]:
    """Return gangs that ended, by DP spread.

    :returns: DP spread; gangs; GPU-hours that they held; share that they lost of what they could do at the trace's pace
        (``None`` = none lost anything); length of its bar, percent of the longest.
    """
    attempts = past.attempts
    ended = (attempts.why == ENDED) & (attempts.dp > 0)
    hours = attempts.gpus * (attempts.end - attempts.begin) / 3600
    sound = np.isfinite(attempts.pace)
    worked = np.where(sound, attempts.gpus * (attempts.end - attempts.works), 0.0)
    done = np.where(sound, worked / np.where(sound, np.maximum(attempts.pace, 1e-12), 1.0), 0.0)
    rows = []
    for dp in np.unique(attempts.dp[ended]).tolist():
        mine = ended & (attempts.dp == dp)
        whole = float(worked[mine].sum())
        lost = max(0.0, 1.0 - float(done[mine].sum()) / whole) if whole > 0 else 0.0
        rows.append((dp, int(mine.sum()), float(hours[mine].sum()), lost))
    most = max((row[3] for row in rows), default=0.0)
    # less is rounding
    if most <= 1e-9:
        return [(dp, gangs, held, None, 0.0) for dp, gangs, held, _ in rows]
    return [(dp, gangs, held, lost, round(100 * lost / most, 2)) for dp, gangs, held, lost in rows]


MOST_FRAMES, LEAST_FRAMES = 480, 60
MOST_CELLS = 1_200_000  # Nodes times instants that a page holds; larger clusters have fewer instants
AWAY = 255  # The share of a node that no job may use
OTHERS = 254  # The share of a node that others have in use all along
FULL = 100  # The share of a node of which everything is in use
MOST_NAMED = 20_000  # Jobs of which the page knows more than their size: the largest


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """The drawing, and what the script of the page knows of it."""

    drawing: str = ""
    jobs: int = 0  # how many are on it at some instant
    nodes: Mapping[str, Any] = field(default_factory=dict)  # by square
    instants: Mapping[str, Any] = field(default_factory=dict)
    why_none: str = ""  # why there is no map


def cluster_map(past: RunHistory) -> ClusterMap:
    """Return the map of a run, or why there is none."""
    cluster = past.cluster
    if cluster is None:
        return ClusterMap(why_none="GPUs were only counted in this run (--algorithm none): there is no map.")
    if len(cluster) > DETAIL:
        return ClusterMap(why_none="The cluster has too many nodes to draw each of them: there is no map.")
    over_time = frames(past)
    plan = layout(cluster)
    nodes = node_data(cluster, plan)
    drawing = svg_drawing(
        cluster,
        plan,
        np.zeros(len(cluster), dtype=np.int32),
        ["idle"],
        title="The cluster over time",
        note=lambda shape: f"{len(shape.nodes):,}",
        counted=False,
    )
    return ClusterMap(drawing, len(over_time.jobs), nodes, _instants(past, plan, over_time))


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """The cluster over time."""

    times: FloatArray  # shape [frames], seconds since the first submission
    owner: IntArray  # int [frames, nodes], place in jobs + 1 of the job with most GPUs on the node; 0 = none
    # uint8 [frames, nodes], percent of the node in use, rounded up; OTHERS; AWAY
    share: np.ndarray[tuple[int, int], np.dtype[np.uint8]]
    jobs: IntArray  # keys of the jobs that own a node at some instant, ascending


def frames(past: RunHistory, count: int | None = None) -> Frames:
    """Return the cluster at equal distances, in the middle of each part of the run; a job counts from its begin to its
    end.

    :param count: of instants; ``None`` = as many as a page holds of so many nodes.
    """
    nodes = len(past.usable)
    count = count or min(MOST_FRAMES, max(LEAST_FRAMES, MOST_CELLS // max(nodes, 1)))
    times = (np.arange(count) + 0.5) * past.length / count
    attempts = past.attempts
    sizes = np.diff(attempts.first)
    size = np.where(past.usable > 0, past.usable, 1.0)
    # the job with most GPUs on a node comes last, and so is the one that is written
    order = np.lexsort((-attempts.begin, attempts.each, attempts.gpus))
    begin, end = attempts.begin[order], attempts.end[order]
    owner = np.zeros((count, nodes), dtype=np.int32)
    share = np.zeros((count, nodes), dtype=np.uint8)
    for row, time in enumerate(times):
        live = order[(begin <= time) & (end > time)]
        length = sizes[live]
        within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
        places = attempts.places[np.repeat(attempts.first[live], length) + within]
        owner[row, places] = np.repeat(attempts.job[live] + 1, length)
        used = np.bincount(places, weights=np.repeat(attempts.each[live], length), minlength=nodes)
        # rounded up, but not where sums of shares of a GPU are a hair too large
        share[row] = np.minimum(np.ceil(100.0 * used / size - 1e-6), FULL)
        share[row, past.usable <= 0] = OTHERS
        share[row, past.away.number[(past.away.begin <= time) & (past.away.end > time)]] = AWAY
    jobs = np.unique(owner)
    jobs = jobs[jobs > 0]
    return Frames(
        times, np.searchsorted(jobs, owner, side="right").astype(np.int32), share, (jobs - 1).astype(np.int32)
    )


def _instants(past: RunHistory, plan: Layout, over_time: Frames) -> dict[str, Any]:
    """Return what the script knows of each instant."""
    gpus = np.array([past.jobs[key].record.gpus for key in over_time.jobs])
    kept = np.sort(np.argsort(-gpus, kind="stable")[:MOST_NAMED])
    jobs = [past.jobs[key] for key in over_time.jobs[kept].tolist()]
    owner, share = over_time.owner[:, plan.nodes], over_time.share[:, plan.nodes]
    square = {node: place for place, node in enumerate(plan.nodes.tolist())}
    # owners as differences from the frame before, int32 little-endian, then shares
    change = np.diff(owner, axis=0, prepend=np.zeros((1, owner.shape[1]), dtype=np.int32))
    return {
        "times": [round(time, 1) for time in over_time.times.tolist()],
        # the page begins at the first instant at which most jobs are seen
        "slow": [[square[slow.node], *slow[1:]] for slow in past.slow if slow.node in square],
        "start": int(np.argmax([len(np.unique(row)) for row in over_time.owner])),
        "cells": _packed(change.astype("<i4").tobytes() + share.tobytes()),
        "classes": packed_json(size_class(gpus).tolist()),
        "named": packed_json({"place": kept.tolist(), **job_data(jobs, past.origin)}),
    }


def packed_json(value: Any) -> str:
    """Return a value as JSON in little text, as the script of the page unpacks it."""
    return _packed(json.dumps(value, allow_nan=False, separators=(",", ":")).encode())


def _packed(data: bytes) -> str:
    """Return much data in little text: deflated and in base64; ``unpack`` in simulation.js reads it."""
    return b64encode(zlib.compress(data, 9)).decode("ascii")


PARTLY_FREE = "Share of free GPUs on nodes of which another part is in use."
NO_WAIT = "No job ever waited."
NO_FAILURE = "Nothing failed and no job was preempted: no failures were asked for."
NO_GANG = "No gang of several nodes was placed, so there is no spread."
NO_LOSS = (
    "Jobs ran at the pace of the trace: spread slowed none of them, or was to cost nothing (--cost-model none), "
    "and none lay on a slow node."
)


def panels(over_time: TimeSeries, *, placed: bool) -> tuple[list[Chart], list[str]]:
    """Return the charts, and why others are missing; ``placed``: whether GPUs lie on nodes."""
    charts, missing = list[Chart](), list[str]()

    def line(name: str, colour: int, values: FloatArray, *, filled: bool = False) -> Series:
        """Return a line of steps over the buckets."""
        points = [*zip(over_time.edges.tolist(), [*values.tolist(), None], strict=True)]
        return Series(name, points, "step", filled=filled, colour=colour)

    def draw(key: str, title: str, note: str, kind: Kind, *lines: Series) -> None:
        charts.append(Chart(title, "", "", lines, floor=0.0, kind=kind, key=key, note=note))

    use, note = [line("utilization", 0, over_time.utilization, filled=True)], "Share of all GPUs that jobs hold."
    if over_time.gpus_away.any():
        use.append(line("allocation", 1, over_time.allocation))
        note = "GPUs that jobs hold, as a share of all (utilization) and of those that are not away (allocation)."
    draw("use", "Utilization and allocation", note, "share", *use)
    if over_time.jobs_waiting.any():
        waiting = line("jobs waiting", 2, over_time.jobs_waiting, filled=True)
        draw("queue", "Queue", "Jobs that wait.", "count", waiting)
        asked = line("GPUs asked for", 2, over_time.gpus_waiting, filled=True)
        note = "What the waiting jobs want in all; beside it what runs."
        draw("asked", "GPUs asked for in the queue", note, "count", asked, line("GPUs held", 0, over_time.gpus_held))
    else:
        missing.append(NO_WAIT)
    if placed:
        free, note = line("fragmentation", 4, over_time.fragmentation, filled=True), PARTLY_FREE
        draw("fragmentation", "Fragmentation", note, "share", free)
    if placed and np.isnan(over_time.dp_spread).all():
        missing.append(NO_GANG)
    elif placed:
        note = "Mean DP spread: domains that the widest data-parallel group of a gang touches."
        draw("spread", "Spread of running gangs", note, "count", line("DP spread", 3, over_time.dp_spread))
        if np.nan_to_num(over_time.throughput_lost).any():
            note = "Predicted from spread, shared links and slow nodes; by GPUs of the running jobs."
            lost = line("lost", 5, over_time.throughput_lost, filled=True)
            draw("lost", "Throughput lost to slower steps", note, "share", lost)
        else:
            missing.append(NO_LOSS)
    if over_time.nodes_slow.any():
        slow, note = (
            line("slow nodes", 4, over_time.nodes_slow, filled=True),
            "As the scheduler knew them; faulty ones are away.",
        )
        draw("slow", "Nodes flagged as slow", note, "count", slow)
    if not (over_time.failures.any() or over_time.preemptions.any() or over_time.gpus_away.any()):
        missing.append(NO_FAILURE)
        return charts, missing
    note = "Attempts that a failure of a node or a preemption ended, in each bucket."
    cut = line("failures", 5, over_time.failures), line("preemptions", 1, over_time.preemptions)
    draw("failures", "Jobs cut short", note, "count", *cut)
    away = line("GPUs away", 6, over_time.gpus_away, filled=True)
    draw("away", "GPUs away", "On nodes that failed, are faulty or kept as spares.", "count", away)
    hourly = float(over_time.edges[1] - over_time.edges[0]) == HOUR
    words = "hour by hour" if hourly else "over a sliding hour, in each bucket"
    ettr = [] if hourly else [line("sliding hour", 1, over_time.ettr_hour)]
    ettr += [line("in the bucket", 6, over_time.ettr), line("so far", 7, over_time.ettr_so_far)]
    note = f"Work that counted over time since jobs started first: {words}, and so far."
    draw("ettr", "ETTR", note, "share", *ettr)
    return charts, missing


BY_SIZE = (
    "Bar: from the median to the 95th percentile; circle: mean; line: to the longest. Waits below a second stand at a "
    "second."
)


def simulation_page(
    past: RunHistory,
    summary: RunSummary,
    replay: Replay,
    over_time: TimeSeries,
    *,
    tables: Sequence[TextTable] = (),
    compared: Comparison | None = None,
) -> str:
    """Return one self-contained page; same input, same text.

    :param over_time: the run in the buckets of the charts.
    :param tables: what the run says besides: of power, data, start-up.
    :param compared: other runs, of a study, to stand beside this one.
    """
    wait = summary.wait_seconds
    waited = f"mean wait {duration(wait.mean)}" if wait is not None and wait.max else "none waited"
    used = f"{past.capacity:,.0f} GPUs: {percent(summary.utilization)} in use"
    where = "GPUs are only counted"
    if past.cluster is not None:
        where = f"{inventory(past.cluster)}; placed by {replay.settings.algorithm}"
    lead = [f"{where}. Queue policy {replay.settings.policy}."]
    if left := summary.jobs - summary.completed:
        lead.append(f"{plural(left, 'job')} never found room.")
    if dropped := replay.trace.dropped:
        lead.append(f"Left out: {', '.join(f'{count:,} {reason}' for reason, count in dropped.items())}.")
    # colours of the classes of size
    colours = [
        f".s{i} {{ --tone: {colour}; fill: {colour}; background: {colour}; }}\n"
        for i, colour in enumerate(colour_ramp(len(NAMES)))
    ]
    drawn, listed = cluster_map(past), job_data(chosen_jobs(past.jobs), past.origin)
    waits = [waits for waits in summary.waits_by_size if waits is not None]
    by_size = ChartCard("Wait by size of job", BY_SIZE, wait_chart(waits))
    charts, missing = panels(over_time, placed=past.cluster is not None)
    beside, compared_data = comparison_cards(compared) if compared is not None else ([], {})
    return render(
        "arnold.pages",
        "simulation.html.j2",
        raw={"cluster": drawn.drawing, "sizes_style": "".join(colours)},
        styles=("pages.css", "charts.css", "replay.css"),
        scripts=("zoom.js", "modes.js", "charts.js", "simulation.js"),
        charts=[*map(card_of, charts), by_size],
        compared=beside,
        title=Path(replay.trace.source).name,
        headline=f"{plural(summary.jobs, 'job')} on {used}, {waited}",
        lead=lead,
        settings=replay.settings,
        trace_notes=replay.trace.notes,
        tiles=_facts(past, summary),
        missing=missing,
        why_no_map=drawn.why_none,
        sizes=list(enumerate(NAMES)),
        map_frames=len(drawn.instants.get("times", ())),
        seen=drawn.jobs,
        slow=bool(past.slow),
        others=bool((past.usable <= 0).any()),
        wait_rows=waits,
        spread=gangs_by_spread(past),
        tables=tables,
        listed=len(listed["id"]),
        jobs=len(past.jobs),
        bucket=duration(float(over_time.edges[1] - over_time.edges[0])),
        data={
            **drawn.nodes,
            "origin": past.origin,
            "length": past.length,
            "edges": [round(edge, 3) for edge in over_time.edges.tolist()],
            "charts": {chart.key: data_of(chart) for chart in charts} | compared_data,
            "map": drawn.instants,
            "jobs": packed_json(listed),
        },
    )


def _facts(past: RunHistory, summary: RunSummary) -> list[tuple[str, str, str]]:
    """Return tiles: large number, what it is, small print."""
    wait, jct, real = summary.wait_seconds, summary.jct_seconds, summary.trace_wait_seconds
    recorded = f"; {duration(real.mean)} in the trace" if real else ""
    facts = [
        (duration(summary.makespan_seconds), "makespan", "first submission to last end"),
        (percent(summary.utilization), "utilization", f"of {past.capacity:,.0f} GPUs over the makespan"),
        (
            duration(wait.mean if wait else None),
            "mean wait",
            f"95% up to {duration(wait.p95 if wait else None)}{recorded}",
        ),
        (duration(jct.mean if jct else None), "mean completion", f"95% up to {duration(jct.p95 if jct else None)}"),
        (percent(summary.goodput), "goodput", "work that got done, of all GPUs"),
        (
            percent(summary.ettr),
            "ETTR",
            f"worst hour {percent(summary.ettr_worst_hour)}; work over time since first starts",
        ),
    ]
    if summary.fragmentation is not None:
        facts.append((percent(summary.fragmentation), "fragmentation", "of free GPUs, on nodes partly in use"))
    if summary.spread is not None:
        facts.append((number(summary.spread.dp), "mean DP spread", f"PP spread {number(summary.spread.pp)}; of gangs"))
    return facts
