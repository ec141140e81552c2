"""The clusters of the Arnold paper's evaluation (arXiv 2509.15940, Table 1), split over minipods as one likes.

How the nodes were split over the minipods is not published: an even split is the usual reading.
"""

from __future__ import annotations

from collections.abc import Mapping

from topology.cluster import Cluster
from topology.errors import UnknownName
from topology.generate.presets import minipods

PAPER_SIZES: Mapping[str, tuple[int, int]] = {"i": (3, 18), "ii": (5, 438), "iii": (11, 1019), "9600": (22, 2046)}
"""Setting -> (minipods, nodes): the three of Table 1, and the production run on more than 9,600 GPUs, whose cluster
("above 2,000 nodes") we give 22 minipods of 93 nodes."""


def paper_cluster(setting: str, *, unevenness: float = 0.0, seed: int = 0) -> Cluster:
    """The empty cluster of one of the paper's settings.

    :param setting: ``i``, ``ii``, ``iii`` or ``9600``.
    :param unevenness: see :func:`~topology.generate.grow.split_nodes`.
    :raises UnknownName: no setting is called that.
    """
    if setting not in PAPER_SIZES:
        raise UnknownName(f"the paper has no setting {setting!r}", fix=f"use one of {', '.join(PAPER_SIZES)}")
    count, nodes = PAPER_SIZES[setting]
    return minipods(minipods=count, nodes=nodes, unevenness=unevenness, seed=seed)
