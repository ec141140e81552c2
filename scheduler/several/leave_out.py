"""Which jobs have to be left out where not all fit: the fewest."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.placement.exact.cpsat import Slice
from scheduler.placement.sharing.node_classes import NodeClasses
from scheduler.placement.sharing.share_model import ShareModel

EFFORT = 5.0  # Of the search, in CP-SAT's deterministic time; whole numbers of nodes are shared out, which is quick


def fewest_left_out(classes: NodeClasses, weights: Sequence[float], *, seconds: float) -> tuple[int, ...] | None:
    """Return the smallest set of jobs without which the others fit, of equal ones that of least weight.

    Whether jobs fit is a matter of counting: whole blocks in every domain, each node once.

    :returns: numbers of jobs; empty = all fit; ``None`` = not settled in time.
    """
    model = ShareModel(classes.sizes)
    parts = [model.add_job(demand, optional=True) for demand in classes.demands]
    model.share()
    # one job fewer outweighs any sum of ranks
    ranks = {weight: rank for rank, weight in enumerate(sorted(set(weights)))}
    many = len(weights) * len(weights) + 1
    out = sum((many + ranks[weight]) * (1 - part.present) for part, weight in zip(parts, weights, strict=True))
    found, solver = model.least(out, Slice(EFFORT, seconds))
    if found != "yes" or solver.best_objective_bound < solver.objective_value - 0.5:
        return None
    return tuple(j for j, part in enumerate(parts) if not solver.boolean_value(part.present))
