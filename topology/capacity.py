"""Free nodes per domain: integer counters over the immutable tree."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from topology.cluster import IntArray, Level


def count_nodes(level: Level, nodes: npt.NDArray[np.bool_]) -> IntArray:
    """How many of the given nodes each domain of a level holds.

    :param nodes: shape [nodes], which nodes count.
    :returns: shape [domains].
    """
    return np.bincount(level.domain_of[nodes], minlength=len(level)).astype(np.int32)
