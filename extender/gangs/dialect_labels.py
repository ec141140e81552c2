"""The labels and annotations in which other projects say what belongs together, in which order, and how near.

Names as of JobSet 0.12, LeaderWorkerSet 0.9, Kubeflow Training Operator 1.9 and Trainer 2 (which makes JobSets),
Kueue 0.15, Volcano 1.14, KAI 0.10, KubeRay 1.5, Kubernetes 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from extender.gangs.types import TopologyRequest

if TYPE_CHECKING:  # objects are decoded with the names that are told here
    from extender.objects import Owner

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
POD_INDEX = "apps.kubernetes.io/pod-index"

JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
JOBSET_JOB = "jobset.sigs.k8s.io/job-index"
JOBSET_GLOBAL_JOB = "jobset.sigs.k8s.io/job-global-index"
JOBSET_REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"
JOBSET_GLOBAL_REPLICAS = "jobset.sigs.k8s.io/global-replicas"

LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"
LWS_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
LWS_SUBGROUP_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
LWS_SUBGROUP_SIZE = "leaderworkerset.sigs.k8s.io/subgroup-size"

KUBEFLOW_JOB = "training.kubeflow.org/job-name"
KUBEFLOW_TYPE = "training.kubeflow.org/replica-type"
KUBEFLOW_INDEX = "training.kubeflow.org/replica-index"

POD_GROUP = "scheduling.x-k8s.io/pod-group"

KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_COUNT = "kueue.x-k8s.io/pod-group-total-count"
KUEUE_INDEX = "kueue.x-k8s.io/pod-group-pod-index"
KUEUE_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
KUEUE_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
KUEUE_SLICE = "kueue.x-k8s.io/podset-slice-required-topology"
KUEUE_SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"

VOLCANO_GROUP = "scheduling.k8s.io/group-name"
VOLCANO_TASK = "volcano.sh/task-spec"
VOLCANO_INDEX = "volcano.sh/task-index"
VOLCANO_MODE = "volcano.sh/network-topology-mode"
VOLCANO_TIER = "volcano.sh/network-topology-highest-tier"
VOLCANO_TIER_LABEL = f"{VOLCANO_TIER}-allowed"

KAI_GROUP = "pod-group-name"
KAI_REQUIRED = "kai.scheduler/topology-required-placement"
KAI_PREFERRED = "kai.scheduler/topology-preferred-placement"

RAY_CLUSTER = "ray.io/cluster"
RAY_TYPE = "ray.io/node-type"
RAY_REPLICA = "ray.io/worker-group-replica-index"
RAY_HOST = "ray.io/replica-host-index"

# All of these.
NAMES = frozenset(text for name, text in tuple(globals().items()) if name.isupper() and isinstance(text, str))

# Roles with pods that come before the workers.
FIRST_ROLES = frozenset({"chief", "head", "launcher", "leader", "master"})


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
