"""Confidence intervals of a mean over a few independent runs: Student's t, for few runs are what studies have."""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Self

from ground.quantities import Kind, label_of
from ground.records import JsonRecord, NotNegative
from scheduler.queue.run_times import student_quantile

_EXACT = (12.706, 4.303, 3.182, 2.776, 2.571)
"""Quantiles for 1 to 5 degrees of freedom, where the expansion is not yet good."""

_Z = 1.959964


def half_width(values: Sequence[float]) -> float:
    """Return half of the 95 % interval of the mean; 0 for a single value, of which nothing is known.

    :func:`scheduler.queue.run_times.student_quantile` is right to three digits from 6 degrees of freedom on.
    """
    if len(values) < 2:
        return 0.0
    return quantile(len(values) - 1) * stdev(values) / sqrt(len(values))


def quantile(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's t."""
    return _EXACT[degrees - 1] if degrees <= len(_EXACT) else student_quantile(_Z, degrees)


class Band(JsonRecord):
    """A number over seeds."""

    mean: float
    """Mean over the runs of the group."""
    half: NotNegative | None
    """Half of the 95 % interval of the mean, by Student's t; null with one run, which says nothing of chance."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the band of a number of some runs, at least one."""
        return cls(fmean(values), half_width(values) if len(values) > 1 else None)

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the interval; the mean where it is not known."""
        half = self.half or 0.0
        return self.mean - half, self.mean + half

    def label(self, kind: Kind) -> str:
        """Return mean and half of the interval as people read them."""
        return label_of(self.mean, kind) + (f" ± {label_of(self.half, kind)}" if self.half else "")

    def __format__(self, spec: str) -> str:
        """Return both as a cell has them, each by the format of a number."""
        return f"{self.mean:{spec}}" + ("" if self.half is None else f" ± {self.half:{spec}}")
