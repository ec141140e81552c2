"""Nodes that are alike for some jobs at once: how many there are, and what each job asks of them.

Two nodes are of one *class* when they lie in the same domain of the closest level that matters to any of the jobs, and
every job may use both or neither.  What several jobs share is then a number of nodes for each class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np

from scheduler.job import Job
from scheduler.placement.admission import admissible, blocks_at, choices, types_of
from topology.cluster import BoolArray, Cluster, IntArray


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


@dataclass(frozen=True)
class NodeDemand:
    """What a job asks of the classes: a grid of blocks of nodes, and where spread counts."""

    rows: int  # of blocks, at the level where spread counts
    columns: int
    blocks: WholeBlocks  # at that level
    other_levels: tuple[WholeBlocks, ...]  # levels at which blocks have more than one node, that one left out
    options: tuple[NodeOption, ...]
    movable: bool  # whether a part of it may go to any other domain with room: no group is held at a broader level
    aligned: bool  # whether rows are PP groups and columns DP groups; else nothing here says what a placement is worth

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
class NodeClasses:
    """The classes of a cluster for some jobs."""

    class_of: IntArray  # shape [nodes], -1 = none of the jobs may use the node
    example: IntArray  # shape [classes], a node of each
    sizes: IntArray  # shape [classes], nodes of each
    demands: tuple[NodeDemand, ...]  # one for each job

    def admitted(self, j: int) -> BoolArray:
        """Return shape [nodes], whether a job may use the node."""
        admits: BoolArray = np.append(self.demands[j].admits, False)[self.class_of]  # class -1: no job may
        return admits

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
) -> NodeClasses:
    """Return the classes of a cluster for some jobs, at least one.

    :param slowest: for each job, up to which slowdown it may have nodes, besides what its ``avoid`` says.
    :param own: number of a job -> nodes that it has and may keep whatever is held against them.
    :raises UnknownName: a job names a level that the cluster does not have.
    """
    masks = [_options(cluster, job, limit) for job, limit in zip(jobs, slowest, strict=True)]
    for j, nodes in own.items():
        for _, mask in masks[j]:
            # in another trunk the job would have none of its own: there they would be parted from the others
            if mask[nodes].any() or len(masks[j]) == 1:
                mask[nodes] = True
    names = [name for job in jobs for name in (job.level, *job.constrained_levels)]
    closest = cluster.levels[max(cluster.level_index(name) for name in names)]
    every = np.array([mask for of_job in masks for _, mask in of_job])
    facts = np.vstack([closest.domain_of, every])[:, every.any(axis=0)]
    kinds, first, numbers = np.unique(facts, axis=1, return_index=True, return_inverse=True)
    class_of = np.full(len(cluster), -1, dtype=np.int32)
    class_of[every.any(axis=0)] = numbers.reshape(-1)
    # a node of each class, which stands for all of them
    example = np.flatnonzero(every.any(axis=0))[first].astype(np.int32)
    demands = tuple(_demand(cluster, job, of_job, example) for job, of_job in zip(jobs, masks, strict=True))
    sizes = np.bincount(numbers.reshape(-1), minlength=kinds.shape[1]).astype(np.int32)
    return NodeClasses(class_of, example, sizes, demands)


def _options(cluster: Cluster, job: Job, slowest: float) -> list[tuple[float, BoolArray]]:
    """Return speed and nodes, shape [nodes], of each choice of types and trunk."""
    options = []
    for one in choices(cluster, job):
        speed = one.speed_on(types_of(cluster, one) or ("",))
        admitted = admissible(cluster, one) & (cluster.slowdown <= slowest)
        if (trunks := cluster.trunks) is None:
            options.append((speed, admitted))
        else:
            options += [(speed, admitted & (trunks.domain_of == k)) for k in range(len(trunks))]
    return options


def _demand(cluster: Cluster, job: Job, options: Sequence[tuple[float, BoolArray]], example: IntArray) -> NodeDemand:
    depth = cluster.level_index(job.level)
    whole = {}
    for at, level in enumerate(cluster.levels):
        blocks = blocks_at(cluster, job, at)
        if at == depth or blocks.size > 1:
            whole[at] = WholeBlocks(blocks.size, level.domain_of[example])
    grid = blocks_at(cluster, job, depth)
    return NodeDemand(
        grid.rows,
        grid.columns,
        whole.pop(depth),
        tuple(whole.values()),
        tuple(NodeOption(speed, mask[example]) for speed, mask in options),
        movable=all(cluster.level_index(hold.level) >= depth for hold in job.holds_on(cluster)),
        aligned=job.grid.aligned,
    )
