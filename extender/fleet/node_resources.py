"""What nodes have left besides GPUs, updated pod by pod, and which nodes cannot hold the pods of a gang.

Kubernetes' own checks (``NodeResourcesFit``, ``NodePorts``), made before a plan instead of after: allocatable minus
what the pods that are bound there ask for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extender.fleet.pod_requests import PODS, HostPort, PodRequest, clash, in_words, request_of
from topology.cluster import BoolArray, IntArray
from topology.kubernetes.pods import Pod

_STAYING = ("DaemonSet", "Node")  # makers of pods that come back to the node where they were: no wait frees their share


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod on a node, and what it takes of it."""

    node: str
    request: PodRequest
    staying: bool  # whether it belongs to the node and leaves only with it


@dataclass(frozen=True, slots=True, eq=False)
class Shortage:
    """Nodes that lack something of what pods ask."""

    why: str  # after "nodes", in words
    rows: BoolArray  # shape [nodes]
    passing: bool  # whether it is there when the others on the node are gone


class NodeResources:
    """What pods take of each node, and what is left in columns, one for each resource that was asked for."""

    def __init__(self) -> None:
        self._tenants: dict[str, Tenant] = {}  # by the pod's UID
        self._held: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._staying: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._ports: defaultdict[str, Counter[HostPort]] = defaultdict(Counter)
        self._offers: Sequence[Mapping[str, int]] = ()
        self._names: Sequence[str] = ()
        self._free: dict[str, npt.NDArray[np.int64]] = {}
        self._lasting: dict[str, npt.NDArray[np.int64]] = {}

    def put(self, pod: Pod, node: str) -> bool:
        """Take in a pod that is bound to a node, and return whether anything is another than before."""
        maker = pod.owner
        new = Tenant(node, request_of(pod), maker is not None and maker.kind in _STAYING)
        if self._tenants.get(pod.uid) == new:
            return False
        self.drop(pod.uid)
        self._tenants[pod.uid] = new
        self._add(new, 1)
        return True

    def drop(self, uid: str) -> str | None:
        """Drop a pod that is gone or has ended, and return its node; ``None`` = it was on none."""
        if (old := self._tenants.pop(uid, None)) is None:
            return None
        self._add(old, -1)
        return old.node

    def place(self, names: Sequence[str], offers: Sequence[Mapping[str, int]]) -> None:
        """Take other nodes as rows, with what each offers; all are counted when they are asked for."""
        self._names, self._offers = names, list(offers)
        self._free.clear()
        self._lasting.clear()

    def recount(self, row: int, offer: Mapping[str, int]) -> None:
        """Count one row anew."""
        assert isinstance(self._offers, list)
        self._offers[row] = offer
        for name, column in self._free.items():
            column[row], self._lasting[name][row] = self._left(row, name)

    def shortages(self, request: PodRequest, pods: IntArray) -> Iterator[Shortage]:
        """Yield what nodes lack for so many pods each.

        :param pods: shape [nodes], pods of the gang that would share each node, at least one.
        """
        several = pods > 1
        if several.any() and (request.alone or request.ports):
            why = "that several of its pods would share, which may not be on one node"
            yield Shortage(why, several, passing=False)
        for name, amount in request.amounts:
            free, lasting = self._column(name)
            for count in np.unique(pods).tolist():
                here, wanted = pods == count, _wanted(name, amount, count)
                never = here & (lasting // count < amount)
                yield Shortage(f"with less than {wanted}", never, passing=False)
                yield Shortage(f"with less than {wanted} free", here & (free // count < amount) & ~never, passing=True)
        if request.ports:
            taken = [self._taken(self._ports.get(name), request.ports) for name in self._names]
            for port in sorted({port for port in taken if port is not None}):
                rows = np.array([one == port for one in taken], dtype=np.bool_)
                yield Shortage(f"whose host port {port} is taken", rows, passing=True)

    def lacking(
        self, node: str, offer: Mapping[str, int], request: PodRequest, *, pods: int, own: Iterable[str]
    ) -> str:
        """Return what others leave too little of on one node for some pods; empty = nothing.

        :param own: UIDs of pods that are not others.
        """
        if node not in self._held:
            return ""
        others, ports = Counter(self._held[node]), Counter(self._ports.get(node))
        for uid in own:
            if (tenant := self._tenants.get(uid)) is not None and tenant.node == node:
                others.subtract(dict(tenant.request.amounts))
                ports.subtract(tenant.request.ports)
        for name, amount in request.amounts:
            if others[name] > 0 and offer.get(name, 0) - others[name] < amount * pods:
                return f"others leave less than {_wanted(name, amount, pods)}"
        taken = self._taken(+ports, request.ports)
        return "" if taken is None else f"host port {taken} is taken"

    def _add(self, tenant: Tenant, sign: int) -> None:
        for name, amount in tenant.request.amounts:
            self._held[tenant.node][name] += sign * amount
            if tenant.staying:
                self._staying[tenant.node][name] += sign * amount
        for port in tenant.request.ports:
            self._ports[tenant.node][port] += sign
        if sign < 0 and not self._held[tenant.node][PODS]:
            for counts in (self._held, self._staying, self._ports):
                counts.pop(tenant.node, None)

    def _column(self, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return what is left of a resource on each row, now and when all pods that may leave are gone."""
        if name not in self._free:
            left = np.array([self._left(row, name) for row in range(len(self._names))], dtype=np.int64).reshape(-1, 2)
            self._free[name], self._lasting[name] = left[:, 0].copy(), left[:, 1].copy()
        return self._free[name], self._lasting[name]

    def _left(self, row: int, name: str) -> tuple[int, int]:
        node, offer = self._names[row], self._offers[row].get(name, 0)
        held, staying = self._held.get(node), self._staying.get(node)
        return (
            max(0, offer - (0 if held is None else held[name])),
            max(0, offer - (0 if staying is None else staying[name])),
        )

    @staticmethod
    def _taken(held: Counter[HostPort] | None, wanted: Sequence[HostPort]) -> int | None:
        """Return the number of the first port that another pod has; ``None`` = none."""
        if not held or not wanted:
            return None
        taken = (port for port, count in held.items() if count > 0)
        return min((port[2] for port in taken if any(clash(port, one) for one in wanted)), default=None)


def _wanted(name: str, amount: int, pods: int) -> str:
    if name == PODS:
        return f"{amount * pods} place{'s' * (amount * pods > 1)} for pods"
    return in_words(name, amount) if pods == 1 else f"{pods} x {in_words(name, amount)}"
