"""Our own kinds of objects in the API server: a frozen struct *is* what is stored.

    metadata  name and namespace; uid and resourceVersion where they are known
    spec      the field ``spec`` of the struct
    status    its other fields, spread as {dp, pp}; and ``summary``, which ``kubectl get`` prints

Names are those of the fields in camelCase.  A field that has its default is left out unless :func:`written` made it.
Fields of later versions are passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import msgspec

from extender.kubernetes_names import GROUP, VERSION
from ground.errors import InvalidInput
from topology.kubernetes.objects import START_OF_TIME, Metadata, Object

if TYPE_CHECKING:
    from scheduler.objective import Evaluation
    from scheduler.outcome import Outcome
    from scheduler.repair import Repair

T = TypeVar("T")

Instant = Annotated[datetime, msgspec.Meta(tz=True)]  # A time with a time zone, in RFC 3339


def written(default: T) -> T:
    """Return the default of a field that is stored even when it has that default.

    msgspec leaves out what *is* the default itself, and does not call factories to find that out.
    """
    return msgspec.field(default_factory=lambda: default)


class StoredPart(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, dict=True):
    """A part of an object of ours, as it is stored."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """One finding about an object, as ``metav1.Condition``."""

    type: str
    status: str  # True, False or Unknown
    reason: str = ""
    message: str = ""
    # when the status last changed, in whole seconds as metav1.Time has it
    since: Instant = msgspec.field(default=START_OF_TIME, name="lastTransitionTime")


class CustomResource(StoredPart, frozen=True, kw_only=True):
    """What all our objects say about themselves and about the placement that was found for them."""

    uid: str = ""  # empty until the object is written
    # an update with it fails when another replica wrote in between; empty until it is written
    resource_version: str = ""
    reason: str = ""
    message: str = ""
    spread: tuple[int, int] | None = None  # (S, R), the DP and PP spread
    objective: float | None = None
    bound: float | None = None  # no placement of the nodes that the solver was given costs less
    gap: float | None = None  # (objective - bound) / objective, 0 when proved
    # how much of what is asked is proved: "objective", a level's name, "all"; None = not even the objective
    proved_to: str | None = None
    conditions: tuple[Condition, ...] = written(())

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of that type."""
        return next((condition for condition in self.conditions if condition.type == kind), None)

    def with_worth(self, worth: Evaluation, *, answer: Outcome | Repair) -> Self:
        """Return a copy with what the evaluator says of a placement, and what an answer proves of it."""
        proof = {"bound": answer.bound, "gap": answer.gap, "proved_to": answer.proved_to}
        return self.replace(spread=(worth.dp, worth.pp), objective=worth.objective, **proof)

    def without_worth(self) -> Self:
        """Return a copy without a placement to be worth anything."""
        return self.replace(spread=None, objective=None, bound=None, gap=None, proved_to=None)

    def without_condition(self, kind: str) -> Self:
        """Return a copy without the condition of that type."""
        return self.replace(conditions=tuple(condition for condition in self.conditions if condition.type != kind))

    def with_condition(self, kind: str, status: bool | None, reason: str, message: str, now: datetime) -> Self:
        """Return a copy with one condition set; its time changes only when its status does."""
        text = {True: "True", False: "False", None: "Unknown"}[status]
        old = self.condition(kind)
        since = old.since if old is not None and old.status == text else now.astimezone(UTC).replace(microsecond=0)
        new = Condition(kind, text, reason, message, since)
        kept = tuple(new if condition.type == kind else condition for condition in self.conditions)
        return self.replace(conditions=kept if old is not None else (*kept, new))


class StoredObject(Object, frozen=True):
    """An object of ours as the API server sends it, its two halves unread."""

    metadata: Metadata
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


def encode_resource(
    resource: CustomResource, kind: str, name: str, namespace: str, **summary: str | None
) -> dict[str, Any]:
    """Return an object of ours, ready to be written as JSON, with further texts for ``kubectl get``."""
    status = msgspec.json.decode(msgspec.json.encode(resource))
    del status["key"]
    spec = status.pop("spec", {})
    identity = {field: status.pop(field) for field in ("uid", "resourceVersion") if field in status}
    if resource.spread is not None:
        dp, pp = resource.spread
        status["spread"] = {"dp": dp, "pp": pp}
        summary["spread"] = f"{dp}/{pp}"
    status["summary"] = {column: text for column, text in summary.items() if text is not None}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, **identity},
        "spec": spec,
        "status": status,
    }


def decode_resource(
    raw: bytes | dict[str, Any] | StoredObject,
    kind: type[T],
    fields: Callable[[StoredObject], dict[str, Any]],
    *,
    name: str,
    fix: str,
) -> T:
    """Return the struct of an object of ours.

    :param fields: those that its spec and status do not say as they stand.
    :param name: its kind, for people.
    :raises InvalidInput: none that we wrote; ``where`` says which, as far as its name can be read.
    """
    where = ""
    try:
        stored = _decoder.decode(raw) if isinstance(raw, bytes) else raw
        stored = msgspec.convert(stored, StoredObject) if isinstance(stored, dict) else stored
        meta, status = stored.metadata, stored.status
        where = f"{meta.namespace}/{meta.name}"
        if (spread := status.get("spread")) is not None:
            status = status | {"spread": msgspec.structs.astuple(msgspec.convert(spread, _Spread))}
        identity: dict[str, Any] = {"key": (meta.namespace or "default", meta.name), "uid": meta.uid}
        identity |= {"resourceVersion": meta.resource_version, "spec": stored.spec}
        return msgspec.convert({**status, **identity, **fields(stored)}, kind)
    except (msgspec.MsgspecError, ValueError, InvalidInput, RecursionError) as error:
        raise InvalidInput(f"{name} cannot be read: {error}", where=where, fix=fix) from None


class _Spread(msgspec.Struct):
    dp: int
    pp: int


_decoder = msgspec.json.Decoder(StoredObject)
