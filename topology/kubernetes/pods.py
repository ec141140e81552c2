"""Pods of Kubernetes, as far as scheduling goes: in the files that are read, and on a live cluster."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from topology.kubernetes.claims import Claimed, ClaimMade, PodClaim
from topology.kubernetes.nodes import parts_among
from topology.kubernetes.objects import (
    Amounts,
    NamedObject,
    Object,
    OwnerReference,
    Requirement,
    gpus_among,
    instant,
    pod_gpus,
)
from topology.node_gpus import GPUS
from topology.taints import Toleration


class LabelSelector(Object, frozen=True):
    """Labels that pods or nodes have; an empty one selects all."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether what has such labels is meant."""
        given = (self.match_labels or {}).items()
        return given <= labels.items() and all(wanted.holds(labels) for wanted in self.match_expressions or ())


class PodTerm(Object, frozen=True):
    """Pods, and the label of the nodes whose domains they share, or must not; without a selector no pods."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None

    def among(self, own: str, other: str) -> bool:
        """Return whether a pod of one namespace means those of another, as far as can be told without its labels."""
        if self.namespace_selector is None and not self.namespaces:
            return own == other
        everywhere = self.namespace_selector == LabelSelector()
        return everywhere or other in (self.namespaces or ())


class PodTerms(Object, frozen=True):
    """Affinity or anti-affinity to pods; only the hard part is read."""

    required: list[PodTerm] | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class SpreadConstraint(Object, frozen=True):
    """How evenly pods lie over the domains of a label of nodes."""

    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None


class Volume(Object, frozen=True):
    """A volume of a pod; those that are claimed may be bound to some nodes."""

    name: str = ""
    persistent_volume_claim: Object | None = None
    ephemeral: Object | None = None

    @property
    def claimed(self) -> bool:
        """Whether it is claimed, now or when the pod comes."""
        return self.persistent_volume_claim is not None or self.ephemeral is not None


MOST_TOLD = 500  # characters of the message of a condition that are kept
RELEASED = "arnold.dev/released"
"""Label: the pod was released to a node by the plan of a gang, whose hash is the value; kept for the extender."""
NODE = "arnold.dev/node"
"""Annotation of a pod with that label: the node that the plan gives to it now; kept for the extender."""


class Resources(Object, frozen=True):
    """What a container, or a pod as a whole, asks for."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class ContainerPort(Object, frozen=True):
    """A port of a container; with ``host_port`` one of the node."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(Object, frozen=True):
    """A container of a pod; ``restart_policy`` Always makes an init container a sidecar."""

    image: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None
    ports: list[ContainerPort] | None = None

    def gpus_of(self, names: Sequence[str]) -> int:
        """Return the GPUs it asks for, resources of these names; the limit of an extended resource is its request.
        Raises ValueError for no number.
        """
        amounts = (self.resources.requests, self.resources.limits) if self.resources else ()
        counts = (gpus_among(amount, names) for amount in amounts)
        return next((gpus for gpus in counts if gpus is not None), 0)


class SchedulingGate(Object, frozen=True):
    """What holds a pod back."""

    name: str = ""


class SchedulingGroup(Object, frozen=True):
    """The native PodGroup that a pod belongs to (scheduling.k8s.io, 1.36)."""

    pod_group_name: str | None = None


class WorkloadRef(Object, frozen=True):
    """Its predecessor of 1.35."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str | None = None


class SelectorTerm(Object, frozen=True):
    """Expressions that must all hold."""

    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None

    @property
    def name(self) -> str | None:
        """The node that it names; ``None`` = it names none, or several."""
        fields = self.match_fields or ()
        by_name = [field for field in fields if field.key == "metadata.name" and field.operator == "In"]
        names = {value for field in by_name for value in field.values or ()}
        return names.pop() if len(names) == 1 else None


class NodeSelector(Object, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: list[SelectorTerm] | None = None


class NodeAffinity(Object, frozen=True):
    """Which nodes a pod may or would like to use; only the hard part is read."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodAffinity(Object, frozen=True):
    """Affinities of a pod: to nodes, to pods, and to be away from pods."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodTerms | None = None
    pod_anti_affinity: PodTerms | None = None


class PodSpec(Object, frozen=True):
    """What a pod asks for."""

    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadRef | None = None
    node_selector: dict[str, str] | None = None
    affinity: PodAffinity | None = None
    tolerations: list[Toleration] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    resources: Resources | None = None  # of the pod as a whole (KEP-2837)
    overhead: Amounts | None = None  # of its runtime class
    topology_spread_constraints: list[SpreadConstraint] | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[PodClaim] | None = None
    # what these come to, once that is looked up; a name that no object of Kubernetes has, as it is added here
    claimed: Claimed | None = msgspec.field(default=None, name="arnold.dev/claimed")

    @property
    def gpus(self) -> int:
        """GPUs that all containers together hold, and those claimed for the pod.  Raises ValueError for no number."""
        return self.gpus_of(GPUS)

    @property
    def parts(self) -> int:
        """Parts of GPUs, such as slices of MIG, that its containers hold under names of their own."""
        amounts = (box.resources.limits or box.resources.requests for box in self.containers or () if box.resources)
        return sum(map(parts_among, amounts))

    def gpus_of(self, names: Sequence[str]) -> int:
        """Return the same for GPUs that are resources of these names; those claimed count as the first of all names."""
        init = ((box.gpus_of(names), box.restart_policy == "Always") for box in self.init_containers or ())
        held = pod_gpus((box.gpus_of(names) for box in self.containers or ()), init)
        return held if self.claimed is None or GPUS[0] not in names else held + sum(self.claimed.gpus.values())


class PodCondition(Object, frozen=True):
    """A finding about a pod: of which kind, when it was last looked at, and when it last changed.

    The message is kept of what kube-scheduler says alone, and no more than a sentence or two of it.
    """

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None

    def __post_init__(self) -> None:
        """Cut the message."""
        if self.message:
            kept = self.message[:MOST_TOLD] if self.type == "PodScheduled" else ""
            msgspec.structs.force_setattr(self, "message", kept)


class _Terminated(Object, frozen=True):
    finished_at: str | None = None


class _ContainerState(Object, frozen=True):
    terminated: _Terminated | None = None


class ContainerStatus(Object, frozen=True):
    """How a container is."""

    state: _ContainerState | None = None


class PodStatus(Object, frozen=True):
    """How a pod is."""

    phase: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    resource_claim_statuses: list[ClaimMade] | None = None


class Pod(NamedObject, frozen=True):
    """A pod, as far as scheduling goes."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.metadata.namespace or "default"

    @property
    def uid(self) -> str:
        """What tells it from a pod of the same name before it."""
        return self.metadata.uid

    @property
    def node(self) -> str | None:
        """The node it is bound to."""
        return self.spec.node_name or None

    @property
    def owner(self) -> OwnerReference | None:
        """The controller that made it."""
        owners = self.metadata.owner_references or ()
        return next((owner for owner in owners if owner.controller), None)

    @property
    def pin(self) -> str | None:
        """The only node that its affinity admits by name; ``None`` = no such."""
        nodes = self.spec.affinity.node_affinity if self.spec.affinity else None
        if nodes is None or nodes.required is None:
            return None
        terms = nodes.required.node_selector_terms or ()
        names = {term.name for term in terms if term.match_fields or term.match_expressions}
        return names.pop() if len(names) == 1 else None

    @property
    def released(self) -> bool:
        """Whether it bears the mark of a release."""
        return RELEASED in self.labels

    @property
    def released_to(self) -> str | None:
        """The node that a plan gave to it when it was released, or moved since; ``None`` = it was not released.

        Releases of versions before wrote it as a pin.
        """
        return self.annotations.get(NODE, self.pin) if self.released else None

    @property
    def terminal(self) -> bool:
        """Whether it has ended, and holds nothing any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def leaving(self) -> bool:
        """Whether it is being deleted; until it is gone it holds its GPUs."""
        return self.metadata.deletion_timestamp is not None

    @property
    def gpus(self) -> int:
        """GPUs it holds, all containers together.  Raises ValueError for no number."""
        return self.spec.gpus

    @property
    def readable_gpus(self) -> int:
        """GPUs it holds; 0 where what it asks for is no number of GPUs."""
        try:
            return self.gpus
        except ValueError:
            return 0

    def gated_by(self, gate: str) -> bool:
        """Return whether a scheduling gate of that name holds it."""
        return any(held.name == gate for held in self.spec.scheduling_gates or ())

    def probed_at(self, condition: str) -> datetime | None:
        """Return when a condition of that type was last written; ``None`` = never."""
        return next((instant(looked.last_probe_time) for looked in self._conditions(condition)), None)

    @property
    def unschedulable(self) -> bool:
        """Whether kube-scheduler has tried it, and found no node; it has not while a gate holds the pod."""
        tries = self._conditions("PodScheduled")
        return any(tried.status == "False" and tried.reason != "SchedulingGated" for tried in tries)

    @property
    def bound_at(self) -> datetime:
        """When it was bound to its node: what the API server writes with a binding, or else when it was made."""
        bindings = (tried for tried in self._conditions("PodScheduled") if tried.status == "True")
        written = next((binding.last_transition_time for binding in bindings), None)
        return self.created if written is None else instant(written)

    def _conditions(self, kind: str) -> list[PodCondition]:
        return [condition for condition in self.status.conditions or () if condition.type == kind]

    @property
    def finished(self) -> datetime | None:
        """When the last of its containers ended; ``None`` = some have not, or it is not known."""
        states = [container.state for container in self.status.container_statuses or ()]
        ends = [state.terminated.finished_at for state in states if state is not None and state.terminated is not None]
        if not ends or len(ends) < len(states) or not all(ends):
            return None
        return max(map(instant, ends))

    @property
    def created(self) -> datetime:
        """When it was made; the start of time where it is not known."""
        return instant(self.metadata.creation_timestamp)
