"""The curves that convict: a metric of a machine or part that stands out, and that of its peers, over time."""

from collections.abc import Iterator

import numpy as np

from arnold.pages.charts import ChartCard, card_of
from health.peers.metrics import metric_of
from health.peers.streams import MetricRecording, SampleGrid, align
from health.peers.verdict import PeersVerdict
from simulator.sheet import Chart, Series

MOST = 8  # Curves of a page
POINTS = 160  # Of a line at most
BAND = (10.0, 90.0)  # Percentiles of the peers between which the page is tinted


def convicting_curves(verdict: PeersVerdict, recording: MetricRecording) -> Iterator[ChartCard]:
    """Yield a chart for each alert of a flagged machine, in the order of metrics and of time."""
    flagged = {flag.node for flag in verdict.flags}
    alerts = [
        (examined, stretch)
        for examined in verdict.metrics
        for stretch in examined.alerts
        if stretch.machine in flagged and examined.metric in recording.metrics
    ]
    grids: dict[tuple[str, bool], SampleGrid] = {}
    for examined, stretch in alerts[:MOST]:
        of_part = bool(stretch.part)
        if (key := (examined.metric, of_part)) not in grids:
            samples = recording.metrics[examined.metric]
            samples = samples if of_part else recording.by_machine(samples)
            length = float(np.ptp(samples.time)) if len(samples.time) else 0.0
            grids[key] = align(samples, step=max(examined.step, length / POINTS))
        grid = grids[key]
        row = f"{stretch.machine} {stretch.part}".strip()
        if row not in grid.machines or len(grid.machines) < 2:
            continue
        mine = grid.machines.index(row)
        minutes = ((grid.times - grid.start) / 60.0).tolist()
        others = np.delete(grid.values, mine, axis=0)
        low, middle, high = np.percentile(others, (BAND[0], 50.0, BAND[1]), axis=0)
        silent = grid.silent[mine].tolist()
        own = [None if gap else value for value, gap in zip(grid.values[mine].tolist(), silent, strict=True)]
        peers = Series(
            "its peers", list(zip(minutes, middle.tolist(), strict=True)), band=(low.tolist(), high.tolist())
        )
        at = ((stretch.alert or stretch.start) - grid.start) / 60.0
        yield card_of(
            Chart(
                title=f"{row}: {metric_of(examined.metric).title}",
                x_label="minutes",
                y_label="",
                series=[peers, Series(row, list(zip(minutes, own, strict=True)))],
                lines=[(at, "alert")],
                note="Tinted: its peers, from the 10th to the 90th percentile.",
            )
        )
