"""What is free and idle by domain, kept node by node."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.occupancy import Occupancy
from tests.simulator.clusters import racks
from topology.cluster import count_nodes

CLUSTER = racks(9, per_rack=2, racks_per_pod=2)

CHANGES = st.lists(
    st.tuples(st.sets(st.integers(0, 8), min_size=1), st.integers(0, 8), st.booleans(), st.booleans()), max_size=20
)


@given(CHANGES)
def test_counts_are_those_of_counting_anew(changes: list[tuple[set[int], int, bool, bool]]) -> None:
    """Units are taken and given on one or several nodes, and nodes are promised: each number as if from scratch."""
    occupancy = Occupancy(CLUSTER.gpus, CLUSTER.gpus, CLUSTER.levels)
    free, promised = CLUSTER.gpus.copy(), np.zeros(9, dtype=np.bool_)
    for nodes, units, together, promise in changes:
        rows = sorted(nodes)
        if together:
            difference = min(units, int((8 - free[rows]).min())) - int(free[rows].min()) // 2
            free[rows] += difference
            occupancy.add(rows, difference)
        else:
            free[rows[0]], promised[rows[0]] = units, promise
            occupancy.put(rows[0], free=units, promised=promise)
    idle = (free == 8) & ~promised
    assert (occupancy.free.tolist(), occupancy.idle.tolist()) == (free.tolist(), idle.tolist())
    assert occupancy.available.tolist() == np.where(promised, 0, free).tolist()
    for level, (_, counts) in zip(CLUSTER.levels, occupancy.idle_in_domain, strict=True):
        assert counts.tolist() == count_nodes(level, idle).tolist()
