"""What a shared tier loses although it carries as much upwards as downwards: flows that are hashed on the same link.

A switch sends each sub-flow up one of its links, whichever its hash says, and all that are on a link share it evenly.
A flow of q sub-flows sends over one after the other, so it is slowed by the mean load of the links that they are on,
and a step waits for the slowest of n flows on k links.  Nothing in it is fitted: n and k are ports of a switch.  Fixed
shares of the sub-flows would lose more, 35 % where 16 % are lost with 32 flows of 16 on 32 links; measured were 17 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isinf

import numpy as np

from topology.cluster import FloatArray

LOADS = (0.0, 1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0)
"""Flows for each link for which the expectation is found; it is linear in between, and in proportion beyond."""

HASHES = 2**20
"""Hashes that are drawn for a table: the mean is within 1 % of what it is with any number (one standard error)."""


def slowest_flow(counts: list[int], *, links: int, sub_flows: int, draws: int) -> FloatArray:
    """Return by what the slowest of so many flows is slowed, at least 1, a mean over seeded draws: shape [counts].

    :param counts: numbers of flows, ascending: those of one count are the first of the next, so the mean never falls.
    :param sub_flows: q of each flow, each as fast as the q-th part of a link and hashed by itself.
    """
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, links, (draws, counts[-1], sub_flows), dtype=np.int32)
    chosen += np.arange(draws, dtype=np.int32)[:, None, None] * links  # each draw has links of its own
    found = np.ones(len(counts))
    for i, count in enumerate(counts):
        if count:
            here = chosen[:, :count]
            load = np.bincount(here.ravel(), minlength=draws * links) / sub_flows
            found[i] = np.maximum(load[here].mean(axis=2).max(axis=1), 1.0).mean()
    return found


@lru_cache(maxsize=64)
def _table(links: int, sub_flows: int) -> tuple[FloatArray, FloatArray]:
    counts = sorted({round(load * links) for load in LOADS})
    draws = max(1, HASHES // (counts[-1] * sub_flows))
    return np.array(counts) / links, slowest_flow(counts, links=links, sub_flows=sub_flows, draws=draws)


@dataclass(frozen=True, slots=True)
class Hashing:
    """How flows of one kind are hashed."""

    links: int  # of a switch upwards, each as fast as a flow
    sub_flows: float  # of each flow; infinity = spread evenly over all links, packet by packet

    def slowdown(self, load: FloatArray | float) -> FloatArray:
        """Return by what flows are slowed that load the links of a switch so much; any shape.

        :param load: flows for each link, at least 0; where they are more than links, they share these besides.
        """
        if isinf(self.sub_flows):
            return np.maximum(1.0, load)
        loads, slower = _table(self.links, int(self.sub_flows))
        return np.asarray(np.interp(load, loads, slower) * np.maximum(1.0, np.asarray(load) / loads[-1]))
