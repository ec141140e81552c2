"""The table of jobs: columns for the script, and which jobs are in it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from simulator.engine.job import SimJob

MOST_JOBS = 4_000
"""Jobs in the table; of longer traces those that waited longest, then those with most GPU time."""


def chosen_jobs(jobs: Sequence[SimJob], most: int = MOST_JOBS) -> list[SimJob]:
    """Return jobs in order of submission: half are those that waited longest, half those with most GPU time."""
    if len(jobs) <= most:
        return list(jobs)
    by_wait = sorted(jobs, key=lambda job: (-_wait(job), job.key))[: most // 2]
    taken = {job.key for job in by_wait}
    by_work = sorted(jobs, key=lambda job: (-job.units * job.record.duration, job.key))
    more = [job for job in by_work if job.key not in taken][: most - len(by_wait)]
    return sorted([*by_wait, *more], key=lambda job: job.key)


def job_data(jobs: Sequence[SimJob], origin: float) -> dict[str, list[Any]]:
    """Return columns; times in seconds since the first submission."""
    return {
        "id": [job.record.job_id for job in jobs],
        "user": [job.record.user for job in jobs],
        "queue": [job.record.queue for job in jobs],
        "gpus": [job.record.gpus for job in jobs],
        "submit": [_rounded(job.submitted - origin) for job in jobs],
        "wait": [_rounded(job.first_start - job.submitted) for job in jobs],
        "took": [_rounded(job.end - job.first_start) for job in jobs],
        "spread": [job.spread[0] if job.spread else None for job in jobs],
        "restarts": [len(job.runs) for job in jobs],
    }


def _wait(job: SimJob) -> float:
    return job.first_start - job.submitted


def _rounded(seconds: float) -> float | None:
    return round(seconds, 1) if isfinite(seconds) else None
