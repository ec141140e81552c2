"""A cluster that exists, changed: nodes in use as running jobs leave them, findings about nodes, one more domain."""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from topology.build import build_cluster
from topology.cluster import Cluster, FloatArray, IntArray, Node
from topology.errors import InvalidInput, InvalidTopology
from topology.flags import FAULTY, FlagKind, NodeFlag


def fragment(cluster: Cluster, busy_share: float, seed: int, *, scattered: float = 0.3, partly: float = 0.1) -> Cluster:
    """Use nodes the way running jobs do: gangs on neighbouring nodes, small jobs anywhere.

    Each domain of the default level gets its own popularity, so that free nodes are uneven over the domains.  Gangs of
    2 nodes up to a whole domain (log-uniform: many small, few large) take runs of free nodes in the order of the tree,
    from a random place on; small jobs take single nodes.

    :param busy_share: share of all nodes that will not be free for a gang, busy ones included, rounded to whole nodes.
    :param scattered: share of the newly used nodes that go to small jobs.
    :param partly: share of the newly used nodes of which only some GPUs are in use; these are small jobs' nodes.
    :raises InvalidInput: a share outside [0, 1], or the cluster has more busy or fewer free nodes than asked for.
    """
    _check_shares(busy_share=busy_share, scattered=scattered, partly=partly)
    line = cluster.along_the_tree
    line = line[cluster.idle[line]]
    new = round(busy_share * len(cluster)) - int((cluster.free_gpus < cluster.gpus).sum())
    if not 0 <= new <= len(line):
        few = f"{new} more nodes would have to be busy and {len(line)} are free"
        fix = "choose a share between that of the nodes busy already and that of all nodes that are not faulty"
        raise InvalidInput(few, where="busy_share", fix=fix)
    rng = np.random.default_rng(seed)
    small = round(scattered * new)
    domain_of = cluster.default_level().domain_of if cluster.levels else np.zeros(len(cluster), dtype=np.int32)
    popularity = rng.gamma(1.0, size=int(domain_of.max()) + 1) + 0.02
    gangs = _gangs(line, popularity[domain_of], new - small, largest=int(np.bincount(domain_of).max()), rng=rng)
    line = np.setdiff1d(line, gangs)
    weights = popularity[domain_of[line]]
    singles = rng.choice(line, size=small, replace=False, p=weights / weights.sum()) if small else line[:0]
    free_gpus = cluster.free_gpus.copy()
    free_gpus[gangs] = 0
    free_gpus[singles] = 0
    shared = singles[cluster.gpus[singles] > 1][: round(partly * new)]
    free_gpus[shared] = rng.integers(1, cluster.gpus[shared])
    return cluster.replace(free_gpus=free_gpus)


def _check_shares(**shares: float) -> None:
    for name, share in shares.items():
        if not 0.0 <= share <= 1.0:
            raise InvalidInput(f"{name} is {share}", where=name, fix="a share lies between 0 and 1")


def _gangs(line: IntArray, weight: FloatArray, total: int, *, largest: int, rng: np.random.Generator) -> IntArray:
    """Return ``total`` nodes of gangs, each a run of free ones of a line that often begins where weights are large."""
    taken = [line[:0]]
    while total > 0:
        size = min(total, int(np.exp(rng.uniform(np.log(2), np.log(max(largest, 2) + 1)))))
        sum_of_weights = np.cumsum(weight[line])
        start = int(np.searchsorted(sum_of_weights, rng.uniform(0.0, sum_of_weights[-1])))
        run = np.arange(start, start + size) % len(line)
        taken.append(line[run])
        line = np.delete(line, run)
        total -= size
    return np.concatenate(taken)


def flag_some(cluster: Cluster, count: int, seed: int, *, faulty_share: float = 0.2) -> Cluster:
    """Flag so many free nodes that have no flag, where one matters to the next job, as slow or faulty.

    Slow nodes are 10 % to 100 % slower, the range of the stragglers injected and measured by the what-if analysis of
    arXiv 2505.05713 (1.16 to 2.03); small factors are the more likely ones.  ``faulty_share`` is rounded to whole
    nodes.
    """
    candidates = np.array([i for i in np.flatnonzero(cluster.idle) if int(i) not in cluster.flags], dtype=np.int64)
    if not 0 <= count <= len(candidates):
        few = f"cannot flag {count} nodes: {len(candidates)} are free and without a flag"
        raise InvalidInput(few, where="count", fix=f"flag between 0 and {len(candidates)} nodes")
    _check_shares(faulty_share=faulty_share)
    rng = np.random.default_rng(seed)
    chosen = rng.choice(candidates, size=count, replace=False) if count else candidates[:0]
    slowdown = np.round(1.1 + 0.9 * rng.beta(1.0, 3.0, count), 2)
    faulty = round(faulty_share * count)
    flags = []
    for i, node in enumerate(chosen):
        kind: FlagKind = "faulty" if i < faulty else "straggler"
        factor, made = (FAULTY, kind) if i < faulty else (float(slowdown[i]), f"{slowdown[i] - 1:.0%} slower")
        evidence = f"made {made} by a seed"
        flags.append(NodeFlag(cluster.names[node], kind, factor, source="generated", evidence=evidence))
    return cluster.with_flags(flags)


def with_domain(cluster: Cluster, nodes: int, *, level: str | None = None) -> Cluster:
    """Return the cluster with one more, empty domain of so many nodes with the usual number of GPUs, of the usual type.

    Its level is that given, or the broadest with more than one domain.  Closer levels of it are divided as they usually
    are, broader ones take it under their last domain; it is in no domain of second hierarchies.
    """
    if nodes < 1:
        raise InvalidTopology(f"a domain of {nodes} nodes", where="nodes", fix="give it at least one node")
    depth = cluster.level_index(level)
    gpus = int(np.bincount(cluster.gpus).argmax())
    usual = cluster.gpu_types[np.bincount(cluster.gpu_type_of).argmax()]
    # nodes of most domains of each level
    sizes = [int(np.bincount(np.bincount(one.domain_of)).argmax()) for one in cluster.levels]
    broad = cluster.node(len(cluster) - 1).path[:depth]
    taken, last = set(cluster.names), len(cluster)
    # without slowdowns, which the flags have
    paths = zip(*(one.own_names() for one in cluster.levels), strict=True)
    counts = zip(cluster.gpus.tolist(), cluster.free_gpus.tolist(), strict=True)
    types = [cluster.gpu_types[of] for of in cluster.gpu_type_of.tolist()]
    second = [one.own_names() for one in cluster.second_levels]
    beside = zip(*second, strict=True) if second else [()] * len(cluster)
    facts = zip(cluster.names, paths, counts, types, beside, strict=True)
    rows = [Node(name, path, *of, gpu_type=gpu_type, second_path=others) for name, path, of, gpu_type, others in facts]
    for i in range(nodes):
        closer = tuple(
            _fresh(f"new-{one.name}{i // size + 1}", one.domains)
            for one, size in zip(cluster.levels[depth:], (nodes, *sizes[depth + 1 :]), strict=True)
        )
        name = _fresh(f"new{last + i + 1}", taken)
        rows.append(Node(name, (*broad, *closer), gpus, gpus, gpu_type=usual, second_path=("",) * len(second)))
    named = [one.name for one in cluster.second_levels]
    levels = [one.name for one in cluster.levels]
    grown_cluster = build_cluster(levels, rows, second=named, flags=cluster.flags.values())
    return grown_cluster.replace(
        gpus_assumed=cluster.gpus_assumed,
        joined=cluster.joined,
        kept_out=cluster.kept_out,
        sharing=cluster.sharing,
    )


def _fresh(name: str, taken: Container[str]) -> str:
    """Return a name that is not taken."""
    while name in taken:
        name += "-"
    return name
