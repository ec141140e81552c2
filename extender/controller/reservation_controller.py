"""The task that keeps reservations.

It looks at all of them every second: there are few, and arrivals, ends of pods and expiries change them by time alone.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

from extender.cluster_api.events import Regarding
from extender.controller.api_writer import RESERVATIONS, NotLeading
from extender.controller.decide_reservations import decide_reservation, held, without_zone
from extender.controller.dependencies import Dependencies
from extender.controller.pacing import RETHINK
from extender.planner.zones import find_zone, zone_question
from extender.plans.reservation import Reservation, ReservationKey, ReservationPhase, ReservationSpec
from extender.queueing.queue_entries import gang_for
from extender.texts import named
from topology.errors import ArnoldError

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # how often reservations are looked at


class _Asked(NamedTuple):
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
                reservations = self.shared.state.reservations
                self._asked = {key: asked for key, asked in self._asked.items() if key in reservations}
                for key in sorted(reservations, key=lambda key: (reservations[key].announced, key)):
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
        """Decide about one, and write what came of it, or raise ``ClusterError``: it cannot be written."""
        shared, reservations = self.shared, self.shared.state.reservations
        if (before := reservations.get(key)) is None:
            return
        found = decide_reservation(
            shared.state, before, shared.now(), policy=shared.policy, lost_after=shared.terms.lost
        )
        new = found.reservation
        if found.wanted:
            if not self._may_ask(before, found.lost):
                return
            new = await self._zone(new, before, found.lost)
            if reservations.get(key) is not before:
                return
        if new == before:
            return
        await shared.writer.reserve(new)
        if (new.phase, new.zone) != (before.phase, before.zone):
            good = new.held or new.phase is ReservationPhase.USED
            regarding = Regarding(RESERVATIONS, key.namespace, key.name, new.uid)
            shared.events.say(regarding, reason=new.reason, note=new.message, kind="Normal" if good else "Warning")
            logger.info("%s: %s", new.phase.value, new.message, extra={"reservation": str(key)})

    async def _zone(self, reservation: Reservation, before: Reservation, lost: tuple[str, ...]) -> Reservation:
        """Return the reservation with a zone; where lost nodes cannot be replaced, with what is left."""
        shared, state = self.shared, self.shared.state
        async with shared.solver:
            question = zone_question(state, reservation, lost, shared.now())
            found = await shared.ask(find_zone, question, what="zone", found=lambda made: bool(made.zone))
        self._asked[reservation.key] = _Asked(reservation.ask, lost, state.fleet.version, monotonic())
        if found.zone:
            return held(state, found, gang_for(state, found), shared.now())
        if not lost:
            return without_zone(found, shared.now())
        note = f"{named(lost)} cannot be used, and no other node can be had: {found.message}"
        kept = held(state, reservation, gang_for(state, before), shared.now())
        return kept.with_condition("Zoned", False, "NodesLost", note, shared.now())

    def _may_ask(self, reservation: Reservation, lost: tuple[str, ...]) -> bool:
        """Return whether the answer may differ from the last one: another question, or another cluster for a while."""
        known = self._asked.get(reservation.key)
        if known is None or (known.ask, known.lost) != (reservation.ask, lost):
            return True
        return known.version != self.shared.state.fleet.version and monotonic() >= known.at + RETHINK
