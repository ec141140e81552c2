"""A live Kubernetes cluster as the live page shows it."""

from datetime import UTC, datetime

import numpy as np

from arnold.pages.live_page import LiveGang, LiveLook, LiveReservation
from extender.cluster_cache import ClusterCache
from extender.plans.gang_plan import GangPlan
from extender.service.followed_cluster import FollowedCluster
from ground.quantities import percent
from scheduler.job import Job
from topology.cluster import Cluster
from topology.node_gpus import GPUS
from topology.taints import Toleration, kept_out_by, untolerated

TOLERATED = tuple(Toleration(gpu, "Exists") for gpu in GPUS)  # of the taints of GPU nodes all gangs put up with


class KubernetesSource(FollowedCluster):
    """A cluster that is followed by its API server."""

    def look(self) -> LiveLook:
        """Return what there is."""
        now = datetime.now(UTC)
        cache = self.cache
        tree = cluster_now(cache, now)
        promised = () if tree is None else (tree.names[i] for i in np.flatnonzero(cache.fleet.occupancy.promised))
        holders = {name: str(key) for name in promised if (key := cache.fleet.promised_to(name)) is not None}
        problems = [f"{problem.message}. To fix: {problem.fix}" for problem in cache.fleet.problems if not problem.node]
        return LiveLook(
            cluster=tree,
            holders=holders,
            gangs=[live_gang(cache, plan) for _, plan in sorted(cache.plans.items())],
            reservations=[
                LiveReservation(
                    name=str(key),
                    phase=str(held.phase),
                    begin=held.ask.arrives.timestamp(),
                    end=held.expires.timestamp(),
                    nodes=len(held.zone) or (job.grid.cells if isinstance(job := held.understanding, Job) else None),
                    others=held.held_by_others,
                    message=_in_line(held.message),
                )
                for key, held in sorted(cache.reservations.items())
            ],
            notes=[*self.absent, *problems],
        )


def cluster_now(cache: ClusterCache, now: datetime) -> Cluster | None:
    """Return the nodes as they are for a gang that asks for nothing but GPUs; what is promised is free still."""
    view = cache.fleet.view(frozenset(), now, counted=frozenset()).cluster
    if view is None:
        return None
    hosts = [cache.fleet.host(name) for name in view.names]
    repelled = {
        i: why
        for i, host in enumerate(hosts)
        if host is not None and host.repelling and (why := kept_out_by(untolerated(host.repelling, TOLERATED)))
    }
    view = view.with_kept_out(repelled)
    return view.replace(free_gpus=cache.fleet.occupancy.free.copy())


def live_gang(cache: ClusterCache, plan: GangPlan) -> LiveGang:
    """Return a gang as its plan has it; when it came is known as long as it has pods."""
    gang = cache.gang(plan.key)
    healthy = plan.condition("Healthy")
    ill = [healthy.message] if healthy is not None and healthy.status == "False" else []
    return LiveGang(
        name=str(plan.key),
        phase=str(plan.phase),
        gpus=plan.spec.gpus or None,
        pods=f"{plan.bound_pods}/{plan.size}" if plan.size else "",
        placed=plan.holding,
        priority=plan.spec.priority,
        since=None if gang is None else gang.created.timestamp(),
        spread=plan.spread,
        objective=plan.objective,
        proof="" if plan.gap is None else f"gap {percent(plan.gap)}" if plan.gap else "proved",
        message="; ".join([*ill, *filter(None, [_in_line(plan.message)])]),
    )


def _in_line(message: str) -> str:
    return "; ".join(filter(None, message.split("\n")))
