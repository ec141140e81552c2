"""What gangs that wait are told of their start: found out beside planning, for people, and by the leader alone.

A gang is told why it has no nodes as soon as the solver has said so.  When that will change takes longer to find out,
so it follows: one gang after the other, the first in the queue first, a tenth of the time at most.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic

from extender.cluster_api.client import Conflict
from extender.controller import pacing
from extender.controller.actions import EventNote
from extender.controller.decide import PREEMPTING, taking
from extender.controller.store import Dependencies
from extender.gangs.types import GangKey
from extender.kubernetes_names import HISTORY_KIND, KIND
from extender.planner.outlook import OutlookQuestion, outlook, outlook_question
from extender.planner.question import NotAsked, question_of, without
from extender.planner.solve import answer_to
from extender.plans.gang_plan import NO_PLAN, GangPlan, PlanPhase
from extender.queue_views import FleetState, waiting_gang
from extender.texts import clip
from ground.errors import ArnoldError, few
from ground.quantities import plural
from scheduler.queue.dispatch import live_candidate
from scheduler.start_times import StopProposal

logger = logging.getLogger(__name__)
REST = 9.0  # a question is followed by a pause so many times as long
MOST = 100  # gangs that are told, the first in the queue: with a second for each the last hears after minutes
TRIES = 5  # times that a sentence is to be written while another task writes about the gang
HOUR = timedelta(hours=1)  # in which preemptions are counted
_FIX = "\nTo fix:"


@dataclass(eq=False)
class Outlooks:
    """The sentences of gangs that wait."""

    shared: Dependencies
    claim: Callable[[GangKey], AbstractContextManager[bool]]  # keeps other tasks off a gang; false = one has it
    _reasons: dict[GangKey, str] = field(default_factory=dict)  # why each gang waits, as the solver has said
    _sentences: dict[GangKey, str] = field(default_factory=dict)
    _asked: dict[GangKey, float] = field(default_factory=dict)  # when it was found out, on the steady clock
    _spared: dict[GangKey, float] = field(default_factory=dict)  # victims that cannot go, until when, by the same clock
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
        shared, gang, question, sentence = self.shared, state.gang(key), None, ""
        self._spared = {other: until for other, until in self._spared.items() if until > monotonic()}
        if gang is not None:
            preempts = shared.preemption != "off"
            question = outlook_question(
                state, gang, shared.now(), shared.policy, preempts=preempts, spared=self._spared
            )
        if question is not None:
            more_time = (shared.limits,) if shared.preemption == "on" else ()
            sentence, stopping = await asyncio.to_thread(outlook, question, *more_time)
            if stopping is not None and more_time and (kept_from_it := await self._preempt(question, stopping)):
                sentence += f", but {kept_from_it}"
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

    async def _preempt(self, question: OutlookQuestion, stopping: StopProposal) -> str:
        """Have others stopped for a gang, and return what keeps it from that; empty = nothing, its plan says who goes.

        Whom is proved, nobody forbids it, and it is counted, before the plan says so: what follows is decided from that
        alone (:mod:`extender.controller.decide`).
        """
        shared, state, key, now = self.shared, self.shared.state, question.key, self.shared.now()
        lacking = state.definitions.lacking
        recent = sum(len(history.preemptions_since(now - HOUR)) for history in state.histories.values())
        if question.ahead:
            return f"others come before it: {plural(question.ahead, 'gang')}"
        if question.evicted:
            return "pods that were evicted have not left yet"
        if stopping.status != "optimal":
            return "it was not proved in time that nothing less would do"
        if recent >= shared.preemptions_per_hour:
            return f"preemptions within an hour: {recent}, as many as --preemptions-per-hour allows"
        if "status.victims" in lacking.get(KIND, ()) or "spec.preemptions" in lacking.get(HISTORY_KIND, ()):
            return "the definitions of GangPlan and GangHistory in the cluster cannot keep that"
        with self.claim(key) as free:
            gang, names = state.gang(key), {job.name for job in stopping.jobs}
            if not free or gang is None or not gang.complete:
                await asyncio.sleep(pacing.AGAIN)
                self._asked.pop(key, None)
                return ""
            async with shared.solver:
                fleet = FleetState(state, now)
                asked = question_of(state, gang, now, live_candidate(shared.policy, waiting_gang(state, gang), fleet))
                asked = without(state, asked, [entry for entry in fleet.running if str(entry.key) in names])
                answer = await shared.ask(answer_to, asked, what="preempt", fits=lambda answer: answer.placed)
                if isinstance(asked, NotAsked) or asked.stopping is None or not answer.placed:
                    return answer.plan.message
                going = asked.stopping.holding(answer.plan.node_names)
                victims = (*going.gangs, *map(state.key_of, going.pods))
                pods = state.pods_on_nodes(victims).values()
                if forbidden := state.unevictable([pod for pod in pods if not pod.leaving]):
                    self._spare(key, victims[-1:])  # each by itself could go
                    return forbidden
                if refused := await shared.writer.refused(pods):
                    self._spare(key, {state.key_of(pod) for pod, _ in refused})
                    return clip(str(refused[0][1]))
                await shared.writer.preempts(key, now)
                stored = await shared.writer.write(taking(answer.plan, victims, now, shared.terms))
        shared.metrics.preemptions.inc()
        shared.announce(stored, (EventNote(PREEMPTING, stored.message),))
        logger.info("preempts %s", few(map(str, victims)), extra={"gang": str(key)})
        return ""

    def _spare(self, key: GangKey, victims: Iterable[GangKey]) -> None:
        """Ask once more about a gang, without some that cannot be stopped for a while."""
        self._spared |= dict.fromkeys(victims, monotonic() + pacing.REMIND)
        self._asked.pop(key, None)
