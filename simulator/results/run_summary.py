"""A run in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

import numpy as np

from simulator.engine.sim_job import JobState
from simulator.results.distribution import Distribution, distribution, wait_times
from simulator.results.run_ettr import gpu_seconds_worked, run_ettr, worst_ettr
from simulator.results.run_history import RunHistory
from simulator.results.time_series import time_series


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run was like; the formulas are in docs/metrics.md.  ``None`` = there was nothing of which to say it.

    :param jobs: of the trace, those that were dropped left out.
    :param completed: that ended.
    :param makespan: seconds from the first submission to the last end.
    :param wait: seconds from submission to the first start, of jobs that started.
    :param jct: seconds from submission to the end, of jobs that ended.
    :param utilization: GPU-seconds held over GPUs times makespan.
    :param allocation: GPU-seconds held over those of nodes that were not away.
    :param fragmentation: of free GPU-seconds, the share on nodes of which another part was in use.
    :param goodput: GPU-seconds of work of jobs that ended, at the trace's pace, over GPUs times makespan.
    :param ettr: GPU-seconds of work that counted over those from first start to end; of jobs that ended.
    :param ettr_worst_hour: ETTR of the hour in which it was least.
    :param throughput_lost: share of the work that the GPUs held would have done at the trace's pace.
    :param spread: mean DP and PP spread of gangs that ended.
    :param failures: attempts that a failure cut short.
    :param preemptions: attempts that the policy cut short.
    """

    jobs: int
    completed: int
    makespan: float | None
    wait: Distribution | None
    jct: Distribution | None
    utilization: float | None
    allocation: float | None
    fragmentation: float | None
    goodput: float | None
    ettr: float | None
    ettr_worst_hour: float | None
    throughput_lost: float | None
    spread: tuple[float, float] | None
    failures: int
    preemptions: int


def run_summary(history: RunHistory) -> RunSummary:
    """Return the summary of a run that is over: its series with a single bucket, and what only jobs know."""
    whole = time_series(history, edges=np.array([0.0, history.length]))
    ended = [job for job in history.jobs if job.state is JobState.DONE]
    gangs = [job.spread for job in ended if job.spread is not None]
    worked, _ = gpu_seconds_worked(history.jobs)
    return RunSummary(
        jobs=len(history.jobs),
        completed=len(ended),
        makespan=history.length if ended else None,
        wait=wait_times(history.jobs),
        jct=distribution([job.end - job.submitted for job in ended]),
        utilization=float(whole.utilization[0]) if ended else None,
        allocation=_known(whole.allocation[0]),
        fragmentation=_known(whole.fragmentation[0]),
        goodput=worked / (history.capacity * history.length) if ended else None,
        ettr=run_ettr(history.jobs),
        ettr_worst_hour=worst_ettr(history),
        throughput_lost=_known(whole.lost[0]),
        spread=(sum(dp for dp, _ in gangs) / len(gangs), sum(pp for _, pp in gangs) / len(gangs)) if gangs else None,
        failures=int(whole.failures[0]),
        preemptions=int(whole.preemptions[0]),
    )


def _known(value: float) -> float | None:
    return None if isnan(value) else float(value)
