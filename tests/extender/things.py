"""Nodes, pods and gangs as the API server writes them, for the tests of the extender."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from extender.cluster_cache import ClusterCache
from extender.gangs.types import Gang, GangKey
from extender.objects import decode_node, decode_pod
from extender.planner.round import PlanningRound
from extender.planner.solve import Answer, answer_to
from extender.plans.reservation import Reservation, decode_reservation
from scheduler.placement.types import Limits
from scheduler.queue.policy import QueuePolicy
from topology.kubernetes.objects import NodeObject
from topology.kubernetes.pods import Pod

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINIPOD, RACK = "example.com/minipod", "example.com/rack"
SPACE = "team"
LIMITS = Limits(seconds=5.0, workers=1)
GRID = {"arnold.dev/parallelism": "tp=8,pp=2,dp=4", "arnold.dev/alpha": "0.7"}  # eight nodes of 8 GPUs

Json = dict[str, Any]


def uid(name: str) -> str:
    """The UID of the pod of that name."""
    return str(uuid5(NAMESPACE_DNS, name))


def key(name: str) -> GangKey:
    """A gang of the namespace that all tests use."""
    return GangKey(SPACE, name)


def missing(gang: Gang) -> tuple[int, ...]:
    """Ranks without a pod that need one; empty while ranks are not known."""
    return tuple(rank for rank, member in enumerate(gang.members) if member is None and rank not in gang.done)


def pod_json(
    name: str,
    *,
    gpus: int | str = 8,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node: str | None = None,
    phase: str = "Pending",
    gate: bool = False,
    owner: tuple[str, str] | None = None,
    leaving: bool = False,
    created: str = "2026-11-21T11:00:00Z",
    asks: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A pod.

    :param owner: kind and name of its controller.
    :param asks: resources besides GPUs.
    :param spec: further fields of its spec.
    """
    kind, owner_name = owner or ("", "")
    amounts = {"cpu": "1", **(asks or {})} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    metadata: Json = {
        "name": name,
        "namespace": SPACE,
        "uid": uid(name),
        "resourceVersion": "1",
        "creationTimestamp": created,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    if owner:
        metadata["ownerReferences"] = [{"kind": kind, "name": owner_name, "uid": uid(owner_name), "controller": True}]
    if leaving:
        metadata["deletionTimestamp"] = "2026-11-21T11:30:00Z"
    gates = {"schedulingGates": [{"name": "arnold.dev/gang"}]} if gate else {}
    bound = {"nodeName": node} if node else {}
    containers = [{"name": "c", "image": "i", "resources": {"limits": amounts, "requests": amounts}}]
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "arnold", "containers": containers, **gates, **bound, **spec},
        "status": {"phase": phase},
    }


def pod(name: str, **more: Any) -> Pod:
    """A pod, decoded; see :func:`pod_json`."""
    return decode_pod(pod_json(name, **more))


def member_json(gang: str, rank: int, size: int, annotations: Mapping[str, str] | None = None, **more: Any) -> Json:
    """A pod with the labels and annotations of the contract."""
    return pod_json(
        more.pop("name", f"{gang}-{rank}"),
        labels={"arnold.dev/gang": gang, "arnold.dev/rank": str(rank), **more.pop("labels", {})},
        annotations={"arnold.dev/gang-size": str(size), **(annotations or {})},
        gate=more.pop("gate", True),
        **more,
    )


def gang_pods(gang: str, size: int, annotations: Mapping[str, str] | None = None, **more: Any) -> list[Pod]:
    """All pods of a gang."""
    return [decode_pod(member_json(gang, rank, size, annotations, **more)) for rank in range(size)]


def node_json(name: str, minipod: str = "mp0", rack: str = "r0", *, gpus: int = 8, **more: Any) -> Json:
    """A node that is Ready.

    :param more: ``labels``, ``annotations``, ``taints``, ``unschedulable``, ``ready``, ``conditions``, ``allocatable``,
        and ``offers``: resources besides GPUs.
    """
    labels = {MINIPOD: minipod, RACK: rack} if more.get("labels") is None else more["labels"]
    others = {"cpu": "192", "memory": "1Ti", "pods": "110", **more.get("offers", {})}
    amount = others | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    allocatable = others | {"nvidia.com/gpu": str(more["allocatable"])} if "allocatable" in more else amount
    ready = {"type": "Ready", "status": more.get("ready", "True"), "lastTransitionTime": "2026-11-21T11:59:00Z"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": uid(name), "labels": labels, "annotations": more.get("annotations", {})},
        "spec": {"unschedulable": more.get("unschedulable", False), "taints": more.get("taints", [])},
        "status": {
            "capacity": amount,
            "allocatable": allocatable,
            "conditions": [ready, *more.get("conditions", [])],
        },
    }


def node(name: str, minipod: str = "mp0", rack: str = "r0", **more: Any) -> NodeObject:
    """A node, decoded; see :func:`node_json`."""
    return decode_node(node_json(name, minipod, rack, **more))


def minipods(*sizes: int, **more: Any) -> list[NodeObject]:
    """Nodes ``m0-0``, ``m0-1``, ... of minipods of these sizes, four to a rack."""
    return [node(f"m{m}-{i}", f"mp{m}", f"mp{m}r{i // 4}", **more) for m, size in enumerate(sizes) for i in range(size)]


def state_of(nodes: Iterable[NodeObject], pods: Iterable[Pod] = (), *, levels: list[str] | None = None) -> ClusterCache:
    """What the cache knows after seeing these."""
    state = ClusterCache(levels or [MINIPOD, RACK])
    for one in nodes:
        state.put_node(one)
    for each in pods:
        state.put_pod(each)
    return state


def gang_of(state: ClusterCache, name: str) -> Gang:
    """A gang that must be there."""
    gang = state.gang(key(name))
    assert gang is not None
    return gang


def reservation_json(name: str = "llm", *, hours: float = 4.0, status: Json | None = None, **spec: Any) -> Json:
    """A reservation that arrives so many hours from now, made now."""
    arrives = (NOW + timedelta(hours=hours)).isoformat().replace("+00:00", "Z")
    return {
        "apiVersion": "arnold.dev/v1alpha1",
        "kind": "CapacityReservation",
        "metadata": {
            "name": name,
            "namespace": SPACE,
            "uid": uid(f"reservation {name}"),
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-21T12:00:00Z",
        },
        "spec": {"arrives": arrives, **spec},
        "status": status or {},
    }


def reserve(state: ClusterCache, *zone: str, name: str = "llm", **more: Any) -> Reservation:
    """A reservation with a zone that is held, in the cache; see :func:`reservation_json`."""
    status = {"phase": "Held", "zone": list(zone), "spread": {"dp": 1, "pp": 1}, "objective": 1.0}
    made = decode_reservation(reservation_json(name, status=status, nodes=len(zone), **more))
    state.put_reservation(made)
    return made


def plan_all(state: ClusterCache, *, now: datetime = NOW, policy: QueuePolicy | None = None) -> dict[str, Answer]:
    """One round of planning, every plan put into the state; the answers in the order of the questions."""
    answers = {}
    round_ = PlanningRound(policy=policy)
    while (question := round_.next(state, now)) is not None:
        answer = answer_to(question, LIMITS)
        if not question.case.stops_others:
            state.put_plan(answer.plan)
            answers[answer.key.name] = answer
        round_.tell(answer)
    return answers
