"""GPUs that pods ask for by ResourceClaim (dynamic resource allocation, ``resource.k8s.io/v1``), by DeviceClass.

A request for an exact number is counted.  Expressions of a request (CEL) are kube-scheduler's: they are told, not read.
Once a claim is allocated, the devices that it was given count, whatever was asked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import msgspec

from topology.kubernetes.kubernetes_objects import AllocationObject, Object

_MOST = 10**6  # GPUs of a request, and of a pod: sums stay within 32 bits
_DRIVER = re.compile(r"device\.driver\s*==\s*[\"']([^\"']{1,253})[\"']")


class Claimed(Object, frozen=True):
    """GPUs that a pod asks for by claims: how many of each class; why that is not known, and what is not looked at."""

    gpus: dict[str, int] = msgspec.field(default_factory=dict)  # at least so many where it is not known
    wrong: str = ""  # a sentence; empty = they are known
    fix: str = ""
    unchecked: tuple[str, ...] = ()  # fields of claims that are kube-scheduler's alone


class PodClaim(Object, frozen=True):
    """A claim of a pod: by its name, or made for the pod after a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ClaimMade(Object, frozen=True):
    """The claim that was made for a pod after a template."""

    name: str = ""  # of the pod's entry
    resource_claim_name: str | None = None


class _ExactRequest(Object, frozen=True):
    device_class_name: str = ""
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None
    selectors: list[Object] | None = None
    capacity: Object | None = None


class _SubRequest(Object, frozen=True):
    name: str = ""
    device_class_name: str = ""


class _DeviceRequest(Object, frozen=True):
    name: str = ""
    exactly: _ExactRequest | None = None
    first_available: list[_SubRequest] | None = None


class _DeviceRequests(Object, frozen=True):
    requests: list[_DeviceRequest] | None = None
    constraints: list[Object] | None = None


class ClaimSpec(Object, frozen=True):
    """What a claim asks for."""

    devices: _DeviceRequests = _DeviceRequests()


class _AllocatedDevice(Object, frozen=True):
    request: str = ""
    driver: str = ""
    admin_access: bool | None = None


class _AllocatedDevices(Object, frozen=True):
    results: list[_AllocatedDevice] | None = None


class _Allocation(Object, frozen=True):
    devices: _AllocatedDevices = _AllocatedDevices()


class _Consumer(Object, frozen=True):
    uid: str = ""


class _ClaimStatus(Object, frozen=True):
    allocation: _Allocation | None = None
    reserved_for: list[_Consumer] | None = None


class ResourceClaim(AllocationObject, frozen=True):
    """Devices that are asked for, and which were given."""

    spec: ClaimSpec = ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


class _TemplateSpec(Object, frozen=True):
    spec: ClaimSpec = ClaimSpec()


class ResourceClaimTemplate(AllocationObject, frozen=True):
    """What the claims of pods are made after."""

    spec: _TemplateSpec = _TemplateSpec()


class _Expression(Object, frozen=True):
    expression: str = ""


class _Selector(Object, frozen=True):
    cel: _Expression | None = None


class _ClassSpec(Object, frozen=True):
    selectors: list[_Selector] | None = None


class DeviceClass(AllocationObject, frozen=True):
    """A kind of devices, by expressions over them."""

    spec: _ClassSpec = _ClassSpec()

    @property
    def driver(self) -> str:
        """The driver whose devices it selects, as its expressions have it; else the one that has its name."""
        texts = (one.cel.expression for one in self.spec.selectors or () if one.cel is not None)
        found = (match for match in map(_DRIVER.search, texts) if match)
        return next((match[1] for match in found), self.name)


def claimed_by(
    claim: ResourceClaim | ResourceClaimTemplate,
    classes: Collection[str],
    *,
    drivers: Collection[str] = (),
    pod: str = "",
) -> Claimed:
    """Return the GPUs of a claim, or of those made after a template: what it was given, or else what it asks for.

    :param classes: DeviceClasses whose devices are GPUs.
    :param drivers: drivers of GPUs: a device of theirs of another class, such as a slice, counts as a GPU once given.
    :param pod: UID of the pod that has it: of several, the first has its GPUs.
    """
    if isinstance(claim, ResourceClaimTemplate):
        return _asked(claim.spec.spec, f"ResourceClaimTemplate {claim.name}", classes)
    users = claim.status.reserved_for or ()
    if claim.status.allocation is None:
        return _asked(claim.spec, f"ResourceClaim {claim.name}", classes)
    if users and users[0].uid != pod:
        return Claimed()
    class_of = dict(_classes(claim.spec))
    given = [one for one in claim.status.allocation.devices.results or () if not one.admin_access]
    named = ((class_of.get(one.request, ""), one.driver) for one in given)
    return Claimed(gpus=dict(Counter(name for name, driver in named if name in classes or driver in drivers)))


def total(parts: Collection[Claimed]) -> Claimed:
    """Return all claims of a pod together; what is wrong with the first that is wrong."""
    gpus = Counter[str]()
    for part in parts:
        gpus.update(part.gpus)
    bad = next((part for part in parts if part.wrong), Claimed())
    unchecked = dict.fromkeys(field for part in parts for field in part.unchecked)
    counts = {name: min(_MOST, count) for name, count in gpus.items()}
    return Claimed(gpus=counts, wrong=bad.wrong, fix=bad.fix, unchecked=tuple(unchecked))


def classes_named(claim: ResourceClaim | ResourceClaimTemplate) -> frozenset[str]:
    """Return the DeviceClasses that a claim, or those made after a template, may have devices of."""
    spec = claim.spec if isinstance(claim, ResourceClaim) else claim.spec.spec
    return frozenset(name for _, name in _classes(spec))


def _classes(spec: ClaimSpec) -> Iterator[tuple[str, str]]:
    """Yield each request, as results of an allocation name it, and its class."""
    for request in spec.devices.requests or ():
        if request.exactly is not None:
            yield request.name, request.exactly.device_class_name
        for one in request.first_available or ():
            yield f"{request.name}/{one.name}", one.device_class_name


def _asked(spec: ClaimSpec, what: str, classes: Collection[str]) -> Claimed:
    gpus, unchecked, wrong = Counter[str](), dict[str, None](), ""
    for request in spec.devices.requests or ():
        either = (one.device_class_name for one in request.first_available or ())
        if (named := next((name for name in either if name in classes), None)) is not None:
            gpus[named] += 1
            wrong = wrong or f"{what} has alternatives (firstAvailable), so that its GPUs are not known before"
        one = request.exactly
        if one is None or one.admin_access or one.device_class_name not in classes:
            continue
        if one.allocation_mode == "All":
            gpus[one.device_class_name] += 1
            wrong = wrong or f"{what} asks for all GPUs of a node (allocationMode All), however many these are"
            continue
        gpus[one.device_class_name] += min(_MOST, max(0, 1 if one.count is None else one.count))
        said: Mapping[str, object] = {"selectors": one.selectors, "capacity": one.capacity}
        unchecked |= dict.fromkeys(name for name, value in said.items() if value)
    if spec.devices.constraints and gpus:
        unchecked["constraints"] = None
    fix = "ask for an exact number (exactly, with count)" if wrong else ""
    fields = tuple(f"{name} of {what}" for name in unchecked)
    return Claimed(gpus=dict(gpus), wrong=wrong, fix=fix, unchecked=fields)
