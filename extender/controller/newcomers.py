"""What gangs hear before the solver comes to them: that they are in the queue.

The solver is asked about one gang after the other.  Behind thousands a gang would hear nothing for minutes, and
its owner could not tell it from one that nobody sees.  So a complete gang that has no GangPlan after a moment gets one
that says so; namespaces take turns, so that the gangs of one do not keep those of another waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from extender.controller.context import spec_of
from extender.controller.dependencies import Dependencies
from extender.controller.side_writes import SideWrites
from extender.gangs.types import Gang, GangKey
from extender.plans.gang_plan import IN_LINE, GangPlan, PlanPhase, with_doubts
from extender.plans.plan_spec import PlanSpec
from extender.texts import counted
from ground.errors import ArnoldError

logger = logging.getLogger(__name__)

PATIENCE = 0.8  # seconds: most gangs have the solver's answer by then


@dataclass(eq=False)
class Newcomers:
    """Gangs that want nodes and have not heard anything yet."""

    shared: Dependencies
    busy: Callable[[GangKey], bool]  # whether another task is at a gang: it will hear from that
    _waiting: defaultdict[str, dict[GangKey, None]] = field(default_factory=lambda: defaultdict(dict))
    _known: set[GangKey] = field(default_factory=set)
    _turns: dict[str, int] = field(default_factory=dict)  # namespace -> its last turn
    _writes: SideWrites = field(default_factory=SideWrites)
    _telling: asyncio.Task[None] | None = None
    _draining: bool = False

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """What is under way."""
        return (*self._writes.tasks, *(() if self._telling is None else (self._telling,)))

    def look(self, unplaced: Collection[GangKey]) -> None:
        """Take note of the gangs that want nodes now; those without a plan are told in a moment."""
        here = frozenset(unplaced)
        for key in sorted(here - self._known):
            if key not in self.shared.state.plans:
                self._waiting[key.namespace][key] = None
        self._known = set(here)
        if self._waiting and self._telling is None and not self._draining:
            self._telling = asyncio.create_task(self._tell(), name="newcomers")

    async def told(self, key: GangKey) -> None:
        """Wait until a gang that is being told has been."""
        await self._writes.done(key)

    async def drain(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        self._draining = True
        if self._telling is not None:
            self._telling.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)

    async def _tell(self) -> None:
        try:
            await asyncio.sleep(PATIENCE)
            while (key := self._next()) is not None:
                gang = self.shared.state.gang(key)
                if gang is None or not gang.complete or key in self.shared.state.plans or self.busy(key):
                    continue
                self._writes.start(key, self._write(gang))
                await self._writes.place()
        finally:
            self._telling = None

    def _next(self) -> GangKey | None:
        """Return the gang that came first of the namespace whose last turn is longest ago; ``None`` = all are told."""
        if not self._waiting or not self.shared.active:
            self._waiting.clear()
            self._turns.clear()
            return None
        namespace = min(self._waiting, key=lambda name: (self._turns.get(name, 0), name))
        self._turns[namespace] = max(self._turns.values(), default=0) + 1
        key = next(iter(self._waiting[namespace]))
        del self._waiting[namespace][key]
        if not self._waiting[namespace]:
            del self._waiting[namespace]
        return key

    async def _write(self, gang: Gang) -> None:
        try:
            await self.shared.writer.write(self._plan(gang))
        except ArnoldError as error:
            # It is tried by the round, which says more.
            logger.debug("not told yet that it is queued: %s", error, extra={"gang": str(gang.key)})

    def _plan(self, gang: Gang) -> GangPlan:
        now, others = self.shared.now(), counted(len(self._known) - 1, "other gang")
        message = f"its turn will come: nodes are looked for, for it and {others}, one after the other"
        plan = GangPlan(gang.key, PlanPhase.QUEUED, reason=IN_LINE, message=message, spec=spec_of(gang, PlanSpec()))
        plan = with_doubts(plan.replace(estimate=self.shared.state.prediction(gang)), gang, now)
        plan = plan.with_condition("Complete", True, "Complete", "", now)
        return plan.with_condition("Planned", False, IN_LINE, message, now)
