"""One pod: which gang it belongs to, by our label or by those of other systems, and what these ask of the network.

A gang is named by our label, or by whatever else says that pods belong together.  Some of that is said for a gang alone
(a PodGroup of any API, but for one whose policy is ``basic``); controllers like Job, JobSet or StatefulSet make pods
that need not start together, and their pods are a gang only when they ask for it: by our gate, or by an annotation
``gang-size`` or ``parallelism``.  A pod that says ``gang-size`` 1, and is in no group, is a gang of its own, whoever
made it.

A pod without GPUs is no member: launchers, drivers and initialisers of a job go where they like.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from msgspec.structs import replace as copied

from extender import dialect_names as d
from extender.gangs.annotations import ANNOTATIONS, parse_whole
from extender.gangs.types import GangKey, GangMember, GangRequest, InvalidGang, TopologyRequest
from extender.kubernetes_names import GANG, GANG_SIZE, GATE, PARALLELISM, RANK
from extender.objects import Owner, SchedulingPolicy
from extender.texts import LONGEST, clip, short_name, size_of
from topology.kubernetes.pods import Pod

ALONE = "alone"  # The dialect of pods that are a gang each
Owners = Mapping[str, Owner]
"""Makers of pods, and PodGroups, that are known: by UID and by ``kind/namespace/name``; none need be."""


def recognise(pod: Pod, owners: Owners, before: GangMember | None = None) -> GangMember | None:
    """Return the gang a pod belongs to, and its place there; ``None`` = none.

    :param before: what the pod was when last seen, with the same owners: most news are of its status, or that it is
        bound, which ends no membership.
    """
    if before is not None and before.pod.node in (None, pod.node):
        # all that it is recognised by is as it was, the node aside that it is bound to
        meta, spec = before.pod.metadata, before.pod.spec
        news = {"resource_version": meta.resource_version, "deletion_timestamp": meta.deletion_timestamp}
        if copied(pod.spec, node_name=spec.node_name) == spec and copied(pod.metadata, **news) == meta:
            return replace(before, pod=pod)
    # A pod that a controller made by the number is to start with the others if it says so by an annotation or by our
    # gate; a mark is what its release leaves of the gate.  Releases of versions before the mark left the pin alone:
    # that is believed of a pod which is there already, and gains nothing by it.
    together = GANG_SIZE in pod.annotations or PARALLELISM in pod.annotations or pod.gated_by(GATE) or pod.released
    together = together or (pod.node is not None and pod.pin == pod.node)
    form = next((form for form in _forms(pod, owners) if form.declared or together), None)
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
    # what peers' dialects ask, on the pod, on its maker, in its PodGroup
    maker = owners.get(pod.owner.uid) if pod.owner is not None else None
    annotations = pod.annotations if maker is None else {**(maker.metadata.annotations or {}), **pod.annotations}
    requests = (*requests_of(annotations, pod.labels), *(() if form.group is None else requests_of_group(form.group)))
    index, alone = None, form.dialect == ALONE
    completion = parse_whole(pod.labels.get(d.COMPLETION_INDEX, pod.annotations.get(d.COMPLETION_INDEX)))
    size = form.size
    try:
        index = (0,) if alone else index_of(pod)
        if index is not None and not alone and RANK not in pod.labels and _leader_without_gpus(pod, owners):
            index, size = (index[0] - 1,), None if size is None else size - 1
    except InvalidGang as error:
        problem = problem or error
    by_job = maker is not None and maker.kind == "Job" and index == (completion,) and RANK not in pod.labels
    return GangMember(
        key=GangKey(pod.namespace, name),
        pod=pod,
        dialect=form.dialect,
        asked=GangRequest(**{name: pod.annotations.get(key) for name, key in ANNOTATIONS.items()}, requests=requests),
        index=index,
        numbered_by=numbering_controller(pod),
        parts=None if alone else equal_parts(pod, owners),
        size=size,
        gpus=gpus,
        given_up=maker is not None and completion is not None and maker.has_failed(completion),
        ended=maker.ended if by_job and maker is not None else (),
        stalls="" if maker is None else maker.one_by_one,
        problem=problem,
    )


def _leader_without_gpus(pod: Pod, owners: Owners) -> bool:
    """Return whether a worker of a LeaderWorkerSet has a leader that is no member, as it asks for no GPUs."""
    name, worker = pod.labels.get(d.LWS_NAME), pod.labels.get(d.LWS_WORKER)
    leaders = owners.get(f"StatefulSet/{pod.namespace}/{name}") if worker not in (None, "0") else None
    return leaders is not None and leaders.without_gpus


def group_of(pod: Pod) -> GangKey:
    """Return what a pod belongs to, gang or not: what names its gang, or else its controller, or itself."""
    form = next(_forms(pod, {}), None)
    owner = pod.name if pod.owner is None else pod.owner.name
    return GangKey(pod.namespace, short_name(owner if form is None else form.name))


def _invalid(pod: Pod, reason: str, message: str, fix: str) -> InvalidGang:
    return InvalidGang.of_pod(pod, f"pod {pod.name} {message}", reason=reason, fix=fix)


@dataclass(frozen=True, slots=True)
class _Form:
    """One way in which a pod names its gang; ``declared`` when it is said for gangs alone."""

    dialect: str
    name: str
    declared: bool = False
    size: int | None = None
    group: Owner | None = None


def _forms(pod: Pod, owners: Owners) -> Iterator[_Form]:
    """Yield the ways in which a pod names gangs, the most telling first."""
    labels, annotations = pod.labels, pod.annotations
    controlled = tuple(_controlled(pod, owners))
    if name := labels.get(GANG):
        yield _Form("arnold", name, True, controlled[0].size if controlled else None)
    native = tuple(_native(pod, owners))
    yield from (form for form in native if form.declared)
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
    yield from (form for form in native if not form.declared)


def _native(pod: Pod, owners: Owners) -> Iterator[_Form]:
    """Yield the groups of Kubernetes itself; one whose policy is ``basic`` declares no gang."""
    spec = pod.spec
    if spec.scheduling_group is not None and (name := spec.scheduling_group.pod_group_name):
        form = _grouped("native-pod-group", pod, name, owners)
        policy = None if form.group is None else form.group.spec.scheduling_policy
        yield form if policy is None or policy.basic is None else replace(form, declared=False)
    if (ref := spec.workload_ref) is not None and ref.name:
        # Three names that are each short enough may be too long together; that is no mistake of its writer.
        name = short_name("-".join(part for part in (ref.name, ref.pod_group, ref.pod_group_replica_key) if part))
        workload = owners.get(f"Workload/{pod.namespace}/{ref.name}")
        groups = () if workload is None else workload.spec.pod_groups or ()
        policy = next((group.policy for group in groups if group.name == ref.pod_group), SchedulingPolicy())
        yield _Form("native-workload", name, policy.basic is None, policy.size)


def _controlled(pod: Pod, owners: Owners) -> Iterator[_Form]:
    """Yield the controllers that make pods by the number; all of them leave labels."""
    labels = pod.labels
    if (name := labels.get(d.LWS_NAME)) and (group := labels.get(d.LWS_GROUP)):
        yield _Form("lws", f"{name}-{group}", size=parse_whole(pod.annotations.get(d.LWS_SIZE)))
    if name := labels.get(d.JOBSET_NAME):
        jobset, size = _jobset(pod, owners), None
        if jobset is not None:
            with suppress(ValueError):
                size = sum(job.pods for job in jobset.spec.replicated_jobs or ()) or None  # pods with GPUs
        yield _Form("jobset", name, size=size)
    if name := labels.get(d.KUBEFLOW_JOB):
        yield _Form("kubeflow", name)
    owner = pod.owner
    controller = None if owner is None else owners.get(owner.uid)
    if name := labels.get(d.RAY_CLUSTER):
        yield _Form("kuberay", name, size=None if controller is None else controller.ray_pods)
    if owner is None:
        return
    if owner.kind == "Job" and (d.COMPLETION_INDEX in labels or d.COMPLETION_INDEX in pod.annotations):
        yield _Form("job", owner.name, size=controller.spec.completions if controller else None)
    if owner.kind == "StatefulSet":
        yield _Form("statefulset", owner.name, size=controller.spec.replicas if controller else None)


def _jobset(pod: Pod, owners: Owners) -> Owner | None:
    labels = pod.labels
    return owners.get(labels.get(d.JOBSET_UID, "")) or owners.get(f"JobSet/{pod.namespace}/{labels.get(d.JOBSET_NAME)}")


def _grouped(dialect: str, pod: Pod, name: str, owners: Owners) -> _Form:
    """Return a pod of a PodGroup: ``schedulingPolicy.gang.minCount`` of the native one, ``minMember`` of the others.

    That of a Volcano Job is called after the Job and its UID, and says the resources of all its pods.
    """
    group = owners.get(f"PodGroup/{pod.namespace}/{name}")
    if group is None:
        return _Form(dialect, name, True)
    policy = group.spec.scheduling_policy
    size = group.spec.min_member if policy is None or policy.size is None else policy.size
    if pod.owner is not None and name == f"{pod.owner.name}-{pod.owner.uid}":
        size = group.pods_with(pod.readable_gpus) or size
    return _Form(dialect, name, True, size, group)


_SMALL = re.compile(r"[0-9]{1,6}")


def requests_of(annotations: Mapping[str, str], labels: Mapping[str, str]) -> tuple[TopologyRequest, ...]:
    """Return what the annotations of peers ask of the network, so that their manifests mean here what they meant there.

    - Kueue, KAI: the whole gang lies inside one domain of a required level; domains of a preferred one count.
    - Kueue slices of one size or several, KAI segments, LeaderWorkerSet subgroups: each so many consecutive ranks lie
      inside one domain.
    - LeaderWorkerSet ``exclusive-topology``: the whole group does.  That no other shares the domain is not enforced by
      plans; the anti-affinity that LeaderWorkerSet adds to the pods does it.
    - Volcano, hard mode: the whole gang lies inside one domain of the k-th closest level.  Its soft mode names no level
      and asks for nothing that Arnold does not do anyway.

    Hard ones that cannot be read, or that no version of these projects was known to have, say why they are not heeded.
    """
    requests = []
    for key, hard, size_key in (
        (d.KUEUE_REQUIRED, True, None),
        (d.KUEUE_PREFERRED, False, None),
        (d.KUEUE_SLICE, True, d.KUEUE_SLICE_SIZE),
        (d.KAI_REQUIRED, True, None),
        (d.KAI_PREFERRED, False, None),
        (d.KAI_SEGMENT, True, d.KAI_SEGMENT_SIZE),
        (d.KAI_SEGMENT_PREFERRED, False, None),
        (d.LWS_EXCLUSIVE, True, None),
        (d.LWS_SUBGROUP_EXCLUSIVE, True, d.LWS_SUBGROUP_SIZE),
    ):
        if level := annotations.get(key):
            size = None if size_key is None else _small(annotations.get(size_key, ""))
            if size_key is None or size:
                requests.append(TopologyRequest(level, hard, key, slice_size=size))
            else:
                requests.append(_unread(key, f"{size_key} says no number of pods"))
    if (text := annotations.get(d.KUEUE_SLICES)) is not None:
        requests += _slices(text)
    tier = annotations.get(d.VOLCANO_TIER, labels.get(d.VOLCANO_TIER_LABEL, ""))
    if annotations.get(d.VOLCANO_MODE, labels.get(d.VOLCANO_MODE)) == "hard":
        requests.append(_in_tier(_small(tier), d.VOLCANO_TIER))
    requests += (_unread(key, "not known") for key in annotations if key not in d.NAMES and d.WISH.match(key))
    return tuple(requests)


def _small(text: str) -> int:
    return int(text) if _SMALL.fullmatch(text) else 0


def _slices(text: str) -> Iterator[TopologyRequest]:
    """Yield what Kueue's list of levels asks, each with the size of its slices."""
    try:
        layers = [(layer["topology"], layer["size"]) for layer in json.loads(text)]
    except (ValueError, TypeError, KeyError, RecursionError):
        layers = [("", 0)]
    for level, size in layers:
        if isinstance(level, str) and level and type(size) is int and size > 0:
            yield TopologyRequest(level, True, d.KUEUE_SLICES, slice_size=size)
        else:
            yield _unread(d.KUEUE_SLICES, "no list of a topology and a size each")


def _unread(source: str, why: str) -> TopologyRequest:
    return TopologyRequest(None, True, source, unread=why)


def _in_tier(tier: int, source: str) -> TopologyRequest:
    return TopologyRequest(None, True, source, tier=tier) if tier > 0 else _unread(source, "names no tier by number")


def requests_of_group(group: Owner) -> tuple[TopologyRequest, ...]:
    """Return the requests in a PodGroup of Kubernetes or of Volcano: the whole gang lies inside one domain."""
    constraints, volcano = group.spec.scheduling_constraints, group.spec.network_topology
    topology = (constraints.topology or ()) if constraints is not None else ()
    requests = [TopologyRequest(level.key, True, "schedulingConstraints.topology") for level in topology if level.key]
    if volcano is not None and volcano.mode == "hard":
        requests.append(_in_tier(volcano.highest_tier_allowed or 0, "networkTopology.highestTierAllowed"))
    parts = [part.network_topology for part in group.spec.sub_group_policy or ()]
    if any(part is not None and part.mode == "hard" for part in parts):
        requests.append(_unread("subGroupPolicy.networkTopology", "parts of a gang are not planned by it"))
    return tuple(requests)


def index_of(pod: Pod) -> tuple[int, ...] | None:
    """Return the pod's number, or numbers; ``None`` = nothing numbers it.

    Our label comes first, then the labels of controllers, outer ones before those of the Jobs and StatefulSets that
    they are made of.

    :raises InvalidGang: a label that should be a number is none.
    """
    labels, annotations = pod.labels, pod.annotations
    completion = d.COMPLETION_INDEX
    if RANK in labels:
        return (_number(pod, RANK, labels[RANK]),)
    if d.LWS_WORKER in labels:
        return (_number(pod, d.LWS_WORKER, labels[d.LWS_WORKER]),)
    if (job := labels.get(d.JOBSET_GLOBAL_JOB, labels.get(d.JOBSET_JOB))) is not None:
        inner = labels.get(completion, annotations.get(completion))
        return (_number(pod, d.JOBSET_JOB, job), _number(pod, completion, inner))
    if d.KUBEFLOW_INDEX in labels:
        return _in_role(labels.get(d.KUBEFLOW_TYPE, ""), _number(pod, d.KUBEFLOW_INDEX, labels[d.KUBEFLOW_INDEX]))
    if (task := labels.get(d.VOLCANO_INDEX, annotations.get(d.VOLCANO_INDEX))) is not None:
        role = labels.get(d.VOLCANO_TASK, annotations.get(d.VOLCANO_TASK, ""))
        return _in_role(role, _number(pod, d.VOLCANO_INDEX, task))
    if labels.get(d.RAY_TYPE) == "head":
        return (0, 0, 0, 0)
    if d.RAY_REPLICA in labels:
        group, host = _ordinal(labels.get(d.RAY_GROUP, "")), labels.get(d.RAY_HOST, "0")
        return (1, group, _number(pod, d.RAY_REPLICA, labels[d.RAY_REPLICA]), _number(pod, d.RAY_HOST, host))
    if d.GROVE_INDEX in labels:
        return (_ordinal(labels.get(d.GROVE_CLIQUE, "")), _number(pod, d.GROVE_INDEX, labels[d.GROVE_INDEX]))
    for key in (completion, d.KUEUE_INDEX, d.POD_INDEX):
        if (text := labels.get(key, annotations.get(key))) is not None:
            return (_number(pod, key, text),)
    return None


def equal_parts(pod: Pod, owners: Owners) -> int | None:
    """Return how many jobs of one size the gang has: those of a JobSet with one template; ``None`` = unknown.

    The labels say how many it had when the pod was made.
    """
    labels = pod.labels
    replicas = labels.get(d.JOBSET_REPLICAS)
    if RANK in labels or replicas is None or labels.get(d.JOBSET_GLOBAL_REPLICAS) != replicas:
        return None
    jobset = _jobset(pod, owners)
    jobs = () if jobset is None else jobset.spec.replicated_jobs or ()
    return (jobs[0].replicas if len(jobs) == 1 else parse_whole(replicas)) or None


def numbering_controller(pod: Pod) -> str:
    """Return the UID of the controller that numbers the pod, and so its run; empty where our label numbers it."""
    if RANK in pod.labels or d.LWS_WORKER in pod.labels or pod.owner is None:
        return ""
    return pod.labels.get(d.JOBSET_UID) or pod.owner.uid


def _in_role(role: str, number: int) -> tuple[int, ...]:
    """Return numbers by which masters and their like come first, then roles by the alphabet, each with its pods."""
    role = role.lower()
    return (int(role not in d.FIRST_ROLES), _ordinal(role), number)


def _ordinal(name: str) -> int:
    """Return a number by which names of roles are in the order of the alphabet; a label has at most 63 bytes."""
    return int.from_bytes(name.encode()[:63].ljust(63, b"\0"))


def _number(pod: Pod, key: str, text: str | None) -> int:
    number = parse_whole(text)
    if number is None:
        shown = "missing" if text is None else repr(text[:40])
        fix = f"number the pods of a gang from 0 with the label {RANK}, or use a controller that numbers its pods"
        raise InvalidGang.of_pod(pod, f"pod {pod.name}: {key} is {shown}", reason="InvalidRank", fix=fix)
    return number
