"""Pods, as users write them: alone, and as members of a gang."""

from __future__ import annotations

from collections.abc import Mapping

from tests.e2e.harness.client import Client, Object

NATIVE_GROUPS = {"GenericWorkload": "scheduling.k8s.io/v1alpha2"}
"""What an API server 1.36 must have on to know native PodGroups: feature -> version of its API."""
GATE = "arnold.dev/gang"
GANG = "arnold.dev/gang"
RANK = "arnold.dev/rank"


def pod(
    name: str,
    namespace: str,
    *,
    gpus: int = 8,
    scheduler: str = "default-scheduler",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    gates: tuple[str, ...] = (),
    node: str | None = None,
    priority: str | None = None,
) -> Object:
    """A pod.

    :param node: bound there from the start.
    :param priority: name of its priority class.
    """
    spec: Object = {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [container(gpus)],
    }
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    if node is not None:
        spec["nodeName"] = node
    if priority is not None:
        spec["priorityClassName"] = priority
    about = {"name": name, "namespace": namespace, "labels": dict(labels or {}), "annotations": dict(annotations or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


def priority_class(name: str, value: int) -> Object:
    """A priority class: pods of a higher one may push out pods of a lower one."""
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def container(gpus: int) -> Object:
    """A container that asks for GPUs, or for none."""
    limits = {"cpu": "1"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {"name": "train", "image": "train", "resources": {"limits": limits, "requests": limits}}


def gang(
    name: str,
    namespace: str,
    *,
    size: int,
    parallelism: str | None = None,
    annotations: Mapping[str, str] | None = None,
    gated: bool = True,
    gpus: int = 8,
    priority: str | None = None,
) -> list[Object]:
    """The pods of a gang as the user writes them by hand: gate, labels, annotations, ranks from 0 on."""
    notes = {"arnold.dev/gang-size": str(size), **(annotations or {})}
    if parallelism is not None:
        notes["arnold.dev/parallelism"] = parallelism
    return [
        pod(
            f"{name}-{rank}",
            namespace,
            gpus=gpus,
            scheduler="arnold",
            labels={GANG: name, RANK: str(rank)},
            annotations=notes,
            gates=(GATE,) if gated else (),
            priority=priority,
        )
        for rank in range(size)
    ]


def native_group(
    name: str, namespace: str, *, size: int, version: str = NATIVE_GROUPS["GenericWorkload"], basic: bool = False
) -> list[Object]:
    """A PodGroup of Kubernetes itself, which says how many there are, and its pods, ranked by our label.

    :param version: of the API.
    :param basic: its pods need not start together, and are of the cluster's own scheduler.
    """
    spec = {"schedulingPolicy": {"basic": {}} if basic else {"gang": {"minCount": size}}}
    about = {"name": name, "namespace": namespace}
    pods = [
        pod(
            f"{name}-{rank}",
            namespace,
            scheduler="default-scheduler" if basic else "arnold",
            labels={RANK: str(rank)},
            gates=() if basic else (GATE,),
        )
        for rank in range(size)
    ]
    for member in pods:
        member["spec"]["schedulingGroup"] = {"podGroupName": name}
    return [{"apiVersion": version, "kind": "PodGroup", "metadata": about, "spec": spec}, *pods]


def indexed_job(name: str, namespace: str, *, size: int, parallelism: str | None, patient: bool = False) -> Object:
    """A gang as an Indexed Job: a label and annotations in its template; the gate comes from the admission policy.

    :param parallelism: ``None`` = no annotation says it, nor the size: the gang has as many pods as its Job.
    :param patient: pods that are disrupted are no failures, and any other failure is one too many.
    """
    notes = {"arnold.dev/gang-size": str(size), "arnold.dev/parallelism": parallelism} if parallelism else {}
    template = {
        "metadata": {"labels": {GANG: name}, "annotations": notes},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container(8)]},
    }
    spec = {
        "completionMode": "Indexed",
        "completions": size,
        "parallelism": size,
        # of each index by itself: where a gang is stopped whole, its Job would wait ten minutes after as many failures
        "backoffLimitPerIndex": 1000,
        "podReplacementPolicy": "TerminatingOrFailed",
        "template": template,
    }
    if patient:
        ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        spec |= {"backoffLimitPerIndex": 0, "podFailurePolicy": {"rules": [ignored]}, "podReplacementPolicy": "Failed"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def bound(client: Client, namespace: str) -> dict[str, str]:
    """Pod -> node, of the pods of a namespace that have one."""
    return {
        thing["metadata"]["name"]: thing["spec"]["nodeName"]
        for thing in client.all("pods", namespace)
        if thing["spec"].get("nodeName")
    }


def gated(client: Client, namespace: str) -> int:
    """How many pods of a namespace wait behind a gate."""
    return sum(bool(thing["spec"].get("schedulingGates")) for thing in client.all("pods", namespace))
