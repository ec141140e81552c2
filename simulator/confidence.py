"""Confidence intervals of a mean over a few independent runs: Student's t, for few runs are what studies have."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import stdev

_EXACT = (12.706, 4.303, 3.182, 2.776, 2.571)
"""Quantiles for 1 to 5 degrees of freedom, where the expansion is not yet good."""

_Z = 1.959964


def half_width(values: Sequence[float]) -> float:
    """Return half of the 95 % interval of the mean; 0 for a single value, of which nothing is known.

    The quantile is the Cornish-Fisher expansion of Student's t about the normal one (Abramowitz and Stegun, 26.7.5),
    right to three digits from 6 degrees of freedom on.
    """
    if len(values) < 2:
        return 0.0
    return quantile(len(values) - 1) * stdev(values) / sqrt(len(values))


def quantile(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's t."""
    if degrees <= len(_EXACT):
        return _EXACT[degrees - 1]
    z = _Z
    first = (z**3 + z) / (4 * degrees)
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    return z + first + second + third
