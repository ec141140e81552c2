"""Which of our fields the cluster keeps: the API server drops without a word what a definition does not name.

An extender that is newer than the definitions would not find again what it has written, and write it again for ever.
So what was decided is compared with what is stored as the server would store it, and it is said which fields are
missing.  The definitions are read from the OpenAPI document of our group, which every account may read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import msgspec

from extender.kubernetes_names import GROUP, HISTORY_KIND, KIND, RESERVATION_KIND, VERSION
from extender.plans.custom_resource import CustomResource
from extender.plans.gang_history import GangHistory
from extender.plans.gang_plan import GangPlan, PlanSpec
from extender.plans.reservation import Reservation, ReservationSpec
from ground.errors import InvalidInput

R = TypeVar("R", bound=CustomResource)

OPENAPI = f"/openapi/v3/apis/{GROUP}/{VERSION}"
"""Path of the document that describes our kinds."""


@dataclass(frozen=True)
class Definitions:
    """Fields that the definitions in the cluster lack, as those of this version have them.

    :param lacking: kind -> fields, ``spec.spreadCost``; a kind that has all is not in it.
    """

    lacking: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def sentences(self) -> list[str]:
        """What is missing, one sentence for each kind."""
        return [
            f"the definition of {kind} in the cluster lacks {', '.join(sorted(fields))}: what these say is forgotten"
            "\nTo fix: apply the definitions of this version, kubectl apply -k manifests/crds"
            for kind, fields in sorted(self.lacking.items())
        ]

    def kept(self, resource: R) -> R:
        """Return a GangPlan or a CapacityReservation as it comes back when it is written."""
        kind = KIND if isinstance(resource, GangPlan) else RESERVATION_KIND
        if not (lacking := self.lacking.get(kind)):
            return resource
        kept = resource.replace(**_defaults(type(resource), lacking, "status"))
        return kept.replace(spec=self.kept_spec(kept.spec)) if isinstance(kept, GangPlan) else kept

    def kept_spec(self, spec: PlanSpec) -> PlanSpec:
        """Return what is asked of a plan as it comes back when it is written."""
        return spec.replace(**_defaults(PlanSpec, self.lacking.get(KIND, frozenset()), "spec"))


@cache
def _defaults(struct: type[msgspec.Struct], lacking: frozenset[str], part: str) -> dict[str, Any]:
    """Return the defaults of the fields of a struct that are lacking in a part of its definition."""
    defaults = {}
    for field_info in msgspec.structs.fields(struct):
        if f"{part}.{field_info.encode_name}" in lacking:
            factory = field_info.default_factory
            defaults[field_info.name] = field_info.default if factory is msgspec.NODEFAULT else factory()
    return defaults


def read_definitions(raw: bytes) -> Definitions:
    """Return what the definitions lack, or raise ``InvalidInput``: this is no OpenAPI document, version 3.

    A kind that is not in the document is not missing a field: that it cannot be listed is said elsewhere.
    """
    try:
        schemas = msgspec.json.decode(raw, type=_Document).components.schemas
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"the API server's description of {GROUP} cannot be read: {error}", where=OPENAPI) from None
    lacking = {}
    for schema in schemas.values():
        kinds = {kind.kind for kind in schema.kinds if kind.group == GROUP} & _WRITTEN.keys()
        for kind in kinds:
            missing = {name for name in _WRITTEN[kind] if not schema.names(*name.split("."))}
            if missing:
                lacking[kind] = frozenset(missing)
    return Definitions(lacking)


class _GroupVersionKind(msgspec.Struct):
    group: str = ""
    kind: str = ""


class _Schema(msgspec.Struct):
    properties: dict[str, _Schema] = {}
    open: bool = msgspec.field(default=False, name="x-kubernetes-preserve-unknown-fields")
    kinds: list[_GroupVersionKind] = msgspec.field(default_factory=list, name="x-kubernetes-group-version-kind")

    def names(self, *path: str) -> bool:
        """Return whether a field of that path is kept."""
        if not path or self.open:
            return True
        return path[0] in self.properties and self.properties[path[0]].names(*path[1:])


class _Schemas(msgspec.Struct):
    schemas: dict[str, _Schema] = {}


class _Document(msgspec.Struct):
    components: _Schemas


def _fields(struct: type[msgspec.Struct], part: str, *others: str, but: frozenset[str] = frozenset()) -> set[str]:
    names = {stored.encode_name for stored in msgspec.structs.fields(struct)} - but
    return {f"{part}.{name}" for name in (*names, *others)}


_IDENTITY = frozenset({"key", "spec", "uid", "resourceVersion"})
_WRITTEN: Mapping[str, set[str]] = {
    KIND: _fields(PlanSpec, "spec", "gang")
    | _fields(GangPlan, "status", "summary", "assignment", but=_IDENTITY | {"nodes", "pods"}),
    RESERVATION_KIND: _fields(ReservationSpec, "spec")
    | _fields(Reservation, "status", "summary", but=_IDENTITY | {"announced"}),
    HISTORY_KIND: _fields(GangHistory, "spec", but=frozenset({"namespace", "uid", "resourceVersion"})),
}
"""Kind -> the fields of it that are written, or read."""
