"""How a number is distributed over jobs: how long they waited, in all and by size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from simulator.engine.sim_job import SimJob
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
