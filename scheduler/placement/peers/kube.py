"""kube-scheduler alone, v1.36: pod by pod, no topology.

Source: kubernetes v1.36 ``pkg/scheduler/schedule_one.go``; read, not copied.  Pods come in rank order.  Each looks at a
sample of the feasible nodes (:mod:`scheduler.placement.peers.sampling`); whole empty nodes all score the same, and
selectHost draws one of the best at random.

Left out: spreading by PodTopologySpread (off for pods without a service or owner selector), image locality, and
opportunistic batching of identical pods.
"""

from __future__ import annotations

import numpy as np

from scheduler.placement.heuristic import Heuristic, RankOrder, Request, by_rank
from scheduler.placement.peers.names import by_name
from scheduler.placement.peers.sampling import Window
from topology.cluster import IntArray


def kube_scheduler(*, order: RankOrder = "job") -> Heuristic:
    """Entry point ``kube-scheduler``."""
    return Heuristic(
        "kube-scheduler", "kube-scheduler 1.36 alone: any free node of a moving sample", by_rank(list_nodes, order)
    )


def list_nodes(request: Request) -> IntArray:
    """Nodes in the order of ranks, drawn at random from the window of each pod."""
    rng = np.random.default_rng(request.seed)
    window = Window(by_name(request.cluster), request.admitted)
    chosen = np.empty(request.grid.cells, dtype=np.int32)
    for rank in range(request.grid.cells):
        seen = window.look()
        chosen[rank] = seen[rng.integers(len(seen))]
        window.take(int(chosen[rank]))
    return chosen
