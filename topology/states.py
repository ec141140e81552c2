"""What a node is to the next job: free, in use, slow, faulty.  One state a node, for drawings and counts.

A flag outranks use: a slow node in use counts as slow.  So the counts of all states add up to the nodes.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from topology.cluster import Cluster, IntArray


class State(IntEnum):
    """States from best to worst.  The bounds of the degrees of slowness are :data:`SLOWER_FROM`, :data:`SLOWEST_FROM`.

    ``label`` is what people read.
    """

    FREE = 0
    PARTLY = 1
    BUSY = 2
    SLOW = 3
    SLOWER = 4
    SLOWEST = 5
    FAULTY = 6

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
    State.SLOW: f"slow (below {SLOWER_FROM:g}x)",
    State.SLOWER: f"slow ({SLOWER_FROM:g}x to {SLOWEST_FROM:g}x)",
    State.SLOWEST: f"slow ({SLOWEST_FROM:g}x and more)",
    State.FAULTY: "faulty",
}


def node_states(cluster: Cluster) -> IntArray:
    """State of every node.

    :returns: shape [nodes], values of :class:`State`.
    """
    states = np.full(len(cluster), State.FREE, dtype=np.int32)
    states[cluster.free_gpus < cluster.gpus] = State.PARTLY
    states[cluster.free_gpus == 0] = State.BUSY
    slowdown = cluster.slowdown
    states[slowdown > 1.0] = State.SLOW
    states[slowdown >= SLOWER_FROM] = State.SLOWER
    states[slowdown >= SLOWEST_FROM] = State.SLOWEST
    states[np.isinf(slowdown)] = State.FAULTY
    return states


def count_states(states: IntArray) -> tuple[int, ...]:
    """Return how many nodes are in each state.

    :returns: one number for each member of :class:`State`, in its order.
    """
    return tuple(int(n) for n in np.bincount(states, minlength=len(State)))
