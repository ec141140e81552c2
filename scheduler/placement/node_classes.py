"""Nodes that are alike for some jobs at once: how many there are, and what each job asks of them.

Two nodes are of one *class* when they lie in the same domain of the closest level that matters to any of the jobs, and
of every second hierarchy that does, and every job may use both or neither.  What several jobs share is then a number of
nodes for each class.  A job whose nodes may differ in size has a demand for each size, a *way* of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Self

import numpy as np

from scheduler.grid import CellGroups
from scheduler.job import Job
from scheduler.job_on_cluster import closest_named, hierarchies_beside, within_the_tree
from scheduler.objective import objective_terms
from scheduler.placement.admission import Blocks, admissible, blocks_at, choices, for_each_size, types_of
from topology.cluster import BoolArray, Cluster, IntArray, count_nodes


@dataclass(frozen=True, slots=True)
class NodeOption:
    """Nodes that a job may have together: those of one choice of types of GPU, inside one trunk."""

    speed: float  # relative speed of the job there, the slowest type's
    admits: BoolArray  # shape [classes]


@dataclass(frozen=True, slots=True)
class WholeBlocks:
    """What a hard constraint asks: in each domain of a level the job takes whole blocks of nodes."""

    block: int  # nodes in each block
    domain_of: IntArray  # shape [classes], domain of the level


@dataclass(frozen=True, slots=True)
class TouchedDomains:
    """The groups of a family, and the domains that they may touch: of a level or of a second hierarchy."""

    groups: CellGroups
    domain_of: IntArray  # shape [classes]


@dataclass(frozen=True)
class NodeDemand:
    """What a job asks of the classes on nodes of one size: a grid of blocks of nodes, and where spread counts."""

    job: Job  # as one for nodes of that size
    rows: int  # of blocks, at the level where spread counts
    columns: int
    blocks: WholeBlocks  # at that level
    # other levels, and second hierarchies, at which blocks have more than one node
    other_levels: tuple[WholeBlocks, ...]
    options: tuple[NodeOption, ...]
    movable: bool  # whether a part of it may go to any other domain with room: no group is held at a broader level
    aligned: bool  # whether rows are PP groups and columns DP groups; else blocks do not say what a placement is worth
    beside: bool  # whether a constraint is at a second hierarchy: what blocks say of a placement is then not all
    terms: tuple[TouchedDomains, ...]  # of the objective, in their order: Eq. 2, and the soft terms
    holds: tuple[TouchedDomains, ...]  # hard constraints: no group touches two

    @property
    def nodes(self) -> int:
        """Nodes of the whole job."""
        return self.rows * self.columns * self.blocks.block

    @property
    def fastest(self) -> float:
        """Largest relative speed of its options."""
        return max(option.speed for option in self.options)

    @cached_property
    def admits(self) -> BoolArray:
        """Shape [classes], whether any option admits the class."""
        admitted: BoolArray = np.any([option.admits for option in self.options], axis=0)
        return admitted


@dataclass(frozen=True, slots=True)
class NodeKinds:
    """Nodes that are alike for one job, whether it may use them or not: in the same domain of a level, and of every
    second hierarchy that it names, and in what else is told.
    """

    class_of: IntArray  # shape [nodes]
    example: IntArray  # shape [classes], a node of each
    finer: bool  # whether more than the level tells nodes apart: else classes are its domains

    @classmethod
    def of(cls, cluster: Cluster, job: Job, depth: int, *others: BoolArray) -> Self:
        """Return the kinds of all nodes, told apart down to the level of that depth.

        :param others: shape [nodes] each, what else tells them apart.
        """
        level = cluster.levels[depth]
        facts = [level.domain_of, *(beside.domain_of for beside in hierarchies_beside(cluster, job)), *others]
        class_of, count = level.domain_of, len(level)
        if len(facts) > 1:
            class_of = np.unique(np.stack(facts), axis=1, return_inverse=True)[1].reshape(-1).astype(np.int32)
            count = int(class_of.max()) + 1
        example = np.zeros(count, dtype=np.int32)
        example[class_of] = np.arange(len(cluster), dtype=np.int32)
        return cls(class_of, example, len(facts) > 1)

    def __len__(self) -> int:
        return len(self.example)

    def count(self, nodes: BoolArray) -> IntArray:
        """Return how many of some nodes, shape [nodes], are of each class, shape [classes]."""
        counts: IntArray = np.bincount(self.class_of[nodes], minlength=len(self)).astype(np.int32)
        return counts


@dataclass(frozen=True, slots=True)
class NodeClasses:
    """The classes of a cluster for some jobs."""

    class_of: IntArray  # shape [nodes], -1 = none of the jobs may use the node
    sizes: IntArray  # shape [classes], nodes of each
    demands: tuple[tuple[NodeDemand, ...], ...]  # of each job, one for each size that its nodes may have

    def admitted(self, j: int) -> BoolArray:
        """Return shape [nodes], whether a job may use the node."""
        admitted: BoolArray = np.any([self.nodes_of(demand.admits) for demand in self.demands[j]], axis=0)
        return admitted

    def nodes_of(self, classes: BoolArray) -> BoolArray:
        """Return shape [nodes], whether the node is of one of some classes, shape [classes]."""
        nodes: BoolArray = np.append(classes, False)[self.class_of]  # class -1: of none
        return nodes

    def count(self, nodes: BoolArray) -> IntArray:
        """Return how many of some nodes, shape [nodes], are of each class, shape [classes]; each is of one."""
        counts: IntArray = np.bincount(self.class_of[nodes], minlength=len(self.sizes)).astype(np.int32)
        return counts


def classify(
    cluster: Cluster,
    jobs: Sequence[Job],
    slowest: Sequence[float],
    *,
    own: Mapping[int, IntArray] = MappingProxyType({}),
    seen: Sequence[Cluster] = (),
) -> NodeClasses:
    """Return the classes of a cluster for some jobs, at least one.

    :param slowest: for each job, up to which slowdown it may have nodes, besides what its ``avoid`` says.
    :param own: number of a job -> nodes that it has and may keep whatever is held against them.
    :param seen: the cluster as each job has it, where flags or nodes kept out differ; empty = all have it alike.
    :raises UnknownName: a job names a level that the cluster does not have.
    """
    ways = [for_each_size(cluster, job) for job in jobs]
    of_jobs = zip(seen or [cluster] * len(jobs), ways, slowest, strict=True)
    masks = [[_options(its, way, limit) for way in of_job] for its, of_job, limit in of_jobs]
    for j, nodes in own.items():
        (options,) = masks[j]
        for _, mask in options:
            # in another trunk the job would have none of its own: there they would be parted from the others
            if mask[nodes].any() or len(options) == 1:
                mask[nodes] = True
    closest = cluster.levels[max(closest_named(cluster, way) for of_job in ways for way in of_job)]
    beside = {level.name: level.domain_of for job in jobs for level in hierarchies_beside(cluster, job)}
    every = np.array([mask for of_job in masks for options in of_job for _, mask in options])
    facts = np.vstack([closest.domain_of, *beside.values(), every])[:, every.any(axis=0)]
    kinds, first, numbers = np.unique(facts, axis=1, return_index=True, return_inverse=True)
    class_of = np.full(len(cluster), -1, dtype=np.int32)
    class_of[every.any(axis=0)] = numbers.reshape(-1)
    # a node of each class, which stands for all of them
    example = np.flatnonzero(every.any(axis=0))[first].astype(np.int32)
    demands = tuple(
        tuple(_demand(cluster, way, options, example) for way, options in zip(*of_job, strict=True))
        for of_job in zip(ways, masks, strict=True)
    )
    return NodeClasses(class_of, np.bincount(numbers.reshape(-1), minlength=kinds.shape[1]).astype(np.int32), demands)


def _options(cluster: Cluster, job: Job, slowest: float) -> list[tuple[float, BoolArray]]:
    """Return speed and nodes, shape [nodes], of each choice of types and trunk."""
    options = []
    for choice in choices(cluster, job):
        speed = choice.speed_on(types_of(cluster, choice) or ("",))
        admitted = admissible(cluster, choice) & (cluster.slowdown <= slowest)
        if (trunks := cluster.trunks) is None:
            options.append((speed, admitted))
        else:
            options += [(speed, admitted & (trunks.domain_of == k)) for k in range(len(trunks))]
    return options


def _demand(cluster: Cluster, job: Job, options: Sequence[tuple[float, BoolArray]], example: IntArray) -> NodeDemand:
    depth, in_tree = cluster.level_index(job.level), within_the_tree(cluster, job)
    grid = blocks_at(cluster, in_tree, depth)
    others = []
    for at, level in enumerate(cluster.levels):
        if at != depth and (blocks := blocks_at(cluster, in_tree, at)).size > 1:
            others.append(WholeBlocks(blocks.size, level.domain_of[example]))
    beside = hierarchies_beside(cluster, job)
    for level in beside:
        held = [hold.family for hold in job.holds if hold.level == level.name]
        if held and (blocks := Blocks(*job.grid.tied(held))).size > 1:
            others.append(WholeBlocks(blocks.size, level.domain_of[example]))
    terms, holds = (
        tuple(
            TouchedDomains(job.grid.groups[term.family], cluster.level(term.level).domain_of[example]) for term in some
        )
        for some in (objective_terms(cluster, job), job.holds_on(cluster))
    )
    return NodeDemand(
        job,
        grid.rows,
        grid.columns,
        WholeBlocks(grid.size, cluster.levels[depth].domain_of[example]),
        tuple(others),
        tuple(NodeOption(speed, mask[example]) for speed, mask in options),
        movable=not beside and all(cluster.level_index(hold.level) >= depth for hold in in_tree.holds_on(cluster)),
        aligned=job.grid.aligned,
        beside=bool(beside),
        terms=terms,
        holds=holds,
    )


def orderly(cluster: Cluster, nodes: BoolArray) -> IntArray:
    """Return nodes, by index, in the order in which jobs get them: healthy ones first, whole racks before broken ones.

    :param nodes: shape [nodes].
    """
    closest, some = cluster.levels[-1], np.flatnonzero(nodes).astype(np.int32)
    room = count_nodes(closest, nodes)[closest.domain_of[some]]
    return some[np.lexsort((some, closest.domain_of[some], -room, cluster.slowdown[some]))]


def places_by_class(cluster: Cluster, class_of: IntArray, nodes: BoolArray) -> dict[int, list[int]]:
    """Return some nodes, shape [nodes], by class, the first in order at the end of each list."""
    places: dict[int, list[int]] = {}
    for node in reversed(orderly(cluster, nodes & (class_of >= 0)).tolist()):
        places.setdefault(int(class_of[node]), []).append(node)
    return places


def seat_in_classes(
    cluster: Cluster, job: Job, class_of_cell: IntArray, class_of: IntArray, granted: BoolArray
) -> IntArray:
    """Return the node of each cell, shape [rows, columns], given its class, shape [cells], and nodes enough in each."""
    places = places_by_class(cluster, class_of, granted)
    nodes = np.empty(len(class_of_cell), dtype=np.int32)
    for cell in np.argsort(job.grid.node_rank.ravel()).tolist():
        nodes[cell] = places[int(class_of_cell[cell])].pop()
    return nodes.reshape(job.grid.rows, job.grid.columns)
