"""What becomes of a reservation: a pure function of what is known and the time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from extender.cluster_cache import ClusterCache
from extender.controller.obstacles import repelling_taint
from extender.gangs.types import Gang, InvalidGang
from extender.plans.reservation import Reservation, ReservationPhase
from extender.queueing.queue_entries import gang_for
from extender.texts import counted
from scheduler.queue.types import QueuePolicy


@dataclass(frozen=True, slots=True)
class Next:
    """What is to become of a reservation."""

    reservation: Reservation
    lost: tuple[str, ...] = ()  # nodes of its zone that it cannot have any more
    wanted: bool = False  # whether the solver has to find a zone, or other nodes for it, first


def decide_reservation(
    state: ClusterCache, reservation: Reservation, now: datetime, *, policy: QueuePolicy, lost_after: timedelta
) -> Next:
    """Return what is to become of a reservation; a node that is not Ready for ``lost_after`` is lost."""
    job = reservation.understanding
    if isinstance(job, InvalidGang):
        new = reservation.with_condition("Valid", False, job.reason, str(job), now)
        return Next(_given_back(new, ReservationPhase.ANNOUNCED, job.reason, str(job), now))
    new = reservation.with_condition("Valid", True, "Consistent", "", now)
    gang = gang_for(state, reservation)
    if gang is not None and not gang.over and (plan := state.holding_plan(gang.key)) is not None:
        inside = len({*plan.nodes} & {*reservation.zone})
        note = f"gang {gang.key} has its nodes"
        if reservation.phase is not ReservationPhase.USED:
            note += f", {inside} of {len(plan.nodes)} in the zone"
            return Next(new.replace(phase=ReservationPhase.USED, reason="Used", message=note, held_by_others=None))
        return Next(new)
    if reservation.phase is ReservationPhase.USED and (gang is None or gang.over):
        return Next(new)
    if now >= reservation.expires:
        note = "its gang did not come in time"
        return Next(_given_back(new, ReservationPhase.EXPIRED, "Expired", note, now))
    if not policy.reserving:
        note = f"the queue policy {policy.name} heeds no reservations\nTo fix: start the extender with --queue arnold"
        new = new.with_condition("Heeded", False, "Policy", note, now)
        return Next(_given_back(new, ReservationPhase.ANNOUNCED, "NotHeeded", note, now))
    new = new.with_condition("Heeded", True, "Policy", policy.name, now)
    lost = tuple(name for name in reservation.zone if _lost(state, reservation, name, now, lost_after))
    if not reservation.zone or lost or job.grid.cells != len(reservation.zone):
        return Next(new, lost=lost, wanted=True)
    return Next(held(state, new, gang, now))


def held(state: ClusterCache, reservation: Reservation, gang: Gang | None, now: datetime) -> Reservation:
    """Return a reservation with a zone: kept from others, and how many of its nodes others still have."""
    others = sum(_in_use(state, name, gang) for name in reservation.zone)
    size, spread = counted(len(reservation.zone), "node"), reservation.spread or (0, 0)
    worth = f"DP spread {spread[0]}, PP spread {spread[1]}, objective {reservation.objective or 0:g}"
    left = f"; {others} of them still held by others" if others else ""
    new = reservation.replace(
        phase=ReservationPhase.HELD, reason="Held", message=f"{size}, {worth}{left}", held_by_others=others
    )
    new = new.with_condition("Zoned", True, "Zoned", worth, now)
    if others:
        return new.with_condition("Clear", False, "HeldByOthers", f"{others} of {size} are held by others", now)
    return new.with_condition("Clear", True, "Clear", "", now)


def without_zone(reservation: Reservation, now: datetime) -> Reservation:
    """Return a reservation for which there is no zone, for the reason in its message."""
    why = reservation.message
    new = _given_back(reservation, ReservationPhase.ANNOUNCED, "NoZone", why, now)
    return new.with_condition("Zoned", False, "NoZone", why, now)


def _given_back(
    reservation: Reservation, phase: ReservationPhase, reason: str, message: str, now: datetime
) -> Reservation:
    """Return the reservation without a zone; an expired one still says what it would have been worth."""
    new = reservation.replace(phase=phase, reason=reason, message=message, zone=(), held_by_others=None)
    if new.condition("Zoned") is not None:
        for kind in ("Zoned", "Clear"):
            new = new.with_condition(kind, False, reason, message, now)
    return new if phase is ReservationPhase.EXPIRED else new.without_worth()


def _in_use(state: ClusterCache, node: str, gang: Gang | None) -> bool:
    owner = state.fleet.promised_to(node)
    if owner is not None:
        return gang is None or owner != gang.key
    return state.fleet.held(node) > 0


def _lost(state: ClusterCache, reservation: Reservation, node: str, now: datetime, lost_after: timedelta) -> bool:
    """Return whether no new pod of the gang may come to a node, for longer than a moment."""
    fleet = state.fleet
    host = fleet.host(node)
    if host is None or host.gpus != reservation.ask.gpus_per_node or host.cordoned:
        return True
    if host.ailing(now):
        return host.ready_since is None or now >= host.ready_since + lost_after
    demand = reservation.demand
    return repelling_taint(host, (demand,)) is not None or not demand.accepts(node, host.labels)
