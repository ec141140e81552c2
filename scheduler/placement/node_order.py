"""The order of nodes and domains by their names, by which real systems break ties and neighbours are found."""

import re
from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from scheduler.job import Job
from topology.cluster import Cluster, IntArray, Level

_NUMBER = re.compile(r"(\d+)")
_KEPT = 16  # Lists of names whose order is kept: those of the nodes and levels of a few clusters


def natural(name: str) -> list[str | tuple[int, str]]:
    """Sort key in which n2 comes before n10; numbers of any length."""
    parts = _NUMBER.split(name)
    numbers = [(len(digits), digits) for digits in (part.lstrip("0") for part in parts[1::2])]
    key: list[str | tuple[int, str]] = list(parts)
    key[1::2] = numbers
    return key


@lru_cache(_KEPT)
def ranks_of(names: tuple[str, ...], *, numbers: bool = False) -> IntArray:
    """Return the position of each name when the names are sorted, read only.

    :param numbers: numbers in names count by value; else names are plain strings.
    """
    ranks = np.empty(len(names), dtype=np.int32)
    ordered: Sequence[int] | npt.NDArray[np.int64]
    if numbers and _digits_stand_alike(names):
        ordered = np.argsort(np.array(names), kind="stable")
    else:
        ordered = sorted(range(len(names)), key=lambda i: natural(names[i]) if numbers else names[i])
    ranks[ordered] = np.arange(len(names), dtype=np.int32)
    ranks.flags.writeable = False
    return ranks


def _digits_stand_alike(names: tuple[str, ...]) -> bool:
    """Return whether names are as long as each other with digits at the same places: then plain order is natural."""
    if not names or len({len(name) for name in names}) > 1 or not names[0] or not "".join(names).isascii():
        return False
    letters = np.array(names).view(np.uint32).reshape(len(names), -1)
    digits = (letters >= ord("0")) & (letters <= ord("9"))
    return bool((digits == digits[0]).all())


class _SameNames:
    """Names of nodes, told apart by which object they are: to hash and compare those of 25,000 takes half a ms."""

    __slots__ = ("names",)

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __hash__(self) -> int:
        return id(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameNames) and self.names is other.names


@lru_cache(_KEPT)
def _ranks_of_same(same: _SameNames) -> IntArray:
    return ranks_of(same.names, numbers=True)


def name_ranks(cluster: Cluster) -> IntArray:
    """Return the position of each node when nodes are sorted by name, numbers in names by value; read only."""
    return _ranks_of_same(_SameNames(cluster.names))


@lru_cache(_KEPT)
def _nodes_of_same(same: _SameNames, level: Level) -> tuple[IntArray, IntArray, IntArray]:
    nodes = np.lexsort((_ranks_of_same(same), level.domain_of)).astype(np.int32)
    sizes = np.bincount(level.domain_of, minlength=len(level)).astype(np.int32)
    starts = np.cumsum(sizes, dtype=np.int32) - sizes
    for array in (nodes, starts, sizes):
        array.flags.writeable = False
    return nodes, starts, sizes


def nodes_by_name(cluster: Cluster, level: Level) -> tuple[IntArray, IntArray, IntArray]:
    """Return the nodes of each domain of a level in order of names, numbers in names by value; read only.

    :returns: all nodes, domain after domain, shape [nodes]; where those of each domain begin, and how many they are.
    """
    return _nodes_of_same(_SameNames(cluster.names), level)


def domain_ranks(levels: tuple[Level, ...]) -> list[IntArray]:
    """Return for each level the position of each domain when domains are sorted by the names on their path."""
    positions: list[IntArray] = []
    for level in levels:
        broader = positions[-1][level.parent_of] if positions else np.zeros(len(level), dtype=np.int32)
        ranks = np.empty(len(level), dtype=np.int32)
        ranks[np.lexsort((ranks_of(level.domains), broader))] = np.arange(len(level), dtype=np.int32)
        positions.append(ranks)
    return positions


def by_path(cluster: Cluster, nodes: IntArray) -> IntArray:
    """Return the nodes sorted by the names on their path, the node's own last: (minipod, rack, host)."""
    names = ranks_of(cluster.names)[nodes]
    if not cluster.levels:
        return nodes[np.argsort(names)]
    closest = domain_ranks(cluster.levels)[-1][cluster.levels[-1].domain_of[nodes]]
    return nodes[np.lexsort((names, closest))]


def by_name(cluster: Cluster) -> IntArray:
    """Return all nodes sorted by name as plain strings, the order in which the API server lists them."""
    return np.argsort(ranks_of(cluster.names)).astype(np.int32)


def numbered_by_name(cluster: Cluster, job: Job, nodes: IntArray) -> IntArray:
    """Return a placement with its ranks renumbered at no cost: the first of its nodes by name has rank 0.

    The other values of each digit of a rank follow by the first name that has them, and stages so that few hops leave a
    domain of the job's level: after each the one that shares the most with it.  Every group is of the same nodes as
    before.

    :param nodes: shape [rows, columns], the node of each cell.
    :returns: the same shape; as it was where no renumbering is known.
    """
    if prod(job.rank_digits) != nodes.size:
        return nodes
    by_rank = nodes[job.grid.cell_of_rank]
    by_digit = by_rank.reshape(job.rank_digits)
    names = ranks_of(tuple(cluster.names[node] for node in by_rank), numbers=True).reshape(job.rank_digits)
    for axis in range(by_digit.ndim):
        others = tuple(other for other in range(by_digit.ndim) if other != axis)
        order = np.argsort(names.min(axis=others))
        by_digit, names = by_digit.take(order, axis=axis), names.take(order, axis=axis)
    numbered = by_digit.ravel()[job.grid.node_rank]
    domains, left, stages = cluster.level(job.level).domain_of[numbered], list(range(1, job.grid.columns)), [0]
    while left:
        stages.append(left.pop(int((domains[:, left] != domains[:, stages[-1:]]).sum(axis=0).argmin())))
    return numbered[:, stages]


def by_natural_name(cluster: Cluster, nodes: IntArray) -> IntArray:
    """Return the nodes sorted by name, numbers in names by value."""
    return nodes[np.argsort(name_ranks(cluster)[nodes])]
