"""The page of a replay: the cluster over time, what was used, how long jobs waited, what spread and failures cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arnold.pages.line_chart import ChartCard, card_of, data_of
from arnold.pages.replay.cluster_map import ClusterMap, cluster_map, packed_json
from arnold.pages.replay.comparison import comparison_cards
from arnold.pages.replay.job_tables import chosen_jobs, job_data, spread_rows, wait_chart
from arnold.pages.replay.panels import panels
from ground.quantities import duration, number, percent, plural
from simulator.results import NAMES, RunSummary, TimeSeries
from simulator.run_history import RunHistory
from simulator.study import Comparison
from topology.drawing.layout import inventory
from topology.drawing.page_kit import ramp, render

if TYPE_CHECKING:
    from simulator.replay import Replay
    from simulator.sheet import TextTable

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
    headline, lead, tiles = _headline(past, summary), _lead(past, summary, replay), _facts(past, summary)
    drawn, listed = cluster_map(past), job_data(chosen_jobs(past.jobs), past.origin)
    waits = [one for one in summary.waits_by_size if one is not None]
    by_size = ChartCard("Wait by size of job", BY_SIZE, wait_chart(waits))
    charts, missing = panels(over_time, placed=past.cluster is not None)
    beside, compared_data = comparison_cards(compared) if compared is not None else ([], {})
    return render(
        "arnold.pages.replay",
        "simulation.html.j2",
        raw={"cluster": drawn.drawing, "sizes_style": _colours()},
        styles=("pages.css", "charts.css", "replay.css"),
        scripts=("zoom.js", "modes.js", "charts.js", "simulation.js"),
        charts=[*map(card_of, charts), by_size],
        compared=beside,
        title=Path(replay.trace.source).name,
        headline=headline,
        lead=lead,
        settings=replay.settings,
        trace_notes=replay.trace.notes,
        tiles=tiles,
        missing=missing,
        why_no_map=drawn.why_none,
        sizes=list(enumerate(NAMES)),
        map_frames=len(drawn.instants.get("times", ())),
        seen=drawn.jobs,
        slow=bool(past.slow),
        others=bool((past.usable <= 0).any()),
        wait_rows=waits,
        spread=spread_rows(past),
        tables=tables,
        listed=len(listed["id"]),
        jobs=len(past.jobs),
        bucket=duration(float(over_time.edges[1] - over_time.edges[0])),
        data=_data(past, over_time, drawn, listed, {chart.key: data_of(chart) for chart in charts} | compared_data),
    )


def _data(
    past: RunHistory, over_time: TimeSeries, drawn: ClusterMap, listed: dict[str, list[Any]], charts: dict[str, Any]
) -> dict[str, Any]:
    """Return what the script of the page is given."""
    return {
        **drawn.nodes,
        "origin": past.origin,
        "length": past.length,
        "edges": [round(edge, 3) for edge in over_time.edges.tolist()],
        "charts": charts,
        "map": drawn.instants,
        "jobs": packed_json(listed),
    }


def _colours() -> str:
    """Return colours of the classes of size."""
    sizes = ramp(len(NAMES))
    rules = [f".s{i} {{ --tone: {colour}; fill: {colour}; background: {colour}; }}" for i, colour in enumerate(sizes)]
    return "\n".join(rules) + "\n"


def _headline(past: RunHistory, summary: RunSummary) -> str:
    wait = summary.wait_seconds
    said = f"mean wait {duration(wait.mean)}" if wait is not None and wait.max else "none waited"
    return f"{plural(summary.jobs, 'job')} on {past.capacity:,.0f} GPUs: {percent(summary.utilization)} in use, {said}"


def _lead(past: RunHistory, summary: RunSummary, replay: Replay) -> list[str]:
    where = (
        "GPUs are only counted"
        if past.cluster is None
        else f"{inventory(past.cluster)}; placed by {replay.settings.algorithm}"
    )
    left = summary.jobs - summary.completed
    lines = [f"{where}. Queue policy {replay.settings.policy}."]
    if left:
        lines.append(f"{plural(left, 'job')} never found room.")
    if dropped := replay.trace.dropped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        lines.append(f"Left out: {reasons}.")
    return lines


def _facts(past: RunHistory, summary: RunSummary) -> list[tuple[str, str, str]]:
    """Return tiles: large number, what it is, small print."""
    wait, jct, real = summary.wait_seconds, summary.jct_seconds, summary.trace_wait_seconds
    recorded = f"; {duration(real.mean)} in the trace" if real else ""
    facts = [
        (duration(summary.makespan_seconds), "makespan", "first submission to last end"),
        (percent(summary.utilization), "utilisation", f"of {past.capacity:,.0f} GPUs over the makespan"),
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
