"""A plan as a ``GangPlan`` object, and back.

    spec     gang, dialect, size, gpusPerNode, parallelism "tp=8,cp=1,ep=1,dp=12,pp=8", order, alpha, level, avoid,
             holds [{family, level}], priority
    status   phase, reason, message, expires, spread {dp, pp}, objective, bound, gap, boundPods, wouldFitIfEmpty,
             conditions, assignment {nodes, pods}, summary {spread "S/R", gap "0.0%", pods "96/96"}

``summary`` is what ``kubectl get gangplans`` prints.  ``assignment.nodes`` is base64 of zlib of the node names in the
order of ranks, one a line; ``assignment.pods`` is base64 of 16 bytes a rank, the UID of its pod (all zero: none).
12,500 ranks take some 300 kB; etcd takes 1.5 MB.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from scheduler.extender.gangs import GangKey
from scheduler.extender.names import GROUP, KIND, VERSION
from scheduler.extender.objects import Metadata, instant
from scheduler.extender.parallelism import format_parallelism, parse_parallelism
from scheduler.extender.plan import Condition, Phase, Plan, Spec, object_name
from scheduler.job import Avoid, Family, Hold
from topology.errors import InvalidInput

MOST_BYTES = 64_000_000
"""Names of the nodes of one plan, unpacked; a million nodes with long names."""

_NONE = bytes(16)


def encode_plan(plan: Plan) -> dict[str, Any]:
    """The GangPlan, ready to be written as JSON.

    Its metadata has name and namespace, and uid and resourceVersion where they are known.
    """
    metadata = {"name": object_name(plan.key), "namespace": plan.key.namespace}
    if plan.uid:
        metadata["uid"] = plan.uid
    if plan.resource_version:
        metadata["resourceVersion"] = plan.resource_version
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": metadata,
        "spec": encode_spec(plan),
        "status": encode_status(plan),
    }


def encode_spec(plan: Plan) -> dict[str, Any]:
    """What was asked; fields that nobody gave are left out."""
    spec = plan.spec
    fields: dict[str, Any] = {
        "gang": plan.key.name,
        "dialect": spec.dialect or None,
        "size": spec.size,
        "gpusPerNode": spec.gpus_per_node or None,
        "priority": spec.priority,
    }
    if spec.parallelism is not None:
        fields |= {
            "parallelism": format_parallelism(spec.parallelism),
            "order": spec.parallelism.order,
            "alpha": spec.alpha,
            "level": spec.level,
            "avoid": spec.avoid,
            "holds": [{"family": hold.family, "level": hold.level} for hold in spec.holds],
        }
    return _given(fields)


def encode_status(plan: Plan) -> dict[str, Any]:
    """What was decided; fields that are not known are left out."""
    spread, gap = plan.spread, plan.gap
    return _given(
        {
            "phase": plan.phase.value,
            "reason": plan.reason or None,
            "message": plan.message or None,
            "expires": _timestamp(plan.expires) if plan.expires is not None else None,
            "spread": None if spread is None else {"dp": spread[0], "pp": spread[1]},
            "objective": plan.objective,
            "bound": plan.bound,
            "gap": gap,
            "boundPods": plan.bound_pods,
            "wouldFitIfEmpty": plan.would_fit_if_empty,
            "conditions": [_encode_condition(one) for one in plan.conditions],
            "assignment": _given({"nodes": pack_names(plan.nodes), "pods": pack_uids(plan.pods)}) or None,
            "summary": _given(
                {
                    "spread": None if spread is None else f"{spread[0]}/{spread[1]}",
                    "gap": None if gap is None else f"{gap:.1%}",
                    "pods": f"{plan.bound_pods}/{plan.size}" if plan.size else None,
                }
            ),
        }
    )


def decode_plan(raw: bytes | dict[str, Any]) -> Plan:
    """A plan from its GangPlan.

    :raises InvalidInput: not a GangPlan that Arnold wrote; ``where`` says which.
    """
    try:
        found = _decoder.decode(raw) if isinstance(raw, bytes) else msgspec.convert(raw, _Document)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable("", str(error)) from None
    where = f"{found.metadata.namespace}/{found.metadata.name}"
    spec, status = found.spec, found.status
    try:
        return Plan(
            key=GangKey(found.metadata.namespace or "default", spec.gang or found.metadata.name),
            phase=Phase(status.phase),
            spec=Spec(
                dialect=spec.dialect,
                size=spec.size,
                gpus_per_node=spec.gpus_per_node,
                parallelism=parse_parallelism(spec.parallelism, order=spec.order) if spec.parallelism else None,
                alpha=spec.alpha,
                level=spec.level,
                avoid=spec.avoid,
                holds=tuple(Hold(hold.family, hold.level) for hold in spec.holds),
                priority=spec.priority,
            ),
            uid=found.metadata.uid,
            resource_version=found.metadata.resource_version,
            nodes=unpack_names(status.assignment.nodes),
            pods=unpack_uids(status.assignment.pods),
            spread=None if status.spread is None else (status.spread.dp, status.spread.pp),
            objective=status.objective,
            bound=status.bound,
            gap=status.gap,
            expires=None if status.expires is None else instant(status.expires),
            bound_pods=status.bound_pods,
            would_fit_if_empty=status.would_fit_if_empty,
            reason=status.reason,
            message=status.message,
            conditions=tuple(
                Condition(one.type, one.status, one.reason, one.message, instant(one.last_transition_time))
                for one in status.conditions
            ),
            created=instant(found.metadata.creation_timestamp) if found.metadata.creation_timestamp else None,
        )
    except (ValueError, InvalidInput) as error:
        raise _unreadable(where, str(error)) from None


def pack_names(names: Sequence[str]) -> str | None:
    """Names of nodes as one short text; ``None`` for none."""
    return base64.b64encode(zlib.compress("\n".join(names).encode(), 6)).decode() if names else None


def unpack_names(text: str | None) -> tuple[str, ...]:
    """The names in such a text.

    :raises ValueError: it is none, or absurdly long.
    """
    if not text:
        return ()
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"assignment.nodes cannot be unpacked: {error}") from None
    if not unpacker.eof:
        raise ValueError("assignment.nodes is cut off, or absurdly long")
    return tuple(plain.decode().split("\n"))


def pack_uids(uids: Sequence[str | None]) -> str | None:
    """UIDs of pods as one short text; ``None`` for none."""
    if not uids:
        return None
    return base64.b64encode(b"".join(_NONE if uid is None else UUID(uid).bytes for uid in uids)).decode()


def unpack_uids(text: str | None) -> tuple[str | None, ...]:
    """The UIDs in such a text.

    :raises ValueError: it is none.
    """
    try:
        data = base64.b64decode(text or "", validate=True)
    except binascii.Error as error:
        raise ValueError(f"assignment.pods cannot be unpacked: {error}") from None
    if len(data) % 16:
        raise ValueError("assignment.pods is cut off")
    chunks = (data[i : i + 16] for i in range(0, len(data), 16))
    return tuple(None if chunk == _NONE else str(UUID(bytes=chunk)) for chunk in chunks)


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the document; unknown fields are left for later versions."""


class _Hold(_Part, frozen=True):
    family: Family
    level: str


class _Spec(_Part, frozen=True):
    gang: str = ""
    dialect: str = ""
    size: int | None = None
    gpus_per_node: int = 0
    parallelism: str | None = None
    order: str | None = None
    alpha: float = 0.5
    level: str | None = None
    avoid: Avoid = "price"
    holds: list[_Hold] = []
    priority: int = 0


class _Spread(_Part, frozen=True):
    dp: int
    pp: int


class _Assignment(_Part, frozen=True):
    nodes: str | None = None
    pods: str | None = None


class _Condition(_Part, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class _Status(_Part, frozen=True):
    phase: str = Phase.WAITING.value
    reason: str = ""
    message: str = ""
    expires: str | None = None
    spread: _Spread | None = None
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    bound_pods: int = 0
    would_fit_if_empty: bool | None = None
    conditions: list[_Condition] = []
    assignment: _Assignment = _Assignment()


class _Document(_Part, frozen=True):
    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decoder = msgspec.json.Decoder(_Document)


def _encode_condition(condition: Condition) -> dict[str, str]:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": _timestamp(condition.since, whole=True),
    }


def _timestamp(time: datetime, *, whole: bool = False) -> str:
    """RFC 3339 in UTC; conditions take whole seconds (``metav1.Time``)."""
    return time.astimezone(UTC).isoformat(timespec="seconds" if whole else "microseconds").replace("+00:00", "Z")


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _unreadable(where: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"GangPlan cannot be read: {what}", where=where, fix="delete it; the gang is planned again from its pods"
    )
