"""The solver's side of the controller: rounds over the gangs that want nodes, and repairs.

One question at a time, in a thread; whoever gets nodes has them in the cache before the next is asked.  An answer
counts only if the world is still what the solver was told: the gang's pods, its plan's version, the nodes it was given.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from time import perf_counter

from extender.cluster_api import ClusterError
from extender.controller.actions import Repair, Say
from extender.controller.context import uids_of
from extender.controller.obstacles import Obstacles
from extender.controller.pacing import Reminders
from extender.controller.terms import Terms
from extender.controller.words import counted, worth
from extender.controller.writer import Telemetry, Writer
from extender.gangs import GangKey
from extender.planner import HINTS_READ, Answer, PlanningRound, Question, Stopping, repair_question, solve
from extender.plans import Phase, Plan
from extender.state import State
from scheduler.placement.types import Limits
from scheduler.queue.types import QueuePolicy
from topology.errors import ArnoldError

logger = logging.getLogger(__name__)

Announce = Callable[[Plan, Sequence[Say]], None]
"""Post events about a plan."""

Claim = Callable[[GangKey], AbstractContextManager[bool]]
"""Take a gang for as long as the block runs; false = somebody else has it, or it wants no nodes."""


class Came(Enum):
    """What came of a question."""

    NODES = auto()
    """The gang has nodes now."""
    NO_ROOM = auto()
    """There are none for it, until something changes."""
    NOTHING = auto()
    """The world moved on, or the answer could not be written: to be asked again."""


@dataclass(frozen=True)
class Planning:
    """Asks the solver and writes what comes of it.

    :param policy: the order of gangs that wait.
    :param reminders: who waits, and may be told more about it.
    :param now: the time of day, timezone-aware.
    :param stop: has a gang stopped that may be, for a reason.
    """

    state: State
    writer: Writer
    announce: Announce
    _: KW_ONLY
    telemetry: Telemetry
    terms: Terms
    limits: Limits
    policy: QueuePolicy
    now: Callable[[], datetime]
    solver: asyncio.Lock
    reminders: Reminders
    stop: Callable[[GangKey, str], None]

    async def round(
        self, *, claim: Claim, failed: Callable[[GangKey, ArnoldError], None], glance: bool = False
    ) -> frozenset[Came]:
        """Ask about one gang after the other until all were, also those that come meanwhile.

        :param claim: also says which gangs want nodes.
        :param failed: told of what cannot be written.
        :param glance: only until one is met that blocks those behind it.
        :returns: what came of the questions.
        """
        self.reminders.keep(self.state.plans.keys())
        queue, came, blocked = PlanningRound(policy=self.policy), set[Came](), False
        while (question := queue.next(self.state, self.now())) is not None:
            if blocked and glance and question.stopping is None:
                break
            key = question.gang.key
            with claim(key) as free:
                if not free:
                    continue
                async with self.solver:
                    answer = await self._solve(question, "plan" if question.stopping is None else "stop")
                    if question.stopping is None:
                        blocked = blocked or answer.usable is not None
                        try:
                            came.add(await self._settle(question, answer))
                        except ArnoldError as error:
                            failed(key, error)
                            came.add(Came.NOTHING)
                if question.stopping is not None and answer.found:
                    await self._stop(key, question.stopping, failed)
                queue.tell(answer)
        return frozenset(came)

    async def _stop(self, key: GangKey, stopping: Stopping, failed: Callable[[GangKey, ArnoldError], None]) -> None:
        """Stop others for a gang, which has room then.

        A gang is stopped in its own task, which gives back its nodes before its pods go.
        """
        why = f"makes room for gang {key}"
        for victim in stopping.gangs:
            logger.info("stopped: it %s", why, extra={"gang": str(victim)})
            self.stop(victim, why)
        try:
            await asyncio.gather(*(self.writer.evict(pod, why) for pod in stopping.pods))
        except ArnoldError as error:
            failed(key, error)

    async def repair(self, action: Repair) -> None:
        """Ask for other nodes and write the plan.

        :raises ClusterError: there are none, to be tried again later; or writing failed.
        """
        before = action.plan
        async with self.solver:
            question = repair_question(self.state, before, action.lost, self.now(), self.policy)
            answer = await self._solve(question, "repair")
            if answer.found and self._stale(answer.plan, answer.moved):
                return
            if answer.found:
                plan = self._mended(before, answer, action.why)
                note = f"{action.why}: {counted(len(answer.moved), 'rank')} moved"
                await self._write(plan, Say("Repaired", note))
                logger.info("Repaired: %s", note, extra={"gang": str(plan.key)})
                return
        reason = answer.plan.message or "no nodes are left"
        if action.else_keep is not None:
            note = f"{action.why}; other nodes cannot be had ({reason}): the same once more"
            await self._write(action.else_keep, Say("Expired", note, "Warning"))
            return
        note = f"{action.why}, and no other node can be had: {reason}"
        told = before.with_condition("Healthy", False, "NoSpare", note, self.now())
        if not before.holding:
            known = self.state.plans.get(before.key)
            remembered = ((), ()) if known is None else (known.nodes, known.pods)
            told = told.replace(phase=Phase.QUEUED, reason="NoSpare", message=note)
            told = told.replace(nodes=remembered[0], pods=remembered[1])
        if told != before:
            await self._write(told, Say("NoSpare", note, "Warning"))
        raise ClusterError(note, where=f"GangPlan {before.key}", fix="add or free nodes")

    async def _solve(self, question: Question, what: str) -> Answer:
        """Ask the solver, in a thread."""
        started = perf_counter()
        answer = await asyncio.to_thread(solve, question, self.limits)
        self.telemetry.planned(perf_counter() - started, what if answer.found else f"{what}-no-room")
        return answer

    async def _settle(self, question: Question, answer: Answer) -> Came:
        """Write what came of a question."""
        before, plan, now = self.state.plans.get(answer.key), answer.plan, self.now()
        if (before and before.resource_version) != (question.before and question.before.resource_version):
            return Came.NOTHING
        extra = {"gang": str(answer.key)}
        if not answer.found:
            if before is None or _gist(before) != _gist(plan):
                await self._write(plan, Say(plan.reason, plan.message, "Warning"))
                logger.info("%s: %s", plan.phase.value, plan.message, extra=extra)
            elif before.message != plan.message and self.reminders.due(plan.key):
                await self._write(plan)
            return Came.NO_ROOM
        if self._stale(plan):
            return Came.NOTHING
        said = worth(plan)
        plan = plan.with_condition("Planned", True, "Planned", said, now).replace(expires=now + self.terms.bind)
        plan = plan.with_condition("Valid", True, "Consistent", "", now)
        await self._write(plan, Say("Planned", said))
        logger.info("%s: %s", plan.phase.value, said, extra=extra)
        return Came.NODES

    def _mended(self, before: Plan, answer: Answer, why: str) -> Plan:
        """The plan with its new nodes, and new time for its pods."""
        plan, now = answer.plan, self.now()
        if plan.phase is not Phase.BOUND:
            phase = plan.phase if before.holding else Phase.PLANNED
            plan = plan.replace(phase=phase, expires=now + self.terms.bind, reason="Repaired", message=why)
        gang = self.state.gang(plan.key)
        if gang is not None and len(gang.members) == len(plan.nodes):
            plan = plan.replace(pods=uids_of(gang))
        return plan.with_condition("Planned", True, "Repaired", why, now)

    def _stale(self, plan: Plan, moved: Iterable[int] | None = None) -> bool:
        """Whether the gang, or the nodes that its ranks are to have, are not any more what the solver was told.

        :param moved: of a repair, the ranks whose nodes are new; ``None`` = this is no repair.
        """
        gang = self.state.gang(plan.key)
        if gang is None or (moved is None and (not gang.complete or uids_of(gang) != plan.pods)):
            return True
        ranks = range(len(plan.nodes)) if moved is None else moved
        obstacles = Obstacles(self.state.fleet, gang, plan.spec.gpus_per_node, self.now(), lost=timedelta(0))
        return any(obstacles.at(plan.nodes[rank])[0] for rank in ranks)

    async def _write(self, plan: Plan, *said: Say) -> None:
        self.reminders.told(plan.key)
        self.announce(await self.writer.write(plan), said)


def _gist(plan: Plan) -> tuple[object, ...]:
    """What a plan says, but for the words and numbers, which change with every node that somebody takes or leaves."""
    hints = plan.condition(HINTS_READ)
    return plan.phase, plan.reason, plan.would_fit_if_empty, plan.spec, hints and (hints.status, hints.message)
