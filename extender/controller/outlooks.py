"""What gangs that wait are told of their start: found out beside planning, for people, and by the leader alone.

A gang is told why it has no nodes as soon as the solver has said so.  When that will change takes longer to find out,
so it follows: one gang after the other, the first in the queue first, a tenth of the time at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from time import monotonic

from extender.cluster_api.client import Conflict
from extender.controller import pacing
from extender.controller.store import Dependencies
from extender.gangs.types import GangKey
from extender.planner.outlook import outlook, outlook_question
from extender.plans.gang_plan import NO_PLAN, GangPlan, PlanPhase
from extender.queue_views import waiting_gang
from ground.errors import ArnoldError

logger = logging.getLogger(__name__)
REST = 9.0  # a question is followed by a pause so many times as long
MOST = 100  # gangs that are told, the first in the queue: with a second for each the last hears after minutes
TRIES = 5  # times that a sentence is to be written while another task writes about the gang
_FIX = "\nTo fix:"


@dataclass(eq=False)
class Outlooks:
    """The sentences of gangs that wait."""

    shared: Dependencies
    claim: Callable[[GangKey], AbstractContextManager[bool]]  # keeps other tasks off a gang; false = one has it
    _reasons: dict[GangKey, str] = field(default_factory=dict)  # why each gang waits, as the solver has said
    _sentences: dict[GangKey, str] = field(default_factory=dict)
    _asked: dict[GangKey, float] = field(default_factory=dict)  # when it was found out, on the steady clock
    _telling: asyncio.Task[None] | None = None
    _next: float = 0.0  # when to look again, on the steady clock

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """What is under way."""
        return () if self._telling is None else (self._telling,)

    def told(self, plan: GangPlan) -> GangPlan:
        """Return the plan of a gang without room with what is known of its start beside the reason why it waits."""
        if plan.phase is not PlanPhase.QUEUED or plan.reason == NO_PLAN or plan.would_fit_if_empty is False:
            return plan
        self._reasons[plan.key] = plan.message
        return plan.replace(message=self._message(plan.key))

    def _message(self, key: GangKey) -> str:
        why, fix, how = self._reasons[key].partition(_FIX)
        return f"{'; '.join(filter(None, (why, self._sentences.get(key, ''))))}{fix}{how}"

    async def drain(self) -> None:
        """Begin nothing more."""
        for task in self.tasks:
            task.cancel()
            await asyncio.wait([task])

    def look(self) -> None:
        """Begin to find out what is not known yet, or has been for long."""
        if self._telling is not None or monotonic() < self._next:
            return
        self._next = monotonic() + pacing.LOOK
        plans = self.shared.state.plans
        for key in [key for key in self._reasons if key not in plans or plans[key].phase is not PlanPhase.QUEUED]:
            del self._reasons[key]
            self._sentences.pop(key, None)
            self._asked.pop(key, None)
        if self._due():
            self._telling = asyncio.create_task(self._tell(), name="outlooks")

    def _due(self) -> list[GangKey]:
        """Return the gangs to ask about, in the order of the queue."""
        state, policy, places = self.shared.state, self.shared.policy, []
        for key in self._reasons:
            gang = state.gang(key)
            if gang is not None and gang.complete:
                places.append((policy.rank(waiting_gang(state, gang)), key))
        earlier = monotonic() - pacing.REMIND
        return [key for _, key in sorted(places)[:MOST] if self._asked.get(key, earlier) <= earlier]

    async def _tell(self) -> None:
        try:
            while self.shared.active and (due := self._due()):
                started = monotonic()
                await self._ask(due[0])
                await asyncio.sleep(REST * (monotonic() - started))
        except ArnoldError as error:
            logger.debug("not told when it starts: %s", error)
        except Exception:
            logger.exception("a bug in Arnold; planning goes on")
        finally:
            self._telling = None

    async def _ask(self, key: GangKey) -> None:
        state, self._asked[key] = self.shared.state, monotonic()
        gang = state.gang(key)
        question = None if gang is None else outlook_question(state, gang, self.shared.now(), self.shared.policy)
        sentence = "" if question is None else await asyncio.to_thread(outlook, question)
        if key not in self._reasons or sentence == self._sentences.get(key, ""):
            return
        before, self._sentences[key] = self._message(key), sentence
        for _ in range(TRIES):
            plan = state.plans.get(key)
            # what the solver says anew, or another task of the gang, is not written over
            if (
                plan is None
                or plan.phase is not PlanPhase.QUEUED
                or plan.message not in (before, self._reasons.get(key))
            ):
                return
            with self.claim(key) as free, suppress(Conflict):
                if free:
                    await self.shared.writer.write(plan.replace(message=self._message(key)))
                    return
            await asyncio.sleep(pacing.AGAIN)
