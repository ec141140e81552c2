"""What a pod asks of its node besides GPUs: CPU, memory, storage, extended resources, a place, host ports.

Counted as kube-scheduler does (``resourcehelper.PodRequests``, ``NodeResourcesFit``, ``NodePorts``): init containers
run one after the other, sidecars beside what follows, overhead and requests of the pod as a whole (KEP-2837) included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

from extender.gangs.pod_rules import rules_of, stays_alone
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


NOTHING = PodRequest()


def request_of(pod: Pod) -> PodRequest:
    """Return what a pod asks of its node; a quantity that cannot be read, as no API server has it, counts as 0."""
    spec = pod.spec
    boxes, before = spec.containers or (), spec.init_containers or ()
    asked = (
        tuple([tuple(_asked(box.resources).items()) for box in boxes]),
        tuple([(tuple(_asked(box.resources).items()), box.restart_policy == "Always") for box in before]),
        tuple(_asked(spec.resources).items()),
        tuple(((spec.overhead or {}) | _devices(spec)).items()),
    )
    try:
        amounts = _total(*asked)
    except TypeError:  # a list, say, for an amount
        amounts = _total.__wrapped__(*asked)
    exposed = [box for box in before if box.restart_policy == "Always" and box.ports]
    exposed += [box for box in boxes if box.ports]
    ports = {
        (port.host_ip if port.host_ip not in _EVERY else "", port.protocol, port.host_port)
        for box in exposed
        for port in box.ports or ()
        if port.host_port > 0
    }
    return PodRequest(amounts, tuple(sorted(ports)), pod.readable_gpus, stays_alone(pod))


@lru_cache(maxsize=4096)
def _total(
    boxes: tuple[_Pairs, ...], before: tuple[tuple[_Pairs, bool], ...], whole: _Pairs, overhead: _Pairs
) -> tuple[tuple[str, int], ...]:
    """Return what a pod asks for of each resource but GPUs: most pods ask for what others did."""
    each, init = [dict(box) for box in boxes], [(dict(box), sidecar) for box, sidecar in before]
    of_pod, besides = dict(whole), dict(overhead)
    names = {name for box in (*each, *(box for box, _ in init), of_pod, besides) for name in box}
    amounts = {PODS: 1}
    for name in names - {*GPUS, PODS}:
        if name in of_pod and _OF_PODS.fullmatch(name):
            amount = _amount(name, of_pod)
        else:
            early = ((_amount(name, box), sidecar) for box, sidecar in init)
            amount = pod_gpus((_amount(name, box) for box in each), early)
        amounts[name] = min(_MOST, amount + _amount(name, besides))
    return tuple((name, amount) for name, amount in sorted(amounts.items()) if amount)


def like_boxes(one: PodSpec, other: PodSpec) -> bool:
    """Return whether two pods ask for the same, as all pods of a template do; much cheaper than to add it up."""
    if rules_of(one) or rules_of(other):
        return False
    same = one.containers == other.containers and one.init_containers == other.init_containers
    same = same and one.resources == other.resources and one.overhead == other.overhead
    return same and _devices(one) == _devices(other)


def _devices(spec: PodSpec) -> dict[str, int]:
    """Return the DeviceClasses that its node must have GPUs of, and how many; which are free GPUs of all kinds tell."""
    return spec.claimed.gpus if spec.claimed is not None and not spec.node_name else {}


def widest(requests: Iterable[PodRequest]) -> PodRequest:
    """Return the most that any of some pods asks of each resource, and the ports of all."""
    amounts: dict[str, int] = {}
    ports, gpus, alone = set[HostPort](), 0, False
    for one in requests:
        for name, amount in one.amounts:
            amounts[name] = max(amount, amounts.get(name, 0))
        ports.update(one.ports)
        gpus, alone = max(gpus, one.gpus), alone or one.alone
    return PodRequest(tuple(sorted(amounts.items())), tuple(sorted(ports)), gpus, alone)


def offered(amounts: Amounts | None) -> dict[str, int]:
    """Return what a node offers to pods of each resource but GPUs, CPU in thousandths."""
    given = amounts or {}
    return {name: _amount(name, given, up=False) for name in given if name not in GPUS}


def clash(one: HostPort, other: HostPort) -> bool:
    """Return whether two pods on one node cannot both have their ports."""
    return one[1:] == other[1:] and (one[0] == other[0] or "" in (one[0], other[0]))


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
    if (found := _QUANTITY.fullmatch(text)) is None:
        return 0
    number, exponent, suffix = found.groups()
    scale = 2 ** _BINARY[suffix] if suffix in _BINARY else 1
    power = int(exponent) if exponent else _SUFFIXES.get(suffix or "", 0)
    value = (Decimal(number) * scale).scaleb(power + shift)
    whole = int(value.to_integral_value(ROUND_CEILING)) if up else int(value)
    return max(0, min(_MOST, whole))
