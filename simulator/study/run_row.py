"""One run of a study, as a row of plain values: what it was, what came out, and two curves over time.

Wall times are no part of it: the same run gives the same row wherever and whenever it is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.engine.overload import Diverged
from simulator.engine.run import run
from simulator.replay import prepare
from simulator.results.attempt_log import log_attempts
from simulator.results.distribution import Distribution
from simulator.results.run_history import RunHistory, run_history
from simulator.results.run_summary import run_summary
from simulator.results.size_class import NAMES, size_class
from simulator.results.time_series import time_series
from simulator.study.resample import resampled
from simulator.study.study_plan import Inputs, StudyPoint
from simulator.traces import JobTrace, scale_load
from topology.cluster import FloatArray

CURVE = 120
"""Buckets of the curves, from the first submission to the last."""

_TIMES = ("mean", "p50", "p95", "p99", "max")

COLUMNS: dict[str, type] = {
    **dict(zip(StudyPoint._fields, (str, str, str, float, int), strict=True)),
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
"""Columns of a row; ``wait_mean_size_0`` to ``_4`` are the classes of ``simulator.results.size_class``, the last two
the curves: jobs that wait, and the share of GPUs held, in :data:`CURVE` buckets of ``window_seconds``."""

Row = dict[str, Any]


def run_point(inputs: Inputs, point: StudyPoint) -> Row:
    """Make one run.

    :raises ArnoldError: it cannot begin.  One that diverges is a row that says so.
    """
    trace = _trace(inputs, point)
    replay = prepare(trace, inputs.clusters[point.cluster], inputs.settings_of(point), lenient=inputs.lenient)
    engine = replay.engine
    log = log_attempts(engine)
    engine.begin()
    row: Row = dict.fromkeys(COLUMNS) | point._asdict()
    row |= {"jobs": len(engine.jobs), "dropped": sum(replay.trace.dropped.values()), "outcome": "ended"}
    try:
        run(engine)
    except Diverged as error:
        return row | {"outcome": error.message, "completed": engine.completed, "events": engine.events}
    history = run_history(engine, log, replay.places)
    summary = run_summary(history)
    row |= {
        "completed": summary.completed,
        "makespan_seconds": summary.makespan,
        **_distribution("wait", summary.wait),
        **_distribution("jct", summary.jct),
        **_wait_by_size(history),
        "utilization": summary.utilization,
        "fragmentation": summary.fragmentation,
        "dp_spread": summary.spread[0] if summary.spread else None,
        "pp_spread": summary.spread[1] if summary.spread else None,
        "throughput_lost": summary.throughput_lost,
        "goodput": summary.goodput,
        "ettr": summary.ettr,
        "ettr_worst_hour": summary.ettr_worst_hour,
        "failures": summary.failures,
        "preemptions": summary.preemptions,
        "events": engine.events,
    }
    return row | _curves(history)


def _trace(inputs: Inputs, point: StudyPoint) -> JobTrace:
    trace = inputs.trace
    if inputs.resample is not None:
        trace = resampled(trace, inputs.resample, point.seed)
    return trace if point.load == 1.0 else scale_load(trace, point.load)


def _distribution(name: str, found: Distribution | None) -> Row:
    return {f"{name}_{which}": None if found is None else getattr(found, which) for which in _TIMES}


def _wait_by_size(history: RunHistory) -> Row:
    started = [job for job in history.jobs if np.isfinite(job.first_start)]
    classes = size_class([job.record.gpus for job in started])
    waits = np.array([job.first_start - job.submitted for job in started])
    return {
        f"wait_mean_size_{i}": float(waits[classes == i].mean()) if (classes == i).any() else None
        for i in range(len(NAMES))
    }


def _curves(history: RunHistory) -> Row:
    window = history.jobs[-1].submitted - history.origin or history.length
    found = time_series(history, edges=np.linspace(0.0, window, CURVE + 1))
    return {"window_seconds": window, "waiting": _rounded(found.waiting), "allocation": _rounded(found.utilization)}


def _rounded(values: FloatArray) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]
