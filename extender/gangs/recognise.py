"""One pod: which gang it belongs to, by our label or by those of other systems, and what these ask of the network.

A gang is named by our label, or by whatever else says that pods belong together.  Some of that is said for a gang alone
(a PodGroup of any API); controllers like Job, JobSet or StatefulSet make pods that need not start together, and their
pods are a gang only when they ask for it: by our gate, or by an annotation ``gang-size`` or ``parallelism``.  A pod
that says ``gang-size`` 1, and is in no group, is a gang of its own, whoever made it.

A pod without GPUs is no member: launchers, drivers and initialisers of a job go where they like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from msgspec.structs import replace as copied

from extender import dialect_names as d
from extender.dialect_names import (
    KAI_PREFERRED,
    KAI_REQUIRED,
    KUEUE_PREFERRED,
    KUEUE_REQUIRED,
    KUEUE_SLICE,
    KUEUE_SLICE_SIZE,
    LWS_EXCLUSIVE,
    LWS_SUBGROUP_EXCLUSIVE,
    LWS_SUBGROUP_SIZE,
    VOLCANO_MODE,
    VOLCANO_TIER,
    VOLCANO_TIER_LABEL,
)
from extender.gangs.annotations import asked_by, parse_whole
from extender.gangs.assembly import equal_parts, index_of, numbered_by
from extender.gangs.types import GangKey, GangMember, InvalidGang, TopologyRequest
from extender.kubernetes_names import GANG, GANG_SIZE, GATE, PARALLELISM
from extender.objects import Owner
from extender.texts import LONGEST, clip, short_name, size_of
from topology.kubernetes.pods import Pod

# -- dialect_requests --
# What the labels and annotations of other projects ask: what belongs together, in which order, and how near.


_SMALL = re.compile(r"[0-9]{1,6}")


def requests_of(annotations: Mapping[str, str], labels: Mapping[str, str]) -> tuple[TopologyRequest, ...]:
    """Return what the annotations of peers ask of the network, so that their manifests mean here what they meant there.

    - Kueue, KAI: the whole gang lies inside one domain of a required level; domains of a preferred one count.
    - Kueue slices, LeaderWorkerSet subgroups: each so many consecutive ranks lie inside one domain.
    - LeaderWorkerSet ``exclusive-topology``: the whole group does.  That no other shares the domain is not enforced by
      plans; the anti-affinity that LeaderWorkerSet adds to the pods does it.
    - Volcano, hard mode: the whole gang lies inside one domain of the k-th closest level.  Its soft mode names no level
      and asks for nothing that Arnold does not do anyway.

    Requests that make no sense are left out.
    """
    found = [
        TopologyRequest(level, hard, key, slice_size=_slice(annotations, size_key))
        for key, hard, size_key in (
            (KUEUE_REQUIRED, True, None),
            (KUEUE_PREFERRED, False, None),
            (KUEUE_SLICE, True, KUEUE_SLICE_SIZE),
            (KAI_REQUIRED, True, None),
            (KAI_PREFERRED, False, None),
            (LWS_EXCLUSIVE, True, None),
            (LWS_SUBGROUP_EXCLUSIVE, True, LWS_SUBGROUP_SIZE),
        )
        if (level := annotations.get(key)) and (size_key is None or _slice(annotations, size_key))
    ]
    mode = annotations.get(VOLCANO_MODE, labels.get(VOLCANO_MODE))
    tier = annotations.get(VOLCANO_TIER, labels.get(VOLCANO_TIER_LABEL, ""))
    if mode == "hard" and _SMALL.fullmatch(tier) and int(tier):
        found.append(TopologyRequest(None, True, VOLCANO_TIER, tier=int(tier)))
    return tuple(found)


def requests_of_group(group: Owner) -> tuple[TopologyRequest, ...]:
    """Return the requests in a PodGroup of Kubernetes or of Volcano: the whole gang lies inside one domain."""
    constraints, volcano = group.spec.scheduling_constraints, group.spec.network_topology
    topology = (constraints.topology or ()) if constraints is not None else ()
    found = [TopologyRequest(one.key, True, "schedulingConstraints.topology") for one in topology if one.key]
    if volcano is not None and volcano.mode == "hard" and (volcano.highest_tier_allowed or 0) > 0:
        found.append(
            TopologyRequest(None, True, "networkTopology.highestTierAllowed", tier=volcano.highest_tier_allowed)
        )
    return tuple(found)


def _slice(annotations: Mapping[str, str], key: str | None) -> int | None:
    text = annotations.get(key, "") if key else ""
    return int(text) or None if _SMALL.fullmatch(text) else None


# -- recognise --
# One pod: which gang it belongs to, by our label or by those of other systems.
#
# A gang is named by our label, or by whatever else says that pods belong together.  Some of that is said for a gang
# alone (a PodGroup of any API); controllers like Job, JobSet or StatefulSet make pods that need not start together, and
# their pods are a gang only when they ask for it: by our gate, or by an annotation ``gang-size`` or ``parallelism``.  A
# pod that says ``gang-size`` 1, and is in no group, is a gang of its own, whoever made it.
#
# A pod without GPUs is no member: launchers, drivers and initialisers of a job go where they like.


ALONE = "alone"  # The dialect of pods that are a gang each

Owners = Mapping[str, Owner]
"""Makers of pods, and PodGroups, that are known: by UID and by ``kind/namespace/name``; none need be."""


@dataclass(frozen=True, slots=True)
class _Form:
    """One way in which a pod names its gang; ``declared`` when it is said for gangs alone."""

    dialect: str
    name: str
    declared: bool = False
    size: int | None = None
    group: Owner | None = None


def recognise(pod: Pod, owners: Owners, before: GangMember | None = None) -> GangMember | None:
    """Return the gang a pod belongs to, and its place there; ``None`` = none.

    :param before: what the pod was when last seen, with the same owners: most news are of its status, or that it is
        bound, which ends no membership.
    """
    if before is not None and _same_words(pod, before.pod):
        return replace(before, pod=pod)
    form = next((form for form in _forms(pod, owners) if form.declared or _asks(pod)), None)
    if form is None:
        return None
    name = short_name(form.name)
    problem = None
    if name != form.name:
        message = f"names a gang with {size_of(form.name):,} bytes, beginning with {form.name[:40]!r}"
        problem = _invalid(pod, "InvalidName", message, f"give the gang a name of at most {LONGEST} bytes")
    try:
        gpus = pod.gpus
    except ValueError as error:
        gpus = 1
        problem = problem or _invalid(pod, "InvalidGpus", clip(str(error)), "write a whole number of GPUs")
    claimed = pod.spec.claimed
    if claimed is not None and claimed.wrong:
        problem = problem or _invalid(
            pod, "InvalidClaim", f"claims devices that cannot be counted: {claimed.wrong}", claimed.fix
        )
    elif not gpus and GANG not in pod.labels:
        return None
    elif not gpus:
        ways = "nvidia.com/gpu, or a claim of a DeviceClass in --gpu-classes"
        fix = f"ask for GPUs ({ways}), or take the label {GANG} off pods that need no node of their own"
        problem = problem or _invalid(pod, "NoGpus", "asks for no GPUs", fix)
    index, alone = None, form.dialect == ALONE
    try:
        index = (0,) if alone else index_of(pod)
    except InvalidGang as error:
        problem = problem or error
    return GangMember(
        key=GangKey(pod.namespace, name),
        pod=pod,
        dialect=form.dialect,
        asked=asked_by(pod.annotations, _requests(pod, form, owners)),
        index=index,
        numbered_by=numbered_by(pod),
        parts=None if alone else equal_parts(pod),
        size=form.size,
        gpus=gpus,
        problem=problem,
    )


def _same_words(pod: Pod, before: Pod) -> bool:
    """Return whether all that a pod is recognised by is as it was, the node aside that it is bound to."""
    meta, spec = before.metadata, before.spec
    news = {"resource_version": meta.resource_version, "deletion_timestamp": meta.deletion_timestamp}
    same = before.node in (None, pod.node) and copied(pod.spec, node_name=spec.node_name) == spec
    return same and copied(pod.metadata, **news) == meta


def _asks(pod: Pod) -> bool:
    """Return whether a pod that a controller made by the number is to start with the others.

    It says so by an annotation or by our gate; a mark is what its release leaves of the gate.  Releases of versions
    before the mark left the pin alone: that is believed of a pod which is there already, and gains nothing by it.
    """
    annotations = pod.annotations
    if GANG_SIZE in annotations or PARALLELISM in annotations:
        return True
    return pod.gated_by(GATE) or pod.released or (pod.node is not None and pod.pin == pod.node)


def _forms(pod: Pod, owners: Owners) -> Iterator[_Form]:
    """Yield the ways in which a pod names gangs, the most telling first."""
    labels, annotations, spec = pod.labels, pod.annotations, pod.spec
    controlled = tuple(_controlled(pod, owners))
    if name := labels.get(GANG):
        yield _Form("arnold", name, True, controlled[0].size if controlled else None)
    if spec.scheduling_group is not None and (name := spec.scheduling_group.pod_group_name):
        yield _grouped("native-pod-group", pod, name, owners)
    if spec.workload_ref is not None and spec.workload_ref.name:
        parts = (spec.workload_ref.name, spec.workload_ref.pod_group, spec.workload_ref.pod_group_replica_key)
        # Three names that are each short enough may be too long together; that is no mistake of its writer.
        yield _Form("native-workload", short_name("-".join(part for part in parts if part)), True)
    if name := labels.get(d.POD_GROUP):
        yield _grouped("pod-group", pod, name, owners)
    if name := labels.get(d.KUEUE_GROUP):
        yield _Form("kueue", name, True, parse_whole(annotations.get(d.KUEUE_COUNT)))
    if name := annotations.get(d.VOLCANO_GROUP):
        yield _grouped("volcano", pod, name, owners)
    if name := annotations.get(d.KAI_GROUP):
        yield _grouped("kai", pod, name, owners)
    if annotations.get(GANG_SIZE) == "1":
        yield _Form(ALONE, pod.name, True)
    yield from controlled


def _controlled(pod: Pod, owners: Owners) -> Iterator[_Form]:
    """Yield the controllers that make pods by the number; all of them leave labels."""
    labels = pod.labels
    if (name := labels.get(d.LWS_NAME)) and (group := labels.get(d.LWS_GROUP)):
        yield _Form("lws", f"{name}-{group}", size=parse_whole(pod.annotations.get(d.LWS_SIZE)))
    if name := labels.get(d.JOBSET_NAME):
        yield _Form("jobset", name, size=_jobset_size(pod, name, owners))
    if name := labels.get(d.KUBEFLOW_JOB):
        yield _Form("kubeflow", name)
    if name := labels.get(d.RAY_CLUSTER):
        yield _Form("kuberay", name)
    owner = pod.owner
    if owner is None:
        return
    known = owners.get(owner.uid)
    if owner.kind == "Job" and (d.COMPLETION_INDEX in labels or d.COMPLETION_INDEX in pod.annotations):
        yield _Form("job", owner.name, size=known.spec.completions if known else None)
    if owner.kind == "StatefulSet":
        yield _Form("statefulset", owner.name, size=known.spec.replicas if known else None)


def _grouped(dialect: str, pod: Pod, name: str, owners: Owners) -> _Form:
    """Return a pod of a PodGroup: ``schedulingPolicy.gang.minCount`` of the native one, ``minMember`` of the others."""
    group = owners.get(f"PodGroup/{pod.namespace}/{name}")
    if group is None:
        return _Form(dialect, name, True)
    policy = group.spec.scheduling_policy
    native = policy.gang.min_count if policy is not None and policy.gang is not None else None
    return _Form(dialect, name, True, native if native is not None else group.spec.min_member, group)


def _requests(pod: Pod, form: _Form, owners: Owners) -> tuple[TopologyRequest, ...]:
    """Return what peers' dialects ask, on the pod, on its maker, in its PodGroup."""
    maker = owners.get(pod.owner.uid) if pod.owner is not None else None
    annotations = pod.annotations if maker is None else {**(maker.metadata.annotations or {}), **pod.annotations}
    of_group = () if form.group is None else requests_of_group(form.group)
    return (*requests_of(annotations, pod.labels), *of_group)


def _jobset_size(pod: Pod, name: str, owners: Owners) -> int | None:
    """Return the number of pods with GPUs of a JobSet."""
    jobset = owners.get(pod.labels.get(d.JOBSET_UID, "")) or owners.get(f"JobSet/{pod.namespace}/{name}")
    if jobset is None:
        return None
    try:
        return sum(job.pods for job in jobset.spec.replicated_jobs or ()) or None
    except ValueError:
        return None


def _invalid(pod: Pod, reason: str, message: str, fix: str) -> InvalidGang:
    return InvalidGang.of_pod(pod, f"pod {pod.name} {message}", reason=reason, fix=fix)
