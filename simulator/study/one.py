"""One run of a study, as a row of plain values: what it was, what came out, and two curves over time.

Wall times are no part of it: the same run gives the same row wherever and whenever it is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.engine.engine import Diverged
from simulator.metrics.distribution import Distribution
from simulator.past.diary import keep_diary
from simulator.past.history import History, history
from simulator.past.series import series
from simulator.past.size_class import NAMES, size_class
from simulator.past.totals import totals
from simulator.replay import prepare
from simulator.study.plan import Inputs, Point
from simulator.study.resample import resampled
from simulator.traces import Trace, scale_load
from topology.cluster import FloatArray

CURVE = 120
"""Buckets of the curves, from the first submission to the last."""

_TIMES = ("mean", "p50", "p95", "p99", "max")

COLUMNS: dict[str, type] = {
    **dict(zip(Point._fields, (str, str, str, float, int), strict=True)),
    "outcome": str,
    "jobs": int,
    "completed": int,
    "dropped": int,
    "makespan_seconds": float,
    **{f"wait_{name}": float for name in _TIMES},
    **{f"jct_{name}": float for name in _TIMES},
    **{f"wait_mean_size_{i}": float for i in range(len(NAMES))},
    "utilization": float,
    "fragmentation": float,
    "dp_spread": float,
    "pp_spread": float,
    "throughput_lost": float,
    "goodput": float,
    "ettr": float,
    "ettr_worst_hour": float,
    "failures": int,
    "preemptions": int,
    "events": int,
    "window_seconds": float,
    "waiting": list,
    "allocation": list,
}
"""Columns of a row; ``wait_mean_size_0`` to ``_4`` are the classes of ``simulator.past.size_class``, the last two the
curves: jobs that wait, and the share of GPUs held, in :data:`CURVE` buckets of ``window_seconds``."""

Row = dict[str, Any]


def run_point(inputs: Inputs, point: Point) -> Row:
    """Make one run.

    :raises ArnoldError: it cannot begin.  One that diverges is a row that says so.
    """
    trace = _trace(inputs, point)
    replay = prepare(trace, inputs.clusters[point.cluster], inputs.settings_of(point), lenient=inputs.lenient)
    engine = replay.engine
    diary = keep_diary(engine)
    row: Row = dict.fromkeys(COLUMNS) | point._asdict()
    row |= {"jobs": len(engine.jobs), "dropped": sum(replay.trace.dropped.values()), "outcome": "ended"}
    try:
        engine.run()
    except Diverged as error:
        return row | {"outcome": error.message, "completed": engine.completed, "events": engine.events}
    past = history(engine, diary, replay.places)
    summary, whole = replay.summary, totals(past)
    row |= {
        "completed": summary.completed,
        "makespan_seconds": summary.makespan,
        **_distribution("wait", summary.wait),
        **_distribution("jct", summary.jct),
        **_wait_by_size(past),
        "utilization": summary.utilization,
        "fragmentation": replay.fragmentation.share,
        "dp_spread": summary.spread[0] if summary.spread else None,
        "pp_spread": summary.spread[1] if summary.spread else None,
        "throughput_lost": whole.throughput_lost,
        "goodput": summary.goodput,
        "ettr": summary.ettr,
        "ettr_worst_hour": whole.ettr_worst_hour,
        "failures": whole.failures,
        "preemptions": whole.preemptions,
        "events": engine.events,
    }
    return row | _curves(past)


def _trace(inputs: Inputs, point: Point) -> Trace:
    trace = inputs.trace
    if inputs.resample is not None:
        trace = resampled(trace, inputs.resample, point.seed)
    return trace if point.load == 1.0 else scale_load(trace, point.load)


def _distribution(name: str, found: Distribution | None) -> Row:
    return {f"{name}_{which}": None if found is None else getattr(found, which) for which in _TIMES}


def _wait_by_size(past: History) -> Row:
    started = [job for job in past.jobs if np.isfinite(job.first_start)]
    classes = size_class([job.record.gpus for job in started])
    waits = np.array([job.first_start - job.submitted for job in started])
    return {
        f"wait_mean_size_{i}": float(waits[classes == i].mean()) if (classes == i).any() else None
        for i in range(len(NAMES))
    }


def _curves(past: History) -> Row:
    window = past.jobs[-1].submitted - past.origin or past.length
    found = series(past, edges=np.linspace(0.0, window, CURVE + 1))
    return {"window_seconds": window, "waiting": _rounded(found.waiting), "allocation": _rounded(found.utilization)}


def _rounded(values: FloatArray) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]
