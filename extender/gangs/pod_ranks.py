"""Where a pod's controller puts it among the pods of its gang.

One number is the rank itself.  Several are compared in order when all pods are there: the jobs of a JobSet need not be
of one size, and the workers of Kubeflow come after however many masters there are.  The jobs of a JobSet with one
template are of one size, so there the rank is known at once: job x pods of a job + completion index.
"""

from __future__ import annotations

from extender.gangs import dialects as d
from extender.gangs.gang_annotations import parse_whole
from extender.gangs.types import InvalidGang
from extender.kubernetes_names import RANK
from topology.readers.kubernetes_pods import Pod


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
        kind = labels.get(d.KUBEFLOW_TYPE, "").lower()
        return (int(kind not in d.FIRST_ROLES), _number(pod, d.KUBEFLOW_INDEX, labels[d.KUBEFLOW_INDEX]))
    if (task := labels.get(d.VOLCANO_INDEX, annotations.get(d.VOLCANO_INDEX))) is not None:
        role = labels.get(d.VOLCANO_TASK, annotations.get(d.VOLCANO_TASK, "")).lower()
        return (int(role not in d.FIRST_ROLES), _number(pod, d.VOLCANO_INDEX, task))
    if labels.get(d.RAY_TYPE) == "head":
        return (0, 0, 0)
    if d.RAY_REPLICA in labels:
        host = labels.get(d.RAY_HOST, "0")
        return (1, _number(pod, d.RAY_REPLICA, labels[d.RAY_REPLICA]), _number(pod, d.RAY_HOST, host))
    for key in (completion, d.KUEUE_INDEX, d.POD_INDEX):
        if (text := labels.get(key, annotations.get(key))) is not None:
            return (_number(pod, key, text),)
    return None


def equal_parts(pod: Pod) -> int | None:
    """Return how many jobs of one size the gang has: those of a JobSet with one template; ``None`` = unknown."""
    labels = pod.labels
    replicas = labels.get(d.JOBSET_REPLICAS)
    if RANK in labels or replicas is None or labels.get(d.JOBSET_GLOBAL_REPLICAS) != replicas:
        return None
    return parse_whole(replicas) or None


def numbered_by(pod: Pod) -> str:
    """Return the UID of the controller that numbers the pod: a pod that another one made is of another run.

    Where our label numbers the pod it is empty, for then every pod may have a controller of its own.
    """
    if RANK in pod.labels or d.LWS_WORKER in pod.labels or pod.owner is None:
        return ""
    return pod.labels.get(d.JOBSET_UID) or pod.owner.uid


def _number(pod: Pod, key: str, text: str | None) -> int:
    number = parse_whole(text)
    if number is None:
        shown = "missing" if text is None else repr(text[:40])
        fix = f"number the pods of a gang from 0 with the label {RANK}, or use a controller that numbers its pods"
        raise InvalidGang.of_pod(pod, f"pod {pod.name}: {key} is {shown}", reason="InvalidRank", fix=fix)
    return number
