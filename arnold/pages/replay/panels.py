"""What is drawn over time: a chart for each question, or a sentence where there is nothing to draw."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ground.quantities import HOUR, Kind
from simulator.results import TimeSeries
from simulator.sheet import Chart, Series
from topology.cluster import FloatArray

PARTLY_FREE = "Share of free GPUs on nodes of which another part is in use."
NO_WAIT = "No job ever waited."
NO_FAILURE = "Nothing failed and no job was preempted: no failures were asked for."
NO_GANG = "No gang of several nodes was placed, so there is no spread."
NO_LOSS = (
    "Jobs ran at the pace of the trace: spread slowed none of them, or was to cost nothing (--cost-model none), "
    "and none lay on a slow node."
)


def panels(over_time: TimeSeries, *, placed: bool) -> tuple[list[Chart], list[str]]:
    """Return the charts, and why others are missing.

    :param placed: whether GPUs lie on nodes.
    """
    found = list(_panels(over_time, placed=placed))
    return [one for one in found if isinstance(one, Chart)], [one for one in found if isinstance(one, str)]


def _chart(key: str, title: str, note: str, kind: Kind, *lines: Series) -> Chart:
    return Chart(title, "", "", lines, floor=0.0, kind=kind, key=key, note=note)


def _line(over_time: TimeSeries, name: str, colour: int, values: FloatArray, *, filled: bool = False) -> Series:
    """Return a line of steps over the buckets."""
    points = [*zip(over_time.edges.tolist(), [*values.tolist(), None], strict=True)]
    return Series(name, points, "step", filled=filled, colour=colour)


def _panels(over_time: TimeSeries, *, placed: bool) -> Iterator[Chart | str]:
    """Yield a chart, or the sentence that stands for it."""
    line = partial(_line, over_time)
    use, note = [line("utilisation", 0, over_time.utilization, filled=True)], "Share of all GPUs that jobs hold."
    if over_time.away.any():
        use.append(line("allocation", 1, over_time.allocation))
        note = "GPUs that jobs hold, as a share of all (utilisation) and of those that are not away (allocation)."
    yield _chart("use", "Utilisation and allocation", note, "share", *use)
    if over_time.waiting.any():
        waiting = line("jobs waiting", 2, over_time.waiting, filled=True)
        yield _chart("queue", "Queue", "Jobs that wait.", "count", waiting)
        asked = line("GPUs asked for", 2, over_time.gpus_waiting, filled=True)
        note = "What the waiting jobs want in all; beside it what runs."
        yield _chart("asked", "GPUs asked for in the queue", note, "count", asked, line("GPUs held", 0, over_time.held))
    else:
        yield NO_WAIT
    if placed:
        free, note = line("fragmentation", 4, over_time.fragmentation, filled=True), PARTLY_FREE
        yield _chart("fragmentation", "Fragmentation", note, "share", free)
    if placed and np.isnan(over_time.spread).all():
        yield NO_GANG
    elif placed:
        note = "Mean DP spread: domains that the widest data-parallel group of a gang touches."
        yield _chart("spread", "Spread of running gangs", note, "count", line("DP spread", 3, over_time.spread))
        if np.nan_to_num(over_time.lost).any():
            note = "Predicted from spread, shared links and slow nodes; by GPUs of the running jobs."
            lost = line("lost", 5, over_time.lost, filled=True)
            yield _chart("lost", "Throughput lost to slower steps", note, "share", lost)
        else:
            yield NO_LOSS
    if over_time.slow.any():
        slow, note = (
            line("slow nodes", 4, over_time.slow, filled=True),
            "As the scheduler knew them; faulty ones are away.",
        )
        yield _chart("slow", "Nodes flagged as slow", note, "count", slow)
    yield from _interruptions(over_time)


def _interruptions(over_time: TimeSeries) -> Iterator[Chart | str]:
    """Yield the charts of what was cut short, or the sentence that stands for them."""
    line = partial(_line, over_time)
    if not (over_time.failures.any() or over_time.preemptions.any() or over_time.away.any()):
        yield NO_FAILURE
        return
    note = "Attempts that a failure of a node or a preemption ended, in each bucket."
    cut = line("failures", 5, over_time.failures), line("preemptions", 1, over_time.preemptions)
    yield _chart("failures", "Jobs cut short", note, "count", *cut)
    away = line("GPUs away", 6, over_time.away, filled=True)
    yield _chart("away", "GPUs away", "On nodes that failed, are faulty or kept as spares.", "count", away)
    hourly = float(over_time.edges[1] - over_time.edges[0]) == HOUR
    words = "hour by hour" if hourly else "over a sliding hour, in each bucket"
    ettr = [] if hourly else [line("sliding hour", 1, over_time.ettr_hour)]
    ettr += [line("in the bucket", 6, over_time.ettr), line("so far", 7, over_time.ettr_so_far)]
    note = f"Work that counted over time since jobs started first: {words}, and so far."
    yield _chart("ettr", "ETTR", note, "share", *ettr)
