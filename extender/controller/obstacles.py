"""Why a rank that is not bound cannot have its node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from extender.fleet.eligibility import Demand, demands_of
from extender.fleet.fleet import Fleet
from extender.fleet.hosts import Host
from extender.gangs.types import Gang
from extender.texts import counted


class Vacancy(str):
    """What stands for the node of a rank without one, in a plan read off pods; no node has a space in its name."""

    __slots__ = ()

    def __new__(cls, rank: int) -> Vacancy:
        """Return the vacancy of a rank."""
        return super().__new__(cls, f"rank {rank}")


@dataclass(frozen=True)
class Obstacles:
    """What stands between a gang and the nodes of its plan."""

    fleet: Fleet
    gang: Gang
    gpus: int  # GPUs of each pod of the gang
    now: datetime
    lost: timedelta  # how long a node may be not Ready before it is lost

    def at(self, node: str) -> tuple[str, datetime | None]:
        """Return why a rank not bound cannot have a node, empty = it can, and when a node not Ready will be lost."""
        if isinstance(node, Vacancy):
            return f"{node} has no node", None
        until: datetime | None = None
        host = self.fleet.host(node)
        if why := self.fleet.ailing(node, self.now):
            since = None if host is None else host.ready_since
            until = None if since is None else since + self.lost
            if until is None or self.now >= until:
                return f"node {node}: {why}", None
        owner = self.fleet.promised_to(node)
        if owner is not None and owner != self.gang.key:
            return f"node {node} is promised to gang {owner}", None
        if host is not None and host.cordoned:
            return f"node {node}: cordoned", None
        if host is not None and host.repelling and (key := repelling_taint(host, self._demands)) is not None:
            return f"node {node}: taint {key}, which the pods do not tolerate", None
        if others := self.fleet.held(node) - self._own_gpus[node]:
            room = 0 if host is None else host.allocatable - others
            if room < self.gpus:
                return f"node {node}: {counted(others, 'GPU')} in use by pods that are not of the gang", None
        return "", until

    @cached_property
    def _demands(self) -> frozenset[Demand]:
        return demands_of(member.pod for member in self.gang.members if member is not None)

    @cached_property
    def _own_gpus(self) -> Counter[str]:
        """GPUs that the gang's own pods hold, by node; those before the present ones among them."""
        held: Counter[str] = Counter()
        for pod in self.gang.pods:
            if pod.node is not None and not pod.terminal:
                held[pod.node] += pod.readable_gpus
        return held


def repelling_taint(host: Host, demands: Iterable[Demand]) -> str | None:
    """Return the key of a taint that keeps some pods away; those of Kubernetes itself repeat conditions."""
    taints = [taint for taint in host.repelling if not taint.key.startswith("node.kubernetes.io/")]
    pods = tuple(demands) if taints else ()
    return next((taint.key for taint in taints if not all(demand.tolerates(taint) for demand in pods)), None)
