"""GPUs that nodes offer in ResourceSlices (``resource.k8s.io/v1``), in place of a device plugin's extended resource.

kube-scheduler allocates from the newest generation of a pool, and only once all of its slices are there; devices of any
other pool are in the node here, but not allocatable, so that no new pod is planned on it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from topology.kubernetes.kubernetes_gpus import GPUS
from topology.kubernetes.kubernetes_objects import (
    LONGEST_NAME,
    AllocationObject,
    NodeObject,
    Object,
    gpus_among,
)
from topology.node_gpus import mig_gpus, mig_profile, mig_sharing

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

    @property
    def roaming(self) -> bool:
        """Whether its devices are of several nodes (nodeSelector, allNodes, perDeviceNodeSelection)."""
        return bool(self.spec.devices) and not self.spec.node_name


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
        """Return the slices of some drivers whose devices are not of one node each."""
        return sorted(one.name for one in self._slices.values() if one.spec.driver in drivers and one.roaming)

    def on(self, node: str, drivers: Collection[str]) -> NodeDevices:
        """Return the GPUs of a node, of some drivers."""
        found = NodeDevices()
        for driver, pool in sorted(self._pools_of.get(node, ())):
            if driver in drivers:
                self._count(found, (driver, pool), node)
        return found

    def _nodes(self, pool: tuple[str, str]) -> set[str]:
        return {one.spec.node_name for one in self._pools.get(pool, {}).values() if one.spec.node_name}

    def _count(self, found: NodeDevices, key: tuple[str, str], node: str) -> None:
        """Add the GPUs of a pool that are on a node."""
        slices = self._pools[key].values()
        newest = max(one.spec.pool.generation for one in slices)
        current = [one for one in slices if one.spec.pool.generation == newest]
        wanted = max(one.spec.pool.resource_slice_count for one in current)
        devices = [one for part in current if part.spec.node_name == node for one in part.spec.devices or ()]
        whole = [one for one in devices if one.type in _WHOLE and (one.type or not one.consumes_counters)]
        (driver, pool), complete = key, len(current) == wanted
        found.gpus[driver] += len(whole)
        found.allocatable[driver] += complete * sum(not one.tainted for one in whole)
        found.products.update(one.product for one in whole)
        for one in devices:
            if one.profile:
                found.slices[one.profile] += 1
                found.parents.update(filter(None, (one.parent,)))
        about = f"pool {pool[:LONGEST_NAME]} of {driver[:LONGEST_NAME]}"
        if not complete:
            found.doubts.append(f"{about}: {len(current)} of {wanted} slices of generation {newest} are there")
        if any(one.consumes_counters for one in devices):
            found.doubts.append(f"{about}: its devices can be cut, and each part that a claim has counts as a GPU")
        if any(one.allow_multiple_allocations for one in whole):
            found.several.add(driver)
            found.doubts.append(f"{about}: several claims may share a device, and each counts as one")


def with_devices(node: NodeObject, found: NodeDevices, drivers: Mapping[str, str]) -> NodeObject:
    """Return a node with the GPUs of its slices as if a device plugin offered them, and by class for claims.

    :param drivers: DeviceClass of GPUs -> the driver behind it.
    """
    status, count = node.status, found.gpus.total() + found.cut
    if not count or gpus_of(node):
        return node
    free: dict[str, Any] = {name: found.allocatable[driver] for name, driver in drivers.items() if found.gpus[driver]}
    offers = (status.allocatable or status.capacity or {}) | free | {GPUS[0]: found.allocatable.total() + found.cut}
    product = next(iter(found.products)) if len(found.products) == 1 else ""
    has = (status.capacity or {}) | {GPUS[0]: count}
    return msgspec.structs.replace(
        node,
        status=msgspec.structs.replace(
            status, capacity=has, allocatable=offers, gpu_product=product, gpu_sharing=found.sharing
        ),
    )


def gpus_of(node: NodeObject) -> int:
    """Return the GPUs that a device plugin offers on a node; of an amount that is no number, 1: it offers some."""
    try:
        return max(gpus_among(node.status.capacity) or 0, gpus_among(node.status.allocatable) or 0)
    except ValueError:
        return 1
