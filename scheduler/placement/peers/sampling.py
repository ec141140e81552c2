"""How the schedulers of Kubernetes look at some nodes only, and at others for the next pod.

kube-scheduler looks for feasible nodes from where it stopped for the pod before, and ends when it has enough of them:
all of up to 100 nodes, else ``50 - nodes / 125`` percent of them (at least 5 percent, at least 100 nodes).  Volcano
took the rule over.  Consecutive pods therefore see different parts of the cluster, the reason why pods of one gang
that nothing else holds together end up far apart.

Source: kubernetes v1.36 ``pkg/scheduler/schedule_one.go`` (numFeasibleNodesToFind, findNodesThatPassFilters);
volcano v1.14.1 ``pkg/scheduler/util/scheduler_helper.go``.  Left out: both search with 16 threads, so where a search
ends varies by a few nodes.
"""

from __future__ import annotations

import numpy as np

from scheduler.placement.admission import BoolArray
from topology.cluster import IntArray


def sample_size(nodes: int) -> int:
    """How many feasible nodes are enough for one pod in a cluster of that many nodes."""
    if nodes <= 100:
        return nodes
    return max(100, nodes * max(5, 50 - nodes // 125) // 100)


class Window:
    """The moving view of a list of nodes.

    :param nodes: all nodes in the order of the scheduler's list, shape [listed].
    :param admitted: shape [nodes of the cluster].
    """

    def __init__(self, nodes: IntArray, admitted: BoolArray) -> None:
        self._nodes = nodes
        self._free = admitted[nodes]
        self._position = np.empty(len(admitted), dtype=np.int32)
        self._position[nodes] = np.arange(len(nodes), dtype=np.int32)
        self._enough = sample_size(len(nodes))
        self._start = 0

    def look(self) -> IntArray:
        """Feasible nodes that the next pod may choose from; moves the window on."""
        feasible = np.flatnonzero(self._free)
        ahead = int(np.searchsorted(feasible, self._start))
        seen = np.roll(feasible, -ahead)[: self._enough]
        if len(feasible) >= self._enough:
            self._start = (int(seen[-1]) + 1) % len(self._nodes)
        return self._nodes[seen]

    def take(self, node: int) -> None:
        """The node is in use from now on."""
        self._free[self._position[node]] = False
