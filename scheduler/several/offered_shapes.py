"""Which shapes of a job a program may choose among: those that are known, and even rectangles."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler.objective import objective_of
from scheduler.placement.sharing.job_shapes import PlacementShape, even_rectangles, pairs_up_to
from scheduler.placement.sharing.node_classes import NodeDemand
from scheduler.several.joint_question import JointQuestion


def offered_shapes(
    question: JointQuestion,
    j: int,
    demand: NodeDemand,
    known: Iterable[PlacementShape],
    *,
    most: int | None,
    count: int,
) -> list[PlacementShape]:
    """Return shapes of one job, the cheapest.

    :param most: in whole numbers, what a shape may cost; ``None`` = anything.
    :param count: how many shapes at most.
    """
    job, shapes = question.jobs[j], list(known)
    if demand.movable:
        domains = len(np.unique(demand.blocks.domain_of[demand.admits]))
        pairs = list(pairs_up_to(demand.rows, demand.columns, (domains, domains)))
        if demand.aligned:
            # R = 1 and S = 1 need no shape; only with soft terms one that is known says more
            pairs = [pair for pair in pairs if min(pair) > 1]
            shapes = [shape for shape in shapes if min(shape.pair) > 1 or job.soft]
        cheap = sorted(pairs, key=lambda pair: (objective_of(job, *pair), max(pair)))[:count]
        shapes += [even_rectangles(demand.rows, demand.columns, pair) for pair in cheap]
    costs = {shape.key: (question.shape_cost(j, shape, demand.fastest), len(shape.sizes)) for shape in shapes}
    distinct = {shape.key: shape for shape in shapes if most is None or question.whole(costs[shape.key][0]) <= most}
    return sorted(distinct.values(), key=lambda shape: costs[shape.key])[:count]
