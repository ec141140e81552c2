"""Clusters as trees, and bandwidths of pairs of their nodes when something is slow."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from ground.files import Source
from health.pairs.group_testing import Pair, findings_of
from health.pairs.rounds import next_round, plan_rounds
from topology.cluster import Cluster
from topology.load import load_topology

Fault = tuple[str, str]  # node, link or domain, and its name
BANDWIDTH = 48.0  # GB/s of a healthy pair
NOISE = 0.03


def tree(*branches: int) -> Cluster:
    """A cluster of nodes n0000, ... in domains d0, d0-0, ...: branches of each level, the last are nodes."""
    return load_topology(Source("cluster.csv", csv(*branches))).cluster


def csv(*branches: int) -> str:
    """The same as a file."""
    paths = list(product(*map(range, branches[:-1])))
    levels = len(branches) - 1
    domains = [",".join("d" + "-".join(map(str, path[: depth + 1])) for depth in range(levels)) for path in paths]
    rows = [f"n{i:04d},{domains[i // branches[-1]]}" for i in range(len(paths) * branches[-1])]
    header = ",".join(["node", *(f"level{depth}" for depth in range(levels))])
    return "\n".join([header, *rows]) + "\n"


def measure(
    cluster: Cluster,
    rounds: Sequence[Sequence[tuple[str, str]]],
    faults: Mapping[Fault, float],
    rng: np.random.Generator,
) -> list[Pair]:
    """Bandwidths of pairs: the slowest part of the way between both counts, with noise."""
    pairs = []
    for a, b in (pair for pairs in rounds for pair in pairs):
        way: set[Fault] = {("node", a), ("node", b)}
        for level in cluster.levels:
            ends = {level.domains[level.domain_of[cluster.index(name)]] for name in (a, b)}
            way |= {("domain", name) for name in ends}
            way |= {("link", name) for name in ends if len(ends) == 2}
        factor = max((faults[part] for part in way & faults.keys()), default=1.0)
        pairs.append(Pair(a, b, BANDWIDTH / factor * (1 + NOISE * rng.standard_normal())))
    return pairs


def named(cluster: Cluster, pairs: Sequence[Pair]) -> set[Fault]:
    """What is suspected, a slow switch and a slow domain alike."""
    places = (suspect.place for suspect in findings_of(pairs, cluster).suspects)
    return {("domain" if place.kind == "switch" else place.kind, place.name) for place in places}


def search(
    cluster: Cluster, faults: Mapping[Fault, float], rng: np.random.Generator, *, most: int
) -> tuple[set[Fault], int]:
    """What is suspected after rounds one at a time, each planned by the results before it, and how many there were."""
    nodes = range(len(cluster))
    pairs, rounds = measure(cluster, plan_rounds(cluster, nodes)[:1], faults, rng), 1
    while rounds < most and (more := next_round(cluster, nodes, pairs)):
        pairs += measure(cluster, more, faults, rng)
        rounds += 1
    return named(cluster, pairs), rounds
