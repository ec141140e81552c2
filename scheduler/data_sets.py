"""Data sets that jobs read, and how much of them jobs have in common.

Of each data set a job reads a number of samples, all of them or a random part that is independent of what other jobs
read.  Two jobs that read a and b samples out of N then have a b / N in common on average.  Any unit does, samples or
bytes, as long as all jobs use the same.  Without N nothing says which part a job reads: the larger of the two is taken
for the whole, so that the smaller lies inside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from topology.cluster import FloatArray, IntArray


class DataSet(NamedTuple):
    """What a job reads of a data set."""

    name: str
    size: float  # samples or bytes that it reads of it, above 0


def affinity(
    one: Iterable[DataSet], other: Iterable[DataSet], *, whole: Mapping[str, float] = MappingProxyType({})
) -> float:
    """Return what two jobs have in common of what either reads, ``|A and B| / |A or B|``: 0 = nothing, 1 = all.

    :param whole: size of each data set where that is known.
    """
    ours, theirs = dict(one), dict(other)
    both = ours.keys() & theirs.keys()
    common = sum(ours[name] * theirs[name] / whole.get(name, max(ours[name], theirs[name])) for name in sorted(both))
    read = sum(ours.values()) + sum(theirs.values())
    return common / (read - common) if read else 0.0


def union_size(parts: Iterable[float], whole: float) -> float:
    """Return how many samples out of ``whole`` are expected in at least one of some random parts of these sizes.

    ``N (1 - product of (1 - n / N))``; parts that are all of it make it exact.
    """
    return whole * (1.0 - prod(1.0 - part / whole for part in parts))


def near_shared_data(
    data: Sequence[DataSet],
    cache_of: IntArray,
    running: Iterable[tuple[Sequence[DataSet], IntArray]],
    *,
    whole: Mapping[str, float] = MappingProxyType({}),
) -> FloatArray:
    """Return shape [nodes]: the affinity with a job that reads the same data near the node's cache, 0 = there is none.

    :param data: what the new job reads.
    :param cache_of: shape [nodes], the number of the cache that each node uses.
    :param running: what each running job reads, and the indices of its nodes, any shape; of several jobs near a cache
        the one with the largest affinity counts.
    :param whole: as in :func:`affinity`.
    """
    import numpy as np  # here, as the help of commands reads the types of jobs alone

    best = np.zeros(int(cache_of.max(initial=-1)) + 1)
    for theirs, nodes in running:
        if shared := affinity(data, theirs, whole=whole):
            caches = cache_of[nodes].ravel()
            best[caches] = np.maximum(best[caches], shared)
    return best[cache_of]
