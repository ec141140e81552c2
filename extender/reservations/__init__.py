"""Room for large gangs that were announced: what was asked, and the zone that is kept for it."""

from __future__ import annotations

from extender.reservations.reservation import (
    Reservation,
    ReservationKey,
    ReservationPhase,
    ReservationSpec,
    Understanding,
    decode_reservation,
    encode_reservation,
)

__all__ = [
    "Reservation",
    "ReservationKey",
    "ReservationPhase",
    "ReservationSpec",
    "Understanding",
    "decode_reservation",
    "encode_reservation",
]
