"""All placements of a tiny job, goal by goal: the judge of soft terms, holds and closer levels; and such jobs.

The judge shares no code with the solver: every assignment of cells to the domains of the closest level is tried, a
table of all of them at once, and what each group touches is counted with bits.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from ground.errors import InvalidJob
from scheduler.job import Avoid, Count, Family, Hold, Job, LevelWeight, Parallelism
from topology.build import build_cluster
from topology.cluster import Cluster, Node

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

FAMILIES: tuple[Family, ...] = ("dp", "pp", "ep", "cp")
MOST_ASSIGNMENTS = 70_000  # Of cells to racks: they are tried in hundredths of a second


def least(cluster: Cluster, job: Job, *, gpu_type: str | None = None) -> tuple[float, ...] | None:
    """The objective of the best placement, the EP spread, and Eq. 2 at each closer level, each the least among those as
    good in all before.

    On nodes of one type of GPU where one is given; ``None`` = there is no placement.
    """
    goals = costs(cluster, job, gpu_type)
    if goals is None or not len(goals):
        return None
    kept = np.ones(len(goals), dtype=bool)
    found = []
    for goal in goals.T:
        found.append(float(goal[kept].min()))
        kept &= goal <= found[-1] + 1e-9
    return tuple(found)


def costs(cluster: Cluster, job: Job, gpu_type: str | None = None) -> Floats | None:
    """Objective, EP spread where expert groups take several nodes, and Eq. 2 at each closer level, shape [valid
    placements, goals].
    """
    usable = [node for node in cluster if node.free and gpu_type in (None, node.gpu_type)]
    paths = [node.path for node in usable if job.avoid != "strict" or node.slowdown == 1.0]
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
    # expert groups that lie on one node each are no goal
    experts = [spreads["ep", level]] if job.grid.groups["ep"].largest > 1 else []
    return np.stack([objective, *experts, *map(eq2, closer)], axis=1)[valid]


def spread(site: Integers, job: Job, racks: Sequence[tuple[str, ...]], depth: int, family: Family) -> Integers:
    """Most domains of a level that a group of the family touches, of each assignment."""
    above = [rack[: depth + 1] for rack in racks]
    number = np.array([sorted(set(above)).index(one) for one in above])
    bits = 1 << number[site]
    groups = job.grid.groups[family]
    touched = [np.bitwise_or.reduce(bits[:, groups.cell[groups.group == g]], axis=1) for g in np.unique(groups.group)]
    most: Integers = np.max([np.bitwise_count(of_group) for of_group in touched], axis=0).astype(np.int64)
    return most


def tiny_instance(chance: random.Random, *, types: Sequence[str] = ("",)) -> tuple[Cluster, Job]:
    """Up to five racks in one to three minipods, in a third of all cases below two spines; a job of 2 to 8 cells with
    holds, soft terms at any level, weighed levels.
    """
    while True:
        deep = chance.random() < 0.3
        names = ["spine", "minipod", "rack"] if deep else ["minipod", "rack"]
        racks, nodes = chance.randint(2, 5), []
        for rack in range(racks):
            pod = chance.randint(0, 2)
            path = (*([f"s{pod % 2}"] if deep else []), f"m{pod}", f"m{pod}r{rack}")
            for _ in range(chance.randint(1, 4)):
                free, slow = 8 if chance.random() < 0.9 else 0, 1.3 if chance.random() < 0.1 else 1.0
                nodes.append(Node(f"n{len(nodes)}", path, 8, free, slow, chance.choice(types)))
        job = _job(chance, names)
        if job is not None and 2 <= job.grid.cells <= 8 and racks**job.grid.cells <= MOST_ASSIGNMENTS:
            return build_cluster(names, nodes), job


def _job(chance: random.Random, names: Sequence[str]) -> Job | None:
    degrees = {"tp": chance.choice([8, 8, 4, 2]), "cp": chance.choice([1, 1, 1, 2]), "ep": chance.choice([1, 1, 2, 4])}
    weights = (0.1, 0.3, 1.0, 2.0)
    counts = (
        Count(chance.choice(FAMILIES), chance.choice(names), chance.choice(weights))
        for _ in range(chance.choice([0, 0, 1, 1, 2, 3]))
    )
    holds = (Hold(chance.choice(FAMILIES), chance.choice(names)) for _ in range(chance.choice([0, 0, 0, 1])))
    avoid: Avoid = chance.choice(["strict", "ignore"])
    try:
        job = Job(
            "tiny",
            Parallelism(dp=chance.randint(1, 4), pp=chance.randint(1, 4), **degrees),
            alpha=chance.choice([0.0, 0.3, 0.5, 0.7, 1.0]),
            level=chance.choice([*names[:-1], *names]),
            avoid=avoid,
            counts=tuple(counts),
            holds=tuple(holds),
            levels=tuple(LevelWeight(name, chance.choice([0.1, 0.5])) for name in names if chance.random() < 0.1),
        )
        aligned = job.grid.aligned
    except InvalidJob:
        return None
    # where stages share nodes there are no pairs: tests/scheduler/test_cells_of_several_nodes.py
    return job if aligned else None
