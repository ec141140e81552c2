"""What is followed of a cluster: each kind of object that the cache holds, as long as the process runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from extender.cluster_api import client
from extender.cluster_api.client import ClusterApi, Resource
from extender.cluster_api.reflector import Reflector
from extender.controller.store import Stores, decode_own_plan
from extender.objects import decode_allocation, decode_budget, decode_namespace, decode_node, decode_owner, decode_pod
from extender.plans.gang_history import decode_history
from extender.plans.reservation import decode_reservation

OWNERS = (
    Resource("batch", "v1", "jobs", "Job"),
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    Resource("jobset.x-k8s.io", "", "jobsets", "JobSet"),
    Resource("ray.io", "", "rayclusters", "RayCluster"),
    Resource("scheduling.k8s.io", "", "podgroups", "PodGroup"),
    Resource("scheduling.k8s.io", "", "workloads", "Workload"),
    Resource("scheduling.x-k8s.io", "", "podgroups", "PodGroup"),
    Resource("scheduling.volcano.sh", "", "podgroups", "PodGroup"),
)
"""Makers of pods, and groups of them, which say how many belong together; a cluster need not have them, and those that
are young have had a version for each release.
"""


def make_reflectors(
    api: ClusterApi,
    stores: Stores,
    *,
    changed: Callable[[], None],
    decides: bool = True,
    sharing: bool = False,
    evicts: bool = False,
) -> list[Reflector[Any]]:
    """Return what keeps each kind in the cache up to date.

    :param decides: whether gangs are planned by it; else it is looked at, also where Arnold is not installed.
    :param sharing: whether the queue policy asks for the weights of namespaces.
    :param evicts: whether gangs preempt, so that disruption budgets matter.
    """
    follow, missed = partial(Reflector[Any], api, changed=changed), ", so that GPUs by ResourceClaim are not counted"
    decoders = [(kind, decode_allocation[kind.kind]) for kind in client.ALLOCATION]
    return [
        *([follow(client.NAMESPACES, decode=decode_namespace, sink=stores.namespaces)] if sharing else ()),
        *([follow(client.BUDGETS, decode=decode_budget, sink=stores.budgets)] if evicts else ()),
        follow(client.NODES, decode=decode_node, sink=stores.nodes),
        *(
            follow(resource, decode=partial(decode_owner, kind=resource.kind), sink=stores.owners(), optional=True)
            for resource in OWNERS
            if decides
        ),
        *(follow(kind, decode=of, sink=stores.allocation(), optional=True, missed=missed) for kind, of in decoders),
        follow(client.PODS, decode=decode_pod, sink=stores.pods),
        follow(client.GANGPLANS, decode=decode_own_plan, sink=stores.plans, optional=not decides),
        follow(client.RESERVATIONS, decode=decode_reservation, sink=stores.reservations, optional=True),
        *([follow(client.HISTORIES, decode=decode_history, sink=stores.histories, optional=True)] if decides else ()),
    ]
