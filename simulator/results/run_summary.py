"""A run in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Annotated

import numpy as np
from annotated_types import Ge

from simulator.engine.sim_job import JobState
from simulator.results.distribution import Distribution, distribution, wait_times
from simulator.results.run_ettr import gpu_seconds_worked, run_ettr, worst_ettr
from simulator.results.run_history import RunHistory
from simulator.results.time_series import time_series
from topology.json_record import JsonRecord


@dataclass(frozen=True, slots=True)
class MeanSpread(JsonRecord):
    """Mean over gangs of the largest number of domains that a group touches."""

    dp: Annotated[float, Ge(1)]
    """Over the DP groups of each gang."""
    pp: Annotated[float, Ge(1)]
    """Over its PP groups."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run was like; the formulas are in docs/metrics.md.  ``None`` = there was nothing of which to say it.

    Fields are called as in the answer of ``arnold simulate``, which says more of them
    (``arnold.documents.simulate_answer``), and as the columns of a study.
    """

    jobs: int
    completed: int
    makespan_seconds: float | None
    wait_seconds: Distribution | None
    jct_seconds: Distribution | None
    utilization: float | None
    allocation: float | None
    fragmentation: float | None
    goodput: float | None
    ettr: float | None
    ettr_worst_hour: float | None
    throughput_lost: float | None
    spread: MeanSpread | None
    failures: int  # attempts that a failure cut short
    preemptions: int  # attempts that the policy cut short


def run_summary(history: RunHistory) -> RunSummary:
    """Return the summary of a run that is over: its series with a single bucket, and what only jobs know."""
    whole = time_series(history, edges=np.array([0.0, history.length]))
    ended = [job for job in history.jobs if job.state is JobState.DONE]
    gangs = [job.spread for job in ended if job.spread is not None]
    worked, _ = gpu_seconds_worked(history.jobs)
    return RunSummary(
        jobs=len(history.jobs),
        completed=len(ended),
        makespan_seconds=history.length if ended else None,
        wait_seconds=wait_times(history.jobs),
        jct_seconds=distribution([job.end - job.submitted for job in ended]),
        utilization=float(whole.utilization[0]) if ended else None,
        allocation=_known(whole.allocation[0]),
        fragmentation=_known(whole.fragmentation[0]),
        goodput=worked / (history.capacity * history.length) if ended else None,
        ettr=run_ettr(history.jobs),
        ettr_worst_hour=worst_ettr(history),
        throughput_lost=_known(whole.lost[0]),
        spread=MeanSpread(*(sum(each) / len(gangs) for each in zip(*gangs, strict=True))) if gangs else None,
        failures=int(whole.failures[0]),
        preemptions=int(whole.preemptions[0]),
    )


def _known(value: float) -> float | None:
    return None if isnan(value) else float(value)
