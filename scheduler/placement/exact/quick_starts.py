"""What the quick rules of the house propose, as placements to begin with: so that none of them is ever better.

A quick rule is any installed algorithm that is a :class:`scheduler.placement.heuristic.Heuristic`: it asks no solver.
Rules know nothing of holds; the evaluator puts aside what breaks one.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np

from scheduler.placement.admission import admissible
from scheduler.placement.exact.problem import GridReduction
from scheduler.placement.heuristic import Heuristic
from scheduler.placement.types import ALGORITHMS, Limits
from topology.cluster import IntArray


def quick_starts(reduction: GridReduction, limits: Limits, seconds: float) -> Iterator[IntArray]:
    """Yield nodes, shape [rows, columns] each, from one rule after another until so many seconds are over."""
    cluster, job = reduction.cluster, reduction.job
    # a rule takes any node that the job admits, so those slower than the threshold are hidden from it
    hidden = np.flatnonzero(admissible(cluster, job) & ~reduction.admitted)
    offered = cluster.with_busy(hidden) if len(hidden) else cluster
    end = perf_counter() + seconds
    for name in ALGORITHMS.names():
        rule = ALGORITHMS.load(name)
        if not isinstance(rule, Heuristic):
            continue
        if perf_counter() > end:
            return
        nodes = rule.place(offered, job, limits).nodes
        if nodes is not None:
            yield nodes
