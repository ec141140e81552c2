"""A run in a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from simulator.engine.sim_job import UNITS, JobState, SimJob
from simulator.metrics.distribution import Distribution, distribution
from simulator.metrics.gpu_time import gpu_seconds, held_gpu_seconds


@dataclass(frozen=True, slots=True)
class Summary:
    """The formulas are in docs/metrics.md.

    :param jobs: of the trace, those that were dropped left out.
    :param completed: that ended.
    :param makespan: seconds from the first submission to the last end; ``None`` = no job ended, as below.
    :param wait: seconds from submission to the first start, of jobs that started.
    :param jct: seconds from submission to the end, of jobs that ended.
    :param utilization: GPU-seconds held over GPUs times makespan.
    :param goodput: GPU-seconds of work of jobs that ended, at the trace's pace, over GPUs times makespan.
    :param ettr: GPU-seconds of work that counted over those from first start to end; of jobs that ended.
    :param spread: mean DP and PP spread of gangs that ended; ``None`` = there were none.
    """

    jobs: int
    completed: int
    makespan: float | None
    wait: Distribution | None
    jct: Distribution | None
    utilization: float | None
    goodput: float | None
    ettr: float | None
    spread: tuple[float, float] | None


def summarise(jobs: Sequence[SimJob], capacity: int) -> Summary:
    """The summary of a run.

    :param jobs: all of them, in order of submission.
    :param capacity: units of the cluster.
    """
    ended = [job for job in jobs if job.state is JobState.DONE]
    started = [job for job in jobs if job.first_start != float("inf")]
    gangs = [job.spread for job in ended if job.spread is not None]
    last = max((job.end for job in ended), default=jobs[0].submitted if jobs else 0.0)
    makespan = last - jobs[0].submitted if ended else None
    room = Fraction(capacity, UNITS) * (Fraction(last) - Fraction(jobs[0].submitted)) if ended else Fraction()
    held = held_gpu_seconds(ended)
    wall = gpu_seconds((job.units, job.first_start, job.end) for job in ended)
    work = min(held, gpu_seconds((job.units, 0.0, job.record.duration) for job in ended))  # ends are rounded
    return Summary(
        jobs=len(jobs),
        completed=len(ended),
        makespan=makespan,
        wait=distribution([job.first_start - job.submitted for job in started]),
        jct=distribution([job.end - job.submitted for job in ended]),
        utilization=_share(held, room),
        goodput=_share(work, room),
        ettr=_share(work, wall),
        spread=(sum(dp for dp, _ in gangs) / len(gangs), sum(pp for _, pp in gangs) / len(gangs)) if gangs else None,
    )


def _share(part: Fraction, whole: Fraction) -> float | None:
    return float(part / whole) if whole else None
