"""The least that several jobs can have, by trying every assignment of cells to racks: the judge of joint searches.

Shares no code with the solver.  Nodes of a rack are alike, so an assignment says a rack for each cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from math import inf

from scheduler.job import Job, Parallelism
from tests.scheduler.several.usage_sums import Usage, cheapest_sum, fewest_left_out, fits
from topology.build import build_cluster
from topology.cluster import Cluster, Node

Racks = tuple[tuple[int, int], ...]  # For each rack: number of its minipod, free nodes


def cluster_of(racks: Racks) -> Cluster:
    """The cluster: each rack has a node in use besides its free ones, so that no rack is without a node."""
    nodes = [
        Node(f"n{k}-{i}", (f"m{pod}", f"r{k}"), 8, 0 if i == free else 8)
        for k, (pod, free) in enumerate(racks)
        for i in range(free + 1)
    ]
    return build_cluster(["minipod", "rack"], nodes)


def grid(name: str, rows: int, columns: int, alpha: float, level: str = "minipod") -> Job:
    """A job of whole nodes."""
    return Job(name, Parallelism(tp=8, dp=rows, pp=columns), alpha=alpha, level=level)


def worth(job: Job, racks: Racks, cells: Sequence[int]) -> float:
    """Objective of an assignment (cells row by row); infinite where a hold is broken."""
    rows, columns = job.parallelism.dp, job.parallelism.pp

    def largest(family: str, level: str) -> int:
        touched: dict[int, set[int]] = {}
        for i, rack in enumerate(cells):
            group = i % columns if family == "dp" else i // columns
            touched.setdefault(group, set()).add(racks[rack][0] if level == "minipod" else rack)
        return max(map(len, touched.values()))

    assert len(cells) == rows * columns
    if any(largest(hold.family, hold.level) > 1 for hold in job.holds):
        return inf
    level = job.level or "minipod"
    soft = sum(count.weight * largest(count.family, count.level) for count in job.counts)
    return job.alpha * largest("dp", level) + (1 - job.alpha) * largest("pp", level) + soft


@cache
def least_by_usage(job: Job, racks: Racks) -> Mapping[Usage, float]:
    """The least objective of one job for every way to use racks."""
    found: dict[Usage, float] = {}
    for cells in product(range(len(racks)), repeat=job.parallelism.dp * job.parallelism.pp):
        usage = tuple(cells.count(k) for k in range(len(racks)))
        if fits(usage, free_of(racks)):
            cost = worth(job, racks, cells)
            if cost < found.get(usage, inf):
                found[usage] = cost
    return found


def free_of(racks: Racks) -> Usage:
    """The free nodes of each rack."""
    return tuple(free for _, free in racks)


def least_sum(jobs: Sequence[Job], weights: Sequence[float], racks: Racks) -> float:
    """The least weighted sum of all jobs at once; infinite where they do not fit."""
    return cheapest_sum([least_by_usage(job, racks) for job in jobs], weights, free_of(racks))


def smallest_left_out(jobs: Sequence[Job], racks: Racks) -> int:
    """How many jobs have to be left out at least."""
    return fewest_left_out([least_by_usage(job, racks) for job in jobs], free_of(racks))


def least_moves(
    job: Job, running: Sequence[tuple[Job, Sequence[int], int]], racks: Racks, target: float
) -> tuple[float, int] | None:
    """Least objective of a new job, not below a target, and then the least cost of moves; ``None`` = it does not fit.

    :param running: each running job, the rack of each of its cells, and the cost if any cell moves; 0 = a cell costs 1.
    """
    states: dict[Usage, int] = {(0,) * len(racks): 0}
    for one, homes, price in running:
        new: dict[Usage, int] = {}
        now = worth(one, racks, homes)
        for cells in product(range(len(racks)), repeat=len(homes)):
            if worth(one, racks, cells) <= now + 1e-9:
                moved = sum(a != b for a, b in zip(cells, homes, strict=True))
                cost = price * bool(moved) if price else moved
                for before, so_far in states.items():
                    usage = tuple(used + cells.count(k) for k, used in enumerate(before))
                    if fits(usage, free_of(racks)):
                        new[usage] = min(new.get(usage, so_far + cost), so_far + cost)
        states = new
    best: tuple[float, int] | None = None
    for before, cost in states.items():
        for own, objective in least_by_usage(job, racks).items():
            if all(a + b <= free for a, b, (_, free) in zip(before, own, racks, strict=True)):
                rank = max(round(objective, 9), target), cost
                best = rank if best is None else min(best, rank)
    return best
