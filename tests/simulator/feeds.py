"""A small cluster whose power domains cut across its racks."""

from __future__ import annotations

from topology.build import with_second_levels
from topology.cluster import Cluster
from topology.generate import minipods


def fed_racks() -> Cluster:
    """Two minipods of four nodes; of each, two nodes on ``feed0`` and two on ``feed1``."""
    return with_second_levels(minipods(minipods=2, nodes=8), {"@power": [f"feed{i // 2 % 2}" for i in range(8)]})
