"""Kubernetes nodes: ``kubectl get nodes -o json``, or ``kubectl get nodes,pods -A -o json`` to know what is in use.

Levels come from node labels (:mod:`topology.readers.kubernetes_labels`), GPUs from the status; nodes without GPUs are
left out.  A node that no new pod may use is *faulty* here, not busy, because emptying the cluster would not free it:

- it is cordoned, or a condition says that it is broken (:mod:`topology.readers.kubernetes_health`);
- it has a taint NoSchedule or NoExecute; except ``nvidia.com/gpu`` and ``amd.com/gpu``, which GPU pods tolerate, and
  except a taint that every GPU node has: that marks the pool, and jobs for it tolerate it;
- fewer GPUs are allocatable than it has.

The annotation ``arnold.dev/slowdown`` (a factor, or ``faulty``), until ``arnold.dev/slowdown-until``, is a flag; so is
a taint PreferNoSchedule, at a small price.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from topology.build import NodePath, build_cluster, qualified
from topology.cluster import MAX_LEVELS, Cluster, Node
from topology.documents import Document, load_document
from topology.errors import InvalidTopology
from topology.file_format import FileFormat
from topology.files import Source
from topology.flags import FAULTY, NodeFlag
from topology.readers import kubernetes_objects as objects
from topology.readers.kubernetes_health import SLOWDOWN, annotated_flag, discourages, faults, price_flag, repels
from topology.readers.kubernetes_labels import check_labels, choose_labels, gpu_type
from topology.readers.kubernetes_objects import GPUS
from topology.readers.kubernetes_pods import Pod
from topology.readers.types import Reading

_MARK = re.compile(r"\s*+(?:---\s*+)?+\{?+\s*+[\"']?(?:apiVersion|kind|items)[\"']?\s*:")
_WHOLE = "write a whole number"
_ANY_GPU = " or ".join(GPUS)
_OWN_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")

KeyAndValue = tuple[str, str]


class Kubernetes:
    """Reader of lists of Kubernetes nodes."""

    format = FileFormat(
        "kubernetes",
        source="Kubernetes nodes, and pods if they are there: kubectl get nodes,pods -A -o json",
        export="kubectl get nodes,pods -A -o json",
        read="levels from labels, GPUs, what pods hold, cordons, conditions, taints",
        left_out="nodes without GPUs",
        marks=("kind", "items", "status"),
    )
    chooses_levels = True

    def recognises(self, head: str) -> bool:
        """Return whether the first key is one of a Kubernetes list."""
        return bool(_MARK.match(head))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:
        """Read the nodes; raise an error where ``levels`` names a label that no node carries."""
        listing = _Listing(load_document(source))
        machines = listing.machines()
        labels = [machine.node.labels for machine in machines]
        if levels is None:
            chosen, sentence = choose_labels(labels)
            notes = [sentence]
        else:
            chosen, notes = check_labels(levels[: MAX_LEVELS + 1], labels), []
        paths, repeated = qualified([tuple(node.get(label, "") for label in chosen) for node in labels])
        held, pool = listing.held_gpus(), _pool_taints(machines)
        rows = [machine.row(path, held=held[machine.name]) for machine, path in zip(machines, paths, strict=True)]
        flags = [flag for machine in machines for flag in listing.flags(machine, pool)]
        active = [flag for flag in flags if flag.active(now)]

        def place(row: int) -> str:
            return listing.document.where("items", machines[row].number)

        cluster = build_cluster(chosen, rows, flags=active, where=place)
        notes += _notes(cluster, chosen, repeated, pool)
        nodes = len(listing.nodes)
        if left_out := nodes - len(machines):
            notes.append(f"left out, as they have no {_ANY_GPU}: {left_out} of {nodes} nodes")
        if expired := len(flags) - len(active):
            notes.append(f"annotations {SLOWDOWN} past their end, left out: {expired}")
        return Reading(cluster, tuple(notes), tuple(labels))


@dataclass(frozen=True, slots=True)
class _Machine:
    """A node with GPUs."""

    number: int  # its place among the items
    node: objects.NodeObject
    gpus: int
    allocatable: int

    @property
    def name(self) -> str:
        return self.node.name

    def row(self, path: NodePath, *, held: int) -> Node:
        """Return it as a row of the cluster, so many of its GPUs held by pods."""
        free = max(0, self.allocatable - held)
        return Node(self.name, path, self.gpus, free, gpu_type=gpu_type(self.node.labels))

    def taints(self, rule: Callable[[objects.Taint], bool]) -> set[KeyAndValue]:
        """Return the taints to which a rule applies."""
        return {(taint.key, taint.value or "") for taint in self.node.spec.taints or [] if rule(taint)}


class _Listing:
    """The items of a file."""

    def __init__(self, document: Document) -> None:
        self.document = document
        kinds: dict[str, type[objects.Object]] = {"Node": objects.NodeObject, "Pod": Pod}
        found = list(objects.read_items(document, kinds, command="kubectl get nodes -o json"))
        self.nodes = [(number, item) for number, item in found if isinstance(item, objects.NodeObject)]
        self.pods = [(number, item) for number, item in found if isinstance(item, Pod)]

    def machines(self) -> list[_Machine]:
        """Return all nodes with GPUs."""
        found = []
        for number, node in self.nodes:
            capacity = self._gpus(number, "capacity", node.status.capacity)
            allocatable = self._gpus(number, "allocatable", node.status.allocatable)
            if gpus := max(capacity or 0, allocatable or 0):
                free = gpus if allocatable is None else allocatable
                found.append(_Machine(number, node, gpus, free))
        if not found:
            none, place = f"none of the {len(self.nodes)} nodes has {_ANY_GPU}", self.document.where("items")
            raise InvalidTopology(none, where=place, fix="list nodes whose GPU device plugin runs")
        return found

    def held_gpus(self) -> Counter[str]:
        """Return the GPUs that the pods of the file hold on each node."""
        held: Counter[str] = Counter()
        for number, pod in self.pods:
            if pod.node is not None and not pod.terminal:
                try:
                    held[pod.node] += pod.gpus
                except ValueError as error:
                    place = self.document.where("items", number)
                    raise InvalidTopology(f"pod {pod.name!r}: {error}", where=place, fix=_WHOLE) from None
        return held

    def flags(self, machine: _Machine, pool: set[KeyAndValue]) -> Iterable[NodeFlag]:
        """Yield what Kubernetes and the annotation say against a node."""
        found = faults(
            unschedulable=bool(machine.node.spec.unschedulable),
            conditions=machine.node.status.conditions or [],
            gpus=machine.gpus,
            allocatable=machine.allocatable,
            repelling=machine.taints(repels) - pool,
        )
        if evidence := ", ".join(found):
            yield NodeFlag(machine.name, "faulty", FAULTY, source="kubernetes", evidence=evidence)
        if price := price_flag(machine.name, machine.taints(discourages) - pool):
            yield price
        try:
            annotated = annotated_flag(machine.name, machine.node.annotations)
        except InvalidTopology as error:
            place = self.document.where("items", machine.number, "metadata", "annotations", error.where)
            raise InvalidTopology(error.message, where=place, fix=error.fix) from None
        if annotated:
            yield annotated

    def _gpus(self, number: int, field: str, amounts: objects.Amounts | None) -> int | None:
        try:
            return objects.gpus_among(amounts)
        except ValueError as error:
            named = GPUS[0] if amounts is not None and amounts.get(GPUS[0]) is not None else GPUS[1]
            place = self.document.where("items", number, "status", field, named)
            raise InvalidTopology(f"{field}: {error}", where=place, fix=_WHOLE) from None


def _pool_taints(machines: Sequence[_Machine]) -> set[KeyAndValue]:
    """Return taints that all of several nodes have, but for those that Kubernetes sets itself."""
    if len(machines) < 2:
        return set()
    common = set.intersection(*(one.taints(repels) | one.taints(discourages) for one in machines))
    return {taint for taint in common if not taint[0].startswith(_OWN_TAINTS)}


def _notes(cluster: Cluster, labels: Sequence[str], repeated: Sequence[int], pool: set[KeyAndValue]) -> list[str]:
    notes = [
        f"values of {label} below several broader domains, each place a domain of its own: {count}"
        for label, count in zip(labels, repeated, strict=True)
        if count
    ]
    if pool:
        names = ", ".join(sorted(key for key, _ in pool))
        notes.append(f"every GPU node has the taint {names}: jobs are taken to tolerate it")
    if faulty := sum(flag.kind == "faulty" for flag in cluster.flags.values()):
        notes.append(f"faulty, as they cannot take new pods: {faulty} of {len(cluster)} nodes")
    return notes
