"""The task that keeps reservations.

It looks at all of them every second: there are few, and arrivals, ends of pods and expiries change them by time alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from time import monotonic

from extender.cluster_api import EventRecorder, Regarding
from extender.controller.pacing import RETHINK
from extender.controller.reserving import decide_reservation, held, without_zone
from extender.controller.words import named
from extender.controller.writer import RESERVATIONS, NotLeading, Telemetry, Writer
from extender.planner import find_zone, zone_question
from extender.queueing import gang_for
from extender.reservations import Ask, Reservation, ReservationKey, ReservationPhase
from extender.state import State
from scheduler.placement.types import Limits
from scheduler.queue.types import QueuePolicy
from topology.errors import ArnoldError

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often reservations are looked at."""


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
