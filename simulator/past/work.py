"""Work that counted over time, and ETTR from it: cumulative, by bucket, over a sliding hour."""

from __future__ import annotations

import numpy as np

from simulator.engine.sim_job import UNITS
from simulator.past.buckets import integrals
from simulator.past.history import History
from topology.cluster import FloatArray

HOUR = 3600.0


def work(past: History, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """GPU-seconds of work that counted, and of jobs from their first start to their end; shape [buckets] each.

    :param edges: of the buckets, seconds since the first submission.
    """
    attempts = past.attempts
    worked = np.isfinite(attempts.pace)
    rate = attempts.gpus[worked] / np.maximum(attempts.pace[worked], 1e-12)
    counted = integrals(edges, attempts.works[worked], attempts.counts[worked], rate)
    present = past.present
    gpus = np.array([past.jobs[key].units for key in present.number], dtype=np.float64) / UNITS
    return np.maximum(counted, 0.0), np.maximum(integrals(edges, present.begin, present.end, gpus), 0.0)


def ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Part over whole; NaN where the whole is nothing but rounding."""
    scale = float(np.max(np.abs(whole), initial=0.0))
    sound = whole > 1e-9 * max(scale, 1e-300)
    found: FloatArray = np.divide(part, whole, out=np.full(part.shape, np.nan), where=sound)
    return found


def sliding_ettr(past: History, at: FloatArray, *, window: float = HOUR) -> FloatArray:
    """ETTR of the window before each instant; until the first window is over, of the time so far.

    :param at: shape [instants], seconds since the first submission, above 0.
    :param window: its length in seconds.
    :returns: shape [instants]; NaN = no job was between its first start and its end.
    """
    since = np.maximum(at - window, 0.0)
    edges = np.unique(np.concatenate([[0.0], since, at]))
    sums = [np.concatenate([[0.0], np.cumsum(part)]) for part in work(past, edges)]
    last, first = np.searchsorted(edges, at), np.searchsorted(edges, since)
    counted, present = (total[last] - total[first] for total in sums)
    return np.clip(ratio(counted, present), 0.0, 1.0)


def worst_ettr(past: History, *, window: float = HOUR) -> float | None:
    """The least that :func:`sliding_ettr` ever is, of whole windows inside the run; of a shorter run, of all of it.

    Between two instants at which either end of the window meets a begin or an end, the ratio of two linear functions
    only rises or only falls: the least is at one of these instants.

    :returns: ``None`` = no job ever started.
    """
    attempts = past.attempts
    turns = np.unique(np.concatenate([attempts.works, attempts.counts, past.present.begin, past.present.end]))
    first = min(window, past.length)
    inside = np.clip(np.concatenate([turns, turns + window]), first, past.length)
    found = sliding_ettr(past, np.unique(np.append(inside, past.length)), window=window)
    return None if np.isnan(found).all() else float(np.nanmin(found))
