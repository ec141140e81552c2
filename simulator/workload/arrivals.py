"""When jobs are submitted: a Poisson process whose rate may follow the day."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

DAY = 86_400.0
PEAK = 15.0
"""Hour of the day with most submissions: the afternoon."""


def arrivals(
    generator: np.random.Generator, *, per_day: float, days: float, rhythm: float = 0.0
) -> npt.NDArray[np.float64]:
    """Return times of submission in seconds from 0, ascending.

    The rate is ``per_day * (1 + rhythm * cos(2 pi (t - peak) / day))``; times of a process with the largest rate are
    thinned to it (Lewis and Shedler, 1979).

    :param rhythm: 0 = the same all day, below 1.
    """
    most = per_day * (1 + rhythm)
    times = np.sort(generator.random(generator.poisson(most * days)) * days * DAY)
    rate = 1 + rhythm * np.cos(2 * np.pi * (times / DAY - PEAK / 24))
    kept: npt.NDArray[np.float64] = times[generator.random(len(times)) * (1 + rhythm) < rate]
    return kept
