"""Resources: what a pod asks of its node, what pods hold, and which nodes have too little left for those of a gang.

Counted as kube-scheduler does (``resourcehelper.PodRequests``, ``NodeResourcesFit``, ``NodePorts``), before a plan
instead of after: init containers run one after the other, sidecars beside what follows, overhead and requests of the
pod as a whole (KEP-2837) included; left is what is allocatable minus what the pods that are bound there ask for.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from extender.gangs.pod_rules import rules_of, stays_alone
from topology.cluster import BoolArray, IntArray
from topology.kubernetes.objects import Amounts, pod_gpus
from topology.kubernetes.pods import Pod, PodSpec, Resources
from topology.node_gpus import GPUS

PODS = "pods"  # resource of which each pod takes one
_SUFFIXES = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}  # powers of ten
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}  # powers of two
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30}))(?:[eE]([+-]?[0-9]{1,2})|([numkMGTPE]|[KMGTPE]i)?)"
)
_MOST = 2**60  # of any resource: sums of a node's pods stay within 64 bits
_OF_PODS = re.compile(r"cpu|memory|hugepages-.*")  # resources that a pod as a whole may ask for

_Pairs = tuple[tuple[str, Any], ...]  # Resources and quantities as written
HostPort = tuple[str, str, int]  # Address, protocol, number
_EVERY = ("", "0.0.0.0", "::")  # addresses that stand for all of a node; it binds none itself


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What one pod asks of its node, in order of names."""

    amounts: tuple[tuple[str, int], ...] = ()  # of each resource but GPUs, none of 0; CPU in thousandths
    ports: tuple[HostPort, ...] = ()
    gpus: int = 0  # that it holds of the node; 0 where what it asks for is no number
    alone: bool = False  # whether no other pod of its gang may share the node
    gpu_names: tuple[str, ...] = ()  # of the resources of GPUS that its containers ask for


NOTHING = PodRequest()


def request_of(pod: Pod) -> PodRequest:
    """Return what a pod asks of its node; a quantity that cannot be read, as no API server has it, counts as 0."""
    spec = pod.spec
    boxes, before = spec.containers or (), spec.init_containers or ()
    parts = (
        tuple([tuple(_asked(box.resources).items()) for box in boxes]),
        tuple([(tuple(_asked(box.resources).items()), box.restart_policy == "Always") for box in before]),
        tuple(_asked(spec.resources).items()),
        tuple(((spec.overhead or {}) | _devices(spec)).items()),
    )
    try:
        amounts = _total(*parts)
    except TypeError:  # a list, say, for an amount
        amounts = _total.__wrapped__(*parts)
    named = [_asked(box.resources) for box in (*boxes, *before)]
    gpu_names = tuple(name for name in GPUS if any(_amount(name, asked) for asked in named))
    exposed = [box for box in before if box.restart_policy == "Always" and box.ports]
    exposed += [box for box in boxes if box.ports]
    ports = {
        (port.host_ip if port.host_ip not in _EVERY else "", port.protocol, port.host_port)
        for box in exposed
        for port in box.ports or ()
        if port.host_port > 0
    }
    return PodRequest(amounts, tuple(sorted(ports)), pod.readable_gpus, stays_alone(pod), gpu_names)


@lru_cache(maxsize=4096)
def _total(
    boxes: tuple[_Pairs, ...], before: tuple[tuple[_Pairs, bool], ...], whole: _Pairs, overhead: _Pairs
) -> tuple[tuple[str, int], ...]:
    """Return what a pod asks for of each resource but GPUs: most pods ask for what others did."""
    main, init = [dict(box) for box in boxes], [(dict(box), sidecar) for box, sidecar in before]
    of_pod, besides = dict(whole), dict(overhead)
    names = {name for box in (*main, *(box for box, _ in init), of_pod, besides) for name in box}
    amounts = {PODS: 1}
    for name in names - {*GPUS, PODS}:
        if name in of_pod and _OF_PODS.fullmatch(name):
            amount = _amount(name, of_pod)
        else:
            early = ((_amount(name, box), sidecar) for box, sidecar in init)
            amount = pod_gpus((_amount(name, box) for box in main), early)
        amounts[name] = min(_MOST, amount + _amount(name, besides))
    return tuple((name, amount) for name, amount in sorted(amounts.items()) if amount)


def like_boxes(spec: PodSpec, other: PodSpec) -> bool:
    """Return whether two pods ask for the same, as all pods of a template do; much cheaper than to add it up."""
    if rules_of(spec) or rules_of(other):
        return False
    same = spec.containers == other.containers and spec.init_containers == other.init_containers
    same = same and spec.resources == other.resources and spec.overhead == other.overhead
    return same and _devices(spec) == _devices(other)


def _devices(spec: PodSpec) -> dict[str, int]:
    """Return the DeviceClasses that its node must have GPUs of, and how many; which are free GPUs of all kinds tell."""
    return spec.claimed.gpus if spec.claimed is not None and not spec.node_name else {}


def widest(requests: Iterable[PodRequest]) -> PodRequest:
    """Return the most that any of some pods asks of each resource, and the ports of all."""
    amounts: dict[str, int] = {}
    ports, gpus, alone, names = set[HostPort](), 0, False, set[str]()
    for request in requests:
        for name, amount in request.amounts:
            amounts[name] = max(amount, amounts.get(name, 0))
        ports.update(request.ports)
        gpus, alone = max(gpus, request.gpus), alone or request.alone
        names.update(request.gpu_names)
    return PodRequest(tuple(sorted(amounts.items())), tuple(sorted(ports)), gpus, alone, tuple(sorted(names)))


def offered(amounts: Amounts | None) -> dict[str, int]:
    """Return what a node offers to pods of each resource but GPUs, CPU in thousandths."""
    given = amounts or {}
    return {name: _amount(name, given, up=False) for name in given if name not in GPUS}


def in_words(name: str, amount: int) -> str:
    """Return an amount of a resource for people: ``500 CPU``, ``64Gi memory``, ``4 rdma/hca``."""
    if name == "cpu":
        return f"{amount / 1000:g} CPU"
    power = next((power for power in (40, 30, 20, 10) if amount and amount % 2**power == 0), 0)
    suffix = {40: "Ti", 30: "Gi", 20: "Mi", 10: "Ki", 0: ""}[power]
    return f"{amount >> power}{suffix} {name}"


def _asked(resources: Resources | None) -> Mapping[str, Any]:
    """Return requests, and limits where no request is made, as the API server fills them in."""
    if resources is None:
        return {}
    if not resources.limits or resources.limits is resources.requests:
        return resources.requests or {}
    return {**resources.limits, **(resources.requests or {})}


def _amount(name: str, amounts: Mapping[str, Any], *, up: bool = True) -> int:
    value = amounts.get(name)
    return 0 if value is None else _read(str(value)[:64], 3 if name == "cpu" else 0, up)


@lru_cache(maxsize=4096)
def _read(text: str, shift: int, up: bool) -> int:
    """Return a quantity times ten to a power, in whole numbers as kube-scheduler counts, between 0 and the most."""
    if (quantity := _QUANTITY.fullmatch(text)) is None:
        return 0
    number, exponent, suffix = quantity.groups()
    scale = 2 ** _BINARY[suffix] if suffix in _BINARY else 1
    power = int(exponent) if exponent else _SUFFIXES.get(suffix or "", 0)
    value = (Decimal(number) * scale).scaleb(power + shift)
    whole = int(value.to_integral_value(ROUND_CEILING)) if up else int(value)
    return max(0, min(_MOST, whole))


_STAYING = ("DaemonSet", "Node")  # makers of pods that come back to the node where they were: no wait frees their share


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod on a node, and what it takes of it."""

    node: str
    namespace: str
    request: PodRequest
    staying: bool = False  # whether it belongs to the node and leaves only with it


def tenant_of(pod: Pod, node: str) -> Tenant:
    """Return what a pod takes of the node that it is bound to."""
    maker = pod.owner
    return Tenant(node, pod.namespace, request_of(pod), maker is not None and maker.kind in _STAYING)


@dataclass(frozen=True, slots=True, eq=False)
class Shortage:
    """Nodes that lack something of what pods ask."""

    why: str  # after "nodes", in words
    rows: BoolArray  # shape [nodes]
    passing: bool  # whether it is there when the others on the node are gone


class NodeResources:
    """What pods take of each node: GPUs, which are counted for namespaces too, and what is left of all else in columns,
    one for each resource that was asked for.
    """

    def __init__(self) -> None:
        self._tenants: dict[str, Tenant] = {}
        self._held: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._staying: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._ports: defaultdict[str, Counter[HostPort]] = defaultdict(Counter)
        self._gpus: defaultdict[str, Counter[str]] = defaultdict(Counter)  # of a node, by namespace
        self._offers: Sequence[Mapping[str, int]] = ()
        self._names: Sequence[str] = ()
        self._free: dict[str, npt.NDArray[np.int64]] = {}
        self._lasting: dict[str, npt.NDArray[np.int64]] = {}
        self._counted: dict[str, Mapping[str, int]] = {}
        self._namespaces = Counter[str]()
        self.holders: dict[str, Tenant] = {}  # those with GPUs, by the pod's UID

    def tenant(self, uid: str) -> Tenant | None:
        """Return a pod that is on a node; ``None`` = it is on none."""
        return self._tenants.get(uid)

    def put(self, uid: str, tenant: Tenant) -> None:
        """Take in a pod that is not known."""
        self._tenants[uid] = tenant
        if tenant.request.gpus:
            self.holders[uid] = tenant
        self._add(tenant, 1)

    def drop(self, uid: str) -> Tenant | None:
        """Drop a pod that is gone or has ended, and return what it took; ``None`` = it was on no node."""
        if (old := self._tenants.pop(uid, None)) is not None:
            self.holders.pop(uid, None)
            self._add(old, -1)
        return old

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
            if name not in self._free:
                left = [self._left(row, name) for row in range(len(self._names))]
                columns = np.array(left, dtype=np.int64).reshape(-1, 2)
                self._free[name], self._lasting[name] = columns[:, 0].copy(), columns[:, 1].copy()
            free, lasting = self._free[name], self._lasting[name]
            for count in np.unique(pods).tolist():
                here, wanted = pods == count, _wanted(name, amount, count)
                never = here & (lasting // count < amount)
                yield Shortage(f"with less than {wanted}", never, passing=False)
                yield Shortage(f"with less than {wanted} free", here & (free // count < amount) & ~never, passing=True)
        if request.ports:
            taken = [self._taken(self._ports.get(name), request.ports) for name in self._names]
            for port in sorted({port for port in taken if port is not None}):
                rows = np.array([other == port for other in taken], dtype=np.bool_)
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

    def gpus_on(self, node: str) -> int:
        """Return GPUs of a node that pods hold."""
        return self._gpus[node].total() if node in self._gpus else 0

    def count(self, node: str, *, size: int, shares: int = 1, promised: str | None) -> None:
        """Count the GPUs of a node for its namespaces: what pods hold, and all of it if it is promised.

        :param size: GPUs that it has; 0 = it is gone.
        :param shares: how many of what pods hold are one GPU.
        :param promised: namespace of the gang that it is promised to.
        """
        self._namespaces.subtract(self._counted.pop(node, {}))
        now = {namespace: -(-held // shares) for namespace, held in self._gpus.get(node, {}).items() if held}
        if promised is not None:
            now[promised] = max(size, now.get(promised, 0))
        if now:
            self._counted[node] = now
            self._namespaces.update(now)

    def gpus_of(self, namespace: str) -> int:
        """Return GPUs that a namespace has in use or is promised, by the nodes as they were counted last."""
        return self._namespaces[namespace]

    def _add(self, tenant: Tenant, sign: int) -> None:
        node, request = tenant.node, tenant.request
        for name, amount in request.amounts:
            self._held[node][name] += sign * amount
            if tenant.staying:
                self._staying[node][name] += sign * amount
        for port in request.ports:
            self._ports[node][port] += sign
        if request.gpus:
            self._gpus[node][tenant.namespace] += sign * request.gpus
        if sign < 0 and not self._held[node][PODS]:
            for counts in (self._held, self._staying, self._ports, self._gpus):
                counts.pop(node, None)

    def _left(self, row: int, name: str) -> tuple[int, int]:
        """Return what is left of a resource on a row, now and when all pods that may leave are gone."""
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
        taken = [(port, own) for port, count in held.items() if count > 0 for own in wanted]
        # two pods on one node cannot both have a port of one protocol, at one address or at all
        return min(
            (port[2] for port, own in taken if port[1:] == own[1:] and (port[0] == own[0] or "" in (port[0], own[0]))),
            default=None,
        )


def _wanted(name: str, amount: int, pods: int) -> str:
    if name == PODS:
        return f"{amount * pods} place{'s' * (amount * pods > 1)} for pods"
    return in_words(name, amount) if pods == 1 else f"{pods} x {in_words(name, amount)}"
