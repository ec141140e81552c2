"""The nodes with GPUs as arrays: the tree they hang in, and what of it the pods of one gang may use."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType

import numpy as np

from extender.fleet.hosts import GONE, Demand, Host, widest_of
from extender.fleet.resources import Shortage
from ground.errors import ArnoldError, few
from scheduler.job import NodeSize
from scheduler.job_on_cluster import count_sizes
from scheduler.occupancy import Occupancy
from topology.build import build_cluster, with_second_levels
from topology.cluster import SECOND, BoolArray, Cluster, IntArray, Node
from topology.flags import FAULTY, NodeFlag
from topology.kubernetes.labels import LabelledPlaces, check_labels, label_of, passed_over, places_by_labels
from topology.node_gpus import alike_types
from topology.taints import Taint, kept_out_by


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about one node, or the whole fleet, that an operator should mend; the reason is one word."""

    reason: str
    message: str
    fix: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class FleetTable:
    """The tree."""

    hosts: tuple[Host, ...]  # nodes with GPUs, by name
    index_of: Mapping[str, int]
    tree: Cluster | None  # all of them, none in use and without flags; None when there are none
    node_sizes: tuple[NodeSize, ...]  # GPUs that the nodes of each type have, those that most nodes have first
    unplaced: tuple[BoolArray, ...]  # for each level, shape [nodes], the nodes without its label
    sentence: str  # which labels are the levels, and why
    problems: tuple[Problem, ...]


def make_table(
    hosts: Sequence[Host], levels: Sequence[str] | None, domains: Mapping[str, str] = MappingProxyType({})
) -> FleetTable:
    """Return the tree of nodes with GPUs; without levels, those of the preset that most nodes carry are taken.

    :param domains: second hierarchies: name, with its ``@`` -> the label of the nodes' domains.
    """
    rows = sorted(hosts, key=lambda host: host.name)
    labels = [host.labels for host in rows]
    problems: list[Problem] = []
    places = _places(labels, levels, problems)
    tree = None
    try:
        if rows:
            nodes = (
                Node(host.name, path, host.gpus, host.gpus, gpu_type=host.gpu_type, sharing=host.sharing)
                for host, path in zip(rows, places.paths, strict=True)
            )
            tree = with_second_levels(build_cluster(places.levels, nodes), places.beside).replace(cut=places.cut)
    except ArnoldError as error:
        problems.append(Problem("InvalidTopology", error.message, error.fix))
    for name, label in domains.items():
        if tree is None:
            break
        try:
            check_labels([label], labels, where="--domains")
            tree = with_second_levels(tree, {name: [label_of(node, label) for node in labels]})
        except ArnoldError as error:  # no node carries the label, or the name is taken
            problems.append(Problem("UnknownDomains", f"{name} is left out: {error.message}", error.fix))
    sentence = "; ".join(places.notes)
    if tree is not None and tree.second_levels:
        names = [level.name for level in tree.second_levels]
        by_label = (f"{name} by {domains.get(name, name.removeprefix(SECOND))}" for name in names)
        sentence = f"{sentence}; second hierarchies: {', '.join(by_label)}"
    unplaced = tuple(np.array([not label_of(of, label) for of in labels], dtype=np.bool_) for label in places.levels)
    for label, missing in zip(places.levels, unplaced, strict=True):
        lacking = [host.name for host, lacks in zip(rows, missing, strict=True) if lacks]
        if lacking:
            message = f"{len(lacking)} of {len(labels)} GPU nodes have no label {label} ({few(lacking, most=3)})"
            message += ": gangs that count it cannot use them"
            fix = f"label them, or start Arnold with other --levels than {label}"
            problems.append(Problem("UnlabelledNodes", message, fix))
    if alike := alike_types(host.gpu_type for host in rows):
        problems.append(Problem("AlikeTypes", alike, "give the nodes' labels one spelling of each type"))
    index_of = {host.name: i for i, host in enumerate(rows)}
    sizes = () if tree is None else tuple(count_sizes(tree))
    return FleetTable(tuple(rows), index_of, tree, sizes, unplaced, sentence, tuple(problems))


def _places(
    labels: Sequence[Mapping[str, str]], levels: Sequence[str] | None, problems: list[Problem]
) -> LabelledPlaces:
    """Return where nodes are, labels that no node carries left out of the levels."""
    nowhere = LabelledPlaces((), [() for _ in labels])
    if not labels:
        return replace(nowhere, notes=("no node with GPUs yet",))
    if levels is None:
        try:
            return places_by_labels(labels)
        except ArnoldError as error:
            problems.append(Problem("NoTopology", error.message, error.fix))
            return replace(nowhere, notes=(error.message, *passed_over(labels, ())))
    carried: list[str] = []
    for label in levels:
        try:
            carried += check_labels([label], labels)
        except ArnoldError as error:
            problems.append(Problem("UnknownLevel", error.message, error.fix))
    note = f"levels are the labels {', '.join(carried) or '(none)'} (as configured)"
    return places_by_labels(labels, carried, note=note) if carried else replace(nowhere, notes=(note,))


@dataclass(frozen=True)
class GangView:
    """The cluster as the pods of one gang may use it."""

    # the nodes that they may use at all; what is in use or promised is not free, what no new pod may use is faulty.
    # None = there are none
    cluster: Cluster | None
    left_out: Mapping[str, int]  # why the other nodes are not in it, and how many
    # shape [nodes of the cluster], the row of each in the fleet's table; -1 = it is gone
    rows: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32), compare=False)
    # shape [nodes of the cluster], those with free GPUs that count as in use, as others leave too little else
    short: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_), compare=False)
    # what is short on those whose GPUs are free, on how many
    shortages: Mapping[str, int] = field(default_factory=dict)

    @property
    def counted_out(self) -> str:
        """Why the other nodes are not in it, and how many, in words."""
        return ", ".join(f"{count} {why}" for why, count in self.left_out.items())


@dataclass(frozen=True, slots=True)
class Own:
    """The nodes that a gang has, and GPUs of each."""

    nodes: tuple[str, ...]
    gpus: int
    likenesses: Mapping[str, str]  # nodes that are gone -> others at whose places they are taken to have been


NOWHERE = Own((), 0, {})


def make_view(
    table: FleetTable,
    hosts: Sequence[Host],
    occupancy: Occupancy,
    *,
    demands: frozenset[Demand],
    counted: frozenset[str],
    own: Own,
    shortages: Sequence[Shortage],
    now: datetime,
) -> GangView:
    """Return the cluster for the pods of one gang, its own nodes in it in any case.

    :param hosts: the nodes of the table as they are now, in its order.
    :param counted: levels at which a node must have a place to be of use.
    :param shortages: what nodes lack for the pods besides GPUs.
    """
    if table.tree is None:
        return GangView(None, {})
    tree, left_out = table.tree, Counter[str]()
    kept = np.ones(len(tree), dtype=np.bool_)
    always = [table.index_of[name] for name in own.nodes if name in table.index_of]
    for level, lacking in zip(tree.levels, table.unplaced, strict=True):
        if level.name in counted:
            _leave_out(kept, lacking, f"without the label {level.name}", left_out, always)
    if selective := [demand for demand in demands if demand.selective]:
        refused = [not all(demand.accepts(host.name, host.labels) for demand in selective) for host in hosts]
        _leave_out(kept, np.array(refused, dtype=np.bool_), "not selected by the pods", left_out, always)
    for name in widest_of(demands).gpu_names:
        others = [host.gpu_names != () and name not in host.gpu_names for host in hosts]
        _leave_out(kept, np.array(others, dtype=np.bool_), f"with GPUs that are no {name}", left_out, always)
    taints = {host.repelling for host in hosts if host.repelling}
    refused_by = {of: kept_out_by(t for t in of if not all(demand.tolerates(t) for demand in demands)) for of in taints}
    for why in filter(None, dict.fromkeys(refused_by[host.repelling] for host in hosts if host.repelling)):
        repelled = np.array([refused_by.get(host.repelling) == why for host in hosts], dtype=np.bool_)
        _leave_out(kept, repelled, why, left_out, always)
    for shortage in shortages:
        if not shortage.passing:
            _leave_out(kept, shortage.rows, shortage.why, left_out, always)
    rows = np.flatnonzero(kept)
    if not len(rows):
        return GangView(None, left_out)
    # nodes on which others leave too little of something, and of those with free GPUs how many, by what
    short, counts, free = np.zeros_like(kept), Counter[str](), kept & (occupancy.available > 0)
    for shortage in shortages:
        if shortage.passing:
            lacking = shortage.rows & ~short
            lacking[always] = False
            if count := int((lacking & free).sum()):
                counts[shortage.why] += count
            short |= lacking
    cluster = tree.replace(
        free_gpus=np.where(short, 0, occupancy.available).astype(np.int32),
        flags=_flags({i: hosts[i] for i in rows.tolist()}, demands, now),
    )
    missing = [name for name in own.nodes if name not in table.index_of]
    short &= occupancy.available > 0
    if missing:
        cluster = _with_gone_nodes(cluster, missing, own)
        rows = np.concatenate([rows, np.arange(len(tree), len(cluster))])
        short = np.append(short, np.zeros(len(missing), dtype=np.bool_))
    here = np.where(rows < len(tree), rows, -1)
    return GangView(cluster.subset(rows.astype(np.int32)), left_out, here.astype(np.int32), short[rows], counts)


def _flags(hosts: Mapping[int, Host], demands: frozenset[Demand], now: datetime) -> dict[int, NodeFlag]:
    """Return flags of nodes by row; a taint PreferNoSchedule that all of them have marks the pool and costs nothing."""
    discouraging = {
        i: [taint for taint in host.discouraging if not all(demand.tolerates(taint) for demand in demands)]
        for i, host in hosts.items()
        if host.discouraging
    }
    common: set[Taint] = set()
    if len(discouraging) == len(hosts):
        common = set.intersection(*map(set, discouraging.values()))
    flags = (
        (i, host.flag(now, [taint for taint in discouraging.get(i, ()) if taint not in common]))
        for i, host in hosts.items()
        if host.fault or host.annotated is not None or host.discouraging
    )
    return {i: flag for i, flag in flags if flag is not None}


def _leave_out(kept: BoolArray, refused: BoolArray, why: str, left_out: Counter[str], always: Sequence[int]) -> None:
    refused = refused & kept
    refused[always] = False
    if why and (count := int(refused.sum())):
        left_out[why] += count
    kept &= ~refused


def _with_gone_nodes(cluster: Cluster, names: Sequence[str], own: Own) -> Cluster:
    """Return the cluster with nodes that are gone, faulty, at the places of others."""
    first = len(cluster)
    likenesses = (own.likenesses.get(name) for name in names)
    like = np.array([0 if name is None else cluster.index_of.get(name, 0) for name in likenesses], dtype=np.int32)
    levels, second_levels = (
        tuple(replace(level, domain_of=np.concatenate([level.domain_of, level.domain_of[like]])) for level in some)
        for some in (cluster.levels, cluster.second_levels)
    )
    gone = (NodeFlag(name, "faulty", FAULTY, source="kubernetes", evidence=GONE) for name in names)
    return Cluster(
        names=(*cluster.names, *names),
        gpus=np.append(cluster.gpus, np.full(len(names), own.gpus, dtype=np.int32)),
        free_gpus=np.append(cluster.free_gpus, np.zeros(len(names), dtype=np.int32)),
        gpu_types=cluster.gpu_types,
        gpu_type_of=np.append(cluster.gpu_type_of, cluster.gpu_type_of[like]),
        levels=levels,
        second_levels=second_levels,
        flags={**cluster.flags, **dict(enumerate(gone, start=first))},
        kept_out=cluster.kept_out,
        sharing=cluster.sharing,
    )
