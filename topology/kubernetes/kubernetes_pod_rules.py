"""What pods of Kubernetes ask of the places of other pods, and their volumes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from topology.kubernetes.kubernetes_objects import Object
from topology.kubernetes.kubernetes_requirement import Requirement


class LabelSelector(Object, frozen=True):
    """Labels that pods have; an empty one selects all."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether a pod with such labels is meant."""
        given = (self.match_labels or {}).items()
        return given <= labels.items() and all(one.holds(labels) for one in self.match_expressions or ())


class PodTerm(Object, frozen=True):
    """Pods, and the label of the nodes whose domains they share, or must not; without a selector no pods."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None

    def among(self, own: str, other: str) -> bool:
        """Return whether a pod of one namespace means those of another, as far as can be told without its labels."""
        if self.namespace_selector is None and not self.namespaces:
            return own == other
        everywhere = self.namespace_selector == LabelSelector()
        return everywhere or other in (self.namespaces or ())


class PodTerms(Object, frozen=True):
    """Affinity or anti-affinity to pods; only the hard part is read."""

    required: list[PodTerm] | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class SpreadConstraint(Object, frozen=True):
    """How evenly pods lie over the domains of a label of nodes."""

    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None


class _Claim(Object, frozen=True):
    claim_name: str = ""


class _Ephemeral(Object, frozen=True):
    pass


class Volume(Object, frozen=True):
    """A volume of a pod; those that are claimed may be bound to some nodes."""

    name: str = ""
    persistent_volume_claim: _Claim | None = None
    ephemeral: _Ephemeral | None = None

    @property
    def claimed(self) -> bool:
        """Whether it is claimed, now or when the pod comes."""
        return self.persistent_volume_claim is not None or self.ephemeral is not None
