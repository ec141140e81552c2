"""GPUs by dynamic resource allocation (``resource.k8s.io/v1``): what pods ask for and what nodes offer.

Pods ask by ResourceClaim, for devices of a DeviceClass.  A request for an exact number is counted.  Expressions of a
request (CEL) are kube-scheduler's: they are told, not read.  Once a claim is allocated, the devices that it was given
count, whatever was asked.

Nodes offer in ResourceSlices, in place of a device plugin's extended resource.  kube-scheduler allocates from the
newest generation of a pool, and only once all of its slices are there; devices of any other pool are in the node here,
but not allocatable, so that no new pod is planned on it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from topology.kubernetes.objects import LONGEST_NAME, AllocationObject, NodeObject, Object, gpus_among
from topology.node_gpus import GPUS, mig_gpus, mig_profile, mig_sharing

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
        texts = (selector.cel.expression for selector in self.spec.selectors or () if selector.cel is not None)
        return next((match[1] for match in map(_DRIVER.search, texts) if match), self.name)


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
    given = (device for device in claim.status.allocation.devices.results or () if not device.admin_access)
    named = ((class_of.get(device.request, ""), device.driver) for device in given)
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
        for choice in request.first_available or ():
            yield f"{request.name}/{choice.name}", choice.device_class_name


def _asked(spec: ClaimSpec, what: str, classes: Collection[str]) -> Claimed:
    """Return the GPUs that a claim, called ``what``, asks for before it is given any."""
    gpus, unchecked, doubt = Counter[str](), dict[str, None](), ""
    for request in spec.devices.requests or ():
        either = (choice.device_class_name for choice in request.first_available or ())
        if (named := next((name for name in either if name in classes), None)) is not None:
            gpus[named] += 1
            doubt = doubt or f"{what} has alternatives (firstAvailable), so that its GPUs are not known before"
        exact = request.exactly
        if exact is None or exact.admin_access or exact.device_class_name not in classes:
            continue
        if exact.allocation_mode == "All":
            gpus[exact.device_class_name] += 1
            doubt = doubt or f"{what} asks for all GPUs of a node (allocationMode All), however many these are"
            continue
        gpus[exact.device_class_name] += min(_MOST, max(0, 1 if exact.count is None else exact.count))
        if exact.selectors:
            unchecked["selectors"] = None
        if exact.capacity:
            unchecked["capacity"] = None
    if spec.devices.constraints and gpus:
        unchecked["constraints"] = None
    fix = "ask for an exact number (exactly, with count)" if doubt else ""
    fields = tuple(f"{name} of {what}" for name in unchecked)
    return Claimed(gpus=dict(gpus), wrong=doubt, fix=fix, unchecked=fields)


_WHOLE = frozenset(("", "gpu", "amdgpu"))
"""Values of a device's attribute ``type``, of NVIDIA's and of AMD's driver, that are whole GPUs; empty = not said."""


class _Attribute(Object, frozen=True):
    string: str | None = None


_UNSAID = _Attribute()


class _Attributes(Object, frozen=True):
    type: _Attribute | None = None
    product_name: _Attribute | None = None
    profile: _Attribute | None = None  # of a slice of MIG: 1g.10gb
    parent: _Attribute | None = msgspec.field(default=None, name="parentUUID")  # the GPU that it is cut from


class _DeviceTaint(Object, frozen=True):
    effect: str = ""


class Device(Object, frozen=True):
    """One device of a slice."""

    attributes: _Attributes = _Attributes()
    consumes_counters: list[Object] | None = None
    allow_multiple_allocations: bool | None = None
    taints: list[_DeviceTaint] | None = None

    @property
    def type(self) -> str:
        """What kind of device it says it is."""
        return (self.attributes.type or _UNSAID).string or ""

    @property
    def product(self) -> str:
        """Name of its product, written as in node labels."""
        return ((self.attributes.product_name or _UNSAID).string or "").replace(" ", "-")

    @property
    def profile(self) -> str:
        """What slice of a GPU it is, ``1g.10gb``; empty = it is none, or none that is always there."""
        fixed = self.type == "mig" and not self.consumes_counters
        return mig_profile((self.attributes.profile or _UNSAID).string or "") if fixed else ""

    @property
    def parent(self) -> str:
        """UUID of the GPU that it is a slice of; empty = not said."""
        return (self.attributes.parent or _UNSAID).string or ""

    @property
    def tainted(self) -> bool:
        """Whether claims that tolerate nothing do not get it."""
        return any(taint.effect in ("NoSchedule", "NoExecute") for taint in self.taints or ())


class DevicePool(Object, frozen=True):
    """The pool of a slice, and of how many slices its newest generation consists."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class SliceSpec(Object, frozen=True):
    """Devices of a driver, and the node that they are on."""

    driver: str = ""
    pool: DevicePool = DevicePool()
    node_name: str | None = None
    devices: list[Device] | None = None


class ResourceSlice(AllocationObject, frozen=True):
    """A part of a pool of devices."""

    spec: SliceSpec = SliceSpec()

    @property
    def pool(self) -> tuple[str, str]:
        """Driver and pool, which tell it from other pools."""
        return self.spec.driver, self.spec.pool.name


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The GPUs of one node."""

    gpus: Counter[str] = field(default_factory=Counter)  # by driver
    allocatable: Counter[str] = field(default_factory=Counter)
    products: set[str] = field(default_factory=set)  # empty = not said of some
    slices: Counter[str] = field(default_factory=Counter)  # of GPUs that are cut for good, by profile of MIG
    parents: set[str] = field(default_factory=set)  # UUIDs of these GPUs
    several: set[str] = field(default_factory=set)  # drivers that give a device to several claims at once
    doubts: list[str] = field(default_factory=list)  # what makes the number uncertain, a sentence each

    @property
    def cut(self) -> int:
        """GPUs that are cut into slices of MIG."""
        return len(self.parents) or mig_gpus(self.slices)

    @property
    def sharing(self) -> str:
        """How its GPUs are handed out in parts; empty = whole."""
        several = "several claims a GPU" if self.several else ""
        cut = mig_sharing(self.slices, cut=self.cut, physical=self.gpus.total() + self.cut) if self.slices else ""
        return ", ".join(filter(None, (cut, several)))


class DeviceSlices:
    """All slices, by name, and what they say of nodes."""

    def __init__(self) -> None:
        self._slices: dict[str, ResourceSlice] = {}
        self._pools: defaultdict[tuple[str, str], dict[str, ResourceSlice]] = defaultdict(dict)
        self._pools_of: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)

    def put(self, new: ResourceSlice) -> set[str]:
        """Take in a slice that appeared or changed; return the nodes of its pool, before and now."""
        touched = self.drop(new.name)
        self._slices[new.name] = self._pools[new.pool][new.name] = new
        if new.spec.node_name:
            self._pools_of[new.spec.node_name][new.pool] += 1
        return touched | self._nodes(new.pool)

    def drop(self, name: str) -> set[str]:
        """Drop a slice that is gone; return the nodes of its pool."""
        if (old := self._slices.pop(name, None)) is None:
            return set()
        touched = self._nodes(old.pool)
        del self._pools[old.pool][name]
        if not self._pools[old.pool]:
            del self._pools[old.pool]
        if old.spec.node_name:
            pools = self._pools_of[old.spec.node_name]
            pools[old.pool] -= 1
            self._pools_of[old.spec.node_name] = +pools
        return touched

    @property
    def nodes(self) -> Iterator[str]:
        """Nodes that slices name."""
        return (name for name, pools in self._pools_of.items() if pools)

    def homeless(self, drivers: Collection[str]) -> list[str]:
        """Return the slices of some drivers whose devices are not of one node each (nodeSelector, allNodes,
        perDeviceNodeSelection).
        """
        specs = {name: slice_.spec for name, slice_ in self._slices.items() if slice_.spec.driver in drivers}
        return sorted(name for name, spec in specs.items() if spec.devices and not spec.node_name)

    def on(self, node: str, drivers: Collection[str]) -> NodeDevices:
        """Return the GPUs of a node, of some drivers."""
        of_node = NodeDevices()
        for driver, pool in sorted(self._pools_of.get(node, ())):
            if driver in drivers:
                self._add(of_node, (driver, pool), node)
        return of_node

    def _nodes(self, pool: tuple[str, str]) -> set[str]:
        return {part.spec.node_name for part in self._pools.get(pool, {}).values() if part.spec.node_name}

    def _add(self, of_node: NodeDevices, key: tuple[str, str], node: str) -> None:
        """Add the GPUs of a pool that are on a node."""
        parts = self._pools[key].values()
        newest = max(part.spec.pool.generation for part in parts)
        current = [part for part in parts if part.spec.pool.generation == newest]
        wanted = max(part.spec.pool.resource_slice_count for part in current)
        devices = [device for part in current if part.spec.node_name == node for device in part.spec.devices or ()]
        whole = [
            device for device in devices if device.type in _WHOLE and (device.type or not device.consumes_counters)
        ]
        (driver, pool), complete = key, len(current) == wanted
        of_node.gpus[driver] += len(whole)
        of_node.allocatable[driver] += complete * sum(not device.tainted for device in whole)
        of_node.products.update(device.product for device in whole)
        for device in devices:
            if device.profile:
                of_node.slices[device.profile] += 1
                of_node.parents.update(filter(None, (device.parent,)))
        about = f"pool {pool[:LONGEST_NAME]} of {driver[:LONGEST_NAME]}"
        if not complete:
            of_node.doubts.append(f"{about}: {len(current)} of {wanted} slices of generation {newest} are there")
        if any(device.consumes_counters for device in devices):
            of_node.doubts.append(f"{about}: its devices can be cut, and each part that a claim has counts as a GPU")
        if any(device.allow_multiple_allocations for device in whole):
            of_node.several.add(driver)
            of_node.doubts.append(f"{about}: several claims may share a device, and each counts as one")


def with_devices(node: NodeObject, devices: NodeDevices, drivers: Mapping[str, str]) -> NodeObject:
    """Return a node with the GPUs of its slices as if a device plugin offered them, and by class for claims.

    :param drivers: DeviceClass of GPUs -> the driver behind it.
    """
    status, count = node.status, devices.gpus.total() + devices.cut
    if not count or gpus_of(node):
        return node
    of_class: dict[str, Any] = {
        name: devices.allocatable[driver] for name, driver in drivers.items() if devices.gpus[driver]
    }
    offers = (
        (status.allocatable or status.capacity or {}) | of_class | {GPUS[0]: devices.allocatable.total() + devices.cut}
    )
    product = next(iter(devices.products)) if len(devices.products) == 1 else ""
    has = (status.capacity or {}) | {GPUS[0]: count}
    return msgspec.structs.replace(
        node,
        status=msgspec.structs.replace(
            status, capacity=has, allocatable=offers, gpu_product=product, gpu_sharing=devices.sharing
        ),
    )


def gpus_of(node: NodeObject) -> int:
    """Return the GPUs that a device plugin offers on a node; of an amount that is no number, 1: it offers some."""
    try:
        return max(gpus_among(node.status.capacity) or 0, gpus_among(node.status.allocatable) or 0)
    except ValueError:
        return 1
