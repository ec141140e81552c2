"""What is followed of a cluster, each kind of object that the cache holds; and a cluster followed by one that decides
nothing: a copy as the extender has it, and when it was last true.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import time
from typing import Any

from extender.cluster_api import client
from extender.cluster_api.client import ClusterApi, ClusterError, Resource
from extender.cluster_api.connect import WhichCluster, find_cluster
from extender.cluster_api.flow import FlowControl
from extender.cluster_api.reflector import Reflector
from extender.cluster_cache import ClusterCache
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


KNOCK_SECONDS = 2.0  # between two questions whether the API server is there: a dead watch would say nothing for 90 s
KNOCK_PATIENCE = 5.0  # seconds in which it must answer


class FollowedCluster:
    """Nodes, pods, plans and reservations as last seen.

    :param levels: node labels from broad to close; ``None`` = those of the preset that most nodes carry.
    :param domains: second hierarchies: name, with its ``@`` -> the label of the nodes' domains.
    """

    def __init__(self, which: WhichCluster, levels: Sequence[str] | None, domains: Mapping[str, str]) -> None:
        self._which = which
        self.cache = ClusterCache(levels, domains=domains)
        self.name = "kube:"  # and the context, once it is known
        self.seen: float | None = None  # when it was as the cache has it, seconds since 1970; None = it never was
        self.changes = 0  # of which the cache heard
        self._reflectors: Sequence[Reflector[Any]] = ()
        self._unanswered: ClusterError | None = None

    @property
    def lost(self) -> str:
        """Why what is cached may be out of date; empty = it is not."""
        if self._unanswered is not None:
            return self._unanswered.message
        problems = (f"{of.resource.plural}: {of.problem.message}" for of in self._reflectors if of.problem is not None)
        return next(problems, "" if self.synced else "it is being read")

    @property
    def synced(self) -> bool:
        """Whether every kind of object was listed once."""
        return bool(self._reflectors) and all(reflector.synced for reflector in self._reflectors)

    @property
    def absent(self) -> list[str]:
        """What is taken for none though it may be there: not listed to this user, or no kind where Arnold needs one."""
        absent = [(of.resource, of.absent) for of in self._reflectors if of.absent is not None]
        hidden = [str(kind) for kind, why in absent if why.status == 403]
        missing = [str(kind) for kind, why in absent if why.status == 404 and kind.group == client.GANGPLANS.group]
        notes = {
            "This user may not list and watch, so that they are taken for none: ": hidden,
            "The cluster has no such kinds, which Arnold's manifests define: ": missing,
        }
        return [why + ", ".join(kinds) for why, kinds in notes.items() if kinds]

    async def follow(self) -> None:
        """Follow the cluster for ever, through all that can happen to it; raise ``InvalidKubeconfig``."""
        credentials = await find_cluster(self._which.kubeconfig, context=self._which.context)
        flow = FlowControl(rate=50, burst=50, parallel=8)
        async with ClusterApi(credentials.configuration, flow=flow, context=credentials.context) as api:
            renewing = () if credentials.renew_token is None else (credentials.renew_token(),)
            await asyncio.gather(self.follow_by(api), *renewing)

    async def follow_by(self, api: ClusterApi) -> None:
        """Follow it by a connection that stands."""
        self.name, stores = f"kube:{api.context or 'in-cluster'}", Stores(self.cache)
        self._reflectors = make_reflectors(api, stores, changed=self._heard, decides=False)
        await asyncio.gather(*(each.run() for each in self._reflectors), self._knock_again(api))

    def _heard(self) -> None:
        self.changes += 1
        if not self.lost:
            self.seen = time()

    async def _knock_again(self, api: ClusterApi) -> None:
        while True:
            await self.knock(api)
            await asyncio.sleep(KNOCK_SECONDS)

    async def knock(self, api: ClusterApi) -> None:
        """Ask the API server whether it is there, and take note of it."""
        asked = time()
        try:
            async with asyncio.timeout(KNOCK_PATIENCE):
                await api.read("/version")
            self._unanswered = None
        except TimeoutError:
            self._unanswered = client.Unreachable(f"the API server has not answered for {KNOCK_PATIENCE:g} s")
        except ClusterError as error:
            # one that lets us not read this is there nevertheless
            self._unanswered = None if isinstance(error, client.Refused) and error.status == 403 else error
        if not self.lost:
            self.seen = asked
