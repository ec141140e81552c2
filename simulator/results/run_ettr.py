"""ETTR of a run, the effective training time ratio: GPU-seconds of work that counted over those since first starts.

By bucket, over a sliding hour, its worst hour, and of the whole run.  What a single job may expect by formula is
:mod:`simulator.failures.expected_ettr`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum

import numpy as np

from simulator.engine.sim_job import UNITS, JobState, SimJob
from simulator.results.bucket_integrals import integrals
from simulator.results.run_history import RunHistory
from topology.cluster import FloatArray

HOUR = 3600.0


def run_ettr(jobs: Iterable[SimJob]) -> float | None:
    """Return ETTR of all jobs that ended; ``None`` = there are none."""
    worked, wall = gpu_seconds_worked(jobs)
    return worked / wall if wall else None


def gpu_seconds_worked(jobs: Iterable[SimJob]) -> tuple[float, float]:
    """Return GPU-seconds of work of jobs that ended, at the trace's pace, and those from first start to end."""
    ended = [job for job in jobs if job.state is JobState.DONE]
    wall = fsum(job.units * (job.end - job.first_start) for job in ended)
    # Ends are rounded: a job may have held its nodes for a little less than it worked.
    return min(wall, fsum(job.units * job.record.duration for job in ended)) / UNITS, wall / UNITS


def work(history: RunHistory, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return GPU-seconds of work that counted, and of jobs from first start to end; shape [buckets] each."""
    attempts = history.attempts
    worked = np.isfinite(attempts.pace)
    rate = attempts.gpus[worked] / np.maximum(attempts.pace[worked], 1e-12)
    counted = integrals(edges, attempts.works[worked], attempts.counts[worked], rate)
    present = history.present
    gpus = np.array([history.jobs[key].units for key in present.number], dtype=np.float64) / UNITS
    return np.maximum(counted, 0.0), np.maximum(integrals(edges, present.begin, present.end, gpus), 0.0)


def ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return part over whole; NaN where the whole is nothing but rounding."""
    scale = float(np.max(np.abs(whole), initial=0.0))
    sound = whole > max(1e-9 * scale, 1e-150)  # a smaller whole may be a denormal number, by which nothing divides
    found: FloatArray = np.divide(part, whole, out=np.full(part.shape, np.nan), where=sound)
    return found


def sliding_ettr(history: RunHistory, at: FloatArray, *, window: float = HOUR) -> FloatArray:
    """Return ETTR of the window in seconds before each instant; until the first window is over, of the time so far.

    :param at: shape [instants], seconds since the first submission, above 0.
    :returns: shape [instants]; NaN = no job was between its first start and its end.
    """
    since = np.maximum(at - window, 0.0)
    edges = np.unique(np.concatenate([[0.0], since, at]))
    sums = [np.concatenate([[0.0], np.cumsum(part)]) for part in work(history, edges)]
    last, first = np.searchsorted(edges, at), np.searchsorted(edges, since)
    counted, present = (total[last] - total[first] for total in sums)
    return np.clip(ratio(counted, present), 0.0, 1.0)


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
