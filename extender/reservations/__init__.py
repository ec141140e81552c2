"""Room for large gangs that were announced: what was asked, and the zone that is kept for it."""

from __future__ import annotations

from extender.reservations.document import decode_reservation, encode_status
from extender.reservations.reservation import (
    Ask,
    Reservation,
    ReservationKey,
    ReservationPhase,
    Understanding,
)

__all__ = [
    "Ask",
    "Reservation",
    "ReservationKey",
    "ReservationPhase",
    "Understanding",
    "decode_reservation",
    "encode_status",
]
