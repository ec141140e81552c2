"""What a cluster looks like in a few numbers, and what about it may surprise its owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from topology.capacity import count_nodes
from topology.cluster import Cluster, Level
from topology.flags import FAULTY, HEALTHY
from topology.json_record import JsonRecord
from topology.quantities import one_of


@dataclass(frozen=True, slots=True)
class ClusterSummary(JsonRecord):
    """The cluster that was read, in a few numbers."""

    source: str
    """Where it was read from."""
    nodes: int
    """Nodes in all."""
    free: int
    """Nodes that are idle and not faulty."""
    flagged: int
    """Nodes with a flag, faulty ones among them."""
    faulty: int
    """Nodes that are broken, so that no job may use them."""
    kept_out: Mapping[str, int]
    """Why nodes are kept out though nothing is wrong with them, such as by a taint, and how many; faulty ones aside."""
    levels: Mapping[str, int]
    """Number of domains of each level, from the broadest to the closest."""
    second_levels: Mapping[str, int]
    """Number of domains of each second hierarchy, such as @power; a node in none of them is not counted."""
    gpu_types: Mapping[str, int]
    """Nodes of each type of GPU, most first; nodes of which no type is said are in none."""
    sharing: Mapping[str, int]
    """Nodes that hand out GPUs in parts, by how (time-slicing x4), most first: jobs of whole GPUs get none of them."""


@dataclass(frozen=True, slots=True)
class LevelSummary(JsonRecord):
    """A level, or a second hierarchy, in numbers."""

    name: str
    """Name of the level."""
    domains: int
    """How many domains it has, of a level implicit ones among them."""
    smallest: int
    """Nodes of its smallest domain."""
    median: float
    """Nodes of its median domain."""
    largest: int
    """Nodes of its largest domain."""
    implicit_nodes: int
    """Nodes without a domain of this level; they hang on a broader switch, or are in none of a second hierarchy."""


def summarise_cluster(cluster: Cluster, source: str) -> ClusterSummary:
    """Return a cluster, read from ``source``, in a few numbers."""
    return ClusterSummary(
        source=source,
        nodes=len(cluster),
        free=int(cluster.idle.sum()),
        flagged=int((cluster.slowdown > HEALTHY).sum()),
        faulty=int((cluster.slowdown == FAULTY).sum()),
        kept_out=Counter(why for i, why in sorted(cluster.kept_out.items()) if cluster.slowdown[i] < FAULTY),
        levels={level.name: len(level) for level in cluster.levels},
        second_levels={level.name: int((~level.implicit).sum()) for level in cluster.second_levels},
        gpu_types=cluster.nodes_of_type,
        sharing=dict(Counter(cluster.sharing.values()).most_common()),
    )


def summarise(cluster: Cluster) -> list[LevelSummary]:
    """Return all levels, from the broadest to the closest."""
    return [_summary(level, len(cluster)) for level in cluster.levels]


def summarise_second(cluster: Cluster) -> list[LevelSummary]:
    """Return all second hierarchies, the domains that have a name alone; 0 nodes where there is none."""
    found = []
    for level in cluster.second_levels:
        sizes = count_nodes(level, np.ones(len(cluster), dtype=np.bool_))
        named = sizes[~level.implicit] if not level.implicit.all() else np.zeros(1, dtype=np.int32)
        alone, domains = int(level.implicit.sum()), int((~level.implicit).sum())
        found.append(
            LevelSummary(level.name, domains, int(named.min()), float(np.median(named)), int(named.max()), alone)
        )
    return found


def _summary(level: Level, nodes: int) -> LevelSummary:
    sizes = count_nodes(level, np.ones(nodes, dtype=np.bool_))
    implicit = int(level.implicit[level.domain_of].sum())
    return LevelSummary(
        level.name, len(level), int(sizes.min()), float(np.median(sizes)), int(sizes.max()), implicit_nodes=implicit
    )


def warnings(cluster: Cluster) -> list[str]:
    """Return what is allowed and may not be meant, one sentence each."""
    found = []
    if not cluster.levels:
        found.append("there is no level: all nodes are equally near to each other")
    for depth, level in enumerate(cluster.levels):
        summary = _summary(level, len(cluster))
        if summary.domains == 1:
            found.append(f"level {level.name} has one domain, which tells no two placements apart")
        elif summary.largest == 1:
            found.append(f"every node is alone in its {one_of(level.name)}")
        elif depth and summary.domains == len(cluster.levels[depth - 1]):
            found.append(f"level {level.name} has the same domains as {cluster.levels[depth - 1].name}")
        if summary.implicit_nodes:
            share = f"{summary.implicit_nodes} of {len(cluster)} nodes"
            found.append(f"no {one_of(level.name)} of their own, so on a broader switch: {share}")
    for second in summarise_second(cluster):
        if second.implicit_nodes:
            share = f"{second.implicit_nodes} of {len(cluster)} nodes"
            found.append(f"in no domain of {second.name}, so each a domain of its own there: {share}")
    sizes = Counter(cluster.gpus.tolist())
    if len(sizes) > 1:
        counts = ", ".join(f"{count} with {gpus}" for gpus, count in sizes.most_common())
        found.append(f"nodes differ in GPUs ({counts}); a job uses nodes of one size")
    types = cluster.nodes_of_type
    if types and (unsaid := len(cluster) - sum(types.values())):
        found.append(f"the type of GPU is said of some nodes and not of {unsaid} of {len(cluster)}")
    if len(types) > 1:
        found.append("nodes differ in type of GPU; a job uses nodes of one type, unless it says gpu_types: any")
    if not cluster.idle.any():
        found.append("no node is free: every one is in use, kept out or faulty")
    return found
