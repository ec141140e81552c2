"""The solver's side of the controller: rounds over the gangs that want nodes, and repairs.

One question at a time, in a thread; a gang that gets nodes has them in the cache before the next is asked.  An answer
counts only if the world is still what the solver was told: the gang's pods, its plan's version, the nodes it was given.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, auto

from extender.cluster_api.api_errors import ClusterError
from extender.cluster_api.events import EventRecorder, Regarding
from extender.controller.actions import EventNote, RepairAction
from extender.controller.api_writer import GANGPLANS
from extender.controller.context import Obstacles
from extender.controller.dependencies import Dependencies
from extender.controller.pacing import Reminders
from extender.controller.side_writes import SideWrites
from extender.gangs.types import GangKey
from extender.planner.planning_round import Answer, PlanningRound
from extender.planner.question import Question, repair_question, worth_question
from extender.planner.solve import solve, weigh
from extender.planner.stopping import Stopping
from extender.plans.gang_plan import CHECKED, HINTS_READ, IN_LINE, GangPlan, PlanPhase, object_name, uids_of
from extender.texts import counted
from ground.errors import ArnoldError

logger = logging.getLogger(__name__)

Claim = Callable[[GangKey], AbstractContextManager[bool]]
"""Take a gang for as long as the block runs; false = another task has it, or it wants no nodes."""


class PlanningOutcome(Enum):
    """What came of a question."""

    NODES = auto()  # the gang has nodes now
    NO_ROOM = auto()  # there are none for it, until something changes
    NOTHING = auto()  # the world moved on, or the answer could not be written: to be asked again


@dataclass(frozen=True)
class Planning:
    """Asks the solver and writes what comes of it."""

    shared: Dependencies
    stop: Callable[[GangKey, str], None]  # has a gang stopped that may be, for a reason
    told: Callable[[GangKey], Awaitable[None]]  # waits until a gang has heard that it is in the queue, if it just does
    reminders: Reminders = field(default_factory=Reminders)  # which gangs wait, and may be told more about it

    async def round(
        self, *, claim: Claim, failed: Callable[[GangKey, ArnoldError], None], glance: bool = False
    ) -> frozenset[PlanningOutcome]:
        """Ask about one gang after the other until all were, also those that come meanwhile.

        :param failed: told of what cannot be written.
        :param glance: only until one is met that blocks those behind it.
        """
        self.reminders.keep(self.shared.state.plans.keys())
        queue, came, blocked = PlanningRound(policy=self.shared.policy), set[PlanningOutcome](), False

        async def settle(question: Question, answer: Answer) -> None:
            try:
                came.add(await self._settle(question, answer))
            except ArnoldError as error:
                failed(answer.key, error)
                came.add(PlanningOutcome.NOTHING)

        async def settle_aside(question: Question, answer: Answer, claimed: ExitStack) -> None:
            with claimed:
                await settle(question, answer)

        async with SideWrites() as refusals:
            while (question := queue.next(self.shared.state, self.shared.now())) is not None:
                if blocked and glance and question.stopping is None:
                    break
                await refusals.done(key := question.gang.key)
                with ExitStack() as claimed:
                    if not claimed.enter_context(claim(key)):
                        continue
                    async with self.shared.solver:
                        answer = await self._solve(question, "plan" if question.stopping is None else "stop")
                        if question.stopping is None and answer.found:
                            await settle(question, answer)
                    if question.stopping is None and not answer.found:
                        # No gang waits for what it is told: the next is asked about meanwhile.
                        blocked = blocked or answer.usable is not None
                        refusals.start(key, settle_aside(question, answer, claimed.pop_all()))
                    if question.stopping is not None and answer.found and not question.trial:
                        try:
                            await self._stop(key, question.stopping.on(answer.plan.nodes))
                        except ArnoldError as error:
                            failed(key, error)
                            came.add(PlanningOutcome.NOTHING)
                    queue.tell(answer)
                await refusals.place()
        return frozenset(came)

    async def _stop(self, key: GangKey, stopping: Stopping) -> None:
        """Stop others for a gang, each gang in its own task: it gives back its nodes before its pods go."""
        why = f"makes room for gang {key}"
        for victim in stopping.gangs:
            logger.info("stopped: it %s", why, extra={"gang": str(victim)})
            self.stop(victim, why)
        await asyncio.gather(*(self.shared.writer.stop("evict", pod, why) for pod in stopping.pods))

    async def repair(self, action: RepairAction) -> None:
        """Ask for other nodes and write the plan, or raise ``ClusterError``: there are none, or writing failed."""
        before = action.plan
        async with self.shared.solver:
            question = repair_question(self.shared.state, before, action.lost, self.shared.now(), self.shared.policy)
            answer = await self._solve(question, "repair")
            if answer.found and self._stale(answer.plan, answer.moved):
                return
            if answer.found:
                plan = self._mended(before, answer, action.why)
                note = f"{action.why}: {counted(len(answer.moved), 'rank')} moved"
                await self._write(plan, EventNote("Repaired", note))
                logger.info("Repaired: %s", note, extra={"gang": str(plan.key)})
                return
        reason = answer.plan.message or "no nodes are left"
        if action.else_keep is not None:
            note = f"{action.why}; other nodes cannot be had ({reason}): the same once more"
            await self._write(action.else_keep, EventNote("Expired", note, "Warning"))
            return
        note = f"{action.why}, and no other node can be had: {reason}"
        stored = self.shared.state.plans.get(before.key)
        new = self.shared.state.definitions.kept(without_spare(before, stored, note, self.shared.now()))
        if new != stored:
            await self._write(new, EventNote("NoSpare", note, "Warning"))
        raise ClusterError(note, where=f"GangPlan {before.key}", fix="add or free nodes")

    async def weighed(self, plan: GangPlan) -> GangPlan:
        """Return a plan with what its nodes are worth, as far as that can be told."""
        async with self.shared.solver:
            question = worth_question(self.shared.state, plan, self.shared.now())
            return await self.shared.ask(weigh, question, what="weigh", found=lambda made: made.spread is not None)

    async def _solve(self, question: Question, what: str) -> Answer:
        return await self.shared.ask(solve, question, what=what, found=lambda answer: answer.found)

    async def _settle(self, question: Question, answer: Answer) -> PlanningOutcome:
        """Write what came of a question."""
        await self.told(answer.key)
        before, now = self.shared.state.plans.get(answer.key), self.shared.now()
        plan = self.shared.state.definitions.kept(answer.plan)
        if question.before is None and before is not None and before.reason == IN_LINE:
            question = replace(question, before=before)
            plan = plan.replace(uid=before.uid, resource_version=before.resource_version)
        if (before and before.resource_version) != (question.before and question.before.resource_version):
            return PlanningOutcome.NOTHING
        extra = {"gang": str(answer.key)}
        if not answer.found:
            if before is None or _gist(before) != _gist(plan):
                await self._write(plan, EventNote(plan.reason, plan.message, "Warning"))
                logger.info("%s: %s", plan.phase.value, plan.message, extra=extra)
            elif before.message != plan.message and self.reminders.due(plan.key):
                await self._write(plan)
            return PlanningOutcome.NO_ROOM
        if self._stale(plan):
            return PlanningOutcome.NOTHING
        said = "; ".join(filter(None, (_worth(plan), plan.message)))
        plan = plan.with_condition("Planned", True, "Planned", said, now).replace(expires=now + self.shared.terms.bind)
        plan = plan.with_condition("Valid", True, "Consistent", "", now)
        await self._write(plan, EventNote("Planned", said))
        logger.info("%s: %s", plan.phase.value, said, extra=extra)
        return PlanningOutcome.NODES

    def _mended(self, before: GangPlan, answer: Answer, why: str) -> GangPlan:
        """Return the plan with its new nodes, and new time for its pods."""
        plan, now = answer.plan, self.shared.now()
        if plan.phase is not PlanPhase.BOUND:
            phase = plan.phase if before.holding else PlanPhase.PLANNED
            plan = plan.replace(phase=phase, expires=now + self.shared.terms.bind, reason="Repaired", message=why)
        gang = self.shared.state.gang(plan.key)
        if gang is not None and len(gang.members) == len(plan.nodes):
            plan = plan.replace(pods=uids_of(gang))
        return plan.with_condition("Planned", True, "Repaired", why, now)

    def _stale(self, plan: GangPlan, moved: Iterable[int] | None = None) -> bool:
        """Return whether the gang, or a node of its ranks (or of those that moved), is not what the solver was told."""
        gang = self.shared.state.gang(plan.key)
        if gang is None or (moved is None and (not gang.complete or uids_of(gang) != plan.pods)):
            return True
        ranks = range(len(plan.nodes)) if moved is None else moved
        obstacles = Obstacles(self.shared.state.fleet, gang, plan, self.shared.now(), lost=timedelta(0))
        return any(obstacles.at(plan.nodes[rank])[0] for rank in ranks)

    async def _write(self, plan: GangPlan, *said: EventNote) -> None:
        self.reminders.written(plan.key)
        announce(self.shared.events, await self.shared.writer.write(plan), said)


def without_spare(before: GangPlan, stored: GangPlan | None, why: str, now: datetime) -> GangPlan:
    """Return what is written of a gang that can have no other nodes: it keeps those that it has.

    :param before: the plan that was to be repaired; one that holds no nodes was read off pods.
    :param stored: the plan that is stored; ``None`` = none is.
    """
    new = before.with_condition("Healthy", False, "NoSpare", why, now)
    if before.holding:
        return new
    stored = stored or GangPlan(before.key)
    new = new.replace(phase=PlanPhase.QUEUED, reason="NoSpare", message=why, expires=stored.expires)
    return new.replace(nodes=stored.nodes, pods=stored.pods, pods_per_node=stored.pods_per_node)


def _worth(plan: GangPlan) -> str:
    """Return what a placement is worth, in one sentence."""
    if plan.spread is None or plan.objective is None:
        return f"{counted(len(plan.node_names), 'node')} planned"
    proof = "proved best" if not plan.gap else f"at most {plan.gap:.1%} above the least"
    return f"DP spread {plan.spread[0]}, PP spread {plan.spread[1]}, objective {plan.objective:g}, {proof}"


def _gist(plan: GangPlan) -> tuple[object, ...]:
    """Return what a plan says, but for words and numbers, which change with every node that is taken or left."""
    hints = plan.condition(HINTS_READ)
    unchecked = plan.condition(CHECKED)
    told = hints and (hints.status, hints.message), unchecked and (unchecked.status, unchecked.message)
    return plan.phase, plan.reason, plan.would_fit_if_empty, plan.estimate, plan.spec, told


def announce(events: EventRecorder, plan: GangPlan, said: Sequence[EventNote]) -> None:
    """Post events about a plan."""
    regarding = Regarding(GANGPLANS, plan.key.namespace, object_name(plan.key), plan.uid)
    for one in said:
        events.say(regarding, reason=one.reason, note=one.note, kind=one.kind)
