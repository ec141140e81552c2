"""A cluster that exists, with one more domain: what planning asks for."""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from topology.build import build_cluster
from topology.cluster import Cluster, IntArray, Node
from topology.errors import InvalidTopology


def with_domain(cluster: Cluster, nodes: int, *, level: str | None = None) -> Cluster:
    """The cluster with one more, empty domain.

    Closer levels of it are divided as they usually are, broader ones take it under their last domain.

    :param nodes: of the new domain, with as many GPUs as most nodes have.
    :param level: level of the new domain; ``None`` = the broadest with more than one.
    :raises InvalidTopology: no nodes, or the cluster has no levels.
    :raises UnknownName: the cluster has no such level.
    """
    if nodes < 1:
        raise InvalidTopology(f"a domain of {nodes} nodes", where="nodes", fix="give it at least one node")
    grown = cluster.level(level) if level is not None else cluster.default_level()
    depth = cluster.levels.index(grown)
    gpus = int(np.bincount(cluster.gpus).argmax())
    sizes = [_usual(one.domain_of) for one in cluster.levels]
    broad = cluster.node(len(cluster) - 1).path[:depth]
    taken, last = set(cluster.names), len(cluster)
    rows = [_as_row(cluster, i) for i in range(len(cluster))]
    for i in range(nodes):
        closer = tuple(
            _fresh(f"new-{one.name}{i // size + 1}", one.domains)
            for one, size in zip(cluster.levels[depth:], (nodes, *sizes[depth + 1 :]), strict=True)
        )
        name = _fresh(f"new{last + i + 1}", taken)
        rows.append(Node(name, (*broad, *closer), gpus, gpus))
    grown_cluster = build_cluster([one.name for one in cluster.levels], rows, flags=cluster.flags.values())
    return grown_cluster.replace(gpus_assumed=cluster.gpus_assumed, joined=cluster.joined)


def _as_row(cluster: Cluster, i: int) -> Node:
    """A node as a row: no entry where it hangs on a broader switch, no slowdown, which its flag has."""
    path = tuple(
        "" if level.implicit[level.domain_of[i]] else level.domains[level.domain_of[i]] for level in cluster.levels
    )
    return Node(cluster.names[i], path, int(cluster.gpus[i]), int(cluster.free_gpus[i]))


def _usual(domain_of: IntArray) -> int:
    """Nodes of most domains of a level."""
    return int(np.bincount(np.bincount(domain_of)).argmax())


def _fresh(name: str, taken: Container[str]) -> str:
    """A name that nobody has."""
    while name in taken:
        name += "-"
    return name
