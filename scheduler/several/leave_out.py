"""Which jobs have to be left out where not all fit: the fewest."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from scheduler.placement.cpsat import Slice
from scheduler.placement.sharing.cell_choice import ways_by_cell
from scheduler.placement.sharing.node_classes import NodeClasses
from scheduler.placement.sharing.share_model import ShareModel

EFFORT = 5.0  # Of the search, in CP-SAT's deterministic time; whole numbers of nodes are shared out, which is quick


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Which jobs have to be left out."""

    jobs: tuple[int, ...]  # numbers; empty = all fit, as far as is counted
    counted: bool  # whether the others fit then; else there may be more of them


def fewest_left_out(
    classes: NodeClasses, weights: Sequence[float], *, misfits: Collection[int] = (), seconds: float
) -> LeftOut | None:
    """Return the smallest set of jobs without which the others fit, of equal ones that of least weight.

    Whether jobs fit is a matter of counting: whole blocks in every domain, each node once.  With hard constraints at
    second hierarchies each cell is decided; where these are too many, counting alone shows what does not fit.

    :param misfits: numbers of jobs that do not fit even alone.
    :returns: ``None`` = not settled in time.
    """
    model = ShareModel(classes.sizes)
    parts = [model.add_job(demands, optional=True) for demands in classes.demands]
    model.share()
    for j in misfits:
        model.cp.add(parts[j].present == 0)
    by_cell, counted = ways_by_cell(classes.demands), True
    for j, part in enumerate(parts):
        for w, way in enumerate(part.ways):
            if way.demand.beside and (j, w) in by_cell:
                way.add_cells()
            elif way.demand.beside:
                counted = False
    # one job fewer outweighs any sum of ranks
    ranks = {weight: rank for rank, weight in enumerate(sorted(set(weights)))}
    many = len(weights) * len(weights) + 1
    out = sum((many + ranks[weight]) * (1 - part.present) for part, weight in zip(parts, weights, strict=True))
    found, solver = model.least(out, Slice(EFFORT, seconds))
    if found != "yes" or solver.best_objective_bound < solver.objective_value - 0.5:
        return None
    return LeftOut(tuple(j for j, part in enumerate(parts) if not solver.boolean_value(part.present)), counted)
