"""A reservation as a ``CapacityReservation`` object, and back.

    spec     nodes, parallelism "tp=8,pp=8,dp=150", gpusPerNode, alpha, level, avoid, arrives, expires, gang,
             selector {matchLabels}, nodeSelector, tolerations
    status   phase, reason, message, zone [node], spread {dp, pp}, objective, bound, gap, heldByOthers, conditions,
             summary {spread "S/R", clear "12/96"}

``zone`` is in the order of ranks, so that a lost node is replaced with the fewest changes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from extender.names import GROUP, RESERVATION_KIND, VERSION
from extender.objects import Metadata, Toleration, instant
from extender.plans import ConditionPart, decode_condition, encode_condition, given
from extender.reservations.reservation import Ask, Reservation, ReservationKey, ReservationPhase
from topology.errors import InvalidInput


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the document."""


class _SelectorPart(_Part, frozen=True):
    match_labels: dict[str, str] = {}


class _SpecPart(_Part, frozen=True):
    nodes: int | None = None
    parallelism: str | None = None
    gpus_per_node: int = 8
    alpha: float | None = None
    level: str | None = None
    avoid: str | None = None
    arrives: str = ""
    expires: str | None = None
    gang: str = ""
    selector: _SelectorPart = _SelectorPart()
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []


class _SpreadPart(_Part, frozen=True):
    dp: int
    pp: int


class _StatusPart(_Part, frozen=True):
    phase: ReservationPhase = ReservationPhase.ANNOUNCED
    reason: str = ""
    message: str = ""
    zone: list[str] = []
    spread: _SpreadPart | None = None
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    held_by_others: int | None = None
    conditions: list[ConditionPart] = []


class _DocumentPart(_Part, frozen=True):
    metadata: Metadata
    spec: _SpecPart = _SpecPart()
    status: _StatusPart = _StatusPart()


_decoder = msgspec.json.Decoder(_DocumentPart)


def decode_reservation(raw: bytes | dict[str, Any]) -> Reservation:
    """A reservation from its CapacityReservation.

    :raises InvalidInput: no CapacityReservation.
    """
    try:
        found = _decoder.decode(raw) if isinstance(raw, bytes) else msgspec.convert(raw, _DocumentPart)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(
            f"{RESERVATION_KIND} cannot be read: {error}", fix="apply manifests/crds, which refuse what is none"
        ) from None
    meta, spec, status = found.metadata, found.spec, found.status
    return Reservation(
        key=ReservationKey(meta.namespace or "default", meta.name),
        ask=Ask(
            nodes=spec.nodes,
            parallelism=spec.parallelism,
            gpus_per_node=spec.gpus_per_node,
            alpha=spec.alpha,
            level=spec.level,
            avoid=spec.avoid,
            arrives=instant(spec.arrives),
            expires=None if spec.expires is None else instant(spec.expires),
            gang=spec.gang,
            labels=spec.selector.match_labels,
            node_selector=spec.node_selector,
            tolerations=tuple(spec.tolerations),
        ),
        announced=instant(meta.creation_timestamp),
        uid=meta.uid,
        resource_version=meta.resource_version,
        phase=status.phase,
        zone=tuple(status.zone),
        spread=None if status.spread is None else (status.spread.dp, status.spread.pp),
        objective=status.objective,
        bound=status.bound,
        gap=status.gap,
        held_by_others=status.held_by_others,
        reason=status.reason,
        message=status.message,
        conditions=tuple(map(decode_condition, status.conditions)),
    )


def encode_status(reservation: Reservation) -> dict[str, Any]:
    """The CapacityReservation with its status, ready to be written to the subresource ``status``."""
    spread, size = reservation.spread, len(reservation.zone)
    clear = None
    if reservation.held_by_others is not None:
        clear = f"{size - reservation.held_by_others}/{size}"
    status = {
        "phase": reservation.phase.value,
        "reason": reservation.reason or None,
        "message": reservation.message or None,
        "zone": list(reservation.zone) or None,
        "spread": None if spread is None else {"dp": spread[0], "pp": spread[1]},
        "objective": reservation.objective,
        "bound": reservation.bound,
        "gap": reservation.gap,
        "heldByOthers": reservation.held_by_others,
        "conditions": [encode_condition(one) for one in reservation.conditions],
        "summary": given({"spread": None if spread is None else f"{spread[0]}/{spread[1]}", "clear": clear}),
    }
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": RESERVATION_KIND,
        "metadata": {
            "name": reservation.key.name,
            "namespace": reservation.key.namespace,
            "uid": reservation.uid,
            "resourceVersion": reservation.resource_version,
        },
        "status": given(status),
    }
