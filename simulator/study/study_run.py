"""The runs of a study: which it makes, and each as a row of plain values: what it was, what came out, two curves.

Wall times are no part of a row: the same run gives the same row wherever and whenever it is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from scheduler.queue.policy import QueuePolicy
from simulator.checkpoints import fingerprint
from simulator.engine.engine import Diverged
from simulator.replay import prepare
from simulator.replay_settings import COUNT_ONLY, ReplaySettings
from simulator.results.run_history import run_history
from simulator.results.run_summary import NAMES, Distribution, RunSummary, run_summary
from simulator.results.time_series import time_series
from simulator.traces import JobTrace, resampled, scale_load
from topology.cluster import Cluster, FloatArray

CURVE = 120  # Buckets of the curves, from the first submission to the last
_TIMES = tuple(one.name for one in fields(Distribution))


class StudyPoint(NamedTuple):
    """One run; its fields are the first columns of its row."""

    policy: str
    algorithm: str
    cluster: str  # name of the cluster among those of the study
    load: float  # scale of the load
    seed: int


COLUMNS: dict[str, type] = {
    **dict(zip(StudyPoint._fields, (str, str, str, float, int), strict=True)),
    "outcome": str,
    **dict.fromkeys(("jobs", "completed", "dropped"), int),
    "makespan_seconds": float,
    **{f"wait_{name}": float for name in _TIMES},
    **{f"jct_{name}": float for name in _TIMES},
    **{f"wait_mean_size_{i}": float for i in range(len(NAMES))},
    **dict.fromkeys(("utilization", "fragmentation", "dp_spread", "pp_spread", "throughput_lost"), float),
    **dict.fromkeys(("goodput", "ettr", "ettr_worst_hour"), float),
    **dict.fromkeys(("failures", "preemptions", "events"), int),
    "window_seconds": float,
    **dict.fromkeys(("waiting", "allocation"), list),
}
"""Columns of a row; ``wait_mean_size_0`` to ``_4`` are the classes of ``simulator.results.run_summary``, the last two
the curves: jobs that wait, and the share of GPUs held, in :data:`CURVE` buckets of ``window_seconds``."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What all runs share; it travels to every process once."""

    trace: JobTrace
    clusters: Mapping[str, Cluster]
    settings: ReplaySettings = field(default=ReplaySettings())  # of each run, but for what a StudyPoint says
    lenient: bool = False  # leave out jobs that a cluster could never hold, and count them
    # seconds of the pieces from which each seed but 0 makes its own trace; None = all have the same
    resample: float | None = None


@dataclass(frozen=True, slots=True)
class StudyGrid:
    """Everything with everything."""

    policies: Sequence[str]
    algorithms: Sequence[str]
    clusters: Sequence[str]
    loads: Sequence[float] = (1.0,)
    seeds: Sequence[int] = (0,)

    @property
    def points(self) -> list[StudyPoint]:
        """All runs, in order; the seed changes fastest."""
        axes = self.policies, self.algorithms, self.clusters, self.loads, self.seeds
        return [StudyPoint(*point) for point in dict.fromkeys(product(*axes))]


def check_names(grid: StudyGrid) -> list[QueuePolicy]:
    """Load every policy and algorithm once, and return the policies.

    :raises UnknownName: one is not installed.
    """
    from scheduler.placement.types import ALGORITHMS
    from scheduler.queue.policy import POLICIES

    for algorithm in grid.algorithms:
        if algorithm != COUNT_ONLY:
            ALGORITHMS.load(algorithm)
    return [POLICIES.load(policy) for policy in grid.policies]


def study_fingerprint(inputs: Inputs, *, version: str) -> str:
    """Return SHA-256 of what all runs of a study follow from, besides their points; with the program's version."""
    settings = replace(inputs.settings, policy="", algorithm="", seed=0)
    settings = replace(settings, cost=settings.cost_model)
    return fingerprint((version, settings, inputs.lenient, inputs.resample), inputs.trace, inputs.clusters)


def run_point(inputs: Inputs, point: StudyPoint) -> Row:
    """Make one run.

    :raises ArnoldError: it cannot begin.  One that diverges is a row that says so.
    """
    trace = inputs.trace if inputs.resample is None else resampled(inputs.trace, inputs.resample, point.seed)
    if point.load != 1.0:
        trace = scale_load(trace, point.load)
    settings = replace(inputs.settings, policy=point.policy, algorithm=point.algorithm, seed=point.seed)
    replay = prepare(trace, inputs.clusters[point.cluster], settings, lenient=inputs.lenient)
    engine = replay.engine
    row: Row = dict.fromkeys(COLUMNS) | point._asdict()
    row |= {"jobs": len(engine.jobs), "dropped": sum(replay.trace.dropped.values()), "outcome": "ended"}
    try:
        engine.run()
    except Diverged as error:
        return row | {"outcome": error.message, "completed": engine.completed, "events": engine.events}
    history = run_history(engine, replay.log, replay.places)
    summary = run_summary(history)
    window = history.jobs[-1].submitted - history.origin or history.length
    curves = time_series(history, edges=np.linspace(0.0, window, CURVE + 1))
    return row | {
        # the allocation of a row is a curve, below
        **{one.name: getattr(summary, one.name) for one in fields(RunSummary) if one.name in COLUMNS},
        **_distribution("wait", summary.wait_seconds),
        **_distribution("jct", summary.jct_seconds),
        **{f"wait_mean_size_{i}": one and one.wait.mean for i, one in enumerate(summary.waits_by_size)},
        "dp_spread": summary.spread.dp if summary.spread else None,
        "pp_spread": summary.spread.pp if summary.spread else None,
        "events": engine.events,
        "window_seconds": window,
        "waiting": _rounded(curves.waiting),
        "allocation": _rounded(curves.utilization),
    }


def _distribution(name: str, found: Distribution | None) -> Row:
    return {f"{name}_{which}": None if found is None else getattr(found, which) for which in _TIMES}


def _rounded(values: FloatArray) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]
