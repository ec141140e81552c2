"""Kubernetes nodes: ``kubectl get nodes -o json``, or ``kubectl get nodes,pods -A -o json`` to know what is in use.

A list, a node alone, or several documents of YAML.  Levels come from node labels, or from objects that say more of
places (:mod:`topology.readers.kubernetes.kubernetes_places`), GPUs from the status, or else from ResourceSlices, if the
list has some (:mod:`topology.kubernetes.kubernetes_devices`); nodes without GPUs are left out.  A node that no
new pod may use is *faulty* here, not busy, because emptying the cluster would not free it:

- it is cordoned, or a condition says that it is broken (:mod:`topology.kubernetes.kubernetes_health`);
- it has a taint NoSchedule or NoExecute of Kubernetes' own;
- fewer GPUs are allocatable than it has.

Any other taint NoSchedule or NoExecute *keeps out* the jobs that do not tolerate it, and PreferNoSchedule has a small
price for them (:mod:`topology.taints`); except ``nvidia.com/gpu`` and ``amd.com/gpu``, which GPU pods tolerate, and
except a taint that every GPU node has: that marks the pool, and jobs for it tolerate it.

A node that hands out GPUs in parts is there with the GPUs that it has, and how they are shared
(:mod:`topology.kubernetes.kubernetes_shares`).

The annotation ``arnold.dev/slowdown`` (a factor, or ``faulty``), until ``arnold.dev/slowdown-until``, is a flag.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from topology.build import NodePath, build_cluster, with_second_levels
from topology.cluster import Cluster, Node
from topology.errors import InvalidTopology
from topology.file_format import FileFormat
from topology.files import Source
from topology.flags import FAULTY, NodeFlag
from topology.kubernetes.kubernetes_claim_table import ALLOCATION_KINDS, ClaimTable
from topology.kubernetes.kubernetes_gpus import GPU_CLASSES, GPUS
from topology.kubernetes.kubernetes_health import (
    OWN_TAINTS,
    SLOWDOWN,
    annotated_flag,
    faults,
)
from topology.kubernetes.kubernetes_objects import (
    ALLOCATION_API,
    COMPUTE_ENGINE,
    HYPER_NODES_ALONE,
    KIND_CLUSTER,
    LONGEST_NAME,
    AllocationObject,
    Kinds,
    NodeObject,
    Place,
    gpus_among,
    read_items,
)
from topology.kubernetes.kubernetes_pods import Pod
from topology.kubernetes.kubernetes_shares import MOST_GPUS, is_part, node_gpus
from topology.node_gpus import NodeGpus
from topology.parsing.documents import Document, load_document
from topology.readers.kubernetes.hyper_nodes import HyperNode
from topology.readers.kubernetes.kubernetes_places import KueueTopology, Sayings, find_places
from topology.readers.types import Reading
from topology.taints import Taint

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

    def recognises(self, head: str) -> bool:
        """Return whether the first key is one of a Kubernetes list or object, and it is none of a format of its own."""
        return bool(_MARK.match(head)) and not any(mark.search(head) for mark in _OTHERS)

    def counting(self, resource: str) -> Kubernetes:
        """Return a reader to which that resource alone is GPUs."""
        return Kubernetes((resource,))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:
        """Read the nodes; raise an error where ``levels`` names a label that no node carries."""
        listing = _Listing(load_document(source, several=True), self.gpu_resources)
        machines = listing.machines()
        places = find_places([(one.name, one.node.labels) for one in machines], levels, listing.sayings)
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
        return Reading(cluster, tuple(notes), tuple(one.node.labels for one in machines))


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
            "nodes whose GPUs are in ResourceSlices": [""] * sum(one.gpus.total() > 0 for one in devices),
            "pools of devices that are not certain": sorted(doubt for one in devices for doubt in one.doubts),
            "ResourceSlices of several nodes, left out": self.claims.homeless,
            "pods with claims that are not known, counted as none": [one.wrong for one in claims if one and one.wrong],
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
    return set.intersection(*({*map(str, one.pool_taints)} for one in machines)) if len(machines) > 1 else set()


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
