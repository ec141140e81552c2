"""What makes pods by the number and says how many belong together; and objects of the API server, decoded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from extender.kept_fields import shorten_images, strip, trim
from extender.kubernetes_names import FAIR_SHARE_WEIGHT
from ground.errors import InvalidInput
from scheduler.queue.fair_share import read_weight
from topology.kubernetes.claim_table import ALLOCATION_KINDS
from topology.kubernetes.objects import AllocationObject, Metadata, NodeObject, Object
from topology.kubernetes.pods import Pod, PodSpec

_Kind = TypeVar("_Kind", bound=Object)


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


class _GangPolicy(Object, frozen=True):
    min_count: int | None = None


class _SchedulingPolicy(Object, frozen=True):
    gang: _GangPolicy | None = None


class _NetworkTopology(Object, frozen=True):
    mode: str = ""
    highest_tier_allowed: int | None = None


class _TopologyConstraint(Object, frozen=True):
    key: str = ""


class _SchedulingConstraints(Object, frozen=True):
    topology: list[_TopologyConstraint] | None = None


class OwnerSpec(Object, frozen=True):
    """What the makers of pods say about their number and their place, each kind in its own fields.

    Job: completions; JobSet: replicatedJobs; StatefulSet: replicas; native PodGroup: schedulingPolicy and
    schedulingConstraints; PodGroup of sig-scheduling and of Volcano: minMember, of Volcano also networkTopology.
    """

    completions: int | None = None
    replicas: int | None = None
    replicated_jobs: list[ReplicatedJob] | None = None
    scheduling_policy: _SchedulingPolicy | None = None
    scheduling_constraints: _SchedulingConstraints | None = None
    min_member: int | None = None
    network_topology: _NetworkTopology | None = None


class Owner(Object, frozen=True):
    """An object that says how many pods belong together: Job, JobSet, StatefulSet or a PodGroup of any API."""

    kind: str = ""
    metadata: Metadata = Metadata()
    spec: OwnerSpec = OwnerSpec()


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
    return replace(owner, spec=replace(owner.spec, replicated_jobs=[_with_claims(job, counted) for job in jobs]))


def _with_claims(job: ReplicatedJob, counted: Callable[[PodSpec], PodSpec]) -> ReplicatedJob:
    job_spec = job.template.spec
    template = replace(job_spec.template, spec=counted(job_spec.template.spec))
    return replace(job, template=replace(job.template, spec=replace(job_spec, template=template)))


_decoders: dict[type, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (Pod, NodeObject, Owner, NamespaceObject, *ALLOCATION_KINDS)
}


def _decode(raw: bytes | dict[str, Any], kind: type[_Kind]) -> _Kind:
    """Return an object from JSON, read or unread, or raise ``InvalidInput``: none of that kind."""
    try:
        found = _decoders[kind].decode(raw) if isinstance(raw, bytes) else msgspec.convert(raw, kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        fix = "send the object as the API server writes it"
        raise InvalidInput(f"not a {kind.__name__} of Kubernetes: {error}", fix=fix) from None
    if isinstance(found, Pod | Owner | NamespaceObject):
        trim(found.metadata)
        if isinstance(found, Pod):
            shorten_images(found.spec)
    elif isinstance(found, AllocationObject):
        strip(found.metadata)
    return found


decode_pod = partial(_decode, kind=Pod)
decode_node = partial(_decode, kind=NodeObject)
decode_owner = partial(_decode, kind=Owner)
decode_namespace = partial(_decode, kind=NamespaceObject)
decode_allocation = {kind.__name__: partial(_decode, kind=kind) for kind in ALLOCATION_KINDS}
