"""Objects of the API server, decoded: those that say how many pods belong together, and what is kept of any.

An annotation may have 256 kB, and so may the name in a reference to an owner; labels are short, and may be thousands.
Anybody who may make pods could fill the extender's memory with such texts.  So each is looked at once, when an object
is decoded: what nothing reads is dropped, and of what is too long to mean anything only the beginning stays.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from itertools import islice
from typing import Any, TypeVar

import msgspec
from msgspec.structs import force_setattr, replace

from extender.dialect_names import KUEUE_SLICES, NAMES, WISH
from extender.kubernetes_names import ANNOTATIONS_READ, FAIR_SHARE_WEIGHT, GROUP, MOST_TEXT
from extender.texts import LONGEST_KEY, cut
from ground.errors import InvalidInput
from scheduler.queue.fair_share import read_weight
from topology.kubernetes.claim_table import ALLOCATION_KINDS
from topology.kubernetes.objects import (
    AllocationObject,
    Amounts,
    Metadata,
    NodeObject,
    Object,
    OwnerReference,
    gpus_among,
)
from topology.kubernetes.pods import NODE, LabelSelector, Pod, PodSpec

_Kind = TypeVar("_Kind", bound=Object)

DISRUPTED = "DisruptionTarget"  # Kubernetes' own condition of a pod that goes for reasons which are not its own


class _PodTemplate(Object, frozen=True):
    spec: PodSpec = PodSpec()


class _JobSpec(Object, frozen=True):
    parallelism: int | None = None
    template: _PodTemplate = _PodTemplate()


class _JobTemplate(Object, frozen=True):
    spec: _JobSpec = _JobSpec()


class ReplicatedJob(Object, frozen=True):
    """One of the job templates of a JobSet."""

    name: str = ""
    replicas: int = 1
    template: _JobTemplate = _JobTemplate()

    @property
    def pods(self) -> int:
        """Pods of all its jobs that hold GPUs, or raise ``ValueError``: not a number of GPUs."""
        job = self.template.spec
        return self.replicas * (1 if job.parallelism is None else job.parallelism) if job.template.spec.gpus else 0


class _RayGroup(Object, frozen=True):
    replicas: int = 0
    num_of_hosts: int = 1
    suspend: bool = False
    template: _PodTemplate = _PodTemplate()


class _GangPolicy(Object, frozen=True):
    min_count: int | None = None


class SchedulingPolicy(Object, frozen=True):
    """How the pods of a native group start: ``basic`` = each for itself, ``gang`` = together."""

    basic: Object | None = None
    gang: _GangPolicy | None = None

    @property
    def size(self) -> int | None:
        """How many pods start together; ``None`` = it does not say."""
        return None if self.gang is None else self.gang.min_count


class _WorkloadGroup(Object, frozen=True):
    name: str = ""
    policy: SchedulingPolicy = SchedulingPolicy()


class _NetworkTopology(Object, frozen=True):
    mode: str = ""
    highest_tier_allowed: int | None = None


class _SubGroupPolicy(Object, frozen=True):
    network_topology: _NetworkTopology | None = None


class _TopologyConstraint(Object, frozen=True):
    key: str = ""


class _SchedulingConstraints(Object, frozen=True):
    topology: list[_TopologyConstraint] | None = None


class OwnerSpec(Object, frozen=True):
    """What the makers of pods say about their number and their place, each kind in its own fields.

    Job: completions, parallelism; JobSet: replicatedJobs; StatefulSet: replicas, podManagementPolicy and template;
    RayCluster: headGroupSpec and workerGroupSpecs; native PodGroup: schedulingPolicy and schedulingConstraints;
    native Workload of 1.35: podGroups (later ones are repeated by PodGroups, and not read);
    PodGroup of sig-scheduling and of Volcano: minMember, of Volcano also minResources, networkTopology and
    subGroupPolicy.
    """

    completions: int | None = None
    parallelism: int | None = None
    replicas: int | None = None
    pod_management_policy: str = ""
    template: _PodTemplate | None = None  # kept of StatefulSets, whose leaders may have no GPUs
    replicated_jobs: list[ReplicatedJob] | None = None
    head_group_spec: _RayGroup | None = None
    worker_group_specs: list[_RayGroup] | None = None
    scheduling_policy: SchedulingPolicy | None = None
    pod_groups: list[_WorkloadGroup] | None = None
    scheduling_constraints: _SchedulingConstraints | None = None
    min_member: int | None = None
    min_resources: Amounts | None = None
    network_topology: _NetworkTopology | None = None
    sub_group_policy: list[_SubGroupPolicy] | None = None


class OwnerStatus(Object, frozen=True):
    """What a Job says of indices that succeeded or failed for good: ``1,3-5``."""

    failed_indexes: str = ""  # as their backoffLimitPerIndex is used up
    completed_indexes: str = ""


class Owner(Object, frozen=True):
    """An object that says how many pods belong together: Job, JobSet, RayCluster, StatefulSet, PodGroup or Workload."""

    kind: str = ""
    metadata: Metadata = Metadata()
    spec: OwnerSpec = OwnerSpec()
    status: OwnerStatus = OwnerStatus()

    def has_failed(self, index: int) -> bool:
        """Return whether a Job makes no pod of this index any more, as too many of it failed."""
        return any(index in indices for indices in _index_ranges(self.status.failed_indexes))

    @property
    def ended(self) -> tuple[range, ...]:
        """Indices of which a Job makes no pod any more."""
        return (*_index_ranges(self.status.failed_indexes), *_index_ranges(self.status.completed_indexes))

    @property
    def ray_pods(self) -> int | None:
        """Pods of a RayCluster that hold GPUs; ``None`` = it is none, or claims them, or says no number of GPUs."""
        spec = self.spec
        groups = [
            (group.template, group.replicas * group.num_of_hosts * (not group.suspend))
            for group in spec.worker_group_specs or ()
        ]
        groups += [(spec.head_group_spec.template, 1)] if spec.head_group_spec is not None else []
        with suppress(ValueError):
            if not any(template.spec.resource_claims for template, _ in groups):
                return sum(pods for template, pods in groups if template.spec.gpus) or None
        return None

    def pods_with(self, gpus: int) -> int | None:
        """Return how many of a PodGroup's pods hold so many GPUs each, as its minimum counts those without too.

        ``None`` = its resources do not say it: they name no GPUs, or those of no number of pods below the minimum.
        """
        with suppress(ValueError):
            needed = gpus_among(self.spec.min_resources) or 0
            if gpus and needed and needed % gpus == 0 and needed // gpus < (self.spec.min_member or 0):
                return needed // gpus
        return None

    @property
    def without_gpus(self) -> bool:
        """Whether its template is known to ask for no GPUs."""
        template = self.spec.template
        with suppress(ValueError):
            return template is not None and not template.spec.resource_claims and not template.spec.gpus
        return False

    @property
    def one_by_one(self) -> str:
        """Why it makes no pod before others have started, and what to set, one sentence; empty = it makes all."""
        spec, name = self.spec, f"{self.kind} {self.metadata.name}"
        if self.kind == "StatefulSet" and spec.pod_management_policy == "OrderedReady":
            return (
                f"{name} makes a pod when the one before is ready: set podManagementPolicy: Parallel, and make it anew"
            )
        parallelism = 1 if spec.parallelism is None else spec.parallelism
        if self.kind == "Job" and spec.completions is not None and parallelism < spec.completions:
            return f"{name} runs {parallelism} of {spec.completions} at a time: set parallelism: {spec.completions}"
        return ""


@lru_cache(64)  # every pod of a Job asks
def _index_ranges(text: str) -> tuple[range, ...]:
    """Return the ranges of ``1,3-5``; what is none is passed over."""
    bounds = re.findall(r"\b([0-9]{1,9})(?:-([0-9]{1,9}))?\b", text)
    return tuple(range(int(first), int(last or first) + 1) for first, last in bounds)


class _BudgetSpec(Object, frozen=True):
    selector: LabelSelector | None = None


class _BudgetStatus(Object, frozen=True):
    disruptions_allowed: int = 0


class DisruptionBudget(Object, frozen=True):
    """A PodDisruptionBudget: how many of the pods that it selects may be evicted now."""

    metadata: Metadata = Metadata()
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()

    def selects(self, pod: Pod) -> bool:
        """Return whether a pod of its namespace is meant."""
        return self.spec.selector is not None and self.spec.selector.selects(pod.labels)


class NamespaceObject(Object, frozen=True):
    """A namespace of Kubernetes."""

    metadata: Metadata = Metadata()

    @property
    def weight(self) -> float:
        """Its weight where namespaces share, 1 unless said, or raise ``InvalidInput``: the annotation is no weight."""
        text = (self.metadata.annotations or {}).get(FAIR_SHARE_WEIGHT)
        return 1.0 if text is None else read_weight(text)


def with_claims(owner: Owner, counted: Callable[[PodSpec], PodSpec]) -> Owner:
    """Return a maker of pods with the claims counted in each of its templates."""
    jobs = owner.spec.replicated_jobs or ()
    if not any(job.template.spec.template.spec.resource_claims for job in jobs):
        return owner
    replicated = []
    for job in jobs:
        job_spec = job.template.spec
        template = replace(job_spec.template, spec=counted(job_spec.template.spec))
        replicated.append(replace(job, template=replace(job.template, spec=replace(job_spec, template=template))))
    return replace(owner, spec=replace(owner.spec, replicated_jobs=replicated))


READ = frozenset((*ANNOTATIONS_READ, *NAMES, FAIR_SHARE_WEIGHT, NODE))  # annotations that mean something
_MOST_TEXT = {**MOST_TEXT, KUEUE_SLICES: 4_096}  # a list of levels
MOST_LABELS = 64  # labels that stay beside those of peers and ours: a reservation may select pods by any


def trim(meta: Metadata) -> None:
    """Drop from the metadata of an object just decoded, in place, what is not to be kept."""
    if meta.annotations:
        # A dictionary keeps its room when keys go: a new one.
        kept = {key: _kept(key, text) for key, text in meta.annotations.items() if key in READ}
        unread = (key for key in meta.annotations if key not in READ and WISH.match(key))
        kept |= {cut(key, LONGEST_KEY): "" for key in islice(unread, 8)}
        force_setattr(meta, "annotations", kept or None)
    if meta.labels and len(meta.labels) > MOST_LABELS:
        named = {key: text for key, text in meta.labels.items() if key in NAMES or key.startswith(f"{GROUP}/")}
        others = ((key, text) for key, text in meta.labels.items() if key not in named)
        force_setattr(meta, "labels", dict(islice(named.items(), MOST_LABELS)) | dict(islice(others, MOST_LABELS)))
    if meta.owner_references:
        owner = next((owner for owner in meta.owner_references if owner.controller), None)
        if owner is not None:
            kind, name, uid = (cut(text, LONGEST_KEY) for text in (owner.kind, owner.name, owner.uid))
            owner = OwnerReference(kind=kind, name=name, uid=uid, controller=True)
        force_setattr(meta, "owner_references", None if owner is None else [owner])


def _kept(key: str, text: str) -> str:
    return _one_copy(cut(text, _MOST_TEXT.get(key, LONGEST_KEY)))


@lru_cache(256)  # the pods of a gang mostly come together
def _one_copy(text: str) -> str:
    """Return a text, the same object for all that say the same."""
    return text


class _Versioned(Object, frozen=True):
    metadata: Metadata = Metadata()


_versioned = msgspec.json.Decoder(_Versioned)
_decoders: dict[type, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (Pod, NodeObject, Owner, NamespaceObject, DisruptionBudget, *ALLOCATION_KINDS)
}


def _decode(raw: bytes | dict[str, Any], kind: type[_Kind]) -> _Kind:
    """Return an object from JSON, read or unread, or raise ``InvalidInput``: none of that kind."""
    try:
        decoded = _decoders[kind].decode(raw) if isinstance(raw, bytes) else msgspec.convert(raw, kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        fix = "send the object as the API server writes it"
        raise InvalidInput(f"not a {kind.__name__} of Kubernetes: {error}", fix=fix) from None
    if isinstance(decoded, Pod | Owner | NamespaceObject | DisruptionBudget):
        trim(decoded.metadata)
    if isinstance(decoded, Pod):
        for box in (*(decoded.spec.containers or ()), *(decoded.spec.init_containers or ())):
            force_setattr(box, "image", _kept("", box.image))  # of a name that is too long no node has an image
    elif isinstance(decoded, AllocationObject):
        for name in ("annotations", "labels", "owner_references"):  # nothing but what tells it from others is read
            force_setattr(decoded.metadata, name, None)
    return decoded


def decode_version(raw: bytes) -> str:
    """Return the version of any object."""
    return _versioned.decode(raw).metadata.resource_version


decode_pod = partial(_decode, kind=Pod)
decode_node = partial(_decode, kind=NodeObject)


def decode_owner(raw: bytes | dict[str, Any], kind: str = "") -> Owner:
    """Return a maker of pods, or raise ``InvalidInput``.

    :param kind: of one that does not say it, as in the API server's lists of its own kinds.
    """
    owner = _decode(raw, kind=Owner)
    force_setattr(owner, "kind", owner.kind or kind)
    if owner.kind != "StatefulSet":
        force_setattr(owner.spec, "template", None)
    return owner


decode_budget = partial(_decode, kind=DisruptionBudget)
decode_namespace = partial(_decode, kind=NamespaceObject)
decode_allocation = {kind.__name__: partial(_decode, kind=kind) for kind in ALLOCATION_KINDS}
