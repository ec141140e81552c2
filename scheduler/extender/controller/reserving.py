"""Reservations: from announced to held, used or expired.

A pure decision for each, and a task that looks at all of them every second: there are few, and arrivals, ends of pods
and expiries change them by time alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from time import monotonic

from scheduler.extender.cluster_api import EventRecorder, Regarding
from scheduler.extender.controller.pacing import RETHINK
from scheduler.extender.controller.words import counted, named
from scheduler.extender.controller.writer import RESERVATIONS, NotLeading, Telemetry, Writer
from scheduler.extender.gangs import Gang
from scheduler.extender.planner import find_zone, zone_question
from scheduler.extender.queueing import gang_for
from scheduler.extender.reservations import Ask, Reservation, ReservationKey, ReservationPhase
from scheduler.extender.state import State
from scheduler.placement.types import Limits
from scheduler.queue.types import QueuePolicy
from topology.errors import ArnoldError

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often reservations are looked at."""


@dataclass(frozen=True, slots=True)
class Next:
    """What is to become of a reservation.

    :param reservation: as it should be written.
    :param lost: nodes of its zone that it cannot have any more.
    :param wanted: whether the solver has to find a zone, or other nodes for it, first.
    """

    reservation: Reservation
    lost: tuple[str, ...] = ()
    wanted: bool = False


def decide_reservation(
    state: State, reservation: Reservation, now: datetime, *, policy: QueuePolicy, lost_after: timedelta
) -> Next:
    """What is to become of a reservation, from what is known and the time.

    :param lost_after: how long a node may be not Ready before it is lost.
    """
    problem = reservation.understanding.problem
    if problem is not None:
        new = reservation.with_condition("Valid", False, problem.reason, str(problem), now)
        return Next(_given_back(new, ReservationPhase.ANNOUNCED, problem.reason, str(problem), now))
    new = reservation.with_condition("Valid", True, "Consistent", "", now)
    gang = gang_for(state, reservation)
    if gang is not None and not gang.over and (plan := state.plans.get(gang.key)) is not None and plan.holding:
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
    if not reservation.zone or lost or _other_job(reservation):
        return Next(new, lost=lost, wanted=True)
    return Next(held(state, new, gang, now))


def held(state: State, reservation: Reservation, gang: Gang | None, now: datetime) -> Reservation:
    """A reservation with a zone: kept from others, and how many of its nodes others still have."""
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
    """A reservation for which there is no zone, for the reason in its message."""
    why = reservation.message
    new = _given_back(reservation, ReservationPhase.ANNOUNCED, "NoZone", why, now)
    return new.with_condition("Zoned", False, "NoZone", why, now)


def _given_back(
    reservation: Reservation, phase: ReservationPhase, reason: str, message: str, now: datetime
) -> Reservation:
    """Without a zone; an expired reservation still says what it would have been worth."""
    new = reservation.replace(phase=phase, reason=reason, message=message, zone=(), held_by_others=None)
    if any(one.type == "Zoned" for one in new.conditions):
        new = new.with_condition("Zoned", False, reason, message, now).with_condition(
            "Clear", False, reason, message, now
        )
    if phase is ReservationPhase.EXPIRED:
        return new
    return new.replace(spread=None, objective=None, bound=None, gap=None)


def _other_job(reservation: Reservation) -> bool:
    """Whether the spec was changed, so that another number of nodes is needed."""
    job = reservation.understanding.job
    return job is not None and job.grid.cells != len(reservation.zone)


def _in_use(state: State, node: str, gang: Gang | None) -> bool:
    owner = state.fleet.promised_to(node)
    if owner is not None:
        return gang is None or owner != gang.key
    return state.fleet.held(node) > 0


def _lost(state: State, reservation: Reservation, node: str, now: datetime, lost_after: timedelta) -> bool:
    """Whether no new pod of the gang may come to a node, for longer than a moment."""
    fleet = state.fleet
    host = fleet.host(node)
    if host is None or host.gpus != reservation.ask.gpus_per_node or host.cordoned:
        return True
    if fleet.ailing(node, now):
        since = fleet.not_ready_since(node)
        return since is None or now >= since + lost_after
    # Taints that Kubernetes sets itself repeat conditions, which are waited for.
    taints = (taint for taint in host.repelling if not taint.key.startswith("node.kubernetes.io/"))
    return not all(reservation.demand.tolerates(taint) for taint in taints) or not reservation.demand.accepts(
        node, host.labels
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the solver was asked last about a reservation, on which version of the fleet, and when."""

    ask: Ask
    lost: tuple[str, ...]
    version: int
    at: float


@dataclass
class Reserver:
    """Keeps reservations; :meth:`run` never returns.

    :param solver: held while the solver is asked.
    :param ready: whether the cache holds the cluster.
    """

    state: State
    writer: Writer
    events: EventRecorder
    _: KW_ONLY
    telemetry: Telemetry
    policy: QueuePolicy
    limits: Limits
    solver: asyncio.Lock
    lost_after: timedelta
    leads: Callable[[], bool]
    ready: Callable[[], bool]
    now: Callable[[], datetime]
    _asked: dict[ReservationKey, _Asked] = field(default_factory=dict)

    async def run(self) -> None:
        """Look at all reservations, for ever; one that cannot be written does not keep the others waiting."""
        while True:
            if self.leads() and self.ready():
                for key in self._by_age():
                    try:
                        await self.look(key)
                    except NotLeading:
                        break
                    except ArnoldError as error:
                        logger.warning("%s; trying again", error, extra={"reservation": str(key)})
                    except Exception:
                        logger.exception("a fault of Arnold; the reservation is tried again")
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self, key: ReservationKey) -> None:
        """Decide about one, and write what came of it.

        :raises ClusterError: it cannot be written.
        """
        before = self.state.reservations.get(key)
        if before is None:
            return
        found = decide_reservation(self.state, before, self.now(), policy=self.policy, lost_after=self.lost_after)
        new = found.reservation
        if found.wanted:
            if not self._may_ask(before, found.lost):
                return
            new = await self._zone(new, before, found.lost)
            if self.state.reservations.get(key) is not before:
                return
        if new == before:
            return
        await self.writer.reserve(new)
        if (new.phase, new.zone) != (before.phase, before.zone):
            good = new.held or new.phase is ReservationPhase.USED
            regarding = Regarding(RESERVATIONS, key.namespace, key.name, new.uid)
            self.events.say(regarding, reason=new.reason, note=new.message, kind="Normal" if good else "Warning")
            logger.info("%s: %s", new.phase.value, new.message, extra={"reservation": str(key)})

    async def _zone(self, reservation: Reservation, before: Reservation, lost: Sequence[str]) -> Reservation:
        """The reservation with a zone; one that has lost nodes for which there are no others keeps what is left."""
        async with self.solver:
            question = zone_question(self.state, reservation, lost, self.now())
            started = monotonic()
            found = await asyncio.to_thread(find_zone, question, self.limits)
            self.telemetry.planned(monotonic() - started, "zone" if found.zone else "zone-no-room")
        self._asked[reservation.key] = _Asked(reservation.ask, tuple(lost), self.state.fleet.version, monotonic())
        if not found.zone and lost:
            kept = held(self.state, reservation, gang_for(self.state, before), self.now())
            note = f"{named(lost)} cannot be used, and no other node can be had: {found.message}"
            return kept.with_condition("Zoned", False, "NodesLost", note, self.now())
        if not found.zone:
            return without_zone(found, self.now())
        return held(self.state, found, gang_for(self.state, found), self.now())

    def _may_ask(self, reservation: Reservation, lost: tuple[str, ...]) -> bool:
        """Whether the answer may be another than the last time: another question, or another cluster for a while."""
        known = self._asked.get(reservation.key)
        if known is None or (known.ask, known.lost) != (reservation.ask, lost):
            return True
        return known.version != self.state.fleet.version and monotonic() >= known.at + RETHINK

    def _by_age(self) -> list[ReservationKey]:
        for key in self._asked.keys() - self.state.reservations.keys():
            with suppress(KeyError):
                del self._asked[key]
        return sorted(self.state.reservations, key=lambda key: (self.state.reservations[key].announced, key))
