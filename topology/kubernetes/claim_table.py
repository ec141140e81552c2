"""Pods and nodes with their GPUs of dynamic resource allocation counted in, as if they were extended resources.

All that counts GPUs then counts both kinds.
"""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from topology.kubernetes import claims
from topology.kubernetes.objects import LONGEST_NAME, AllocationObject, NodeObject
from topology.kubernetes.pods import Pod, PodSpec

ALLOCATION_KINDS = (claims.ResourceSlice, claims.ResourceClaim, claims.ResourceClaimTemplate, claims.DeviceClass)

Reference = tuple[type[AllocationObject], str, str]  # Kind, namespace and name of an object


class ClaimTable:
    """What is known of claims, templates, classes and slices.

    :param classes: names of DeviceClasses whose devices are GPUs.
    :param complete: whether all DeviceClasses are known, so that a claim of another one waits for ever; without any,
        the cluster has no dynamic allocation, and nothing is counted.
    """

    def __init__(self, classes: Collection[str], *, complete: bool) -> None:
        self.slices = claims.DeviceSlices()
        self.found: dict[Reference, claims.ResourceClaim | claims.ResourceClaimTemplate] = {}
        self.classes: dict[str, claims.DeviceClass] = {}
        self._gpu_classes = tuple(dict.fromkeys(classes))
        self._complete = complete

    @property
    def driver_of_class(self) -> dict[str, str]:
        """DeviceClass of GPUs -> the driver behind it; of a class that is not known, the one of its name."""
        return {name: self.classes[name].driver if name in self.classes else name for name in self._gpu_classes}

    def put(self, item: AllocationObject) -> set[str]:
        """Take in an object that appeared or changed; return the nodes whose devices it may change."""
        match item:
            case claims.ResourceSlice():
                return self.slices.put(item)
            case claims.DeviceClass():
                self.classes[item.name] = item
                return set(self.slices.nodes)
            case claims.ResourceClaim() | claims.ResourceClaimTemplate():
                self.found[reference_to(item)] = item
        return set()

    def drop(self, about: Reference) -> set[str]:
        """Drop an object that is gone; return the nodes whose devices that may change."""
        kind, _, name = about
        self.found.pop(about, None)
        if kind is claims.DeviceClass and self.classes.pop(name, None) is not None:
            return set(self.slices.nodes)
        return self.slices.drop(name) if kind is claims.ResourceSlice else set()

    def with_claims(self, pod: Pod) -> Pod:
        """Return a pod with the GPUs that its claims ask for, or were given."""
        spec = self.spec_with_claims(pod.spec, pod.namespace, made=claims_made(pod), uid=pod.uid)
        return pod if spec is pod.spec else msgspec.structs.replace(pod, spec=spec)

    def spec_with_claims(
        self, spec: PodSpec, namespace: str, *, made: Mapping[str, str | None] | None = None, uid: str = ""
    ) -> PodSpec:
        """Return what a pod, or each of a template, asks for, with the GPUs of its claims.

        :param made: names of claims made after templates, by the names of the pod's entries.
        """
        if not spec.resource_claims:
            return spec
        parts = [self._claimed(entry, namespace, made or {}, uid) for entry in spec.resource_claims]
        claimed = None if self._complete and not self.classes else claims.total(parts)
        return spec if spec.claimed == claimed else msgspec.structs.replace(spec, claimed=claimed)

    def equipped(self, node: NodeObject) -> NodeObject:
        """Return a node with the GPUs of its ResourceSlices, if no device plugin offers any."""
        return claims.with_devices(node, self.devices(node.name), self.driver_of_class)

    def of_gpus(self, about: Reference) -> bool:
        """Return whether a claim or template is known, and of GPUs."""
        claim = self.found.get(about)
        return claim is not None and not claims.classes_named(claim).isdisjoint(self._gpu_classes)

    @property
    def homeless(self) -> list[str]:
        """Names of ResourceSlices with GPUs that are not of one node each, which are not counted."""
        return self.slices.homeless(frozenset(self.driver_of_class.values()))

    def devices(self, node: str) -> claims.NodeDevices:
        """Return the GPUs of a node in ResourceSlices."""
        return self.slices.on(node, frozenset(self.driver_of_class.values()))

    def _claimed(
        self, entry: claims.PodClaim, namespace: str, made: Mapping[str, str | None], uid: str
    ) -> claims.Claimed:
        """Return the GPUs of an entry of a pod for a claim."""
        if entry.name in made and made[entry.name] is None:
            return claims.Claimed()  # none was needed
        named = list(references(entry, namespace, made))
        claim = next((self.found[about] for about in named if about in self.found), None)
        if claim is None:
            kind, _, name = named[-1] if named else (claims.ResourceClaim, "", entry.name)
            return claims.Claimed(
                wrong=f"{kind.__name__} {name[:LONGEST_NAME]} is not there", fix=f"create it in {namespace}"
            )
        if self._complete and (missing := sorted(claims.classes_named(claim) - self.classes.keys())):
            asks = f"{type(claim).__name__} {claim.name} asks for DeviceClass {missing[0][:LONGEST_NAME]}"
            fix = "install the driver that brings it, or correct the name"
            return claims.Claimed(wrong=f"{asks}, which is not there", fix=fix)
        return claims.claimed_by(claim, self._gpu_classes, drivers=self.driver_of_class.values(), pod=uid)


def claims_made(pod: Pod) -> dict[str, str | None]:
    """Return the claims that were made for a pod, by the names of its entries; ``None`` = none was needed."""
    return {entry.name: entry.resource_claim_name for entry in pod.status.resource_claim_statuses or ()}


def reference_to(item: AllocationObject) -> Reference:
    """Return what tells an object from others."""
    return type(item), item.metadata.namespace or "default", item.name


def references(entry: claims.PodClaim, namespace: str, made: Mapping[str, str | None]) -> Iterator[Reference]:
    """Yield where it is said what a claim of a pod asks for; what is yielded first counts."""
    if name := made.get(entry.name) or entry.resource_claim_name:
        yield claims.ResourceClaim, namespace, name
    if entry.resource_claim_template_name:
        yield claims.ResourceClaimTemplate, namespace, entry.resource_claim_template_name
