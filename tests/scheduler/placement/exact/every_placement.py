"""All placements of a tiny job, goal by goal: the judge of soft terms, holds and closer levels.

It shares no code with the solver: every assignment of cells to the domains of the closest level is tried, a table of
all of them at once, and what each group touches is counted with bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from scheduler.job import Job
from topology.cluster import Cluster

Floats = npt.NDArray[np.float64]


def least(cluster: Cluster, job: Job) -> tuple[float, ...] | None:
    """The objective of the best placement, and Eq. 2 at each closer level among those as good in all before.

    Of a cluster whose nodes have GPUs of one type, none slow; ``None`` = there is no placement.
    """
    goals = costs(cluster, job)
    if goals is None or not len(goals):
        return None
    kept = np.ones(len(goals), dtype=bool)
    found = []
    for goal in goals.T:
        found.append(float(goal[kept].min()))
        kept &= goal <= found[-1] + 1e-9
    return tuple(found)


def costs(cluster: Cluster, job: Job) -> Floats | None:
    """Objective and Eq. 2 at each closer level, shape [valid placements, goals]."""
    paths = [node.path for node in cluster if node.free and node.gpus == job.gpus_per_node]
    racks = sorted(set(paths))
    cells = job.grid.cells
    if len(paths) < cells:
        return None
    site = np.array(list(product(range(len(racks)), repeat=cells)))
    room = np.array([paths.count(rack) for rack in racks])
    usage = np.stack([(site == k).sum(axis=1) for k in range(len(racks))], axis=1)
    site = site[(usage <= room).all(axis=1)]
    names = [level.name for level in cluster.levels]
    spreads = {
        (family, name): spread(site, job, racks, depth, family)
        for depth, name in enumerate(names)
        for family in job.grid.groups
    }
    valid = np.ones(len(site), dtype=bool)
    for hold in job.holds:
        valid &= spreads[hold.family, hold.level] == 1
    level = job.level or names[0]

    def eq2(name: str) -> Floats:
        return job.alpha * spreads["dp", name] + (1 - job.alpha) * spreads["pp", name]

    objective = eq2(level)
    for count in job.counts:
        objective = objective + count.weight * spreads[count.family, count.level]
    for weighed in job.levels:
        objective = objective + weighed.weight * eq2(weighed.level)
    apart = {weighed.level for weighed in job.levels}
    closer = [name for name in names[names.index(level) + 1 :] if name not in apart]
    return np.stack([objective, *map(eq2, closer)], axis=1)[valid]


def spread(
    site: npt.NDArray[np.int64], job: Job, racks: Sequence[tuple[str, ...]], depth: int, family: str
) -> npt.NDArray[np.int64]:
    """Most domains of a level that a group of the family touches, of each assignment."""
    above = [rack[: depth + 1] for rack in racks]
    number = np.array([sorted(set(above)).index(one) for one in above])
    bits = 1 << number[site]
    groups = job.grid.groups[family]
    touched = [np.bitwise_or.reduce(bits[:, groups.cell[groups.group == g]], axis=1) for g in np.unique(groups.group)]
    most: npt.NDArray[np.int64] = np.max([np.bitwise_count(of_group) for of_group in touched], axis=0)
    return most
