"""How a number is distributed over jobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Distribution:
    """Mean, percentiles (linear between the two nearest ranks, numpy's default) and largest."""

    mean: float
    p50: float
    p95: float
    p99: float
    max: float


def distribution(values: npt.ArrayLike) -> Distribution | None:
    """Of some values; ``None`` = there are none."""
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        return None
    p50, p95, p99 = np.percentile(array, (50, 95, 99)).tolist()
    return Distribution(float(array.mean()), p50, p95, p99, float(array.max()))
