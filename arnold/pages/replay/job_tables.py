"""Tables of a replay's page: jobs, waits by size, and what spread costs."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from arnold.pages.row_chart import ChartRow, row_chart
from ground.quantities import duration, percent, plural
from simulator.results import NAMES, SizeWaits
from simulator.run_history import ENDED, RunHistory
from simulator.sim_job import SimJob

MOST_JOBS = 4_000  # Jobs in the table; of longer traces those that waited longest, then those with most GPU time
LEAST_WAIT = 1.0  # Seconds at the left end of the axis of waits; shorter ones stand there


def chosen_jobs(jobs: Sequence[SimJob], most: int = MOST_JOBS) -> list[SimJob]:
    """Return jobs in order of submission: half are those that waited longest, half those with most GPU time."""
    if len(jobs) <= most:
        return list(jobs)
    by_wait = sorted(jobs, key=lambda job: (job.submitted - job.first_start, job.key))[: most // 2]
    taken = {job.key for job in by_wait}
    by_work = sorted(jobs, key=lambda job: (-job.units * job.record.duration, job.key))
    more = [job for job in by_work if job.key not in taken][: most - len(by_wait)]
    return sorted([*by_wait, *more], key=lambda job: job.key)


def job_data(jobs: Sequence[SimJob], origin: float) -> dict[str, list[Any]]:
    """Return columns; times in seconds since the first submission."""

    def rounded(seconds: float) -> float | None:
        return round(seconds, 1) if isfinite(seconds) else None

    return {
        "id": [job.record.job_id for job in jobs],
        "user": [job.record.user for job in jobs],
        "queue": [job.record.queue for job in jobs],
        "gpus": [job.record.gpus for job in jobs],
        "submit": [rounded(job.submitted - origin) for job in jobs],
        "wait": [rounded(job.first_start - job.submitted) for job in jobs],
        "took": [rounded(job.end - job.first_start) for job in jobs],
        "spread": [job.spread[0] if job.spread else None for job in jobs],
        "restarts": [len(job.runs) for job in jobs],
    }


def wait_chart(rows: Sequence[SizeWaits]) -> str:
    """Return a drawing: from the median to the 95th percentile a bar, a dot at the mean, a line to the largest."""
    drawn = []
    for row in rows:
        wait = row.wait
        tip = (
            f"{row.name}\n{plural(row.jobs, 'job')}, {percent(row.waited)} of them waited\nmean {duration(wait.mean)}, "
            f"median {duration(wait.p50)}\n95% up to {duration(wait.p95)}, longest {duration(wait.max)}"
        )
        tone = f"s{NAMES.index(row.name)}"
        drawn.append(ChartRow(row.name, tone, wait.mean, (wait.p50, wait.max), tip, bar=(wait.p50, wait.p95)))
    return row_chart(drawn, name="waits", title="Wait by size of job", kind="seconds", log_from=LEAST_WAIT)


def spread_rows(past: RunHistory) -> list[tuple[int, int, float, float | None, float]]:
    """Return gangs that ended, by DP spread.

    :returns: DP spread; gangs; GPU-hours that they held; share that they lost of what they could do at the trace's pace
        (``None`` = none lost anything); length of its bar, percent of the longest.
    """
    attempts = past.attempts
    ended = (attempts.why == ENDED) & (attempts.dp > 0)
    hours = attempts.gpus * (attempts.end - attempts.begin) / 3600
    sound = np.isfinite(attempts.pace)
    worked = np.where(sound, attempts.gpus * (attempts.end - attempts.works), 0.0)
    done = np.where(sound, worked / np.where(sound, np.maximum(attempts.pace, 1e-12), 1.0), 0.0)
    rows = []
    for dp in np.unique(attempts.dp[ended]).tolist():
        mine = ended & (attempts.dp == dp)
        whole = float(worked[mine].sum())
        lost = max(0.0, 1.0 - float(done[mine].sum()) / whole) if whole > 0 else 0.0
        rows.append((dp, int(mine.sum()), float(hours[mine].sum()), lost))
    most = max((row[3] for row in rows), default=0.0)
    # less is rounding
    if most <= 1e-9:
        return [(dp, gangs, held, None, 0.0) for dp, gangs, held, _ in rows]
    return [(dp, gangs, held, lost, round(100 * lost / most, 2)) for dp, gangs, held, lost in rows]
