"""The kinds of objects that the cache follows, and whether it can be trusted: filled, and heard of lately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from extender.cluster_api.client import ALLOCATION, NAMESPACES, NODES, PODS, ClusterApi, Resource
from extender.cluster_api.reflector import Reflector
from extender.controller.api_writer import GANGPLANS, HISTORIES, RESERVATIONS
from extender.controller.object_store import Stores, decode_own_plan
from extender.objects import decode_allocation, decode_namespace, decode_node, decode_owner, decode_pod
from extender.plans.gang_history import decode_history
from extender.plans.reservation import decode_reservation

OWNERS = (
    Resource("batch", "v1", "jobs", "Job"),
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    # Native groups are alpha, and each release has had its own version.
    Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup"),
    Resource("scheduling.k8s.io", "v1alpha3", "podgroups", "PodGroup"),
    Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"),
    Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"),
)
"""Makers of pods, and groups of them, which say how many belong together; a cluster need not have them."""

STALE_SECONDS = 60.0  # a kind whose list and watch have failed for so long is out of date


def make_reflectors(
    api: ClusterApi, stores: Stores, *, changed: Callable[[], None], sharing: bool
) -> list[Reflector[Any]]:
    """Return what keeps each kind in the cache up to date.

    :param sharing: whether the queue policy asks for the weights of namespaces.
    """
    weighed = [Reflector(api, NAMESPACES, decode=decode_namespace, sink=stores.namespaces, changed=changed)]
    return [
        *(weighed if sharing else ()),
        Reflector(api, NODES, decode=decode_node, sink=stores.nodes, changed=changed),
        *(
            Reflector(api, kind, decode=decode_owner, sink=stores.owners(), changed=changed, optional=True)
            for kind in OWNERS
        ),
        *(
            Reflector(
                api,
                kind,
                decode=decode_allocation[kind.kind],
                sink=stores.allocation(),
                changed=changed,
                optional=True,
                missed=", so that GPUs by ResourceClaim are not counted",
            )
            for kind in ALLOCATION
        ),
        Reflector(api, PODS, decode=decode_pod, sink=stores.pods, changed=changed),
        Reflector(api, GANGPLANS, decode=decode_own_plan, sink=stores.plans, changed=changed),
        Reflector(
            api, RESERVATIONS, decode=decode_reservation, sink=stores.reservations, changed=changed, optional=True
        ),
        Reflector(api, HISTORIES, decode=decode_history, sink=stores.histories, changed=changed, optional=True),
    ]


class Readiness:
    """What probes ask, and every answer before it is given."""

    def __init__(self, reflectors: Sequence[Reflector[Any]], *, clock: Callable[[], float]) -> None:
        self._reflectors = tuple(reflectors)
        self._clock = clock
        self._failing_since: dict[Reflector[Any], float] = {}

    def synced(self) -> bool:
        """Return whether every kind has been listed once."""
        return all(reflector.synced for reflector in self._reflectors)

    def reasons(self) -> list[str]:
        """Return why the cache cannot be trusted, one sentence each; empty = it can."""
        found = []
        now = self._clock()
        for reflector in self._reflectors:
            name = reflector.resource.plural
            if (problem := reflector.problem) is None:
                self._failing_since.pop(reflector, None)
            since = now if problem is None else self._failing_since.setdefault(reflector, now)
            why = "" if problem is None else f": {problem.message}"
            if not reflector.synced:
                found.append(f"{name} are not listed yet{why}")
            elif now - since >= STALE_SECONDS:
                found.append(f"{name} may be out of date{why}")
        return found
