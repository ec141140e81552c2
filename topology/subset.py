"""A part of a cluster, as a cluster."""

from __future__ import annotations

from itertools import compress

import numpy as np

from topology.cluster import Cluster, IntArray, Level


def subset(cluster: Cluster, nodes: IntArray) -> Cluster:
    """Return nodes of a cluster, at least one index, ascending; domains without any of them are left out."""
    if len(nodes) == len(cluster):
        return cluster
    kept = np.zeros(len(cluster), dtype=np.bool_)
    kept[nodes] = True
    new_index = np.cumsum(kept) - 1
    levels: list[Level] = []
    parents = np.zeros(1, dtype=np.int32)
    for level in cluster.levels:
        used, domain_of = np.unique(level.domain_of[nodes], return_inverse=True)
        renumbered = np.zeros(len(level), dtype=np.int32)
        renumbered[used] = np.arange(len(used), dtype=np.int32)
        domains, above = tuple(level.domains[k] for k in used), parents[level.parent_of[used]]
        levels.append(Level(level.name, domains, domain_of.astype(np.int32), above, level.implicit[used]))
        parents = renumbered
    return cluster.replace(
        names=tuple(compress(cluster.names, kept)),
        gpus=cluster.gpus[nodes],
        free_gpus=cluster.free_gpus[nodes],
        levels=tuple(levels),
        flags={int(new_index[node]): flag for node, flag in cluster.flags.items() if kept[node]},
    )
