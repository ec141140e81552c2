"""Kueue topology-aware scheduling (TAS), v0.15: best-fit descent.

Source: kubernetes-sigs/kueue v0.15.0, ``pkg/cache/scheduler/tas_flavor_snapshot.go``, and KEP-2724; read, not copied.

1. Count free hosts in every domain, and how many *slices* (groups of pods that must share a domain of one level) fit.
2. At the requested level take the domain with the least room that holds the job.  None does: ``required`` refuses, else
   the next broader level is tried, and at the broadest level the domains with most room are taken in turn, the last one
   by best fit.
3. Go down level by level.  Above the slice level all children of the chosen domains compete together (most slices
   first, the last by best fit); from the slice level on each domain hands its pods to its own children.
4. Hosts are sorted by the names on their path; ranks take them in that order.

Left out: ``unconstrained`` and slice-only requests, leader pods, several slice layers, node affinity, balanced
placement (alpha, off), replacement of a failed node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from ground.errors import Infeasible
from scheduler.placement.heuristic import Heuristic, RankOrder, Request
from scheduler.placement.node_order import by_path, domain_ranks
from topology.cluster import IntArray, count_nodes

SliceOf = Literal["none", "p", "d"]
"""Pods that must share a domain of the job's level: none, as many as a PP group has, as many as a DP group has."""


def kueue(*, required: bool = False, slices: SliceOf = "none", order: RankOrder = "job") -> Heuristic:
    """Make the algorithm of Kueue, asked for the job's level; as it is, entry point ``kueue-preferred``.

    :param slices: slices that are required to share a domain of the level.
    """

    def choose(request: Request) -> IntArray:
        size = {"none": 1, "p": request.grid.columns, "d": request.grid.rows}[slices]
        return list_hosts(request, required=required, slice_size=size)

    name = f"kueue-slice-{slices}" if slices != "none" else "kueue-required" if required else "kueue-preferred"
    asked = "the whole job in one domain" if required else "few domains, best fit for the last"
    if slices != "none":
        asked = f"{slices.upper()} consecutive ranks share a domain"
    return Heuristic(name, f"Kueue 0.15 TAS: {asked}", choose, order)


required = partial(kueue, required=True)
# consecutive ranks are PP groups along the rows, DP groups down the columns
slice_p = partial(kueue, slices="p", order="rows")
slice_d = partial(kueue, slices="d", order="columns")


@dataclass(frozen=True, slots=True)
class _Tree:
    """The levels of the cluster with the hosts as the last one."""

    free: list[IntArray]  # for each depth, shape [domains], free hosts
    slices: list[IntArray]  # for each depth, shape [domains], whole slices; zero below the slice level
    rank: list[IntArray]  # for each depth, shape [domains], place in the order of names
    parent: list[IntArray]  # for each depth, shape [domains], domain one level broader

    def children(self, depth: int, domains: IntArray) -> IntArray:
        """Return the domains one level closer: most slices first, then fewest free hosts, then by name."""
        chosen = np.zeros(len(self.free[depth]), dtype=np.bool_)
        chosen[domains] = True
        return self.sorted(depth + 1, np.flatnonzero(chosen[self.parent[depth + 1]]).astype(np.int32))

    def children_of_each(self, depth: int, domains: IntArray) -> Iterator[IntArray]:
        """Yield what :meth:`children` says of one domain after another, from one look at all of them."""
        closer = self.children(depth, domains)
        parent = self.parent[depth + 1][closer]
        by_parent = np.argsort(parent, kind="stable")
        first, last = (np.searchsorted(parent, domains, side=side, sorter=by_parent) for side in ("left", "right"))
        return (closer[by_parent[i:j]] for i, j in zip(first, last, strict=True))

    def sorted(self, depth: int, domains: IntArray) -> IntArray:
        """Return the domains in the order in which they are tried."""
        keys = self.rank[depth][domains], self.free[depth][domains], -self.slices[depth][domains]
        return domains[np.lexsort(keys)]


def list_hosts(request: Request, *, required: bool, slice_size: int) -> IntArray:
    """Return hosts in the order of ranks, shape [cells].

    :raises Infeasible: the slices do not fit, or no domain holds the whole job that requires one.
    """
    hosts = by_path(request.cluster, np.flatnonzero(request.admitted).astype(np.int32))
    host_depth = len(request.cluster.levels)
    slice_depth = host_depth if slice_size == 1 else request.level_index
    # 1: free hosts and slices in every domain
    levels = request.cluster.levels
    parent = [level.parent_of for level in levels] + [levels[-1].domain_of[hosts]]
    rank = [*domain_ranks(levels), np.arange(len(hosts), dtype=np.int32)]
    free = [*(count_nodes(level, request.admitted) for level in levels), np.ones_like(hosts)]
    # slices are counted at their own level and summed up above it; below it none is
    slices = [np.zeros_like(count) for count in free]
    slices[slice_depth] = free[slice_depth] // slice_size
    for depth in range(slice_depth, 0, -1):
        np.add.at(slices[depth - 1], parent[depth], slices[depth])
    tree = _Tree(free, slices, rank, parent)
    needed = request.grid.cells // slice_size
    what = "pods" if slice_size == 1 else f"slices of {slice_size} pods"
    # 2: the level, the domains there and how many slices each takes
    depth = request.level_index
    while depth > 0 and not required and tree.slices[depth].max() < needed:
        depth -= 1
    order = tree.sorted(depth, np.arange(len(tree.free[depth]), dtype=np.int32))
    room = int(tree.slices[depth][order[0]]) if required else int(tree.slices[depth].sum())
    if room < needed:
        where = "one domain" if required else "the topology"
        raise Infeasible(f"Kueue: {where} allows to fit only {room} out of {needed} {what}")
    chosen, amount = _fill(order, tree.slices[depth], needed)
    # 3: level by level down to hosts
    while depth < slice_depth:
        depth += 1
        chosen, amount = _fill(tree.children(depth - 1, chosen), tree.slices[depth], needed)
    pods = amount * slice_size
    while depth < host_depth:
        depth += 1
        of_each = zip(tree.children_of_each(depth - 1, chosen), pods.tolist(), strict=True)
        if depth == host_depth:
            # a host takes one pod
            chosen = np.concatenate([inside[:some] for inside, some in of_each])
            break
        shares = [_fill(inside, tree.free[depth], some) for inside, some in of_each]
        chosen = np.concatenate([share[0] for share in shares])
        pods = np.concatenate([share[1] for share in shares])
    return hosts[np.sort(chosen)]


def _fill(order: IntArray, room: IntArray, needed: int) -> tuple[IntArray, IntArray]:
    """Take domains in order until one holds the rest; then of all that are left the one with least room that does."""
    filled = np.cumsum(room[order])
    last = int(np.searchsorted(filled, needed))
    rest = needed - (int(filled[last - 1]) if last else 0)
    left = order[last:]
    tightest = left[np.argmin(np.where(room[left] >= rest, room[left], np.iinfo(np.int32).max))]
    domains = np.append(order[:last], tightest)
    amounts = np.append(room[order[:last]], rest)
    return domains[amounts > 0], amounts[amounts > 0]
