"""What the quick rules of the house propose, as placements to begin with: none that was asked is better in the end.

A quick rule is any algorithm of this package that is a :class:`scheduler.placement.heuristic.Heuristic`: it asks no
solver.  Those of other packages are asked by name alone: one that cannot be imported must not stop the others.  Rules
know nothing of holds; the evaluator puts aside what breaks one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import inf

import numpy as np

from scheduler.placement.admission import admissible
from scheduler.placement.exact.grid.params import ExactParams
from scheduler.placement.exact.grid.problem import GridReduction
from scheduler.placement.heuristic import Heuristic
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.work_clock import clock
from topology.cluster import IntArray


def quick_rules(names: Collection[str] = ()) -> list[Heuristic]:
    """Return rules of these names, none = all, those that go pod by pod last."""
    own = [ALGORITHMS.load(name) for name in names or ALGORITHMS.names(inside="scheduler")]
    return sorted((rule for rule in own if isinstance(rule, Heuristic)), key=lambda rule: rule.pod_by_pod)


def quick_starts(
    reduction: GridReduction, limits: Limits, params: ExactParams, *, names: Collection[str] = (), end: float = inf
) -> Iterator[IntArray]:
    """Yield nodes, shape [rows, columns] each, from one rule after another until their share of the time is used up.

    Those that go pod by pod come last, and have a smaller share: on hundreds of cells each takes as long as all others.

    :param names: of the rules that are asked; empty = all; ``end``: of the time, when little of their share is left.
    """
    cluster, job = reduction.cluster, reduction.job
    # a rule takes any node that the job admits, so those slower than the threshold are hidden from it
    hidden = np.flatnonzero(admissible(cluster, job) & ~reduction.admitted)
    offered = cluster.with_busy(hidden) if len(hidden) else cluster
    start = clock()
    for rule in quick_rules(names):
        share = params.pod_rules_share if rule.pod_by_pod else params.rules_share
        until = min(start + share * limits.seconds, max(end, start + params.rules_least * limits.seconds))
        if clock() > until:
            return
        nodes = rule.in_time(until).place(offered, job, limits).nodes
        if nodes is not None:
            yield nodes
