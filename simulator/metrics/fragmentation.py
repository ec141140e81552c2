"""Fragmentation: the share of free GPUs that lie on nodes of which another part is in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.engine.node_pool import NodePool
from simulator.engine.simulated_cluster import SimulatedCluster


class Fragmentation:
    """Integrates free GPUs, and those of them on nodes that are not wholly free; an observer of the engine."""

    def __init__(self) -> None:
        self._free = 0.0
        self._broken = 0.0

    def elapsed(self, cluster: SimulatedCluster, until: float) -> None:
        """Nothing changes until then."""
        if isinstance(cluster.pool, NodePool):
            seconds, occupancy = until - cluster.now, cluster.pool.occupancy
            self._free += seconds * occupancy.free_units
            self._broken += seconds * (occupancy.free_units - occupancy.idle_units)

    @property
    def share(self) -> float | None:
        """Over the whole run; ``None`` = no GPU was ever free, or there are no nodes."""
        return self._broken / self._free if self._free > 0 else None

    def state(self) -> Mapping[str, float]:
        """Both integrals."""
        return {"free": self._free, "broken": self._broken}

    def restore(self, state: Any) -> None:
        """Go on with those."""
        self._free, self._broken = state["free"], state["broken"]
