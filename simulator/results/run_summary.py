"""A run in a few numbers, and how a number is distributed over its jobs, in all and by size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from simulator.engine.sim_job import JobState, SimJob
from simulator.results.run_ettr import gpu_seconds_worked, run_ettr, worst_ettr
from simulator.results.run_history import RunHistory
from simulator.results.time_series import time_series
from topology.cluster import FloatArray, IntArray
from topology.json_record import JsonRecord

LIMITS = (1.0, 8.0, 64.0, 512.0)  # Largest number of GPUs of each class of size but the last
NAMES = ("1 GPU or less", "2 to 8 GPUs", "9 to 64 GPUs", "65 to 512 GPUs", "over 512 GPUs")
"""Of the classes of size, in which waits are told and nodes are coloured."""


@dataclass(frozen=True, slots=True)
class Distribution(JsonRecord):
    """Seconds over jobs; percentiles are linear between the two nearest ranks, numpy's default."""

    mean: float
    """Over all jobs."""
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


def waits_by_size(jobs: Iterable[SimJob]) -> list[FloatArray]:
    """Return, for each class of size, seconds from submission to the first start of its jobs that started."""
    started = [job for job in jobs if isfinite(job.first_start)]
    classes = size_class([job.record.gpus for job in started])
    waits = np.array([job.first_start - job.submitted for job in started])
    return [waits[classes == i] for i in range(len(NAMES))]


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
