"""Max-min fair rates by progressive filling.

All flows grow at the same pace until a link is full or a flow has all it can use; those stop, the others go on
(Bertsekas and Gallager, "Data Networks", 2nd edition, section 6.5.2).  In the end no flow can have more without taking
it from one that has no more: each has a full link on which no flow has a larger rate, or all it can use.
"""

from __future__ import annotations

import numpy as np

from topology.cluster import FloatArray, IntArray

SAME = 1e-9
"""Two levels closer than this share of themselves are the same."""


def max_min_rates(
    links: IntArray, flows: IntArray, lanes: FloatArray, *, capacity: FloatArray, most: FloatArray
) -> FloatArray:
    """Return rates of flows that share links.

    A flow of rate r takes ``lanes * r`` of a link.

    :param links: shape [uses], the link of each use.
    :param flows: shape [uses], the flow of each use.
    :param lanes: shape [uses], above 0.
    :param capacity: shape [links], above 0.
    :param most: shape [flows], the largest rate that each flow can use, above 0 and finite.
    :returns: shape [flows], in the unit of ``capacity`` and ``most``.
    """
    rates = np.zeros(len(most))
    grows = np.ones(len(most), dtype=bool)
    while grows.any():
        growing = np.bincount(links, weights=lanes * grows[flows], minlength=len(capacity))
        settled = np.bincount(links, weights=lanes * rates[flows], minlength=len(capacity))
        fills_at = np.full(len(capacity), np.inf)
        np.divide(np.maximum(capacity - settled, 0.0), growing, out=fills_at, where=growing > 0.0)
        level = min(float(fills_at.min(initial=np.inf)), float(most[grows].min()))
        stops = most <= level * (1.0 + SAME)
        stops[flows[fills_at[links] <= level * (1.0 + SAME)]] = True
        stops &= grows
        rates[stops] = np.minimum(level, most[stops])
        grows &= ~stops
    return rates
