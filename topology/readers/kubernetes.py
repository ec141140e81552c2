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
``faulty``), from ``arnold.dev/slowdown-since`` until ``-until``, is a flag; ``arnold.dev/taints-until`` says when
taints are to go.

A HyperNode has a tier, 1 the closest; the level is called as its tier is (``tierName``), else ``tier-1``.  Members are
named, or chosen by a regular expression of names (Go's, which Python reads alike as far as it is taken here) or by
labels of nodes.  HyperNodes without nodes (``kubectl get hypernodes -o yaml``, or manifests) are a cluster of the nodes
that they name; what they choose by expressions or labels is not known.  Source: volcano.sh/docs, network topology aware
scheduling; the custom resource ``topology.volcano.sh/v1alpha1``.

A configuration of kind (kind.sigs.k8s.io) has workers with their labels, as tests of Kueue have them; the control plane
is left out, and workers are called as kind calls them: ``kind-worker``, ``kind-worker2``.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar, Self

from pydantic import BaseModel

from ground.documents import Document, load_document
from ground.errors import InvalidInput, InvalidTopology, some
from ground.files import Source
from ground.formats import FileFormat, Marked, text_of
from topology.build import NodePath, build_cluster, with_second_levels
from topology.cluster import DEFAULT_GPUS, MAX_LEVELS, Node
from topology.flags import FAULTY, NodeFlag, begins_later
from topology.kubernetes.claim_table import ALLOCATION_KINDS, ClaimTable
from topology.kubernetes.labels import HOSTNAME, LabelledPlaces, check_labels, label_of, passed_over, places_by_labels
from topology.kubernetes.nodes import (
    MOST_GPUS,
    OWN_TAINTS,
    SLOWDOWN,
    annotated_flag,
    annotated_time,
    faults,
    is_part,
    node_gpus,
)
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
    gpus_among,
    read_items,
)
from topology.kubernetes.pods import LabelSelector, Pod
from topology.node_gpus import GPU_CLASSES, GPUS, NodeGpus
from topology.readers.reading import ONE_LEVEL, PlacedNode, Reading, TopologyReader, place_nodes
from topology.taints import TAINTS_UNTIL, Taint, kept_out_by

_LOOPS = re.compile(r"(?<!\\)[*+{]")
_NESTED = re.compile(r"\)[*+{]|\(\?[^:]|\\[1-9]")
MOST_LOOPS = 2  # repetitions in an expression: with more, or nested, names could be made that it never ends on


class _Match(Object, frozen=True):
    name: str = ""
    pattern: str = ""


class _Selector(Object, frozen=True):
    exact_match: _Match | None = None
    regex_match: _Match | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(Object, frozen=True):
    """Nodes, or HyperNodes, that belong to a HyperNode."""

    type: str = "Node"
    selector: _Selector = _Selector()

    def names(self, labels_of: Mapping[str, Mapping[str, str]]) -> list[str]:
        """Return the names that it chooses among those with labels; raise ValueError for an expression not taken."""
        exact, regex, by_labels = self.selector.exact_match, self.selector.regex_match, self.selector.label_match
        if exact is not None:
            return [exact.name] if exact.name in labels_of else []
        if regex is not None:
            if len(_LOOPS.findall(regex.pattern)) > MOST_LOOPS or _NESTED.search(regex.pattern):
                raise ValueError(f"the expression {regex.pattern[:60]!r} is not taken, as it could take for ever")
            try:
                matches = re.compile(regex.pattern).search
            except (re.error, OverflowError, RecursionError):
                raise ValueError(f"{regex.pattern[:60]!r} is no regular expression") from None
            return [name for name in labels_of if matches(name)]
        if by_labels is not None:
            return [name for name, labels in labels_of.items() if by_labels.selects(labels)]
        return []


class _Spec(Object, frozen=True):
    tier: int = 1
    tier_name: str | None = None
    members: list[HyperNodeMember] | None = None


class HyperNode(NamedObject, frozen=True):
    """A HyperNode of Volcano."""

    spec: _Spec = _Spec()

    def exact_nodes(self) -> list[str]:
        """Return the nodes that it names."""
        matches = (member.selector.exact_match for member in self.spec.members or () if member.type == "Node")
        return [match.name for match in matches if match is not None and match.name]


def hyper_paths(
    hyper_nodes: Sequence[tuple[Place, HyperNode]], nodes: Mapping[str, Mapping[str, str]]
) -> tuple[tuple[str, ...], dict[str, NodePath], list[str]]:
    """Return levels, the path of each node (given with its labels), and notes; raise InvalidTopology where something
    lies below two HyperNodes of a tier, or a HyperNode below one that is not broader.
    """
    by_name = {hyper_node.name: hyper_node for _, hyper_node in hyper_nodes}
    above: dict[str, str] = {}  # of a HyperNode
    holds: dict[str, list[str]] = {name: [] for name in nodes}  # the HyperNodes of a node
    no_labels: Mapping[str, Mapping[str, str]] = {name: {} for name in by_name}
    tier_names: dict[int, set[str]] = {}
    for hyper_node in by_name.values():
        tier_names.setdefault(hyper_node.spec.tier, set()).add(hyper_node.spec.tier_name or "")
        for member in hyper_node.spec.members or ():
            try:
                members = member.names(no_labels if member.type == "HyperNode" else nodes)
            except ValueError as error:
                raise _no_tree(f"HyperNode {hyper_node.name!r}: {error}") from None
            for name in members:
                if member.type != "HyperNode":
                    holds[name].append(hyper_node.name)
                    continue
                if by_name[name].spec.tier >= hyper_node.spec.tier:
                    raise _no_tree(f"HyperNode {name!r} lies below {hyper_node.name!r}, whose tier is no broader")
                if above.setdefault(name, hyper_node.name) != hyper_node.name:
                    raise _no_tree(f"HyperNode {name!r} lies below two, {above[name]!r} and {hyper_node.name!r}")
    tiers = sorted(tier_names, reverse=True)
    paths: dict[str, NodePath] = {}
    for node, closest in holds.items():
        at: dict[int, str] = {}
        for start in closest:
            here: str | None = start
            while here is not None:
                if (first := at.setdefault(by_name[here].spec.tier, here)) != here:
                    raise _no_tree(f"node {node!r} lies in two HyperNodes of a tier, {first!r} and {here!r}")
                here = above.get(here)
        paths[node] = tuple(at.get(tier, "") for tier in tiers)
    # a level is called as its tier is, where all of it agree and no other tier is called so
    agreed = {tier: next(iter(names)) if len(names) == 1 else "" for tier, names in tier_names.items()}
    twice = Counter(agreed.values())
    levels = tuple(agreed[tier] if agreed[tier] and twice[agreed[tier]] == 1 else f"tier-{tier}" for tier in tiers)
    notes = ["levels are the HyperNodes of Volcano"]
    if lost := [name for name in nodes if not holds[name]]:
        notes.append(f"nodes in no HyperNode: {some(lost)}")
    return levels, paths, notes


def _no_tree(message: str) -> InvalidTopology:
    return InvalidTopology(message, fix="HyperNodes are a tree: every one lies below one of a broader tier")


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
        labels = (level.node_label for level in self.spec.levels or ())
        return tuple(label for label in labels if label not in ("", HOSTNAME))


class _PlanSpec(Object, frozen=True):
    level: str | None = None


class GangPlanObject(NamedObject, frozen=True):
    """A GangPlan of Arnold: whoever made it was told at which level spread counts."""

    spec: _PlanSpec = _PlanSpec()


def find_places(
    nodes: Sequence[tuple[str, Mapping[str, str]]],
    asked: Sequence[str] | None,
    *,
    hyper_nodes: Sequence[tuple[Place, HyperNode]] = (),
    topologies: Sequence[KueueTopology] = (),
    plans: Sequence[GangPlanObject] = (),
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
    if hyper_nodes:
        levels, paths, notes = hyper_paths(hyper_nodes, dict(nodes))
        notes += passed_over(labels, ()) if len(levels) == 1 else ()
        return LabelledPlaces(levels, [paths[name] for name, _ in nodes], notes=tuple(notes))
    for topology in topologies:
        carried = [label for label in topology.node_labels if any(label in node for node in labels)]
        if carried:
            note = f"levels are the labels {', '.join(carried)} (Kueue's Topology {topology.name})"
            places = places_by_labels(labels, carried, note=note)
            return places if len(carried) > 1 else replace(places, notes=(*places.notes, *passed_over(labels, carried)))
    try:
        return places_by_labels(labels)
    except InvalidTopology as error:
        named = {plan.spec.level for plan in plans if plan.spec.level is not None}
        domains = {level: {label_of(node, level) for node in labels} for level in named}
        if carried := [level for level, values in domains.items() if values != {""}]:
            of_plans = sorted(carried, key=lambda level: (len(domains[level]), level))
            note = f"levels are the labels {', '.join(of_plans)}, which GangPlans name; --levels names all"
            places = places_by_labels(labels, of_plans, note=note)
            return replace(places, notes=(*places.notes, *passed_over(labels, of_plans)))
        note = f"{error.message}, so all are one level; to name labels from broad to close: --levels LABEL,LABEL"
        return LabelledPlaces((ONE_LEVEL,), [(ONE_LEVEL,) for _ in labels], notes=(note, *passed_over(labels, ())))


_MARK = re.compile(r"\s*+(?:---\s*+)?+\{?+\s*+[\"']?(?:apiVersion|kind|items)[\"']?\s*:")
_WHOLE = "write a whole number"
_MAY_BE_GPU = re.compile(r"/(?:.*gpu|spx_|i915|xe)|gpu.*/")  # names of resources that are GPUs
_OTHERS = (COMPUTE_ENGINE, HYPER_NODES_ALONE, KIND_CLUSTER)  # what begins alike, and has readers of its own
_KINDS: Kinds = {
    "Node": NodeObject,
    "Pod": Pod,
    "HyperNode": HyperNode,
    "Topology": KueueTopology,
    "GangPlan": GangPlanObject,
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

    def counting(self, resource: str) -> Self:
        """Return a reader to which that resource alone is GPUs."""
        return replace(self, gpu_resources=(resource,))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:
        """Read the nodes; raise an error where ``levels`` names a label that no node carries."""
        listing = Listing(load_document(source, several=True), self.gpu_resources)
        machines = listing.machines()
        labels = [(machine.name, machine.node.labels) for machine in machines]
        places = find_places(
            labels, levels, hyper_nodes=listing.hyper_nodes, topologies=listing.topologies, plans=listing.plans
        )
        held, pool = listing.held_gpus(), set[str]()
        if len(machines) > 1:
            # taints that all of several nodes have mark the cluster, and jobs for it tolerate them
            pool = set.intersection(*({*map(str, machine.pool_taints)} for machine in machines))
        placed = zip(machines, places.paths, strict=True)
        rows = [machine.row(path, held=held[machine.name]) for machine, path in placed]
        flags = [flag for machine in machines for flag in listing.flags(machine)]
        apart = [tuple(taint for taint in machine.pool_taints if str(taint) not in pool) for machine in machines]
        kept_apart = {i: taints for i, taints in enumerate(apart) if taints}
        active = [flag for flag in flags if flag.active(now)]
        later = tuple(flag for flag in flags if flag.since is not None and flag.since > now)

        def place(row: int) -> str:
            return listing.document.where(*machines[row].place)

        cluster = build_cluster(places.levels, rows, flags=active, where=place).with_taints(kept_apart)
        ends = {i: annotated_time(machines[i].name, machines[i].node.annotations, TAINTS_UNTIL) for i in kept_apart}
        windows = (
            NodeFlag(machines[i].name, "faulty", source=TAINTS_UNTIL, until=until, evidence=kept_out_by(kept_apart[i]))
            for i, until in ends.items()
            if until is not None and until > now
        )
        cluster = cluster.replace(reserved=tuple(window for window in windows if window.evidence))
        cluster = with_second_levels(cluster, places.beside)
        notes = [*places.notes]
        if large := int((cluster.whole & (cluster.gpus > MOST_GPUS)).sum()):
            notes.append(
                f"more than {MOST_GPUS} GPUs a node, and no label says whether they are shared "
                f"(nvidia.com/gpu.replicas, gpu.count): {large} of {len(cluster)} nodes"
            )
        if pool:
            notes.append(f"every GPU node has the taint {', '.join(sorted(pool))}: jobs are taken to tolerate it")
        if faulty := sum(flag.kind == "faulty" for flag in cluster.flags.values()):
            notes.append(f"faulty, as they cannot take new pods: {faulty} of {len(cluster)} nodes")
        notes += [*listing.pod_notes(), *listing.claim_notes()]
        if parts := [name for name in self.gpu_resources if is_part(name)]:
            notes.append(f"GPUs of nodes and jobs are {parts[0]}, parts of GPUs, as --gpu-resource says")
        nodes = len(listing.nodes)
        if left_out := nodes - len(machines):
            notes.append(f"left out, as they have no {listing.any_gpu}: {left_out} of {nodes} nodes")
        if later:
            notes.append(begins_later(f"annotations {SLOWDOWN}", later))
        if expired := len(flags) - len(active) - len(later):
            notes.append(f"annotations {SLOWDOWN} past their end, left out: {expired}")
        cached: dict[str, set[str]] = {}
        for machine in machines:
            for name in (name for image in machine.node.status.images or () for name in image.names or ()):
                # others could not stand in a table
                if name.isprintable() and " " not in name:
                    cached.setdefault(name, set()).add(machine.name)
        images = {name: frozenset(having) for name, having in cached.items()}
        cluster = cluster.replace(cached=images, cut=places.cut, upcoming=later)
        return Reading(cluster, tuple(notes), tuple(machine.node.labels for machine in machines))


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


class Listing:
    """The objects of a file."""

    def __init__(self, document: Document, gpu_resources: tuple[str, ...]) -> None:
        self.document = document
        self.gpu_resources = gpu_resources
        self.any_gpu = " or ".join(gpu_resources)
        items = list(read_items(document, _KINDS, command="kubectl get nodes -o json"))
        self.claims = ClaimTable(GPU_CLASSES, complete=False)
        for place, item in items:
            if isinstance(item, AllocationObject):
                if item.api_version != ALLOCATION_API:
                    unread = f"{type(item).__name__} of {item.api_version[:LONGEST_NAME]!r}, which is not read"
                    fix = f"list those of {ALLOCATION_API}: kubectl get resourceslices.v1.resource.k8s.io,..."
                    raise InvalidTopology(unread, where=document.where(*place, "apiVersion"), fix=fix)
                self.claims.put(item)
        equipped, with_claims = self.claims.equipped, self.claims.with_claims
        self.nodes = [(place, equipped(item)) for place, item in items if isinstance(item, NodeObject)]
        self.pods = [(place, with_claims(item)) for place, item in items if isinstance(item, Pod)]
        self.hyper_nodes = [(place, item) for place, item in items if isinstance(item, HyperNode)]
        self.topologies = [item for _, item in items if isinstance(item, KueueTopology)]
        self.plans = [item for _, item in items if isinstance(item, GangPlanObject)]

    def pod_notes(self) -> list[str]:
        """Return what is to be known of pods that may be missing: what no pod of the list holds counts as free."""
        spaces = {pod.namespace for _, pod in self.pods}
        if len(spaces) > 1:
            return []
        which = f"no pods but of the namespace {spaces.pop()} are listed" if spaces else "no pods are listed"
        whole = "`kubectl get nodes,pods -A -o json` lists those of all"
        return [f"{which}, and GPUs that others hold count as free: {whole}, --busy names nodes in use"]

    def claim_notes(self) -> list[str]:
        """Return what is to be known of GPUs in ResourceSlices and by claims."""
        devices = [self.claims.devices(node.name) for _, node in self.nodes]
        claims = [pod.spec.claimed for _, pod in self.pods if pod.node and not pod.terminal]
        notes = {
            "nodes whose GPUs are in ResourceSlices": [""] * sum(device.gpus.total() > 0 for device in devices),
            "pools of devices that are not certain": sorted(doubt for device in devices for doubt in device.doubts),
            "ResourceSlices of several nodes, left out": self.claims.homeless,
            "pods with claims that are not known, counted as none": [
                claim.wrong for claim in claims if claim and claim.wrong
            ],
        }
        first = {what: f" (the first: {cases[0]})" for what, cases in notes.items() if cases and cases[0]}
        return [f"{what}: {len(cases)}{first.get(what, '')}" for what, cases in notes.items() if cases]

    def machines(self) -> list[_Machine]:
        """Return all nodes with GPUs."""
        machines = []
        for place, node in self.nodes:
            try:
                gpus = node_gpus(node, self.gpu_resources)
            except ValueError as error:
                raise self._unreadable(place, node, str(error)) from None
            if gpus.physical:
                machines.append(_Machine(place, node, gpus, self.gpu_resources))
        if machines:
            return machines
        where = self.document.where(0, "items")
        if self.topologies and not self.nodes:
            labels = self.topologies[0].node_labels
            fix = f"give nodes too (kubectl get topologies,nodes -o yaml), or nodes with --levels {','.join(labels)}"
            raise InvalidTopology("holds a Topology of Kueue and no nodes", where=where, fix=fix)
        none = f"none of the {len(self.nodes)} nodes has {self.any_gpu}"
        named = {name for _, node in self.nodes for name in node.status.capacity or {}}
        others = {name for name in named if _MAY_BE_GPU.search(name) and name not in GPUS and not is_part(name)}
        fix = "list nodes whose GPU device plugin runs"
        if others:
            fix += f", or say which of their resources are GPUs: --gpu-resource {' or '.join(sorted(others))}"
        raise InvalidTopology(none, where=where, fix=fix)

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
        reasons = faults(
            unschedulable=bool(machine.node.spec.unschedulable),
            conditions=machine.node.status.conditions or [],
            gpus=machine.gpus.physical,
            allocatable=machine.gpus.allocatable,
            taints=machine.node.spec.taints or (),
        )
        if evidence := ", ".join(reasons):
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


_COMMAND = "kubectl get nodes,hypernodes -o json"


class Volcano(Marked, TopologyReader):
    """Reader of HyperNodes."""

    format = FileFormat(
        "volcano",
        source="HyperNodes of Volcano",
        export="`kubectl get hypernodes -o yaml`",
        read="tiers, HyperNodes and the nodes that they name",
        left_out=f"members chosen by expressions or labels, which need the nodes: `{_COMMAND}`",
        marks=("hypernode", "tier", "members"),
    )
    mark = HYPER_NODES_ALONE

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:
        """Read the HyperNodes; where nodes come after them, as a list of nodes."""
        document = load_document(source, several=True)
        items = list(read_items(document, {"HyperNode": HyperNode, "Node": NodeObject}, command=_COMMAND))
        hyper_nodes = [(place, item) for place, item in items if isinstance(item, HyperNode)]
        if len(hyper_nodes) < len(items):
            return Kubernetes().read(source, levels=levels, now=now)
        places = {name: place for place, hyper_node in reversed(hyper_nodes) for name in hyper_node.exact_nodes()}
        names = list(dict.fromkeys(name for _, hyper_node in hyper_nodes for name in hyper_node.exact_nodes()))
        if not names:
            none, fix = "no HyperNode names a node", f"give the nodes too: {_COMMAND}"
            raise InvalidTopology(none, where=document.where(0), fix=fix)
        level_names, paths, notes = hyper_paths(hyper_nodes, {name: {} for name in names})
        members = [(item.name, member) for _, item in hyper_nodes for member in item.spec.members or ()]
        chosen = (name for name, member in members if member.type == "Node" and member.selector.exact_match is None)
        if open_ended := [*dict.fromkeys(chosen)]:
            notes.append(f"HyperNodes that choose nodes, which are not in the file ({_COMMAND}): {some(open_ended)}")
        nodes = [PlacedNode(name, paths[name]) for name in names]
        return place_nodes(level_names, nodes, where=lambda row: document.where(*places[names[row]]), notes=notes)


class _Worker(BaseModel):
    role: str = "control-plane"
    labels: dict[str, str] = {}


class _Cluster(BaseModel):
    name: str = "kind"
    nodes: list[_Worker] = []


class KindCluster(Marked):
    """Reader of configurations of kind."""

    format = FileFormat(
        "kind",
        source="configuration of a kind cluster, with labels of place on its workers",
        export="the file of `kind create cluster --config`",
        read="workers and their labels; a Topology of Kueue in the same file says which are levels",
        left_out="the control plane, and everything else of the nodes",
        marks=("kind.x-k8s.io", "nodes:", "role:", "labels:"),
    )
    mark = KIND_CLUSTER
    chooses_levels = True

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the workers; raise an error where ``levels`` names a label that none carries."""
        document = load_document(source, several=True)
        of_kind = (
            isinstance(part, dict) and part.get("kind") == "Cluster" and "kind.x-k8s.io/" in str(part.get("apiVersion"))
            for part in document.data
        )
        number = next((i for i, is_cluster in enumerate(of_kind) if is_cluster), None)
        if number is None:
            none = "describes no cluster of kind"
            raise InvalidInput(none, where=source.name, fix="give apiVersion: kind.x-k8s.io/v1alpha4 and kind: Cluster")
        cluster = document.part(number).parse(_Cluster)
        topologies = []
        if len(document.data) > 1:
            items = read_items(document, {"Topology": KueueTopology}, command="kubectl get topologies -o yaml")
            topologies = [item for _, item in items if isinstance(item, KueueTopology)]
        at = [i for i, node in enumerate(cluster.nodes) if node.role == "worker"]
        if not at:
            where = document.where(number, "nodes")
            raise InvalidTopology("the cluster has no workers", where=where, fix="add nodes with role: worker")
        workers = [cluster.nodes[i] for i in at]
        names = [f"{cluster.name}-worker{count if count > 1 else ''}" for count in range(1, len(at) + 1)]
        labels: list[Mapping[str, str]] = [worker.labels for worker in workers]
        places = find_places(list(zip(names, labels, strict=True)), levels, topologies=topologies)
        rows = [Node(name, path, DEFAULT_GPUS, DEFAULT_GPUS) for name, path in zip(names, places.paths, strict=True)]
        built = build_cluster(places.levels, rows, where=lambda row: document.where(number, "nodes", at[row]))
        built = with_second_levels(built, places.beside).replace(gpus_assumed=True, cut=places.cut)
        return Reading(built, places.notes, tuple(labels))
