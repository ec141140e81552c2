"""Kueue topology-aware scheduling (TAS), v0.15 to v0.19: best-fit descent, balanced placement, slices at two levels.

Source: kubernetes-sigs/kueue v0.15.0 and v0.19, ``pkg/cache/scheduler/tas_flavor_snapshot.go`` and
``tas_balanced_placement.go``, and KEP-2724; read, not copied.

1. Count free hosts in every domain, and how many *slices* (groups of pods that must share a domain of one level) fit.
2. At the requested level take the domain with the least room that holds the job.  None does: ``required`` refuses, else
   the next broader level is tried, and at the broadest level the domains with most room are taken in turn, the last one
   by best fit.
3. Go down level by level.  Above the slice level all children of the chosen domains compete together (most slices
   first, the last by best fit); from the slice level on each domain hands its pods to its own children.
4. Hosts are sorted by the names on their path; ranks take them in that order.

*Slices at several levels* (``TASMultiLayerTopology``, on since v0.19): slices of a slice share a domain of a closer
level.  A domain there counts as many pods as whole inner slices, and from the slice level on whole ones are handed
down.  Ours are slices of P pods, and in them of the largest divisor of P that the largest domain of the closest level
has nodes for.

*Balanced placement* (``TASBalancedPlacement``, alpha since v0.15, off): a job that prefers a level goes to domains of
it that have one parent, with the same share on each domain one level closer.

1. For each parent: the fewest closer domains that hold the job, the roomiest first; the *threshold* is the share of
   each if all are equal, at most what the last of them has.
2. Closer domains with less are left out; the parent with the largest threshold is taken, of equal ones that with the
   fewest domains of the level.
3. Of these, then of the closer domains in them, the set with as few domains, and of these sets the least room, is
   taken; domains are tried with most room first, then by the entropy of the room inside, closer ones by name.  Each
   closer domain gets the threshold, what is left goes to the roomiest.

Where that fails the best fit of before is taken.

Left out: ``unconstrained`` and slice-only requests, leader pods, node affinity, replacement of a failed node.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from ground.errors import Infeasible
from scheduler.placement.heuristic import GaveUp, Heuristic, RankOrder, Request
from scheduler.placement.node_order import by_path, domain_ranks
from topology.cluster import IntArray

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


def balanced(order: RankOrder = "job") -> Heuristic:
    """Make the algorithm of Kueue with balanced placement, which prefers the job's level."""
    return Heuristic("kueue-balanced", "Kueue 0.19 TAS: equal shares on few domains, alpha", list_balanced, order)


def multilayer() -> Heuristic:
    """Make the algorithm of Kueue with slices of P pods, and slices of these at the closest level."""

    def choose(request: Request) -> IntArray:
        columns, closest = request.grid.columns, len(request.cluster.levels) - 1
        if closest == request.level_index:
            return list_hosts(request, required=False, slice_size=columns)
        most = int(np.bincount(request.cluster.levels[-1].domain_of).max())
        inner = max(size for size in range(1, columns + 1) if columns % size == 0 and size <= most)
        return list_hosts(request, required=False, slice_size=columns, inner_size=inner)

    summary = "Kueue 0.19 TAS: P consecutive ranks share a domain, parts of them a closest one"
    return Heuristic("kueue-multilayer", summary, choose, "rows")


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


def _tree(request: Request, *, slice_size: int, inner_size: int = 1) -> tuple[_Tree, IntArray]:
    """Return the tree with free hosts and slices in every domain, and the hosts by the names on their path.

    :param inner_size: pods that share a domain of the closest level: those of broader ones count no others.
    """
    levels = request.cluster.levels
    hosts = by_path(request.cluster, np.flatnonzero(request.admitted).astype(np.int32))
    slice_depth = len(levels) if slice_size == 1 else request.level_index
    parent = [level.parent_of for level in levels] + [levels[-1].domain_of[hosts]]
    rank = [*domain_ranks(levels), np.arange(len(hosts), dtype=np.int32)]
    free = [*(np.zeros(len(level), dtype=np.int32) for level in levels), np.ones_like(hosts)]
    for depth in range(len(levels), 0, -1):
        size = inner_size if slice_depth < depth < len(levels) else 1
        np.add.at(free[depth - 1], parent[depth], free[depth] // size * size)
    # slices are counted at their own level and summed up above it; below it none is
    slices = [np.zeros_like(count) for count in free]
    slices[slice_depth] = free[slice_depth] // slice_size
    for depth in range(slice_depth, 0, -1):
        np.add.at(slices[depth - 1], parent[depth], slices[depth])
    return _Tree(free, slices, rank, parent), hosts


def list_hosts(request: Request, *, required: bool, slice_size: int, inner_size: int = 1) -> IntArray:
    """Return hosts in the order of ranks, shape [cells].

    :param inner_size: pods of a slice that share a domain of the closest level, a divisor of the slice size.
    :raises Infeasible: the slices do not fit, or no domain holds the whole job that requires one.
    """
    # 1: free hosts and slices in every domain
    tree, hosts = _tree(request, slice_size=slice_size, inner_size=inner_size)
    slice_depth = len(request.cluster.levels) if slice_size == 1 else request.level_index
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
    return hosts[np.sort(_down(tree, depth, chosen, amount * slice_size, inner_size))]


def _down(tree: _Tree, depth: int, chosen: IntArray, pods: IntArray, inner_size: int = 1) -> IntArray:
    """Return the hosts that domains hand their pods to, level by level, each to its own children.

    :param chosen: domains at a depth, ``pods`` of each; ``inner_size``: pods that stay together down to the closest
        level.
    """
    host_depth = len(tree.free) - 1
    while depth < host_depth:
        depth += 1
        of_each = zip(tree.children_of_each(depth - 1, chosen), pods.tolist(), strict=True)
        if depth == host_depth:
            # a host takes one pod
            return np.concatenate([inside[:some] for inside, some in of_each])
        shares = [_fill(inside, tree.free[depth] // inner_size, some // inner_size) for inside, some in of_each]
        chosen = np.concatenate([share[0] for share in shares])
        pods = np.concatenate([share[1] for share in shares]) * inner_size
    return chosen


MOST_ENTRIES = 20_000_000  # Of the table of sets of domains, some 100 MB: beyond, balanced placement is not followed


def list_balanced(request: Request) -> IntArray:
    """Return hosts in the order of ranks by balanced placement, else by best fit, shape [cells].

    :raises Infeasible: the job does not fit; GaveUp: there are too many sets of domains.
    """
    tree, hosts = _tree(request, slice_size=1)
    depth, needed = request.level_index, request.grid.cells
    chosen = _best_for_balance(tree, depth, needed)
    if chosen is not None:
        threshold, domains, free = chosen
        kept = tightest_set(request, free[depth], _by_entropy(tree, depth, domains, free), needed)
        closer = np.flatnonzero(np.isin(tree.parent[depth + 1], kept)).astype(np.int32)
        shared = tightest_set(request, free[depth + 1], closer[np.argsort(tree.rank[depth + 1][closer])], needed)
        if len(shared) * threshold <= needed:
            room = free[depth + 1][shared]
            roomiest = np.lexsort((tree.rank[depth + 1][shared], -room))
            shared, room = shared[roomiest], room[roomiest]
            # what the thresholds leave goes to the first that have room for more
            extra = np.minimum(np.cumsum(room - threshold), needed - len(shared) * threshold)
            return hosts[np.sort(_down(tree, depth + 1, shared, threshold + np.diff(extra, prepend=0)))]
    return list_hosts(request, required=False, slice_size=1)


def _best_for_balance(tree: _Tree, depth: int, needed: int) -> tuple[int, IntArray, dict[int, IntArray]] | None:
    """Return the largest threshold, the domains of a level that have it, all of one parent, and the room of these and
    of those one level closer, without what is below the threshold; ``None`` = no parent's domains hold the job.
    """
    everything = np.arange(len(tree.free[depth]), dtype=np.int32)
    siblings = [everything]
    if depth:
        above = np.argsort(tree.rank[depth - 1])
        siblings = [everything[tree.parent[depth] == parent] for parent in above]
    best, fewest, answer = 0, 0, None
    for domains in siblings:
        closer = np.flatnonzero(np.isin(tree.parent[depth + 1], domains))
        room = np.sort(tree.free[depth + 1][closer])[::-1]
        if room.sum() < needed:
            continue
        used = int(np.searchsorted(np.cumsum(room), needed)) + 1
        threshold = min(needed // used, int(room[used - 1]))
        if threshold < max(best, 1):
            continue
        inside = np.zeros_like(tree.free[depth + 1])
        inside[closer] = np.where(tree.free[depth + 1][closer] >= threshold, tree.free[depth + 1][closer], 0)
        own = np.zeros_like(tree.free[depth])
        np.add.at(own, tree.parent[depth + 1], inside)
        rooms = np.sort(own[domains])[::-1]
        if rooms.sum() < needed:
            continue
        count = int(np.searchsorted(np.cumsum(rooms), needed)) + 1
        if threshold > best or count < fewest:
            best, fewest, answer = threshold, count, (threshold, domains, {depth: own, depth + 1: inside})
    return answer


def _by_entropy(tree: _Tree, depth: int, domains: IntArray, free: dict[int, IntArray]) -> IntArray:
    """Return domains with most room first, of equal ones the most evenly filled inside, then by name."""
    share = free[depth + 1] / np.maximum(free[depth][tree.parent[depth + 1]], 1)
    entropy = np.zeros(len(free[depth]))
    np.add.at(entropy, tree.parent[depth + 1], -share * np.log2(np.where(share > 0, share, 1.0)))
    return domains[np.lexsort((tree.rank[depth][domains], -entropy[domains], -free[depth][domains]))]


def tightest_set(request: Request, free: IntArray, order: IntArray, needed: int) -> IntArray:
    """Return as few domains as hold so many pods, with the least room of all such sets; of equal sets the one whose
    domains come first, each as soon as it is tried.

    :param free: shape [domains]; ``order``: domains in the order in which they are tried.
    """
    order = order[free[order] > 0]
    room = np.sort(free[order])[::-1]
    count, beyond = int(np.searchsorted(np.cumsum(room), needed)) + 1, int(room[0])
    if room[-1] == beyond:
        return order[:count]  # all alike, as hosts are
    if (count + 1) * (needed + beyond) > MOST_ENTRIES:
        raise GaveUp("Kueue's balanced placement weighs more sets of domains here than are followed")
    # by domains in the set and pods left, beyond 0 where they hold more: the last domain of the set seen first
    last = np.full((count + 1, needed + beyond + 1), -1, dtype=np.int32)
    last[0, needed + beyond] = len(free)
    for domain in order.tolist():
        request.check_time()
        some = int(free[domain])
        # sets that hold all take no more
        before = last[:-1, beyond + 1 :] >= 0
        after = last[1:, beyond + 1 - some : last.shape[1] - some]
        after[before & (after < 0)] = domain
    left = int(np.flatnonzero(last[count, : beyond + 1] >= 0)[-1])
    chosen = []
    for size in range(count, 0, -1):
        chosen.append(int(last[size, left]))
        left += int(free[chosen[-1]])
    return np.array(chosen[::-1], dtype=np.int32)


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
