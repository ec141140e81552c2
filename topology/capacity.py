"""Free nodes per domain: integer counters over the immutable tree."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from topology.cluster import BoolArray, Cluster, IntArray, Level


def count_nodes(level: Level, nodes: BoolArray) -> IntArray:
    """Return shape [domains], how many of the given nodes (shape [nodes]) each domain of a level holds."""
    return np.bincount(level.domain_of[nodes], minlength=len(level)).astype(np.int32)


def most_together(cluster: Cluster, nodes: BoolArray, *, mix_types: bool = False) -> int:
    """Return how many of some nodes, shape [nodes], one job can have that may mix types of GPU, or not: those of one
    compartment.
    """
    if (compartment_of := cluster.compartments(mix_types=mix_types)) is None:
        return int(np.count_nonzero(nodes))
    return int(np.bincount(compartment_of[nodes], minlength=1).max())


def shortage_apart(cluster: Cluster, nodes: BoolArray, wanted: int) -> str:
    """Return why one job cannot have so many of the given nodes, shape [nodes], although there are enough.

    :returns: ``in one domain of spine, as nothing joins ...``; empty when one trunk has enough, or all have too few.
    """
    if (trunks := cluster.trunks) is None:
        return ""
    counts = count_nodes(trunks, nodes)
    most = int(counts.argmax())
    if not counts[most] < wanted <= counts.sum():
        return ""
    return (
        f"in one domain of {trunks.name}, as nothing joins the {len(trunks)} of them; {trunks.domains[most]!r} has "
        f"most, {counts[most]} (all together {counts.sum()})"
    )


def together(
    cluster: Cluster, nodes: npt.NDArray[np.intp], wanted: int, *, mix_types: bool = False
) -> npt.NDArray[np.intp]:
    """Return the nodes, of those given in ascending order, among which a job of so many is to choose its own.

    :returns: all of them, or those of the tightest compartment; empty where there are too few.
    """
    if (compartment_of := cluster.compartments(mix_types=mix_types)) is not None:
        counts = np.bincount(compartment_of[nodes])
        enough = np.flatnonzero(counts >= wanted)
        nodes = nodes[compartment_of[nodes] == enough[counts[enough].argmin()]] if len(enough) else nodes[:0]
    return nodes if len(nodes) >= wanted else nodes[:0]
