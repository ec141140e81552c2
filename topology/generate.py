"""Clusters that are made, not read: ``flag_some(fragment(generate("minipods"), 0.4, seed=1), 5, seed=1)``.

Published fabrics, in which every size is a parameter and its default the published one; then what changes a cluster
that exists: nodes in use as running jobs leave them, findings about nodes, one more domain.

Each preset raises :class:`InvalidTopology` for sizes that make no cluster, and :class:`TooLarge` beyond
:data:`~topology.cluster.MAX_NODES` nodes.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import getdoc, signature
from math import prod

import numpy as np

from ground.errors import InvalidInput, InvalidTopology, TooLarge, UnknownName, did_you_mean
from ground.records import Seed, checked
from topology.build import build_cluster
from topology.cluster import MAX_NODES, Cluster, Node
from topology.flags import FAULTY, HEALTHY, FlagKind, NodeFlag

Leaf = tuple[tuple[int, ...], int]
"""One domain of the closest level: its number at every level from broad to close, counted from 0, and its nodes."""

Levels = Sequence[tuple[str, str]]
"""Name of every level, from broad to close, and the prefix of the names of its domains."""

_sized = partial(checked, error=InvalidTopology)


def _check_sizes(**sizes: int) -> None:
    """Refuse sizes that make no cluster: one below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise InvalidTopology(f"{name} is {size}", where=name, fix=f"{name} is at least 1")


def _check_total(nodes: int) -> None:
    """Refuse a cluster that is too large before its first node is made."""
    if nodes > MAX_NODES:
        raise TooLarge(f"a cluster of {nodes:,} nodes is beyond the limit of {MAX_NODES:,}", fix="choose smaller sizes")


def _grow(levels: Levels, leaves: Sequence[Leaf], *, gpus: int, gpu_type: str = "") -> Cluster:
    """Make a cluster out of its closest domains, in order; numbers of a level are unique over the whole cluster.

    Names are numbers behind a prefix, padded to one width and counted through the whole cluster: ``n0001``, ``r001``.
    """
    total = sum(count for _, count in leaves)
    digits = len(str(total))
    widths = [len(str(max(path[depth] for path, _ in leaves) + 1)) for depth in range(len(levels))]
    rows: list[Node] = []
    for path, count in leaves:
        names = tuple(f"{prefix}{i + 1:0{width}d}" for (_, prefix), i, width in zip(levels, path, widths, strict=True))
        numbers = range(len(rows) + 1, len(rows) + count + 1)
        rows += [Node(f"n{number:0{digits}d}", names, gpus, gpus, gpu_type=gpu_type) for number in numbers]
    return build_cluster([name for name, _ in levels], rows)


def _regular(levels: Levels, fan_out: Sequence[int], *, nodes: int, gpus: int, gpu_type: str = "") -> Cluster:
    """Return a tree of equal domains: so many of each level in one of the level above, so many nodes in the closest."""
    _check_total(prod(fan_out) * nodes)
    paths: list[tuple[int, ...]] = [()]
    for fan in fan_out:
        paths = [(*path, (path[-1] if path else 0) * fan + i) for path in paths for i in range(fan)]
    return _grow(levels, [(path, nodes) for path in paths], gpus=gpus, gpu_type=gpu_type)


def split_nodes(nodes: int, domains: int, *, unevenness: float = 0.0, seed: Seed = 0) -> list[int]:
    """Split nodes over domains, at least 1 to each, by a draw with a seed; an even split differs by at most 1.

    :param unevenness: each domain's share is drawn from 1 - unevenness .. 1 + unevenness times the mean, in [0, 1).
    """
    if not 0.0 <= unevenness < 1.0:
        fix = "unevenness is at least 0 and below 1"
        raise InvalidTopology(f"unevenness is {unevenness}", where="unevenness", fix=fix)
    if nodes < domains:
        few = f"{nodes} nodes cannot fill {domains} domains"
        raise InvalidTopology(few, where="nodes", fix="give every domain at least one node")
    weights = 1.0 + unevenness * np.random.default_rng(seed).uniform(-1.0, 1.0, domains)
    exact = 1.0 + (nodes - domains) * weights / weights.sum()
    sizes = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(sizes - exact, kind="stable")
    sizes[by_remainder[: nodes - int(sizes.sum())]] += 1
    return [int(size) for size in sizes]


@_sized
def minipods(
    *,
    minipods: int = 22,
    nodes: int = 2046,
    rack_nodes: int = 4,
    gpus: int = 8,
    unevenness: float = 0.0,
    seed: Seed = 0,
) -> Cluster:
    """The Arnold paper's cluster: minipods of racks of nodes, nodes split over the minipods.

    Source: arXiv 2509.15940, section 2: a leaf switch joins a rack, the spine switches over a group of racks make a
    minipod, core switches join the minipods; 32 ports up and 32 down at each layer, one port a GPU, hence 4 nodes of
    8 GPUs under a leaf.  "Above 2,000 nodes" is all that is said of the size: the default is that of the 9,600-GPU run.
    The last rack of a minipod holds what is left; the split is that of :func:`split_nodes`.
    """
    _check_sizes(minipods=minipods, nodes=nodes, rack_nodes=rack_nodes, gpus=gpus)
    _check_total(nodes)
    leaves: list[Leaf] = []
    for pod, size in enumerate(split_nodes(nodes, minipods, unevenness=unevenness, seed=seed)):
        for start in range(0, size, rack_nodes):
            leaves.append(((pod, len(leaves)), min(rack_nodes, size - start)))
    return _grow([("minipod", "mp"), ("rack", "r")], leaves, gpus=gpus)


@_sized
def fat_tree(*, k: int = 48, gpus: int = 8) -> Cluster:
    """A fat tree of k-port switches in three layers: k pods of k/2 edge switches of k/2 hosts, k^3/4 in all.

    Source: Al-Fares, Loukissas, Vahdat, "A scalable, commodity data center network architecture", SIGCOMM 2008,
    section 2.2; k = 48 is its example of 27,648 hosts; k is even.  A host with one port a GPU stands on as many equal
    trees side by side (rails), which changes bandwidth and not which nodes are near to each other.
    """
    _check_sizes(k=k, gpus=gpus)
    if k % 2:
        raise InvalidTopology(f"k is {k}", where="k", fix="k is even: half of a switch's ports go up, half down")
    return _regular([("pod", "p"), ("edge", "e")], [k, k // 2], nodes=k // 2, gpus=gpus)


@_sized
def llama3_pods(*, pods: int = 8, racks: int = 192, rack_nodes: int = 2, gpus: int = 8) -> Cluster:
    """Meta's RoCE cluster of the Llama 3 training: 8 pods of 192 racks of 2 servers, 24,576 H100 GPUs.

    Source: "The Llama 3 herd of models", arXiv 2407.21783, section 3.3.1: a rack holds 16 GPUs in two servers under one
    top-of-rack switch; 192 racks make a pod of 3,072 GPUs with full bisection bandwidth; eight pods are joined by
    aggregation switches with an oversubscription of 1:7.
    """
    _check_sizes(pods=pods, racks=racks, rack_nodes=rack_nodes, gpus=gpus)
    return _regular([("pod", "pod"), ("rack", "r")], [pods, racks], nodes=rack_nodes, gpus=gpus, gpu_type="H100")


@_sized
def hpn_segments(*, pods: int = 1, segments: int = 15, segment_nodes: int = 128, gpus: int = 8) -> Cluster:
    """Alibaba HPN: a pod of 15 segments of 128 hosts, 15,360 GPUs.

    Source: Qian et al., "Alibaba HPN: a data center network for large language model training", SIGCOMM 2024: the
    rails of 128 hosts (8 more stand by as spares, left out here) end on one set of dual top-of-rack switches, which
    makes a segment of 1,024 GPUs one hop wide; 15 segments make a pod; aggregation to core is oversubscribed 15:1.
    """
    _check_sizes(pods=pods, segments=segments, segment_nodes=segment_nodes, gpus=gpus)
    return _regular([("pod", "pod"), ("segment", "seg")], [pods, segments], nodes=segment_nodes, gpus=gpus)


@_sized
def nvl72(*, blocks: int = 16, racks: int = 8, rack_nodes: int = 18, gpus: int = 4) -> Cluster:
    """GB200 NVL72 racks: 18 compute trays of 4 GPUs in one NVLink domain, 8 racks in a block, 9,216 GPUs.

    Source: NVIDIA GB200 NVL72 data sheet (18 trays, 72 GPUs); NVIDIA DGX SuperPOD reference architecture for GB200
    systems (a scalable unit of 8 racks with 576 GPUs, 16 units in the largest design).
    """
    _check_sizes(blocks=blocks, racks=racks, rack_nodes=rack_nodes, gpus=gpus)
    return _regular([("block", "b"), ("rack", "r")], [blocks, racks], nodes=rack_nodes, gpus=gpus, gpu_type="GB200")


@dataclass(frozen=True, slots=True)
class Preset:
    """One kind of cluster that can be made."""

    name: str  # name on the command line
    build: Callable[..., Cluster]  # the function that makes it; takes sizes by keyword
    # level -> ratio, for the cost model flows, of levels whose links upwards carry less than those below
    oversubscription: Mapping[str, float] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """One sentence of what it is."""
        return (getdoc(self.build) or "").splitlines()[0]

    @property
    def sizes(self) -> Mapping[str, int | float]:
        """Names of the sizes that can be chosen, and their defaults."""
        return {name: parameter.default for name, parameter in signature(self.build).parameters.items()}


PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("minipods", minipods),
        Preset("fat-tree", fat_tree),
        Preset("llama3-pods", llama3_pods, {"pod": 7.0}),
        Preset("hpn-segments", hpn_segments, {"pod": 15.0}),
        Preset("nvl72", nvl72),
    )
}


def generate(preset: str, **sizes: int | float) -> Cluster:
    """Return the cluster of a preset with some of :attr:`Preset.sizes` changed; raise UnknownName for others."""
    if preset not in PRESETS:
        raise _unknown(f"no preset is called {preset!r}", preset, PRESETS, where="preset")
    defaults = PRESETS[preset].sizes
    for name in sizes:
        if name not in defaults:
            raise _unknown(f"preset {preset!r} has no size {name!r}", name, defaults, where=name)
    return PRESETS[preset].build(**sizes)


def _unknown(message: str, name: str, names: Iterable[str], *, where: str) -> UnknownName:
    return UnknownName(message, where=where, fix=f"{did_you_mean(name, names)}use one of {', '.join(names)}")


PAPER_SIZES: Mapping[str, tuple[int, int]] = {"i": (3, 18), "ii": (5, 438), "iii": (11, 1019), "9600": (22, 2046)}
"""Setting -> (minipods, nodes): the three of Table 1, and the production run on more than 9,600 GPUs, whose cluster
("above 2,000 nodes") we give 22 minipods of 93 nodes."""


@_sized
def paper_cluster(setting: str, *, unevenness: float = 0.0, seed: Seed = 0) -> Cluster:
    """Return the empty cluster of one of the settings of :data:`PAPER_SIZES`; unevenness as of :func:`split_nodes`."""
    if setting not in PAPER_SIZES:
        raise UnknownName(f"the paper has no setting {setting!r}", fix=f"use one of {', '.join(PAPER_SIZES)}")
    count, nodes = PAPER_SIZES[setting]
    return minipods(minipods=count, nodes=nodes, unevenness=unevenness, seed=seed)


@_sized
def fragment(
    cluster: Cluster, busy_share: float, seed: Seed, *, scattered: float = 0.3, partly: float = 0.1
) -> Cluster:
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
    # gangs are runs of free nodes that often begin where popularity is large
    largest, runs = int(np.bincount(domain_of).max()), [line[:0]]
    while (left := new - small - sum(map(len, runs))) > 0:
        size = min(left, int(np.exp(rng.uniform(np.log(2), np.log(max(largest, 2) + 1)))))
        sum_of_weights = np.cumsum(popularity[domain_of[line]])
        start = int(np.searchsorted(sum_of_weights, rng.uniform(0.0, sum_of_weights[-1])))
        run = np.arange(start, start + size) % len(line)
        runs.append(line[run])
        line = np.delete(line, run)
    gangs, line = np.concatenate(runs), np.sort(line)
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


@_sized
def flag_some(cluster: Cluster, count: int, seed: Seed, *, faulty_share: float = 0.2) -> Cluster:
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


@_sized
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
    sizes = [int(np.bincount(np.bincount(level.domain_of)).argmax()) for level in cluster.levels]
    broad = cluster.node(len(cluster) - 1).path[:depth]
    taken, last = set(cluster.names), len(cluster)
    paths = zip(*(level.own_names() for level in cluster.levels), strict=True)
    # without slowdowns, which the flags have
    rows = [replace(node, path=path, slowdown=HEALTHY) for node, path in zip(cluster, paths, strict=True)]
    for i in range(nodes):
        closer = tuple(
            _fresh(f"new-{level.name}{i // size + 1}", level.domains)
            for level, size in zip(cluster.levels[depth:], (nodes, *sizes[depth + 1 :]), strict=True)
        )
        name = _fresh(f"new{last + i + 1}", taken)
        beside = ("",) * len(cluster.second_levels)
        rows.append(Node(name, (*broad, *closer), gpus, gpus, gpu_type=usual, second_path=beside))
    named = [second_level.name for second_level in cluster.second_levels]
    names = [level.name for level in cluster.levels]
    grown = build_cluster(names, rows, second=named, flags=cluster.flags.values())
    return grown.replace(
        gpus_assumed=cluster.gpus_assumed,
        joined=cluster.joined,
        kept_out=cluster.kept_out,
        sharing=cluster.sharing,
        rails=cluster.rails,
    )


def _fresh(name: str, taken: Container[str]) -> str:
    """Return a name that is not taken."""
    while name in taken:
        name += "-"
    return name
