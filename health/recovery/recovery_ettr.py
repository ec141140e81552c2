"""ETTR, the effective training time ratio: productive time over wall clock (ByteRobust, arXiv 2509.16293).

*Cumulative*: since the job was submitted.  *Sliding*: over the last hour, which shows single incidents.  Productive is
time that trained steps which were not lost again, given as intervals.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from topology.quantities import HOUR

Seconds = npt.NDArray[np.float64]


def cumulative_ettr(productive: npt.ArrayLike, at: npt.ArrayLike) -> Seconds:
    """Return the share of the time from 0 until each instant that was productive.

    :param productive: shape [intervals, 2], begin and end in seconds since submission; in order, not overlapping.
    :param at: instants, seconds above 0.
    :raises ValueError: intervals that overlap, are out of order or end before they begin; an instant not above 0.
    """
    return sliding_ettr(productive, at, window=np.inf)


def sliding_ettr(productive: npt.ArrayLike, at: npt.ArrayLike, *, window: float = HOUR) -> Seconds:
    """Return the share of the window (seconds) before each instant, or of the time so far, that was productive."""
    bounds = np.asarray(productive, dtype=np.float64).reshape(-1, 2)
    until = np.asarray(at, dtype=np.float64)
    edges = bounds.ravel()
    if not (np.isfinite(edges).all() and (edges >= 0.0).all() and (np.diff(edges) >= 0.0).all()):
        raise ValueError("productive intervals are in order, do not overlap and begin at 0 or later")
    if not (until > 0.0).all() or not window > 0.0:
        raise ValueError("instants and the window are above 0")
    since = np.maximum(0.0, until - window)
    return np.asarray((_productive_until(bounds, until) - _productive_until(bounds, since)) / (until - since))


def _productive_until(bounds: Seconds, instants: Seconds) -> Seconds:
    """Return productive seconds before each instant: flat between the intervals, rising by one a second inside."""
    if not len(bounds):
        return np.zeros_like(instants)
    done = np.concatenate(([0.0], np.cumsum(bounds[:, 1] - bounds[:, 0])))
    which = np.searchsorted(bounds[:, 0], instants, side="right") - 1
    last = np.maximum(which, 0)
    inside = np.clip(instants - bounds[last, 0], 0.0, bounds[last, 1] - bounds[last, 0])
    return np.asarray(np.where(which < 0, 0.0, done[last] + inside))
