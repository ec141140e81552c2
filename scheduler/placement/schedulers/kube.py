"""kube-scheduler alone, v1.36: pod by pod, no topology.

Source: kubernetes v1.36 ``pkg/scheduler/schedule_one.go``; read, not copied.  Pods come in rank order.  Each looks at a
sample of the feasible nodes; whole empty nodes all score the same, and selectHost draws one of the best at random.

The sample: kube-scheduler looks for feasible nodes from where it stopped for the pod before, and ends when it has
enough of them: all of up to 100 nodes, else ``50 - nodes / 125`` percent of them (at least 5 percent, at least 100
nodes).  Volcano took the rule over (v1.14.1 ``pkg/scheduler/util/scheduler_helper.go``).  Consecutive pods therefore
see different parts of the cluster, the reason why pods of one gang that nothing else holds together end up far apart.

Left out: spreading by PodTopologySpread (off for pods without a service or owner selector), image locality, and
opportunistic batching of identical pods.  The search runs in 16 threads, so where one ends varies by a few nodes.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from scheduler.placement.admission import BoolArray
from scheduler.placement.heuristic import Heuristic, Request
from scheduler.placement.node_order import by_name
from topology.cluster import IntArray


def list_nodes(request: Request) -> IntArray:
    """Return nodes in the order of ranks, each drawn at random from the window of its pod."""
    rng = np.random.default_rng(request.seed)
    window = Window(by_name(request.cluster), request.admitted)
    chosen = np.empty(request.grid.cells, dtype=np.int32)
    for rank in range(request.grid.cells):
        seen = window.look()
        chosen[rank] = seen[rng.integers(len(seen))]
        window.take(int(chosen[rank]))
    return chosen


def sample_size(nodes: int) -> int:
    """Return how many feasible nodes are enough for one pod in a cluster of that many nodes."""
    # at least 100 nodes, and percentOfNodesToScore: 50 percent, less one for every 125 nodes, at least 5
    return min(nodes, max(100, nodes * max(5, 50 - nodes // 125) // 100))


class Window:
    """The moving view of a list of nodes, which has those of the cluster in the scheduler's order."""

    def __init__(self, nodes: IntArray, admitted: BoolArray) -> None:
        self._nodes = nodes
        self._free = admitted[nodes]
        self._position = np.empty(len(admitted), dtype=np.int32)
        self._position[nodes] = np.arange(len(nodes), dtype=np.int32)
        self._enough = sample_size(len(nodes))
        self._start = 0

    def look(self) -> IntArray:
        """Return the feasible nodes that the next pod may choose from, and move the window on."""
        feasible = np.flatnonzero(self._free)
        ahead = int(np.searchsorted(feasible, self._start))
        seen = np.roll(feasible, -ahead)[: self._enough]
        # a search that had to look at every node ends where it began
        if len(feasible) >= self._enough:
            self._start = (int(seen[-1]) + 1) % len(self._nodes)
        return self._nodes[seen]

    def take(self, node: int) -> None:
        """Mark the node as in use from now on."""
        self._free[self._position[node]] = False


kube_scheduler = partial(
    Heuristic, "kube-scheduler", "kube-scheduler 1.36 alone: any free node of a moving sample", list_nodes
)
