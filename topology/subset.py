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
        levels.append(
            Level(
                name=level.name,
                domains=tuple(level.domains[k] for k in used),
                domain_of=domain_of.astype(np.int32),
                parent_of=parents[level.parent_of[used]],
                implicit=level.implicit[used],
            )
        )
        parents = renumbered
    return Cluster(
        names=tuple(compress(cluster.names, kept)),
        gpus=cluster.gpus[nodes],
        free_gpus=cluster.free_gpus[nodes],
        levels=tuple(levels),
        flags={int(new_index[node]): flag for node, flag in cluster.flags.items() if kept[node]},
        gpus_assumed=cluster.gpus_assumed,
        joined=cluster.joined,
    )
