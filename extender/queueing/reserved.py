"""Which gang a reservation is for, and which reservation a gang has."""

from __future__ import annotations

from extender.cluster_cache import ClusterCache
from extender.gangs import Gang, GangKey
from extender.reservations import Reservation


def reservation_for(state: ClusterCache, gang: Gang) -> Reservation | None:
    """Return the reservation whose zone a gang may use; of several, the one that arrives first."""
    if not state.reservations:
        return None
    found = (one for one in state.reservations.values() if one.held and _meant(one, gang))
    return min(found, key=lambda one: (one.ask.arrives, one.key), default=None)


def gang_for(state: ClusterCache, reservation: Reservation) -> Gang | None:
    """Return the gang that uses a reservation, or will: one with nodes, else one that is complete, else the oldest."""
    if reservation.gang is not None:
        return state.gang(reservation.gang)
    found = [gang for gang in state.gangs() if not gang.over and _meant(reservation, gang)]

    def order(gang: Gang) -> tuple[object, ...]:
        return not _has_nodes(state, gang.key), not gang.complete, gang.created, gang.key

    return min(found, key=order, default=None)


def claimed(state: ClusterCache, reservation: Reservation) -> bool:
    """Return whether its gang is here, complete, and waits for its nodes: then no other comes in."""
    gang = gang_for(state, reservation)
    return gang is not None and not gang.over and gang.complete and not _has_nodes(state, gang.key)


def _meant(reservation: Reservation, gang: Gang) -> bool:
    if gang.key.namespace != reservation.key.namespace:
        return False
    if reservation.gang is not None:
        return gang.key == reservation.gang
    wanted = reservation.ask.labels.items()
    return all(wanted <= pod.labels.items() for pod in gang.pods)


def _has_nodes(state: ClusterCache, key: GangKey) -> bool:
    plan = state.plans.get(key)
    return plan is not None and plan.holding
