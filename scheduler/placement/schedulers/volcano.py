"""kube-scheduler v1.36 alone, pod by pod; and Volcano v1.14 with network topology: hard, soft, and partitions.

Sources: kubernetes v1.36 ``pkg/scheduler/schedule_one.go``; volcano-sh/volcano v1.14.1
``pkg/scheduler/actions/allocate/allocate.go`` and
``pkg/scheduler/plugins/network-topology-aware/network_topology_aware.go``; read, not copied.

- **kube-scheduler**: pods come in rank order, each sees a sample of the free nodes (:class:`Window`) and takes one at
  random: whole empty nodes all score the same.

Volcano's HyperNodes are the domains of the levels, tier 1 the closest, below one HyperNode of the whole cluster.

- **hard**: the closest tier with a HyperNode that has room for the gang; of several, the one that the gang fills most
  (bin-packing).  Inside, pods are placed one by one.
- **soft**: pods are placed one by one on the whole cluster.
- *One by one*: a pod sees a sample of the free nodes too.  Best is the node with its tier-1 HyperNode closest to the
  HyperNode that holds the gang so far (lowest tier of the lowest common one); among equals the one with most pods of
  the gang in its tier-1 HyperNode; among those one at random.  A gang that has left its first domain is at the mercy of
  what the next pod happens to see.
- **partitions**: groups of consecutive ranks, each held to one domain, placed one after another into the domain that
  is fullest afterwards.

The hard mode is set up as its users do, with HyperNodes down to the job's level; the soft mode with all levels.

Left out of kube-scheduler: spreading by PodTopologySpread (off for pods without a service or owner selector), image
locality, and opportunistic batching of identical pods.  Left out of Volcano: CPU and memory (whole nodes stand for
both), gangs that already run in part, and within a domain of a partition the order of nodes, which is random there too.
"""

from functools import partial
from typing import Literal

import numpy as np

from ground.errors import Infeasible
from scheduler.placement.heuristic import Heuristic, RankOrder, Request
from scheduler.placement.node_order import by_name
from topology.cluster import BoolArray, FloatArray, IntArray

_TIE = 1e-9  # Scores closer than this are equal


def _any_of_the_window(request: Request) -> IntArray:
    """Return nodes in the order of ranks, each drawn at random from the window of its pod."""
    rng = np.random.default_rng(request.seed)
    window = Window(by_name(request.cluster), request.admitted)
    chosen = np.empty(request.grid.cells, dtype=np.int32)
    for rank in range(request.grid.cells):
        request.check_time()
        seen = window.look()
        chosen[rank] = seen[rng.integers(len(seen))]
        window.take(int(chosen[rank]))
    return chosen


def sample_size(nodes: int) -> int:
    """Return how many feasible nodes are enough for one pod in a cluster of that many nodes."""
    # at least 100 nodes, and percentOfNodesToScore: 50 percent, less one for every 125 nodes, at least 5
    return min(nodes, max(100, nodes * max(5, 50 - nodes // 125) // 100))


class Window:
    """The moving view of a list of nodes, which has those of the cluster in the scheduler's order.

    kube-scheduler looks for feasible nodes from where it stopped for the pod before, until it has enough of them; so
    consecutive pods see different parts of the cluster, and those of a gang end up far apart.  Volcano took the rule
    over (``pkg/scheduler/util/scheduler_helper.go``).  The real search runs in 16 threads: its end varies by a few.
    """

    def __init__(self, nodes: IntArray, admitted: BoolArray) -> None:
        self._nodes = nodes
        self._free = admitted[nodes]
        self._position = np.empty(len(admitted), dtype=np.int32)
        self._position[nodes] = np.arange(len(nodes), dtype=np.int32)
        self._enough = sample_size(len(nodes))
        self._start = 0

    def look(self) -> IntArray:
        """Return the feasible nodes that the next pod may choose from, and move the window on."""
        feasible = np.flatnonzero(self._free)
        ahead = int(np.searchsorted(feasible, self._start))
        seen = np.concatenate([feasible[ahead : ahead + self._enough], feasible[:ahead]])[: self._enough]
        # a search that had to look at every node ends where it began
        if len(feasible) >= self._enough:
            self._start = (int(seen[-1]) + 1) % len(self._nodes)
        nodes: IntArray = self._nodes[seen]
        return nodes

    def take(self, node: int) -> None:
        """Mark the node as in use from now on."""
        self._free[self._position[node]] = False


kube_scheduler = partial(
    Heuristic,
    "kube-scheduler",
    "kube-scheduler 1.36 alone: any free node of a moving sample",
    _any_of_the_window,
    pod_by_pod=True,
)


def volcano_partitions(*, of: Literal["p", "d"], order: RankOrder) -> Heuristic:
    """Make partitions of as many consecutive ranks as a PP group (``p``) or a DP group (``d``) has."""

    def choose(request: Request) -> IntArray:
        size = request.grid.columns if of == "p" else request.grid.rows
        rng = np.random.default_rng(request.seed)
        pools = [list(rng.permutation(pool)) for pool in request.pools]
        filled = _filled(request, request.level.domain_of, 0)
        capacity = np.bincount(request.level.domain_of, minlength=len(request.level))
        chosen: list[int] = []
        for partition in range(request.grid.cells // size):
            request.check_time()
            free = np.array([len(pool) for pool in pools])
            roomy = np.flatnonzero(free >= size)
            if not len(roomy):
                total = request.grid.cells // size
                raise Infeasible(
                    f"Volcano: no domain has room for partition {partition + 1} of {total}, {size} pods each"
                )
            into = int(roomy[_best((filled + size / capacity)[roomy], rng)])
            chosen += [pools[into].pop() for _ in range(size)]
            filled[into] += size / capacity[into]
        return np.array(chosen, dtype=np.int32)

    return Heuristic(
        f"volcano-partition-{of}",
        f"Volcano 1.14 partitions: {of.upper()} consecutive ranks share a domain, bin-packed",
        choose,
        order,
    )


def _soft(request: Request) -> IntArray:
    tiers = [level.domain_of for level in reversed(request.cluster.levels)]
    return _one_by_one(request, tiers, by_name(request.cluster), np.random.default_rng(request.seed))


def _hard(request: Request) -> IntArray:
    rng = np.random.default_rng(request.seed)
    tiers = [level.domain_of for level in reversed(request.cluster.levels[: request.level_index + 1])]
    everywhere = np.zeros(len(request.cluster), dtype=np.int32)
    for tier in (*tiers, everywhere):
        roomy = np.flatnonzero(np.bincount(tier[request.admitted]) >= request.grid.cells)
        if len(roomy):
            break
    fullest = roomy[_best(_filled(request, tier, request.grid.cells)[roomy], rng)]
    return _one_by_one(request, tiers, rng.permutation(np.flatnonzero(tier == fullest)).astype(np.int32), rng)


def _filled(request: Request, domain_of: IntArray, pods: int) -> FloatArray:
    """Return the share of each domain's GPUs in use once it has so many pods more, shape [domains]."""
    gpus = np.bincount(domain_of, weights=request.cluster.gpus)
    in_use = gpus - np.bincount(domain_of, weights=request.cluster.free_gpus)
    return np.asarray((in_use + pods * request.job.gpus_per_node) / gpus)


def _best(scores: FloatArray, rng: np.random.Generator) -> int:
    """Return the index of the highest score, one of several at random."""
    best = np.flatnonzero(scores >= scores.max() - _TIE)
    return int(best[rng.integers(len(best))])


def _one_by_one(request: Request, tiers: list[IntArray], listed: IntArray, rng: np.random.Generator) -> IntArray:
    """Return nodes in the order of ranks.

    :param tiers: for each tier but the whole cluster, shape [nodes], HyperNode of each node, the closest first.
    :param listed: the nodes that pods may go to, in the order in which they are looked at.
    """
    window = Window(listed, request.admitted)
    pods_in = np.zeros(int(tiers[0].max()) + 1)
    chosen = np.empty(request.grid.cells, dtype=np.int32)
    gang_tier = -1
    for rank in range(request.grid.cells):
        request.check_time()
        seen = window.look()
        tier = _common_tier(tiers, seen, int(chosen[0]), gang_tier) if rank else np.zeros(len(seen), dtype=np.int32)
        # closeness counts first, then pods of the gang nearby: the real score adds at most 1 for these
        nearest = np.flatnonzero(tier == tier.min())
        best = nearest[_best(pods_in[tiers[0][seen[nearest]]], rng)]
        node = int(seen[best])
        chosen[rank], gang_tier = node, int(tier[best])
        pods_in[tiers[0][node]] += 1
        window.take(node)
    return chosen


def _common_tier(tiers: list[IntArray], nodes: IntArray, first: int, gang_tier: int) -> IntArray:
    """Return the tier of the lowest HyperNode that holds a node and the gang so far, shape [nodes], 0 the closest.

    :param first: a node of the gang; the HyperNode that holds the gang is its ancestor at ``gang_tier``.
    """
    common = np.full(len(nodes), len(tiers), dtype=np.int32)
    for tier in range(len(tiers) - 1, gang_tier - 1, -1):
        common[tiers[tier][nodes] == tiers[tier][first]] = tier
    return common


_pod_by_pod = partial(Heuristic, pod_by_pod=True)
volcano_hard = partial(
    _pod_by_pod, "volcano-hard", "Volcano 1.14 hard mode: the closest HyperNode with room, bin-packed", _hard
)
volcano_soft = partial(
    _pod_by_pod, "volcano-soft", "Volcano 1.14 soft mode: pod by pod, close to the pods before", _soft
)
# consecutive ranks are PP groups along the rows, DP groups down the columns
partition_p = partial(volcano_partitions, of="p", order="rows")
partition_d = partial(volcano_partitions, of="d", order="columns")
