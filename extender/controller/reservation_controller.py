"""The task that keeps reservations.

It looks at all of them every second: there are few, and arrivals, ends of pods and expiries change them by time alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic

from extender.cluster_api import Regarding
from extender.controller.api_writer import RESERVATIONS, NotLeading
from extender.controller.decide_reservations import decide_reservation, held, without_zone
from extender.controller.dependencies import Dependencies
from extender.controller.event_phrases import named
from extender.controller.pacing import RETHINK
from extender.planner import find_zone, zone_question
from extender.queueing import gang_for
from extender.reservations import Reservation, ReservationKey, ReservationPhase, ReservationSpec
from topology.errors import ArnoldError

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often reservations are looked at."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the solver was asked last about a reservation, on which version of the fleet, and when."""

    ask: ReservationSpec
    lost: tuple[str, ...]
    version: int
    at: float


@dataclass
class ReservationController:
    """Keeps reservations; :meth:`run` never returns."""

    shared: Dependencies
    _asked: dict[ReservationKey, _Asked] = field(default_factory=dict)

    async def run(self) -> None:
        """Look at all reservations, for ever; one that cannot be written does not keep the others waiting."""
        while True:
            if self.shared.active:
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
        before = self.shared.state.reservations.get(key)
        if before is None:
            return
        found = decide_reservation(
            self.shared.state, before, self.shared.now(), policy=self.shared.policy, lost_after=self.shared.terms.lost
        )
        new = found.reservation
        if found.wanted:
            if not self._may_ask(before, found.lost):
                return
            new = await self._zone(new, before, found.lost)
            if self.shared.state.reservations.get(key) is not before:
                return
        if new == before:
            return
        await self.shared.writer.reserve(new)
        if (new.phase, new.zone) != (before.phase, before.zone):
            good = new.held or new.phase is ReservationPhase.USED
            regarding = Regarding(RESERVATIONS, key.namespace, key.name, new.uid)
            self.shared.events.say(regarding, reason=new.reason, note=new.message, kind="Normal" if good else "Warning")
            logger.info("%s: %s", new.phase.value, new.message, extra={"reservation": str(key)})

    async def _zone(self, reservation: Reservation, before: Reservation, lost: Sequence[str]) -> Reservation:
        """Return the reservation with a zone; one whose lost nodes cannot be replaced keeps what is left."""
        async with self.shared.solver:
            question = zone_question(self.shared.state, reservation, lost, self.shared.now())
            found = await self.shared.ask(find_zone, question, what="zone", found=lambda made: bool(made.zone))
        self._asked[reservation.key] = _Asked(
            reservation.ask, tuple(lost), self.shared.state.fleet.version, monotonic()
        )
        if not found.zone and lost:
            kept = held(self.shared.state, reservation, gang_for(self.shared.state, before), self.shared.now())
            note = f"{named(lost)} cannot be used, and no other node can be had: {found.message}"
            return kept.with_condition("Zoned", False, "NodesLost", note, self.shared.now())
        if not found.zone:
            return without_zone(found, self.shared.now())
        return held(self.shared.state, found, gang_for(self.shared.state, found), self.shared.now())

    def _may_ask(self, reservation: Reservation, lost: tuple[str, ...]) -> bool:
        """Return whether the answer may differ from the last one: another question, or another cluster for a while."""
        known = self._asked.get(reservation.key)
        if known is None or (known.ask, known.lost) != (reservation.ask, lost):
            return True
        return known.version != self.shared.state.fleet.version and monotonic() >= known.at + RETHINK

    def _by_age(self) -> list[ReservationKey]:
        for key in self._asked.keys() - self.shared.state.reservations.keys():
            with suppress(KeyError):
                del self._asked[key]
        return sorted(
            self.shared.state.reservations, key=lambda key: (self.shared.state.reservations[key].announced, key)
        )
