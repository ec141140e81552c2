"""Reservations: what becomes of each, as a pure decision, and the task that keeps them.

It looks at all of them every second: there are few, and arrivals, ends of pods and expiries change them by time alone.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Literal, NamedTuple

from extender.cluster_api.client import RESERVATIONS
from extender.cluster_api.events import Regarding
from extender.cluster_api.flow import Backoff
from extender.cluster_cache import ClusterCache
from extender.controller.decide import repelling_taint
from extender.controller.pacing import RETHINK
from extender.controller.store import Dependencies, NotLeading
from extender.gangs.types import Gang, InvalidGang
from extender.planner.solve import find_zone, zone_question
from extender.plans.reservation import Reservation, ReservationKey, ReservationPhase, ReservationSpec
from extender.queue_views import gang_for
from extender.texts import named
from ground.errors import ArnoldError
from ground.quantities import plural
from scheduler.queue.policy import QueuePolicy

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # how often reservations are looked at


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
        inside = len({*plan.node_names} & {*reservation.zone})
        note = f"gang {gang.key} has its nodes"
        if reservation.phase is not ReservationPhase.USED:
            note += f", {inside} of {len(plan.node_names)} in the zone"
            return Next(new.replace(phase=ReservationPhase.USED, reason="Used", message=note, held_by_others=None))
        return Next(new)
    if reservation.phase is ReservationPhase.USED and (gang is None or gang.over):
        return Next(new)
    if now >= reservation.expires:
        note = "its gang did not come in time"
        return Next(_given_back(new, ReservationPhase.EXPIRED, "Expired", note, now))
    if not policy.reserving:
        note = f"the queue policy {policy.name} heeds no reservations\nTo fix: start the extender with --policy arnold"
        new = new.with_condition("Heeded", False, "Policy", note, now)
        return Next(_given_back(new, ReservationPhase.ANNOUNCED, "NotHeeded", note, now))
    new = new.with_condition("Heeded", True, "Policy", policy.name, now)
    demand = reservation.demand

    def lost(node: str) -> bool:
        """Return whether no new pod of the gang may come to a node, for longer than a moment."""
        host = state.fleet.host(node)
        gpus = reservation.ask.gpus_per_node
        if host is None or host.gpus != gpus or host.allocatable < gpus or host.cordoned:
            return True
        if host.ailing(now):
            return host.ready_since is None or now >= host.ready_since + lost_after
        return repelling_taint(host, (demand,)) is not None or not demand.accepts(node, host.labels)

    lost_nodes = tuple(name for name in reservation.zone if lost(name))
    if not reservation.zone or lost_nodes or job.grid.cells != len(reservation.zone):
        return Next(new, lost=lost_nodes, wanted=True)
    return Next(held(state, new, gang, now))


def held(state: ClusterCache, reservation: Reservation, gang: Gang | None, now: datetime) -> Reservation:
    """Return a reservation with a zone: kept from others, and how many of its nodes others still have."""
    others, own = 0, None if gang is None else gang.key
    for node in reservation.zone:
        owner = state.fleet.promised_to(node)
        others += owner != own if owner is not None else state.fleet.held.gpus_on(node) > 0
    size, spread = plural(len(reservation.zone), "node"), reservation.spread or (0, 0)
    worth = f"DP spread {spread[0]}, PP spread {spread[1]}, objective {reservation.objective or 0:g}"
    left = f"; {others} of them still held by others" if others else ""
    new = reservation.replace(
        phase=ReservationPhase.HELD, reason="Held", message=f"{size}, {worth}{left}", held_by_others=others
    )
    new = new.with_condition("Zoned", True, "Zoned", worth, now)
    if others:
        return new.with_condition("Clear", False, "HeldByOthers", f"{others} of {size} are held by others", now)
    return new.with_condition("Clear", True, "Clear", "", now)


def _given_back(
    reservation: Reservation, phase: ReservationPhase, reason: str, message: str, now: datetime
) -> Reservation:
    """Return the reservation without a zone; an expired one still says what it would have been worth."""
    new = reservation.replace(phase=phase, reason=reason, message=message, zone=(), held_by_others=None)
    if new.condition("Zoned") is not None:
        for kind in ("Zoned", "Clear"):
            new = new.with_condition(kind, False, reason, message, now)
    return new if phase is ReservationPhase.EXPIRED else new.without_worth()


class _LastQuestion(NamedTuple):
    """What the solver was asked last about a reservation."""

    ask: ReservationSpec
    lost: tuple[str, ...]
    version: int  # of the fleet that it was told of, at least
    again: float  # when it may be asked about another version, on the steady clock


@dataclass
class ReservationController:
    """Keeps reservations; :meth:`run` never returns."""

    shared: Dependencies
    _last: dict[ReservationKey, _LastQuestion] = field(default_factory=dict)
    _backoff: Backoff = field(default_factory=lambda: Backoff(first=LOOK_SECONDS, longest=RETHINK))

    async def run(self) -> None:
        """Look at all reservations, for ever; one that cannot be written does not keep the others waiting."""
        while True:
            if self.shared.active:
                reservations = self.shared.state.reservations
                self._last = {key: question for key, question in self._last.items() if key in reservations}
                for key in sorted(reservations, key=lambda key: (reservations[key].announced, key)):
                    try:
                        await self.look(key)
                    except NotLeading:
                        break
                    except ArnoldError as error:
                        logger.warning("%s; trying again", error, extra={"reservation": str(key)})
                    except Exception:
                        logger.exception("a bug in Arnold; the reservation is tried again")
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self, key: ReservationKey) -> None:
        """Decide about one, and write what came of it, or raise ``ClusterError``: it cannot be written."""
        shared, state = self.shared, self.shared.state
        if (before := state.reservations.get(key)) is None:
            return
        decided = decide_reservation(state, before, shared.now(), policy=shared.policy, lost_after=shared.terms.lost)
        new, lost, version = decided.reservation, decided.lost, state.fleet.version
        if decided.wanted:
            last = self._last.get(key)
            # the answer may differ from the last one to the same question when the cluster is another for a while
            same = last is not None and (last.ask, last.lost) == (before.ask, lost)
            if last is not None and same and (last.version == version or monotonic() < last.again):
                return
            new = await self._zoned(new, before, lost)
            # An answer that came too late, or cannot be written, is asked for again, whatever the version.
            self._last[key] = _LastQuestion(new.ask, lost, -1, monotonic() + self._backoff.next())
            if state.reservations.get(key) is not before:
                return
        if (new := state.definitions.kept(new)) != before:
            await shared.writer.reserve(new)
            if (new.phase, new.zone) != (before.phase, before.zone):
                kind: Literal["Normal", "Warning"] = "Warning"
                if new.held or new.phase is ReservationPhase.USED:
                    kind = "Normal"
                regarding = Regarding(RESERVATIONS, key.namespace, key.name, new.uid)
                shared.events.say(regarding, reason=new.reason, note=new.message, kind=kind)
                logger.info("%s: %s", new.phase.value, new.message, extra={"reservation": str(key)})
        if decided.wanted:
            self._last[key] = _LastQuestion(new.ask, lost, version, monotonic() + RETHINK)
            self._backoff.reset()

    async def _zoned(self, reservation: Reservation, before: Reservation, lost: tuple[str, ...]) -> Reservation:
        """Return the reservation with a zone; where lost nodes cannot be replaced, with what is left."""
        shared, state = self.shared, self.shared.state
        async with shared.solver:
            question = zone_question(state, reservation, lost, shared.now())
            zoned = await shared.ask(find_zone, question, what="zone", fits=lambda answer: bool(answer.zone))
        now = shared.now()
        if zoned.zone:
            return held(state, zoned, gang_for(state, zoned), now)
        if not lost:
            new = _given_back(zoned, ReservationPhase.ANNOUNCED, "NoZone", zoned.message, now)
            return new.with_condition("Zoned", False, "NoZone", zoned.message, now)
        note = f"{named(lost)} cannot be used, and no other node can be had: {zoned.message}"
        kept = held(state, reservation, gang_for(state, before), now)
        return kept.with_condition("Zoned", False, "NodesLost", note, now)
