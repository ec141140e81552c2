"""Names of the labels and annotations of other projects that say what belongs together, in which order, and how near.

Names as of JobSet 0.12, LeaderWorkerSet 0.9, Kubeflow Training Operator 1.9 and Trainer 2 (which makes JobSets),
Kueue 0.19, Volcano 1.15, KAI 0.13, KubeRay 1.7, Grove 0.1, Kubernetes 1.36.
"""

import re

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
KUEUE_SLICES = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
# ask for nothing that a gang has not anyway
KUEUE_UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
KUEUE_PODSETS = "kueue.x-k8s.io/podset-group-name"

VOLCANO_GROUP = "scheduling.k8s.io/group-name"
VOLCANO_TASK = "volcano.sh/task-spec"
VOLCANO_INDEX = "volcano.sh/task-index"
VOLCANO_MODE = "volcano.sh/network-topology-mode"
VOLCANO_TIER = "volcano.sh/network-topology-highest-tier"
VOLCANO_TIER_LABEL = f"{VOLCANO_TIER}-allowed"

KAI_GROUP = "pod-group-name"
KAI_REQUIRED = "kai.scheduler/topology-required-placement"
KAI_PREFERRED = "kai.scheduler/topology-preferred-placement"
KAI_SEGMENT = "kai.scheduler/segment-topology-required-placement"
KAI_SEGMENT_PREFERRED = "kai.scheduler/segment-topology-preferred-placement"
KAI_SEGMENT_SIZE = "kai.scheduler/segment-size"
KAI_TOPOLOGY = "kai.scheduler/topology"  # which object names the levels: here --levels does

RAY_CLUSTER = "ray.io/cluster"
RAY_TYPE = "ray.io/node-type"
RAY_GROUP = "ray.io/group"
RAY_REPLICA = "ray.io/worker-group-replica-index"
RAY_HOST = "ray.io/replica-host-index"

GROVE_CLIQUE = "grove.io/podclique"
GROVE_INDEX = "grove.io/podclique-pod-index"

# All of these, and what names of wishes for a place look like, those that are yet to be made too.
WISH = re.compile(
    r"kueue\.x-k8s\.io/podset-|kai\.scheduler/.*(?:topology|segment)|volcano\.sh/.*topology"
    r"|(?:.*\.)?(?:jobset|leaderworkerset)\.sigs\.k8s\.io/.*topology"
)
NAMES = frozenset(text for name, text in tuple(globals().items()) if name.isupper() and isinstance(text, str))

# Roles with pods that come before the workers.
FIRST_ROLES = frozenset({"chief", "head", "launcher", "leader", "master"})
