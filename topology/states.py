"""What a node is to the next job: free, in use, kept out, slow, faulty.  A slow node in use counts as slow."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from topology.cluster import Cluster, IntArray


class State(IntEnum):
    """States from best to worst; slow nodes in three degrees, from :data:`SLOWER_FROM` and :data:`SLOWEST_FROM` on."""

    FREE = 0
    PARTLY = 1
    BUSY = 2
    KEPT_OUT = 3
    SLOW = 4
    SLOWER = 5
    SLOWEST = 6
    FAULTY = 7

    @property
    def label(self) -> str:
        """The state in words."""
        return _LABELS[self]


SLOWER_FROM = 1.2
SLOWEST_FROM = 1.5

_LABELS = {
    State.FREE: "free",
    State.PARTLY: "partly busy",
    State.BUSY: "busy",
    State.KEPT_OUT: "kept out",
    State.SLOW: f"slow (below {SLOWER_FROM:g}x)",
    State.SLOWER: f"slow ({SLOWER_FROM:g}x to {SLOWEST_FROM:g}x)",
    State.SLOWEST: f"slow ({SLOWEST_FROM:g}x and more)",
    State.FAULTY: "faulty",
}


def node_states(cluster: Cluster) -> IntArray:
    """Return the :class:`State` of every node, shape [nodes]."""
    states = np.full(len(cluster), State.FREE, dtype=np.int32)
    states[cluster.free_gpus < cluster.gpus] = State.PARTLY
    states[cluster.free_gpus == 0] = State.BUSY
    states[list(cluster.kept_out)] = State.KEPT_OUT
    slowdown = cluster.slowdown
    states[slowdown > 1.0] = State.SLOW
    states[slowdown >= SLOWER_FROM] = State.SLOWER
    states[slowdown >= SLOWEST_FROM] = State.SLOWEST
    states[np.isinf(slowdown)] = State.FAULTY
    return states


def count_states(states: IntArray) -> tuple[int, ...]:
    """Return how many nodes are in each :class:`State`, in its order."""
    return tuple(int(n) for n in np.bincount(states, minlength=len(State)))


def legend(states: IntArray) -> tuple[tuple[State, int], ...]:
    """Return states that occur and how many nodes are in each, from best to worst."""
    return tuple((State(i), count) for i, count in enumerate(count_states(states)) if count)
