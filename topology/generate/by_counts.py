"""From counts to a cluster: names, numbers and the checks that every preset shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.errors import InvalidTopology, TooLarge

MAX_NODES = 1_000_000
"""More nodes than any cluster has; asked for more, we say so instead of filling the memory."""

Leaf = tuple[tuple[int, ...], int]
"""One domain of the closest level: its number at every level from broad to close, counted from 0, and its nodes."""


def check_sizes(**sizes: int) -> None:
    """Refuse sizes that make no cluster.

    :raises InvalidTopology: a size below 1.
    """
    for name, size in sizes.items():
        if size < 1:
            raise InvalidTopology(f"{name} is {size}", where=name, fix=f"{name} is at least 1")


def grow(levels: Sequence[tuple[str, str]], leaves: Iterable[Leaf], *, gpus: int) -> Cluster:
    """Make a cluster out of its closest domains.

    Names are numbers behind a prefix, padded to one width and counted through the whole cluster: ``n0001``, ``r001``.

    :param levels: name and prefix of every level, from broad to close.
    :param leaves: the closest domains in order; numbers of a level are unique over the whole cluster.
    :raises TooLarge: more than :data:`MAX_NODES` nodes.
    """
    leaves = list(leaves)
    total = sum(count for _, count in leaves)
    check_total(total)
    digits = len(str(total))
    widths = [len(str(max(path[depth] for path, _ in leaves) + 1)) for depth in range(len(levels))]
    rows: list[Node] = []
    number = 0
    for path, count in leaves:
        names = tuple(f"{prefix}{i + 1:0{width}d}" for (_, prefix), i, width in zip(levels, path, widths, strict=True))
        rows.extend(Node(f"n{number + i + 1:0{digits}d}", names, gpus, gpus) for i in range(count))
        number += count
    return build_cluster([name for name, _ in levels], rows)


def regular(levels: Sequence[tuple[str, str]], fan_out: Sequence[int], *, nodes: int, gpus: int) -> Cluster:
    """A tree in which all domains of a level are equal.

    :param fan_out: domains of each level in each domain of the level above it.
    :param nodes: nodes in each domain of the closest level.
    :raises TooLarge: more than :data:`MAX_NODES` nodes.
    """
    check_total(prod(fan_out) * nodes)
    paths: list[tuple[int, ...]] = [()]
    for fan in fan_out:
        paths = [(*path, (path[-1] if path else 0) * fan + i) for path in paths for i in range(fan)]
    return grow(levels, [(path, nodes) for path in paths], gpus=gpus)


def check_total(nodes: int) -> None:
    """Refuse a cluster that is too large before its first node is made.

    :raises TooLarge: more than :data:`MAX_NODES` nodes.
    """
    if nodes > MAX_NODES:
        raise TooLarge(f"a cluster of {nodes:,} nodes is beyond the limit of {MAX_NODES:,}", fix="choose smaller sizes")


def split_nodes(nodes: int, domains: int, *, unevenness: float = 0.0, seed: int = 0) -> list[int]:
    """Split nodes over domains.

    :param unevenness: each domain's share is drawn from 1 - unevenness .. 1 + unevenness times the mean, in [0, 1).
    :param seed: which draw.
    :returns: nodes of each domain, at least 1, with the sum ``nodes``; an even split differs by at most 1.
    :raises InvalidTopology: fewer nodes than domains, or an unevenness outside [0, 1).
    """
    if not 0.0 <= unevenness < 1.0:
        raise InvalidTopology(
            f"unevenness is {unevenness}", where="unevenness", fix="unevenness is at least 0 and below 1"
        )
    if nodes < domains:
        raise InvalidTopology(
            f"{nodes} nodes cannot fill {domains} domains", where="nodes", fix="give every domain at least one node"
        )
    weights = 1.0 + unevenness * np.random.default_rng(seed).uniform(-1.0, 1.0, domains)
    exact = 1.0 + (nodes - domains) * weights / weights.sum()
    sizes = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(sizes - exact, kind="stable")
    sizes[by_remainder[: nodes - int(sizes.sum())]] += 1
    return [int(size) for size in sizes]
