"""Findings about a resource of ours, as ``metav1.Condition``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from extender.objects import instant


@dataclass(frozen=True, slots=True)
class Condition:
    """One finding.

    :param status: ``True``, ``False`` or ``Unknown``.
    :param reason: one word, CamelCase.
    :param message: for people.
    :param since: when the status last changed.
    """

    type: str
    status: str
    reason: str
    message: str
    since: datetime


class ConditionPart(msgspec.Struct, frozen=True, rename="camel"):
    """A condition as it is written."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


def with_condition(
    conditions: Sequence[Condition], kind: str, status: bool | None, reason: str, message: str, *, now: datetime
) -> tuple[Condition, ...]:
    """Conditions with one of them set; its time changes only when its status does."""
    text = {True: "True", False: "False", None: "Unknown"}[status]
    old = next((one for one in conditions if one.type == kind), None)
    since = old.since if old is not None and old.status == text else now
    new = Condition(kind, text, reason, message, since)
    kept = [new if one.type == kind else one for one in conditions]
    return tuple(kept if old is not None else [*kept, new])


def encode_condition(condition: Condition) -> dict[str, str]:
    """A condition, ready to be written as JSON."""
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": timestamp(condition.since, whole=True),
    }


def decode_condition(part: ConditionPart) -> Condition:
    """A condition as it was read."""
    return Condition(part.type, part.status, part.reason, part.message, instant(part.last_transition_time))


def timestamp(time: datetime, *, whole: bool = False) -> str:
    """RFC 3339 in UTC; conditions take whole seconds (``metav1.Time``)."""
    return time.astimezone(UTC).isoformat(timespec="seconds" if whole else "microseconds").replace("+00:00", "Z")


def given(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that are known."""
    return {name: value for name, value in fields.items() if value is not None}
