"""Small clusters and jobs on them, written down by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.affinity import Model
from scheduler.job import Job, Parallelism
from simulator.cost.types import PlacedJob
from topology.cluster import Cluster
from topology.flags import NodeFlag
from topology.generate import minipods

TINY = Model(hidden=2, layers=4, vocab=3, sequence_length=5, micro_batch=3)
"""Reduces 296 bytes a stage when cut in two, sends 60 bytes (tests/scheduler/test_affinity.py does it by hand)."""


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
    chunks = changes.pop("chunks", 1)
    return PlacedJob(job(*nodes.shape, **changes), cluster, nodes, model, chunks)  # type: ignore[arg-type]


def slowed(cluster: Cluster, node: int, factor: float) -> Cluster:
    """The cluster with one slow node."""
    return cluster.with_flags([NodeFlag(cluster.names[node], "straggler", slowdown=factor)])
