"""A run in a few numbers, and how a number is distributed over its jobs, in all and by size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from ground.records import JsonRecord
from simulator.results.run_ettr import gpu_seconds_worked, run_ettr, worst_ettr
from simulator.results.run_history import RunHistory
from simulator.results.time_series import time_series
from simulator.sim_job import JobState, SimJob
from topology.cluster import IntArray

LIMITS = (1.0, 8.0, 64.0, 512.0)  # Largest number of GPUs of each class of size but the last
NAMES = ("1 GPU or less", "2 to 8 GPUs", "9 to 64 GPUs", "65 to 512 GPUs", "over 512 GPUs")
"""Of the classes of size, in which waits are told and nodes are coloured."""


@dataclass(frozen=True, slots=True)
class Distribution(JsonRecord):
    """Seconds over jobs; percentiles are linear between the two nearest ranks, numpy's default."""

    mean: float
    """Mean over all jobs."""
    p50: float
    """Half of the jobs have at most this."""
    p95: float
    """95 % of the jobs have at most this."""
    p99: float
    """99 % of the jobs have at most this."""
    max: float
    """The most that a job has."""


def distribution(values: npt.ArrayLike) -> Distribution | None:
    """Return the distribution of some values; ``None`` = there are none."""
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        return None
    p50, p95, p99 = np.percentile(array, (50, 95, 99)).tolist()
    return Distribution(float(array.mean()), p50, p95, p99, float(array.max()))


def wait_times(jobs: Iterable[SimJob]) -> Distribution | None:
    """Return seconds from submission to the first start, over jobs that started; ``None`` = none did."""
    return distribution([job.first_start - job.submitted for job in jobs if isfinite(job.first_start)])


def size_class(gpus: npt.ArrayLike) -> IntArray:
    """Return the class of a number of GPUs, from 0."""
    return np.searchsorted(LIMITS, np.asarray(gpus, dtype=np.float64), side="left").astype(np.int32)


@dataclass(frozen=True, slots=True)
class SizeWaits:
    """Waits of the jobs of one class of size that started."""

    name: str  # of the class
    jobs: int
    waited: float  # share of jobs that waited at all
    wait: Distribution  # seconds from submission to the first start


def waits_by_size(jobs: Iterable[SimJob]) -> tuple[SizeWaits | None, ...]:
    """Return the waits of each class of size; ``None`` = no job of it started."""
    started = [job for job in jobs if isfinite(job.first_start)]
    classes = size_class([job.record.gpus for job in started])
    waits = np.array([job.first_start - job.submitted for job in started])
    by_class = [(name, waits[classes == i]) for i, name in enumerate(NAMES)]
    return tuple(
        None if found is None else SizeWaits(name, len(own), float((own > 0).mean()), found)
        for name, own in by_class
        for found in [distribution(own)]
    )


@dataclass(frozen=True, slots=True)
class MeanSpread(JsonRecord):
    """Mean over gangs of the largest number of domains that a group touches."""

    dp: Annotated[float, Ge(1)]
    """Mean over gangs of the DP spread."""
    pp: Annotated[float, Ge(1)]
    """Mean over gangs of the PP spread."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run was like; the formulas are in metrics.md (docs).  ``None`` = there was nothing of which to say it.

    Fields are called as in the answer of ``arnold simulate``, which says more of them
    (``arnold.documents.simulate_answer``), and as the columns of a study.
    """

    jobs: int
    completed: int
    makespan_seconds: float | None
    wait_seconds: Distribution | None
    trace_wait_seconds: Distribution | None
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
    waits_by_size: tuple[SizeWaits | None, ...]  # of each class of size; None = no job of it started


def run_summary(history: RunHistory) -> RunSummary:
    """Return the summary of a run that is over: what only jobs know, and its series with a single bucket."""
    jobs, ended = history.jobs, [job for job in history.jobs if job.state is JobState.DONE]
    gangs = [job.spread for job in ended if job.spread is not None]
    spread = MeanSpread(*(sum(each) / len(gangs) for each in zip(*gangs, strict=True))) if gangs else None
    waits, by_size, ettr = wait_times(jobs), waits_by_size(jobs), run_ettr(jobs)
    completion = distribution([job.end - job.submitted for job in ended])
    worked, _ = gpu_seconds_worked(jobs)
    trace_waits = distribution([job.record.waited for job in jobs if job.record.waited is not None])
    whole = time_series(history, edges=np.array([0.0, history.length]))
    means = whole.allocation[0], whole.fragmentation[0], whole.lost[0]
    allocation, fragmentation, lost = (None if isnan(mean) else float(mean) for mean in means)
    return RunSummary(
        jobs=len(jobs),
        completed=len(ended),
        makespan_seconds=history.length if ended else None,
        wait_seconds=waits,
        trace_wait_seconds=trace_waits,
        jct_seconds=completion,
        utilization=float(whole.utilization[0]) if ended else None,
        allocation=allocation,
        fragmentation=fragmentation,
        goodput=worked / (history.capacity * history.length) if ended else None,
        ettr=ettr,
        ettr_worst_hour=worst_ettr(history),
        throughput_lost=lost,
        spread=spread,
        failures=int(whole.failures[0]),
        preemptions=int(whole.preemptions[0]),
        waits_by_size=by_size,
    )
