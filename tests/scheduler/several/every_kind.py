"""The least that several jobs can have where nodes differ: by second hierarchies, by type and size.

Shares no code with the solver, and none with the evaluator: nodes of one *kind* are alike, so an assignment says a kind
for each cell of a job, and all assignments are tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from math import inf
from typing import NamedTuple

from scheduler.job import Job, NodeSize
from tests.scheduler.several.usage_sums import Usage, cheapest_sum, fewest_left_out, fits
from topology.build import build_cluster
from topology.cluster import Cluster, Node

TYPES = {"A": 8, "B": 4, "C": 8}  # GPUs of a node of each type
SIZES = tuple(NodeSize(name, gpus) for name, gpus in TYPES.items())


class Kind(NamedTuple):
    """Nodes that are alike."""

    pod: int
    rack: int
    power: str  # empty = of no domain: then there is one such node
    type: str
    free: int


Kinds = tuple[Kind, ...]


def cluster_of(kinds: Kinds) -> Cluster:
    """The cluster: each kind has a node in use besides its free ones."""
    nodes = [
        Node(
            f"n{k}-{i}",
            (f"m{one.pod}", f"m{one.pod}-r{one.rack}"),
            TYPES[one.type],
            0 if i == one.free else TYPES[one.type],
            gpu_type=one.type,
            second_path=(one.power,),
        )
        for k, one in enumerate(kinds)
        for i in range(one.free + 1)
    ]
    return build_cluster(["minipod", "rack"], nodes, second=["@power"])


def shape_of(job: Job, gpus: int) -> tuple[int, int]:
    """Rows and columns of a job on nodes of a size; a stage fills whole nodes here."""
    rows, rest = divmod(job.parallelism.dp * job.parallelism.tp, gpus)
    assert not rest
    return rows, job.parallelism.pp


def domain_of(kinds: Kinds, kind: int, level: str) -> object:
    """The domain of nodes of a kind; without power each is one by itself."""
    one = kinds[kind]
    return {"minipod": one.pod, "rack": (one.pod, one.rack), "@power": one.power or kind}[level]


def worth(job: Job, kinds: Kinds, cells: Sequence[int]) -> float:
    """Objective / speed of an assignment (cells row by row); infinite where a rule is broken."""
    types = {kinds[kind].type for kind in cells}
    if (len(types) > 1 and not job.mix_types) or (job.gpu_types is not None and not types <= set(job.gpu_types)):
        return inf
    columns, gpus = job.parallelism.pp, TYPES[next(iter(types))]
    parts = max(1, job.parallelism.tp // gpus)  # nodes of a TP group

    def group_of(family: str, i: int) -> tuple[int, ...]:
        row, column = divmod(i, columns)
        return {"dp": (column, row % parts), "pp": (row,), "tp": (column, row // parts)}[family]

    def largest(family: str, level: str) -> int:
        touched: dict[tuple[int, ...], set[object]] = {}
        for i, kind in enumerate(cells):
            touched.setdefault(group_of(family, i), set()).add(domain_of(kinds, kind, level))
        return max(map(len, touched.values()))

    # nothing names the level that holds TP groups of several nodes, so it is the closest
    if parts > 1 and largest("tp", "rack") > 1:
        return inf
    if any(largest(hold.family, hold.level) > 1 for hold in job.holds):
        return inf
    level = job.level or "minipod"
    soft = sum(count.weight * largest(count.family, count.level) for count in job.counts)
    factors = {one.gpu_type: one.factor for one in job.speed}
    speed = min(factors.get(name, 1.0) for name in types)
    return (job.alpha * largest("dp", level) + (1 - job.alpha) * largest("pp", level) + soft) / speed


def sizes_of(job: Job) -> set[int]:
    """GPUs that its nodes may have."""
    return {one.gpus for one in job.node_sizes} or {job.gpus_per_node}


@cache
def least_by_usage(job: Job, kinds: Kinds) -> Mapping[Usage, float]:
    """The least that one job can have for every way to use the kinds."""
    found: dict[Usage, float] = {}
    for gpus in sizes_of(job):
        alike = [k for k, one in enumerate(kinds) if TYPES[one.type] == gpus]
        rows, columns = shape_of(job, gpus)
        for cells in product(alike, repeat=rows * columns):
            usage = tuple(cells.count(k) for k in range(len(kinds)))
            if fits(usage, free_of(kinds)):
                cost = worth(job, kinds, cells)
                if cost < found.get(usage, inf):
                    found[usage] = cost
    return found


def free_of(kinds: Kinds) -> Usage:
    """The free nodes of each kind."""
    return tuple(one.free for one in kinds)


def least_sum(jobs: Sequence[Job], weights: Sequence[float], kinds: Kinds) -> float:
    """The least weighted sum of all jobs at once; infinite where they do not fit."""
    return cheapest_sum([least_by_usage(job, kinds) for job in jobs], weights, free_of(kinds))


def smallest_left_out(jobs: Sequence[Job], kinds: Kinds) -> int:
    """How many jobs have to be left out at least."""
    return fewest_left_out([least_by_usage(job, kinds) for job in jobs], free_of(kinds))


def least_moves(
    job: Job, running: Sequence[tuple[Job, Sequence[int]]], kinds: Kinds, target: float
) -> tuple[float, int] | None:
    """Least objective of a new job, not below a target, and then the fewest moves; ``None`` = it does not fit.

    A cell that goes to another node of its kind need not have moved.  Running jobs stay on their
    type, unless they may mix it with others.

    :param running: each running job, and the kind of each of its cells.
    """
    states: dict[Usage, int] = {(0,) * len(kinds): 0}
    for one, homes in running:
        new: dict[Usage, int] = {}
        now, types = worth(one, kinds, homes), {kinds[k].type for k in homes}
        if one.mix_types:
            types = {name for name, gpus in TYPES.items() if gpus == one.gpus_per_node}
        alike = [k for k, each in enumerate(kinds) if each.type in types]
        for cells in product(alike, repeat=len(homes)):
            if worth(one, kinds, cells) <= now + 1e-9:
                moved = sum(a != b for a, b in zip(cells, homes, strict=True))
                for before, so_far in states.items():
                    usage = tuple(used + cells.count(k) for k, used in enumerate(before))
                    if fits(usage, free_of(kinds)):
                        new[usage] = min(new.get(usage, so_far + moved), so_far + moved)
        states = new
    ranks = [
        (max(round(objective, 9), target), moved)
        for before, moved in states.items()
        for own, objective in least_by_usage(job, kinds).items()
        if fits(tuple(a + b for a, b in zip(before, own, strict=True)), free_of(kinds))
    ]
    return min(ranks, default=None)
