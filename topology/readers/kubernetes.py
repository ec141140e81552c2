"""Clusters of Kubernetes as kubectl prints them, HyperNodes of Volcano, and configurations of kind.

``kubectl get nodes -o json``, or ``kubectl get nodes,pods -A -o json`` to know what is in use: a list, a node alone, or
several documents of YAML.  Where nodes are is said by labels, by HyperNodes of Volcano, or by a Topology of Kueue that
says which labels.  What the user names counts first, then HyperNodes, which say it node by node, then a Topology, then
the presets of :mod:`topology.kubernetes.labels`.  Nodes of which nothing says it are near to each other alike: one
level.

GPUs come from the status, or else from ResourceSlices, if the list has some (:mod:`topology.kubernetes.claims`); nodes
without GPUs are left out.  A node that no new pod may use is *faulty* here, not busy, because emptying the cluster
would not free it:

- it is cordoned, or a condition says that it is broken (:mod:`topology.kubernetes.nodes`);
- it has a taint NoSchedule or NoExecute of Kubernetes' own;
- fewer GPUs are allocatable than it has.

Any other taint NoSchedule or NoExecute *keeps out* the jobs that do not tolerate it, and PreferNoSchedule has a small
price for them (:mod:`topology.taints`); except ``nvidia.com/gpu`` and ``amd.com/gpu``, which GPU pods tolerate, and
except a taint that every GPU node has: that marks the pool, and jobs for it tolerate it.  A node that hands out GPUs in
parts is there with the GPUs that it has, and how they are shared.  The annotation ``arnold.dev/slowdown`` (a factor, or
``faulty``), until ``arnold.dev/slowdown-until``, is a flag.

A HyperNode has a tier, 1 the closest; the level is called as its tier is (``tierName``), else ``tier-1``.  Members are
named, or chosen by a regular expression of names (Go's, which Python reads alike as far as it is taken here) or by
labels of nodes.  HyperNodes without nodes (``kubectl get hypernodes -o yaml``, or manifests) are a cluster of the nodes
that they name; what they choose by expressions or labels is not known.  Source: volcano.sh/docs, network topology aware
scheduling; the custom resource ``topology.volcano.sh/v1alpha1``.

A configuration of kind (kind.sigs.k8s.io) has workers with their labels, as tests of Kueue have them; the control plane
is left out, and workers are called as kind calls them: ``kind-worker``, ``kind-worker2``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar

from pydantic import BaseModel

from ground.documents import Document, load_document
from ground.errors import InvalidInput, InvalidTopology, some
from ground.files import Source
from ground.formats import FileFormat, text_of
from topology.build import NodePath, build_cluster, with_second_levels
from topology.cluster import DEFAULT_GPUS, MAX_LEVELS, Cluster, Node
from topology.flags import FAULTY, NodeFlag
from topology.kubernetes.claim_table import ALLOCATION_KINDS, ClaimTable
from topology.kubernetes.labels import HOSTNAME, LabelledPlaces, check_labels, passed_over, places_by_labels
from topology.kubernetes.nodes import MOST_GPUS, OWN_TAINTS, SLOWDOWN, annotated_flag, faults, is_part, node_gpus
from topology.kubernetes.objects import (
    ALLOCATION_API,
    COMPUTE_ENGINE,
    HYPER_NODES_ALONE,
    KIND_CLUSTER,
    LONGEST_NAME,
    AllocationObject,
    Kinds,
    NamedObject,
    NodeObject,
    Object,
    Place,
    Requirement,
    gpus_among,
    read_items,
)
from topology.kubernetes.pods import Pod
from topology.node_gpus import GPU_CLASSES, GPUS, NodeGpus
from topology.readers.reading import ONE_LEVEL, PlacedNode, Reading, place_nodes
from topology.taints import Taint

# -- hyper_nodes --
# HyperNodes of Volcano: switches by name, each with the nodes or HyperNodes below it.
#
# A HyperNode has a tier, 1 the closest; the level is called as its tier is (``tierName``), else ``tier-1``.  Members
# are named, or chosen by a regular expression of names (Go's, which Python reads alike as far as it is taken here) or
# by labels of nodes.  Source: volcano.sh/docs, network topology aware scheduling; the custom resource
# ``topology.volcano.sh/v1alpha1``.


_LOOPS = re.compile(r"(?<!\\)[*+{]")
_NESTED = re.compile(r"\)[*+{]|\(\?[^:]|\\[1-9]")
MOST_LOOPS = 2  # repetitions in an expression: with more, or nested, names could be made that it never ends on


class _Name(Object, frozen=True):
    name: str = ""


class _Pattern(Object, frozen=True):
    pattern: str = ""


class _Labels(Object, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None

    def hold(self, labels: Mapping[str, str]) -> bool:
        """Return whether they hold where these labels are."""
        equal = all(labels.get(key) == value for key, value in (self.match_labels or {}).items())
        return equal and all(one.holds(labels) for one in self.match_expressions or ())


class _Selector(Object, frozen=True):
    exact_match: _Name | None = None
    regex_match: _Pattern | None = None
    label_match: _Labels | None = None


class HyperNodeMember(Object, frozen=True):
    """Nodes, or HyperNodes, that belong to a HyperNode."""

    type: str = "Node"
    selector: _Selector = _Selector()

    def names(self, known: Mapping[str, Mapping[str, str]]) -> list[str]:
        """Return the names among those known, with their labels, that it chooses; raise ValueError for a regular
        expression that is none, or is not taken.
        """
        one = self.selector
        if one.exact_match is not None:
            return [one.exact_match.name] if one.exact_match.name in known else []
        if one.regex_match is not None:
            matches = _expression(one.regex_match.pattern).search
            return [name for name in known if matches(name)]
        if one.label_match is not None:
            return [name for name, labels in known.items() if one.label_match.hold(labels)]
        return []


class _Spec(Object, frozen=True):
    tier: int = 1
    tier_name: str | None = None
    members: list[HyperNodeMember] | None = None


class HyperNode(NamedObject, frozen=True):
    """A HyperNode of Volcano."""

    spec: _Spec = _Spec()

    @property
    def chooses_nodes(self) -> bool:
        """Whether it has nodes by an expression or by labels."""
        return any(one.type == "Node" and one.selector.exact_match is None for one in self.spec.members or ())

    def exact_nodes(self) -> list[str]:
        """Return the nodes that it names."""
        chosen = (one.selector.exact_match for one in self.spec.members or () if one.type == "Node")
        return [match.name for match in chosen if match is not None and match.name]


def _expression(pattern: str) -> re.Pattern[str]:
    if len(_LOOPS.findall(pattern)) > MOST_LOOPS or _NESTED.search(pattern):
        raise ValueError(f"the expression {pattern[:60]!r} is not taken, as it could take for ever")
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        raise ValueError(f"{pattern[:60]!r} is no regular expression") from None


def hyper_paths(
    hyper_nodes: Sequence[tuple[Place, HyperNode]], nodes: Mapping[str, Mapping[str, str]]
) -> tuple[tuple[str, ...], dict[str, NodePath], list[str]]:
    """Return levels, the path of each node (given with its labels), and notes; raise InvalidTopology where something
    lies below two HyperNodes of a tier, or a HyperNode below one that is not broader.
    """
    named = {one.name: one for _, one in hyper_nodes}
    above: dict[str, str] = {}  # of a HyperNode
    holds: dict[str, list[str]] = {name: [] for name in nodes}  # the HyperNodes of a node
    no_labels: Mapping[str, Mapping[str, str]] = {name: {} for name in named}
    for one in named.values():
        for member in one.spec.members or ():
            for name in _chosen(one, member, no_labels if member.type == "HyperNode" else nodes):
                if member.type != "HyperNode":
                    holds[name].append(one.name)
                    continue
                if named[name].spec.tier >= one.spec.tier:
                    raise _wrong(f"HyperNode {name!r} lies below {one.name!r}, whose tier is no broader")
                if above.setdefault(name, one.name) != one.name:
                    raise _wrong(f"HyperNode {name!r} lies below two, {above[name]!r} and {one.name!r}")
    tiers = sorted({one.spec.tier for one in named.values()}, reverse=True)
    paths = {name: _path(named, above, name, holds[name], tiers) for name in nodes}
    notes = ["levels are the HyperNodes of Volcano"]
    if lost := [name for name in nodes if not holds[name]]:
        notes.append(f"nodes in no HyperNode: {some(lost)}")
    return _level_names(named.values(), tiers), paths, notes


def _chosen(one: HyperNode, member: HyperNodeMember, known: Mapping[str, Mapping[str, str]]) -> list[str]:
    try:
        return member.names(known)
    except ValueError as error:
        raise _wrong(f"HyperNode {one.name!r}: {error}") from None


def _path(
    named: Mapping[str, HyperNode], above: Mapping[str, str], node: str, holds: Sequence[str], tiers: Sequence[int]
) -> NodePath:
    at: dict[int, str] = {}
    for start in holds:
        here: str | None = start
        while here is not None:
            if (first := at.setdefault(named[here].spec.tier, here)) != here:
                raise _wrong(f"node {node!r} lies in two HyperNodes of a tier, {first!r} and {here!r}")
            here = above.get(here)
    return tuple(at.get(tier, "") for tier in tiers)


def _level_names(hyper_nodes: Iterable[HyperNode], tiers: Sequence[int]) -> tuple[str, ...]:
    said: dict[int, set[str]] = {tier: set() for tier in tiers}
    for hyper_node in hyper_nodes:
        said[hyper_node.spec.tier].add(hyper_node.spec.tier_name or "")
    names = {tier: next(iter(of)) if len(of) == 1 else "" for tier, of in said.items()}
    twice = Counter(names.values())
    return tuple(names[tier] if names[tier] and twice[names[tier]] == 1 else f"tier-{tier}" for tier in tiers)


def _wrong(message: str) -> InvalidTopology:
    return InvalidTopology(message, fix="HyperNodes are a tree: every one lies below one of a broader tier")


# -- kubernetes_places --
# Where Kubernetes nodes are: by labels, by HyperNodes of Volcano, or by a Topology of Kueue that says which labels.
#
# What the user names counts first, then HyperNodes, which say it node by node, then a Topology, then the presets of
# :mod:`topology.kubernetes.labels`.  Nodes of which nothing says it are near to each other alike: one
# level.


class _TopologyLevel(Object, frozen=True):
    node_label: str = ""


class _TopologySpec(Object, frozen=True):
    levels: list[_TopologyLevel] | None = None


class KueueTopology(NamedObject, frozen=True):
    """A Topology of Kueue (kueue.x-k8s.io): labels of nodes, from broad to close."""

    spec: _TopologySpec = _TopologySpec()

    @property
    def node_labels(self) -> tuple[str, ...]:
        """The labels, but for that of the node itself."""
        found = (level.node_label for level in self.spec.levels or ())
        return tuple(label for label in found if label not in ("", HOSTNAME))


@dataclass(frozen=True, slots=True)
class Sayings:
    """What a file says of places besides the labels of nodes."""

    hyper_nodes: Sequence[tuple[Place, HyperNode]] = ()
    topologies: Sequence[KueueTopology] = ()


def find_places(
    nodes: Sequence[tuple[str, Mapping[str, str]]], asked: Sequence[str] | None, sayings: Sayings
) -> LabelledPlaces:
    """Return where nodes are.

    :param nodes: the name of each, and its labels.
    :param asked: labels from broad to close that the user takes as levels; ``None`` = what the file says.
    :raises UnknownName: no node carries one of these labels.
    :raises InvalidTopology: the HyperNodes are no tree.
    """
    labels = [of_node for _, of_node in nodes]
    if asked is not None:
        return places_by_labels(labels, check_labels(asked[: MAX_LEVELS + 1], labels))
    if sayings.hyper_nodes:
        levels, paths, notes = hyper_paths(sayings.hyper_nodes, dict(nodes))
        found = LabelledPlaces(levels, [paths[name] for name, _ in nodes], notes=tuple(notes))
        return found if len(levels) > 1 else replace(found, notes=(*notes, *passed_over(labels, ())))
    for topology in sayings.topologies:
        carried = [label for label in topology.node_labels if any(label in node for node in labels)]
        if carried:
            note = f"levels are the labels {', '.join(carried)} (Kueue's Topology {topology.name})"
            found = places_by_labels(labels, carried, note=note)
            return found if len(carried) > 1 else replace(found, notes=(*found.notes, *passed_over(labels, carried)))
    try:
        return places_by_labels(labels)
    except InvalidTopology as error:
        note = f"{error.message}, so all are one level; to name labels from broad to close: --levels LABEL,LABEL"
        return LabelledPlaces((ONE_LEVEL,), [(ONE_LEVEL,) for _ in labels], notes=(note, *passed_over(labels, ())))


# -- kubernetes_cluster --
# Kubernetes nodes: ``kubectl get nodes -o json``, or ``kubectl get nodes,pods -A -o json`` to know what is in use.
#
# A list, a node alone, or several documents of YAML.  Levels come from node labels, or from objects that say more of
# places (:mod:`topology.readers.kubernetes`), GPUs from the status, or else from ResourceSlices, if the
# list has some (:mod:`topology.kubernetes.claims`); nodes without GPUs are left out.  A node that no
# new pod may use is *faulty* here, not busy, because emptying the cluster would not free it:
#
# - it is cordoned, or a condition says that it is broken (:mod:`topology.kubernetes.nodes`);
# - it has a taint NoSchedule or NoExecute of Kubernetes' own;
# - fewer GPUs are allocatable than it has.
#
# Any other taint NoSchedule or NoExecute *keeps out* the jobs that do not tolerate it, and PreferNoSchedule has a small
# price for them (:mod:`topology.taints`); except ``nvidia.com/gpu`` and ``amd.com/gpu``, which GPU pods tolerate, and
# except a taint that every GPU node has: that marks the pool, and jobs for it tolerate it.
#
# A node that hands out GPUs in parts is there with the GPUs that it has, and how they are shared
# (:mod:`topology.kubernetes.nodes`).
#
# The annotation ``arnold.dev/slowdown`` (a factor, or ``faulty``), until ``arnold.dev/slowdown-until``, is a flag.


_MARK = re.compile(r"\s*+(?:---\s*+)?+\{?+\s*+[\"']?(?:apiVersion|kind|items)[\"']?\s*:")
_WHOLE = "write a whole number"
_MAY_BE_GPU = re.compile(r"/(?:.*gpu|spx_|i915|xe)|gpu.*/")  # names of resources that are GPUs
_OTHERS = (COMPUTE_ENGINE, HYPER_NODES_ALONE, KIND_CLUSTER)  # what begins alike, and has readers of its own
_KINDS: Kinds = {
    "Node": NodeObject,
    "Pod": Pod,
    "HyperNode": HyperNode,
    "Topology": KueueTopology,
    **{kind.__name__: kind for kind in ALLOCATION_KINDS},
}


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """Reader of lists of Kubernetes nodes."""

    gpu_resources: tuple[str, ...] = GPUS  # names of the resources that count as GPUs

    format: ClassVar = FileFormat(
        "kubernetes",
        source="Kubernetes nodes, and pods if they are there, JSON or YAML",
        export="`kubectl get nodes,pods -A -o json`",
        read="levels from labels, HyperNodes or a Topology of Kueue; GPUs, what pods hold, cordons, conditions, taints",
        left_out="nodes without GPUs",
        marks=("kind", "items", "status"),
    )
    chooses_levels: ClassVar = True

    def likeness(self, head: bytes) -> float:
        """Return whether the first key is one of a Kubernetes list or object, and it is none of a format of its own."""
        text = text_of(head)
        return float(bool(_MARK.match(text)) and not any(mark.search(text) for mark in _OTHERS))

    def counting(self, resource: str) -> Kubernetes:
        """Return a reader to which that resource alone is GPUs."""
        return Kubernetes((resource,))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:
        """Read the nodes; raise an error where ``levels`` names a label that no node carries."""
        listing = _Listing(load_document(source, several=True), self.gpu_resources)
        machines = listing.machines()
        places = find_places([(machine.name, machine.node.labels) for machine in machines], levels, listing.sayings)
        held, pool = listing.held_gpus(), _common_taints(machines)
        placed = zip(machines, places.paths, strict=True)
        rows = [machine.row(path, held=held[machine.name]) for machine, path in placed]
        flags = [flag for machine in machines for flag in listing.flags(machine)]
        apart = [tuple(taint for taint in machine.pool_taints if str(taint) not in pool) for machine in machines]
        kept_apart = {i: taints for i, taints in enumerate(apart) if taints}
        active = [flag for flag in flags if flag.active(now)]

        def place(row: int) -> str:
            return listing.document.where(*machines[row].place)

        cluster = build_cluster(places.levels, rows, flags=active, where=place).with_taints(kept_apart)
        cluster = with_second_levels(cluster, places.beside)
        notes = [*places.notes, *_notes(cluster, pool), *listing.claim_notes()]
        if parts := [name for name in self.gpu_resources if is_part(name)]:
            notes.append(f"GPUs of nodes and jobs are {parts[0]}, parts of GPUs, as --gpu-resource says")
        nodes = len(listing.nodes)
        if left_out := nodes - len(machines):
            notes.append(f"left out, as they have no {listing.any_gpu}: {left_out} of {nodes} nodes")
        if expired := len(flags) - len(active):
            notes.append(f"annotations {SLOWDOWN} past their end, left out: {expired}")
        cluster = cluster.replace(cached=_cached(machine.node for machine in machines), cut=places.cut)
        return Reading(cluster, tuple(notes), tuple(machine.node.labels for machine in machines))


def _cached(nodes: Iterable[NodeObject]) -> dict[str, frozenset[str]]:
    """Return the nodes that have each image, by all names of it that could stand in a table."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        for name in (name for image in node.status.images or () for name in image.names or ()):
            if name.isprintable() and " " not in name:
                found.setdefault(name, set()).add(node.name)
    return {name: frozenset(having) for name, having in found.items()}


@dataclass(frozen=True, slots=True)
class _Machine:
    """A node with GPUs."""

    place: Place  # where it stands
    node: NodeObject
    gpus: NodeGpus
    resources: tuple[str, ...]  # what counts as GPUs; a taint of that name keeps no job of GPUs away

    @property
    def name(self) -> str:
        return self.node.name

    def row(self, path: NodePath, *, held: int) -> Node:
        """Return it as a row of the cluster, so many of its GPUs, or parts of them, held by pods."""
        gpus = self.gpus
        return Node(self.name, path, gpus.physical, gpus.free(held), gpu_type=self.node.gpu_type, sharing=gpus.sharing)

    @property
    def pool_taints(self) -> list[Taint]:
        """Taints that people set, to keep a pool for some jobs; not those of its GPUs, which jobs of GPUs tolerate."""
        return [
            taint
            for taint in self.node.spec.taints or ()
            if (taint.repels or taint.discourages)
            and taint.key not in (*self.resources, *GPUS)
            and not taint.key.startswith(OWN_TAINTS)
        ]


class _Listing:
    """The objects of a file."""

    def __init__(self, document: Document, gpu_resources: tuple[str, ...]) -> None:
        self.document = document
        self.gpu_resources = gpu_resources
        self.any_gpu = " or ".join(gpu_resources)
        found = list(read_items(document, _KINDS, command="kubectl get nodes -o json"))
        self.claims = ClaimTable(GPU_CLASSES, complete=False)
        for place, item in found:
            if isinstance(item, AllocationObject):
                self._put(place, item)
        equipped, counted = self.claims.equipped, self.claims.counted
        self.nodes = [(place, equipped(item)) for place, item in found if isinstance(item, NodeObject)]
        self.pods = [(place, counted(item)) for place, item in found if isinstance(item, Pod)]
        self.sayings = Sayings(
            [(place, item) for place, item in found if isinstance(item, HyperNode)],
            [item for _, item in found if isinstance(item, KueueTopology)],
        )

    def _put(self, place: Place, item: AllocationObject) -> None:
        if item.api_version != ALLOCATION_API:
            unread = f"{type(item).__name__} of {item.api_version[:LONGEST_NAME]!r}, which is not read"
            fix = f"list those of {ALLOCATION_API}: kubectl get resourceslices.v1.resource.k8s.io,..."
            raise InvalidTopology(unread, where=self.document.where(*place, "apiVersion"), fix=fix)
        self.claims.put(item)

    def claim_notes(self) -> list[str]:
        """Return what is to be known of GPUs in ResourceSlices and by claims."""
        devices = [self.claims.devices(node.name) for _, node in self.nodes]
        claims = [pod.spec.claimed for _, pod in self.pods if pod.node and not pod.terminal]
        told = {
            "nodes whose GPUs are in ResourceSlices": [""] * sum(device.gpus.total() > 0 for device in devices),
            "pools of devices that are not certain": sorted(doubt for device in devices for doubt in device.doubts),
            "ResourceSlices of several nodes, left out": self.claims.homeless,
            "pods with claims that are not known, counted as none": [
                claim.wrong for claim in claims if claim and claim.wrong
            ],
        }
        first = {what: f" (the first: {found[0]})" for what, found in told.items() if found and found[0]}
        return [f"{what}: {len(found)}{first.get(what, '')}" for what, found in told.items() if found]

    def machines(self) -> list[_Machine]:
        """Return all nodes with GPUs."""
        found = []
        for place, node in self.nodes:
            try:
                gpus = node_gpus(node, self.gpu_resources)
            except ValueError as error:
                raise self._unreadable(place, node, str(error)) from None
            if gpus.physical:
                found.append(_Machine(place, node, gpus, self.gpu_resources))
        if not found:
            raise self._no_gpus()
        return found

    def _no_gpus(self) -> InvalidTopology:
        """Return the error that no node has GPUs, with the resources that may be some."""
        where = self.document.where(0, "items")
        if self.sayings.topologies and not self.nodes:
            labels = self.sayings.topologies[0].node_labels
            fix = f"give nodes too (kubectl get topologies,nodes -o yaml), or nodes with --levels {','.join(labels)}"
            return InvalidTopology("holds a Topology of Kueue and no nodes", where=where, fix=fix)
        none = f"none of the {len(self.nodes)} nodes has {self.any_gpu}"
        named = {name for _, node in self.nodes for name in node.status.capacity or {}}
        others = {name for name in named if _MAY_BE_GPU.search(name) and name not in GPUS and not is_part(name)}
        fix = "list nodes whose GPU device plugin runs"
        if others:
            fix += f", or say which of their resources are GPUs: --gpu-resource {' or '.join(sorted(others))}"
        return InvalidTopology(none, where=where, fix=fix)

    def held_gpus(self) -> Counter[str]:
        """Return the GPUs that the pods of the file hold on each node."""
        held: Counter[str] = Counter()
        usual = {*self.gpu_resources} <= {*GPUS}
        for place, pod in self.pods:
            if pod.node is not None and not pod.terminal:
                try:
                    held[pod.node] += pod.spec.gpus_of(self.gpu_resources) + (pod.spec.parts if usual else 0)
                except ValueError as error:
                    where = self.document.where(*place)
                    raise InvalidTopology(f"pod {pod.name!r}: {error}", where=where, fix=_WHOLE) from None
        return held

    def flags(self, machine: _Machine) -> Iterable[NodeFlag]:
        """Yield what Kubernetes and the annotation say against a node, but for the taints of its pool."""
        found = faults(
            unschedulable=bool(machine.node.spec.unschedulable),
            conditions=machine.node.status.conditions or [],
            gpus=machine.gpus.physical,
            allocatable=machine.gpus.allocatable,
            taints=machine.node.spec.taints or (),
        )
        if evidence := ", ".join(found):
            yield NodeFlag(machine.name, "faulty", FAULTY, source="kubernetes", evidence=evidence)
        try:
            annotated = annotated_flag(machine.name, machine.node.annotations)
        except InvalidTopology as error:
            where = self.document.where(*machine.place, "metadata", "annotations", error.where)
            raise InvalidTopology(error.message, where=where, fix=error.fix) from None
        if annotated:
            yield annotated

    def _unreadable(self, place: Place, node: NodeObject, message: str) -> InvalidTopology:
        """Return the error that an amount of GPUs of a node is no number."""
        for field, amounts in (("capacity", node.status.capacity), ("allocatable", node.status.allocatable)):
            for name in self.gpu_resources:
                try:
                    gpus_among(amounts, [name])
                except ValueError:
                    where = self.document.where(*place, "status", field, name)
                    return InvalidTopology(f"{field}: {message}", where=where, fix=_WHOLE)
        return InvalidTopology(message, where=self.document.where(*place), fix=_WHOLE)


def _common_taints(machines: Sequence[_Machine]) -> set[str]:
    """Return taints that all of several nodes have: that marks the cluster, and jobs for it tolerate it."""
    return set.intersection(*({*map(str, machine.pool_taints)} for machine in machines)) if len(machines) > 1 else set()


def _notes(cluster: Cluster, pool: set[str]) -> Iterator[str]:
    if large := int((cluster.whole & (cluster.gpus > MOST_GPUS)).sum()):
        yield (
            f"more than {MOST_GPUS} GPUs a node, and no label says whether they are shared (nvidia.com/gpu.replicas, "
            f"gpu.count): {large} of {len(cluster)} nodes"
        )
    if pool:
        yield f"every GPU node has the taint {', '.join(sorted(pool))}: jobs are taken to tolerate it"
    if faulty := sum(flag.kind == "faulty" for flag in cluster.flags.values()):
        yield f"faulty, as they cannot take new pods: {faulty} of {len(cluster)} nodes"


# -- hyper_node_reader --
# HyperNodes of Volcano without the nodes they are of: ``kubectl get hypernodes -o yaml``, or manifests.
#
# With the nodes (``kubectl get nodes,hypernodes -o json``) the file is a list of Kubernetes nodes, with these levels.
# Without them the nodes are those that HyperNodes name; what they choose by expressions or labels is not known.


_COMMAND = "kubectl get nodes,hypernodes -o json"
_KINDS_of_hyper_node_reader: Kinds = {"HyperNode": HyperNode, "Node": NodeObject}


class Volcano:
    """Reader of HyperNodes."""

    format = FileFormat(
        "volcano",
        source="HyperNodes of Volcano",
        export="`kubectl get hypernodes -o yaml`",
        read="tiers, HyperNodes and the nodes that they name",
        left_out=f"members chosen by expressions or labels, which need the nodes: `{_COMMAND}`",
        marks=("hypernode", "tier", "members"),
    )
    chooses_levels = False

    def likeness(self, head: bytes) -> float:
        """Return whether there are HyperNodes, and no nodes."""
        return float(bool(HYPER_NODES_ALONE.match(text_of(head))))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:
        """Read the HyperNodes; where nodes come after them, as a list of nodes."""
        document = load_document(source, several=True)
        items = list(read_items(document, _KINDS_of_hyper_node_reader, command=_COMMAND))
        found = [(place, item) for place, item in items if isinstance(item, HyperNode)]
        if len(found) < len(items):
            return Kubernetes().read(source, levels=levels, now=now)
        places = {name: place for place, one in reversed(found) for name in one.exact_nodes()}
        names = list(dict.fromkeys(name for _, one in found for name in one.exact_nodes()))
        if not names:
            none, fix = "no HyperNode names a node", f"give the nodes too: {_COMMAND}"
            raise InvalidTopology(none, where=document.where(0), fix=fix)
        level_names, paths, notes = hyper_paths(found, {name: {} for name in names})
        if open_ended := [one.name for _, one in found if one.chooses_nodes]:
            notes.append(f"HyperNodes that choose nodes, which are not in the file ({_COMMAND}): {some(open_ended)}")
        nodes = [PlacedNode(name, paths[name]) for name in names]
        return place_nodes(level_names, nodes, where=lambda row: document.where(*places[names[row]]), notes=notes)


# -- kind_cluster --
# Configuration of a cluster of kind (kind.sigs.k8s.io): workers with their labels, as tests of Kueue have them.
#
# A Topology of Kueue in the same file says which labels are levels.  The control plane is left out; workers are called
# as kind calls them: ``kind-worker``, ``kind-worker2``.


_KINDS_of_kind_cluster: Kinds = {"Topology": KueueTopology}


class _Worker(BaseModel):
    role: str = "control-plane"
    labels: dict[str, str] = {}


class _Cluster(BaseModel):
    name: str = "kind"
    nodes: list[_Worker] = []


class KindCluster:
    """Reader of configurations of kind."""

    format = FileFormat(
        "kind",
        source="configuration of a kind cluster, with labels of place on its workers",
        export="the file of `kind create cluster --config`",
        read="workers and their labels; a Topology of Kueue in the same file says which are levels",
        left_out="the control plane, and everything else of the nodes",
        marks=("kind.x-k8s.io", "nodes:", "role:", "labels:"),
    )
    chooses_levels = True

    def likeness(self, head: bytes) -> float:
        """Return whether kind's version of its API stands in the text."""
        return float(bool(KIND_CLUSTER.search(text_of(head))))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the workers; raise an error where ``levels`` names a label that none carries."""
        document = load_document(source, several=True)
        number = next((i for i, part in enumerate(document.data) if _is_cluster(part)), None)
        if number is None:
            none = "describes no cluster of kind"
            raise InvalidInput(none, where=source.name, fix="give apiVersion: kind.x-k8s.io/v1alpha4 and kind: Cluster")
        cluster = document.part(number).parse(_Cluster)
        several = len(document.data) > 1
        items = (
            read_items(document, _KINDS_of_kind_cluster, command="kubectl get topologies -o yaml") if several else ()
        )
        topologies = [item for _, item in items if isinstance(item, KueueTopology)]
        at = [i for i, node in enumerate(cluster.nodes) if node.role == "worker"]
        if not at:
            where = document.where(number, "nodes")
            raise InvalidTopology("the cluster has no workers", where=where, fix="add nodes with role: worker")
        workers = [cluster.nodes[i] for i in at]
        names = [f"{cluster.name}-worker{count if count > 1 else ''}" for count in range(1, len(at) + 1)]
        labels: list[Mapping[str, str]] = [worker.labels for worker in workers]
        found = find_places(list(zip(names, labels, strict=True)), levels, Sayings(topologies=topologies))
        rows = [Node(name, path, DEFAULT_GPUS, DEFAULT_GPUS) for name, path in zip(names, found.paths, strict=True)]
        built = build_cluster(found.levels, rows, where=lambda row: document.where(number, "nodes", at[row]))
        built = with_second_levels(built, found.beside).replace(gpus_assumed=True, cut=found.cut)
        return Reading(built, found.notes, tuple(labels))


def _is_cluster(part: Any) -> bool:
    return isinstance(part, dict) and part.get("kind") == "Cluster" and "kind.x-k8s.io/" in str(part.get("apiVersion"))
