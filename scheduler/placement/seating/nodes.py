"""The last step: from the closest domain of each cell to its node."""

from __future__ import annotations

import re

import numpy as np

from scheduler.placement.admission import BoolArray
from topology.cluster import Cluster, IntArray

_NUMBER = re.compile(r"(\d+)")


def seat_on_nodes(cluster: Cluster, domain_of_cell: IntArray, *, node_rank: IntArray, pool: BoolArray) -> IntArray:
    """Give every cell a node of its domain: ranks in order of names, on the closest run of free nodes.

    :param domain_of_cell: shape [rows, columns], domain of the closest level.
    :param node_rank: shape [rows, columns].
    :param pool: shape [nodes], nodes that may be used.
    :returns: shape [rows, columns], index of the node of each cell.
    """
    domain_of = cluster.levels[-1].domain_of
    used = np.zeros(len(cluster.levels[-1]), dtype=np.bool_)
    used[domain_of_cell] = True
    around = np.flatnonzero(used[domain_of])
    around = np.array(sorted(around.tolist(), key=lambda i: natural(cluster.names[i])), dtype=np.int64)
    around = around[np.argsort(domain_of[around], kind="stable")]
    seats = np.flatnonzero(pool[around])
    domain_of_seat = domain_of[around[seats]]
    cells = np.lexsort((node_rank.ravel(), domain_of_cell.ravel()))
    domain_of_sorted = domain_of_cell.ravel()[cells]
    nodes = np.empty(domain_of_cell.size, dtype=np.int32)
    domains, first_cell, wanted = np.unique(domain_of_sorted, return_index=True, return_counts=True)
    first_seat = np.searchsorted(domain_of_seat, domains, side="left")
    offered = np.searchsorted(domain_of_seat, domains, side="right") - first_seat
    for cell, seat, want, offer in zip(first_cell, first_seat, wanted, offered, strict=True):
        places = seats[seat : seat + offer]
        start = int((places[want - 1 :] - places[: offer - want + 1]).argmin())
        nodes[cells[cell : cell + want]] = around[places[start : start + want]]
    return nodes.reshape(domain_of_cell.shape)


def natural(name: str) -> list[str | tuple[int, str]]:
    """Sort key in which n2 comes before n10; numbers of any length."""
    parts = _NUMBER.split(name)
    numbers = [(len(digits), digits) for digits in (part.lstrip("0") for part in parts[1::2])]
    key: list[str | tuple[int, str]] = list(parts)
    key[1::2] = numbers
    return key
