"""How far to admit slow nodes: their slowdown weighed against the spread that avoiding them would cost.

Predicted step time, relative to a job without spread and slow nodes:
``(1 + spread_cost * (objective - 1)) * (1 + (f - 1) * m / (m + p - 1))`` with f the slowest node admitted.  The default
of ``spread_cost`` is the paper's own measurement: aligning 96 GPUs over two minipods with PP instead of DP, one unit of
PP spread for one of DP spread, gained 2.3 % (arXiv 2509.15940, characterisation).  Only the slowest node counts, as it
sets the pace of all, so the options are the thresholds between the slowdowns of the free nodes.
"""

from __future__ import annotations

import numpy as np

from scheduler.job import Job, stage_slowdown
from scheduler.placement.admission import admissible
from topology.cluster import Cluster
from topology.flags import HEALTHY


def thresholds(cluster: Cluster, job: Job) -> tuple[float, ...]:
    """Slowdowns up to which nodes may be admitted, ascending, 1.0 (no flagged node) first.

    ``strict`` leaves 1.0 alone; ``ignore`` puts no price on slow nodes, so only all or none of them make sense.
    """
    if job.avoid == "strict":
        return (HEALTHY,)
    slow = cluster.slowdown[admissible(cluster, job)]
    found = [float(f) for f in np.unique(slow[slow > HEALTHY])]
    return (HEALTHY, *(found if job.avoid == "price" else found[-1:]))


def step_time(job: Job, *, objective: float, slowest: float) -> float:
    """Predicted step time with this spread and this slowest node; under ``ignore`` no node is slow."""
    pace = (
        1.0
        if job.avoid == "ignore"
        else float(stage_slowdown(slowest, stages=job.parallelism.pp, microbatches=job.microbatches))
    )
    return (1.0 + job.spread_cost * (objective - 1.0)) * pace


def sentence(*, slowest: float, objective: float, time: float, chosen: bool) -> str:
    """One option in words; the ideal is a job without spread and without slow nodes."""
    what = "without slow nodes" if slowest == HEALTHY else f"with nodes up to {slowest:g} times slower"
    verdict = ", chosen" if chosen else ""
    return f"{what}: objective {objective:g}, predicted step time {time:.3f} x ideal{verdict}"
