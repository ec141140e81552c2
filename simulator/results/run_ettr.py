"""ETTR of a simulated run, the effective training time ratio: of all of it and of its worst window.

It is GPU-seconds of work that counted over those since jobs first started (ByteRobust, arXiv 2509.16293).  What one job
may expect by formula is :mod:`simulator.failures.ettr`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum

import numpy as np

from ground.quantities import HOUR
from simulator.results.run_history import RunHistory
from simulator.results.time_series import sliding_ettr
from simulator.sim_job import UNITS, JobState, SimJob


def run_ettr(jobs: Iterable[SimJob]) -> float | None:
    """Return ETTR, the effective training time ratio, of all jobs that ended; ``None`` = none did."""
    worked, wall = gpu_seconds_worked(jobs)
    return worked / wall if wall else None


def gpu_seconds_worked(jobs: Iterable[SimJob]) -> tuple[float, float]:
    """Return GPU-seconds of work of jobs that ended, at the trace's pace, and those from first start to end."""
    ended = [job for job in jobs if job.state is JobState.DONE]
    wall = fsum(job.units * (job.end - job.first_start) for job in ended)
    # Ends are rounded: a job may have held its nodes for a little less than it worked.
    return min(wall, fsum(job.units * job.record.duration for job in ended)) / UNITS, wall / UNITS


def worst_ettr(history: RunHistory, *, window: float = HOUR) -> float | None:
    """Return the least :func:`sliding_ettr` of any whole window inside the run, or of a shorter run.

    Between two instants at which either end of the window meets a begin or an end, the ratio of two linear functions
    only rises or only falls: the least is at one of these instants.  ``None`` = no job ever started.
    """
    attempts = history.attempts
    turns = np.unique(np.concatenate([attempts.works, attempts.counts, history.present.begin, history.present.end]))
    first = min(window, history.length)
    inside = np.clip(np.concatenate([turns, turns + window]), first, history.length)
    found = sliding_ettr(history, np.unique(np.append(inside, history.length)), window=window)
    return None if np.isnan(found).all() else float(np.nanmin(found))
