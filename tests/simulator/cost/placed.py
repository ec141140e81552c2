"""Small clusters and jobs on them, written down by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from scheduler.affinity import Model
from scheduler.job import Job, Parallelism
from simulator.cost.calibration import PEAK, Calibration
from simulator.cost.step import PlacedJob
from topology.cluster import Cluster
from topology.flags import NodeFlag
from topology.generate import minipods

TINY = Model(hidden=2, layers=4, vocab=3, sequence_length=5, micro_batch=3)
"""Reduces 296 bytes a stage when cut in two, sends 60 bytes (tests/scheduler/test_affinity.py does it by hand)."""

UNIT = 400e9
"""Bytes a second of a node: one over it is the unit of time of what is reckoned by hand."""

BY_HAND = Calibration(efficiency=1563.75 * UNIT / 300 / PEAK["H800"], collective_flows=inf, send_recv_flows=inf)
"""A slot of TINY in two stages takes 300 units: a GPU does 1563.75 operations in it (test_step.py); and no flows
collide.

The job of 4 x 2 cells then computes 9 slots, 2700 units.  Half a reduction takes 3/4 * 296 = 222: gradients 444, of
which 200 hide, weights 222, of which 100 hide, so 366 are waited for.  Transfers take 2 * 60 + 7 * 2 * 60 = 960.  All
that is not compute is 40 % of the ideal step of 4500; of these 1800 units 474 are something else.
"""


def pods(count: int, nodes: int) -> Cluster:
    """Minipods of so many nodes each, in one rack each."""
    return minipods(minipods=count, nodes=count * nodes, rack_nodes=nodes)


def job(rows: int, columns: int, **changes: object) -> Job:
    """A job of that many node-sized cells, one replica in each node."""
    return Job(f"{rows}x{columns}", Parallelism(tp=8, dp=rows, pp=columns)).replace(**changes)


def put(cluster: Cluster, domains: Sequence[Sequence[int]], **changes: object) -> PlacedJob:
    """A job whose cells lie in the given minipods, each on the next node of its own that is not taken."""
    taken = [0] * len(cluster.levels[0])
    nodes = np.zeros(np.shape(domains), dtype=np.int32)
    for cell, domain in np.ndenumerate(np.asarray(domains)):
        nodes[cell] = np.flatnonzero(cluster.levels[0].domain_of == domain)[taken[domain]]
        taken[domain] += 1
    model = changes.pop("model", TINY)
    chunks = changes.pop("chunks", None)
    return PlacedJob(job(*nodes.shape, **changes), cluster, nodes, model, chunks)  # type: ignore[arg-type]


def slowed(cluster: Cluster, node: int, factor: float) -> Cluster:
    """The cluster with one slow node."""
    return cluster.with_flags([NodeFlag(cluster.names[node], "straggler", slowdown=factor)])
