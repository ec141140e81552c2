"""Buckets of time, and exact integrals over them of quantities that are sums of intervals with weights.

With G(x) = sum of w max(0, x - begin) - sum of w max(0, x - end), the integral over a bucket is the difference of G at
its edges; sorted prefix sums give G at all edges in O((n + m) log n), without stepping through events.
"""

from __future__ import annotations

from itertools import chain
from math import floor, fsum, log10

import numpy as np
import numpy.typing as npt

from topology.cluster import FloatArray
from topology.quantities import DAY, HOUR, MINUTE

STEPS = (
    *(step * 1.0 for step in (1, 2, 5, 10, 15, 30)),
    *(step * MINUTE for step in (1, 2, 5, 10, 15, 30)),
    *(step * HOUR for step in (1, 2, 3, 6, 12)),
    *(step * DAY for step in (1, 2, 7, 14, 28)),
)
"""Lengths of buckets that people like, seconds."""


def bucket_length(length: float, most: int) -> float:
    """Return the least length of bucket that people like and of which a time in seconds has at most so many."""
    least = length / most
    for step in STEPS:
        if step >= least:
            return step if least > 0.2 else 10.0 ** floor(log10(least) + 1)
    return float(np.ceil(least / STEPS[-1]) * STEPS[-1])


def edges_of(length: float, step: float) -> FloatArray:
    """Return the edges of buckets from 0 to the length; the last bucket may be shorter."""
    edges = np.arange(0.0, length, step, dtype=np.float64)
    return np.append(edges, length)


def integrals(edges: FloatArray, begin: FloatArray, end: FloatArray, weight: npt.ArrayLike = 1.0) -> FloatArray:
    """Return the integral of the sum of weights over each bucket, shape [buckets], in units of weight times seconds.

    Of a single bucket it is rounded once, so that what fills the bucket is neither more nor less than the bucket.

    :param edges: shape [buckets + 1], ascending.
    :param begin: shape [intervals], as ``weight``, which may be one for all, and ``end``, which is not before it.
    """
    weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), begin.shape)
    if len(edges) == 2:
        # Differences of prefix sums would round by as much as the whole sum; fsum does not round on the way.
        until, since = weights * np.clip(end, *edges), weights * np.clip(begin, *edges)
        return np.array([fsum(chain(until.tolist(), (-since).tolist()))])
    return np.diff(_ramps(edges, begin, weights) - _ramps(edges, end, weights))


def _ramps(x: FloatArray, at: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the sum of w * max(0, x - at), for each x."""
    order = np.argsort(at, kind="stable")
    at, weight = at[order], weight[order]
    passed = np.searchsorted(at, x, side="right")
    weights = np.concatenate([[0.0], np.cumsum(weight)])[passed]
    moments = np.concatenate([[0.0], np.cumsum(weight * at)])[passed]
    ramps: FloatArray = weights * x - moments
    return ramps


def counts(edges: FloatArray, times: FloatArray) -> FloatArray:
    """Return how many of some times lie in each bucket; the last one has its end too."""
    return np.histogram(times, edges)[0].astype(np.float64)


def ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return part over whole; NaN where the whole is nothing but rounding."""
    scale = float(np.max(np.abs(whole), initial=0.0))
    sound = whole > max(1e-9 * scale, 1e-150)  # a smaller whole may be a denormal number, by which nothing divides
    found: FloatArray = np.divide(part, whole, out=np.full(part.shape, np.nan), where=sound)
    return found
