"""Predicted step time of a placement: what spread and the slowest node cost, relative to a job with neither.

``(1 + spread_cost * (objective - 1)) * (1 + (f - 1) * m / (m + p - 1))`` with f the slowest node in use, which sets the
pace of all.  The default of ``spread_cost`` is the paper's own measurement: aligning 96 GPUs over two minipods with PP
instead of DP, one unit of PP spread for one of DP spread, gained 2.3 % (arXiv 2509.15940, characterisation).
"""

from __future__ import annotations

from scheduler.job import Job, stage_slowdown
from scheduler.objective import Evaluation
from topology.cluster import Cluster
from topology.flags import HEALTHY


def step_time(job: Job, *, objective: float, slowest: float) -> float:
    """Return the predicted step time with this spread and this slowest node; under ``ignore`` no node is slow.

    :param objective: Eq. 2 of the placement, 1 = no spread.
    :param slowest: slowdown of the slowest node in use, 1.0 = none is slow.
    """
    pace = (
        1.0
        if job.avoid == "ignore"
        else float(stage_slowdown(slowest, stages=job.parallelism.pp, microbatches=job.microbatches))
    )
    return (1.0 + job.spread_cost * (objective - 1.0)) * pace


def slowest_in_use(cluster: Cluster, evaluation: Evaluation) -> float:
    """Return the slowdown of the slowest node of a placement, 1.0 = none is slow."""
    return max((float(cluster.slowdown[i]) for i in evaluation.flagged), default=HEALTHY)
