"""The fields of Kubernetes objects that we read, as typed structs decoded straight from JSON bytes.

Everything else is skipped while parsing: a pod keeps some 1 kB instead of 10.  The structs are frozen; a changed object
is a new one.  Field names are those of Kubernetes, in Python's case.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from topology.errors import InvalidInput
from topology.readers.kubernetes_gpus import GPU, pod_gpus, quantity


class _Object(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Anything of Kubernetes: camelCase names, unknown fields ignored."""


class OwnerReference(_Object, frozen=True):
    """Who made an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(_Object, frozen=True):
    """Who an object is."""

    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class Amounts(_Object, frozen=True):
    """Of all resources, the GPUs."""

    gpu: Any = msgspec.field(default=None, name=GPU)


class _Resources(_Object, frozen=True):
    requests: Amounts | None = None
    limits: Amounts | None = None


class Container(_Object, frozen=True):
    """A container of a pod; ``restart_policy`` Always makes an init container a sidecar."""

    resources: _Resources | None = None
    restart_policy: str | None = None

    @property
    def gpus(self) -> int:
        """GPUs it asks for; the limit of an extended resource is its request.

        :raises ValueError: not a number of GPUs.
        """
        if self.resources is None:
            return 0
        for amounts in (self.resources.requests, self.resources.limits):
            if amounts is not None and amounts.gpu is not None:
                return quantity(amounts.gpu)
        return 0


class SchedulingGate(_Object, frozen=True):
    """What holds a pod back."""

    name: str = ""


class SchedulingGroup(_Object, frozen=True):
    """The native PodGroup that a pod belongs to (scheduling.k8s.io, 1.36)."""

    pod_group_name: str | None = None


class WorkloadRef(_Object, frozen=True):
    """Its predecessor of 1.35."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str | None = None


class Toleration(_Object, frozen=True):
    """A taint that a pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Requirement(_Object, frozen=True):
    """One expression over labels or fields of a node."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class SelectorTerm(_Object, frozen=True):
    """Expressions that must all hold."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(_Object, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: list[SelectorTerm] | None = None


class NodeAffinity(_Object, frozen=True):
    """Which nodes a pod may or would like to use; only the hard part is read."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(_Object, frozen=True):
    """Affinities of a pod; only those to nodes are read."""

    node_affinity: NodeAffinity | None = None


class PodSpec(_Object, frozen=True):
    """What a pod asks for."""

    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadRef | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None

    @property
    def gpus(self) -> int:
        """GPUs that all containers together hold.

        :raises ValueError: not a number of GPUs.
        """
        init = ((box.gpus, box.restart_policy == "Always") for box in self.init_containers or ())
        return pod_gpus((box.gpus for box in self.containers or ()), init)


class PodStatus(_Object, frozen=True):
    """How a pod is."""

    phase: str | None = None


class Pod(_Object, frozen=True):
    """A pod, as far as scheduling goes."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def name(self) -> str:
        """Name within its namespace."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.metadata.namespace or "default"

    @property
    def uid(self) -> str:
        """What tells it from a pod of the same name before it."""
        return self.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return self.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations."""
        return self.metadata.annotations or {}

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
    def terminal(self) -> bool:
        """Whether it has ended, and holds nothing any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def leaving(self) -> bool:
        """Whether it is being deleted; until it is gone it holds its GPUs."""
        return self.metadata.deletion_timestamp is not None

    @property
    def gpus(self) -> int:
        """GPUs it holds, all containers together.

        :raises ValueError: not a number of GPUs.
        """
        return self.spec.gpus

    def gated_by(self, gate: str) -> bool:
        """Whether a scheduling gate of that name holds it."""
        return any(one.name == gate for one in self.spec.scheduling_gates or ())

    @property
    def created(self) -> datetime:
        """When it was made; the start of time where nobody says."""
        return instant(self.metadata.creation_timestamp)


class Taint(_Object, frozen=True):
    """Why pods should stay away."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(_Object, frozen=True):
    """What an administrator wants of a node."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class Condition(_Object, frozen=True):
    """A finding of the kubelet or of others about a node."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class NodeStatus(_Object, frozen=True):
    """How a node is."""

    capacity: Amounts | None = None
    allocatable: Amounts | None = None
    conditions: list[Condition] | None = None


class Node(_Object, frozen=True):
    """A node, as far as scheduling goes."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return self.metadata.labels or {}


class _PodTemplate(_Object, frozen=True):
    spec: PodSpec = PodSpec()


class _JobSpec(_Object, frozen=True):
    parallelism: int | None = None
    template: _PodTemplate = _PodTemplate()


class _JobTemplate(_Object, frozen=True):
    spec: _JobSpec = _JobSpec()


class ReplicatedJob(_Object, frozen=True):
    """One of the job templates of a JobSet."""

    name: str = ""
    replicas: int = 1
    template: _JobTemplate = _JobTemplate()

    @property
    def pods(self) -> int:
        """Pods of all its jobs that hold GPUs.

        :raises ValueError: not a number of GPUs.
        """
        job = self.template.spec
        return self.replicas * (1 if job.parallelism is None else job.parallelism) if job.template.spec.gpus else 0


class _GangPolicy(_Object, frozen=True):
    min_count: int | None = None


class _SchedulingPolicy(_Object, frozen=True):
    gang: _GangPolicy | None = None


class _NetworkTopology(_Object, frozen=True):
    mode: str = "hard"
    highest_tier_allowed: int | None = None


class OwnerSpec(_Object, frozen=True):
    """What the makers of pods say about their number, each kind in its own field.

    Job: completions, parallelism; JobSet: replicatedJobs; StatefulSet: replicas; native PodGroup: schedulingPolicy;
    PodGroup of sig-scheduling and of Volcano: minMember.
    """

    completions: int | None = None
    parallelism: int | None = None
    replicas: int | None = None
    replicated_jobs: list[ReplicatedJob] | None = None
    scheduling_policy: _SchedulingPolicy | None = None
    min_member: int | None = None
    network_topology: _NetworkTopology | None = None


class Owner(_Object, frozen=True):
    """An object that says how many pods belong together: Job, JobSet, StatefulSet or a PodGroup of any API."""

    kind: str = ""
    metadata: Metadata = Metadata()
    spec: OwnerSpec = OwnerSpec()


def decode_pod(raw: bytes | dict[str, Any]) -> Pod:
    """A pod from JSON, or from what a JSON parser made of it.

    :raises InvalidInput: not a pod.
    """
    return _decode(raw, Pod)


def decode_node(raw: bytes | dict[str, Any]) -> Node:
    """A node from JSON, or from what a JSON parser made of it.

    :raises InvalidInput: not a node.
    """
    return _decode(raw, Node)


def decode_owner(raw: bytes | dict[str, Any]) -> Owner:
    """A Job, JobSet, StatefulSet or PodGroup.

    :raises InvalidInput: none of them.
    """
    return _decode(raw, Owner)


def instant(text: str | None) -> datetime:
    """A timestamp of Kubernetes, ``2026-11-21T09:30:00Z``; the start of time where there is none."""
    try:
        parsed = datetime.fromisoformat(text or "")
    except ValueError:
        return _EPOCH
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


_Kind = TypeVar("_Kind", bound=_Object)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_decoders: dict[type, msgspec.json.Decoder[Any]] = {kind: msgspec.json.Decoder(kind) for kind in (Pod, Node, Owner)}


def _decode(raw: bytes | dict[str, Any], kind: type[_Kind]) -> _Kind:
    try:
        return _decoders[kind].decode(raw) if isinstance(raw, bytes) else msgspec.convert(raw, kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(
            f"not a {kind.__name__} of Kubernetes: {error}", fix="send the object as the API server writes it"
        ) from None
