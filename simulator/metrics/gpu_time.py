"""GPU-seconds, exactly: sums of products of floats and integers lose nothing until the very end.

A float is an integer over a power of two, so sums of them are integers over the largest of those powers.  What is
summed exactly cannot exceed capacity by rounding: utilisation is never above 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import chain

from simulator.engine.sim_job import UNITS, JobState, SimJob


def held(job: SimJob) -> Iterable[tuple[float, float]]:
    """Intervals in which a job had its GPUs, begin and end; one that still runs is left out."""
    return chain(job.runs, [(job.started, job.end)] if job.state is JobState.DONE else ())


def gpu_seconds(spans: Iterable[tuple[int, float, float]]) -> Fraction:
    """Sum of units * (end - begin), in GPU-seconds.

    :param spans: units, begin, end.
    """
    sums: dict[int, int] = {}
    for units, begin, end in spans:
        for sign, time in ((units, end), (-units, begin)):
            numerator, denominator = time.as_integer_ratio()
            sums[denominator] = sums.get(denominator, 0) + sign * numerator
    return sum((Fraction(total, denominator) for denominator, total in sums.items()), Fraction()) / UNITS


def held_gpu_seconds(jobs: Iterable[SimJob]) -> Fraction:
    """GPU-seconds in which GPUs belonged to a job, whether that work counted or was lost again."""
    return gpu_seconds((job.units, begin, end) for job in jobs for begin, end in held(job))
