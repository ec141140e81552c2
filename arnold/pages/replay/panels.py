"""What is drawn over time: a chart for each question, or a sentence where there is nothing to draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from arnold.pages.replay.chart import Line, TimeChart
from simulator.past.series import Series
from simulator.past.work import HOUR

NO_WAIT = "No job ever waited."
NO_FAILURE = "Nothing failed and nobody was preempted: no failures were asked for."
NO_GANG = "No gang of several nodes was placed, so there is no spread."
NO_LOSS = (
    "Jobs ran at the pace of the trace whatever their spread: no cost of communication was asked for, and none lay on "
    "a slow node."
)


def panels(over_time: Series, *, placed: bool) -> tuple[list[TimeChart], list[str]]:
    """The charts, and why others are missing.

    :param placed: whether GPUs lie on nodes.
    """
    missing: list[str] = []
    charts = [_use(over_time)]
    if over_time.waiting.any():
        charts += _queue(over_time)
    else:
        missing.append(NO_WAIT)
    if placed:
        charts.append(
            TimeChart(
                "fragmentation",
                "Fragmentation",
                "Share of free GPUs on nodes of which another part is in use.",
                "share",
                over_time.edges,
                (Line("fragmentation", 4, over_time.fragmentation, filled=True),),
            )
        )
        charts += _spread(over_time, missing)
    charts += _failures(over_time, missing)
    return charts, missing


def _use(over_time: Series) -> TimeChart:
    lines: tuple[Line, ...] = (Line("utilisation", 0, over_time.utilization, filled=True),)
    note = "Share of all GPUs that jobs hold."
    if over_time.away.any():
        lines = (*lines, Line("allocation", 1, over_time.allocation))
        note = "GPUs that jobs hold, as a share of all (utilisation) and of those that are not away (allocation)."
    return TimeChart("use", "Utilisation and allocation", note, "share", over_time.edges, lines)


def _queue(over_time: Series) -> Sequence[TimeChart]:
    return (
        TimeChart(
            "queue",
            "Queue",
            "Jobs that wait.",
            "count",
            over_time.edges,
            (Line("jobs waiting", 2, over_time.waiting, filled=True),),
        ),
        TimeChart(
            "asked",
            "GPUs asked for in the queue",
            "What the waiting jobs want in all; beside it what runs.",
            "count",
            over_time.edges,
            (
                Line("GPUs waiting for", 2, over_time.gpus_waiting, filled=True),
                Line("GPUs held", 0, over_time.held),
            ),
        ),
    )


def _spread(over_time: Series, missing: list[str]) -> list[TimeChart]:
    if np.isnan(over_time.spread).all():
        missing.append(NO_GANG)
        return []
    charts = [
        TimeChart(
            "spread",
            "Spread of running gangs",
            "Mean DP spread: domains that the widest data-parallel group of a gang touches.",
            "count",
            over_time.edges,
            (Line("DP spread", 3, over_time.spread),),
        )
    ]
    if np.nan_to_num(over_time.lost).any():
        charts.append(
            TimeChart(
                "lost",
                "Throughput lost to slower steps",
                "Predicted from spread, shared links and slow nodes; by GPUs of the running jobs.",
                "share",
                over_time.edges,
                (Line("lost", 5, over_time.lost, filled=True),),
            )
        )
    else:
        missing.append(NO_LOSS)
    return charts


def _failures(over_time: Series, missing: list[str]) -> list[TimeChart]:
    hit = over_time.failures.any() or over_time.preemptions.any() or over_time.away.any()
    if not hit:
        missing.append(NO_FAILURE)
        return []
    hourly = float(over_time.edges[1] - over_time.edges[0]) == HOUR
    words = "hour by hour" if hourly else "over a sliding hour, in each bucket"
    return [
        TimeChart(
            "failures",
            "Jobs cut short",
            "Attempts that a failure of a node or a preemption ended, in each bucket.",
            "count",
            over_time.edges,
            (Line("failures", 5, over_time.failures), Line("preemptions", 1, over_time.preemptions)),
        ),
        TimeChart(
            "away",
            "GPUs away",
            "On nodes that failed or are kept as spares.",
            "count",
            over_time.edges,
            (Line("GPUs away", 6, over_time.away, filled=True),),
        ),
        TimeChart(
            "ettr",
            "ETTR",
            f"Work that counted over time since jobs started first: {words}, and so far.",
            "share",
            over_time.edges,
            (
                *([] if hourly else [Line("sliding hour", 1, over_time.ettr_hour)]),
                Line("in the bucket", 6, over_time.ettr),
                Line("so far", 7, over_time.ettr_so_far),
            ),
        ),
    ]
