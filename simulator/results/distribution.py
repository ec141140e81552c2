"""How a number is distributed over jobs: how long they waited."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from simulator.engine.job import SimJob
from topology.json_record import JsonRecord


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
