"""The loop that decides and does: one task for each gang at a time, one question to the solver at a time.

Gangs do not wait for one another: what one gang's task cannot do is tried again after a rest of its own, and the others
go on.  Only the leader decides; it stops by the clock of its Lease, and every write asks that clock.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from math import inf
from time import monotonic, perf_counter

import numpy as np

from extender.cluster_api.client import PODS, Busy, ClusterError, Conflict, NotFound, PatchFailed, Refused
from extender.cluster_api.events import Regarding
from extender.cluster_cache import key_of_pod
from extender.controller import actions as act
from extender.controller import pacing
from extender.controller.decide import GROWING, PREEMPTING, Obstacles, decide, nodes_of, spec_of, taking
from extender.controller.outlooks import Outlooks
from extender.controller.store import Dependencies, NotLeading, SideWrites
from extender.gangs.types import Gang, GangKey
from extender.kubernetes_names import KIND, SCHEDULER
from extender.planner.question import Asked, PlanningCase, Question, Stopping, repair_question
from extender.planner.round import PlanningRound
from extender.planner.solve import Answer, answer_to, weigh
from extender.plans.gang_plan import CHECKED, HINTS_READ, IN_LINE, GangPlan, PlanPhase, PlanSpec, uids_of, with_doubts
from ground.errors import ArnoldError, InvalidInput, few
from ground.quantities import plural
from scheduler.outcome import proof_in_words
from topology.kubernetes.pods import Pod

logger = logging.getLogger(__name__)
PATIENCE = 0.8  # seconds: most gangs have the solver's answer by then
SETTLE = 1.0  # seconds in which the other replica, which may be asked, hears of it too, and other nodes are given back


class GangController:
    """Plans, releases and mends gangs when the cache or the leadership changed; :meth:`run` never returns."""

    def __init__(self, shared: Dependencies, changed: asyncio.Event) -> None:
        self._shared = shared
        self._state = shared.state
        self._changed = changed
        self._draining = False
        self._singles = SinglePods(shared)
        self._newcomers = Newcomers(shared, busy=lambda key: key in self._tasks)
        self._outlooks = Outlooks(shared, self._claim)
        self._planning = Planning(
            shared, heard=self._newcomers.heard, awaited=self._task_ended, told=self._outlooks.told
        )
        self._tasks: dict[GangKey, asyncio.Task[None] | None] = {}
        self._paces: defaultdict[GangKey, pacing.GangPace] = defaultdict(pacing.GangPace)
        self._due: dict[GangKey, float] = {}
        self._unplaced: set[GangKey] = set()
        self._rethink = float("-inf")
        self._round: asyncio.Task[None] | None = None
        self._rounds = pacing.PlanningPass()
        self._glances = pacing.PlanningPass()

    async def run(self) -> None:
        """Decide and do, for ever."""
        led = False
        while True:
            pause, wake = pacing.pause_after(0.0), pacing.RETHINK
            if self._shared.active:
                if not led or monotonic() >= self._rethink:
                    self._state.changed()
                    self._rethink = monotonic() + pacing.RETHINK
                started = perf_counter()
                wake = min(await self.step(), max(0.0, self._rethink - monotonic()))
                pause = pacing.pause_after(perf_counter() - started)
                led = True
            else:
                led = False
                self._state.take_changed()
            await asyncio.sleep(pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(wake):
                    await self._changed.wait()
            self._changed.clear()

    async def step(self) -> float:
        """Decide about what was touched and what is due, and start doing it; let others in when that takes long.

        :returns: seconds after which time alone asks for another decision.
        """
        clock = monotonic()
        due = {key for key, at in self._due.items() if at <= clock}
        slice_ = perf_counter()
        for key in sorted(due | self._state.take_changed()):
            self._due.pop(key, None)
            if key in self._tasks:
                self._state.changed(key)
            elif (later := self._paces[key].due(gathering=self._state.gathering(key))) > clock and key not in due:
                self._due[key] = min(later, self._due.get(key, later))
            else:
                self._consider(key)
            if perf_counter() - slice_ > pacing.SLICE:
                self._shared.metrics.decide_seconds.observe(perf_counter() - slice_)
                await asyncio.sleep(0)
                slice_ = perf_counter()
        self._shared.metrics.decide_seconds.observe(perf_counter() - slice_)
        wakes = [*self._due.values(), *self._start_round()]
        self._newcomers.look(self._unplaced)
        self._singles.look()
        self._outlooks.look()
        return max(0.0, min(wakes, default=float("inf")) - monotonic()) if wakes else pacing.RETHINK

    async def drain(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        self._draining = True
        await self._newcomers.drain()
        await self._outlooks.drain()
        under_way = {task for task in (*self._tasks.values(), self._round, *self._singles.tasks) if task is not None}
        if under_way:
            await asyncio.wait(under_way)

    def _consider(self, key: GangKey) -> None:
        """Decide about one gang, and start its task, or come back when it is time for it."""
        now, started, pace = self._shared.now(), perf_counter(), self._paces[key]
        try:
            decision = decide(self._state, now, self._shared.terms, keys=(key,))
        except Exception:
            logger.exception("a bug in Arnold; the gang is tried again", extra={"gang": str(key)})
            self._unplaced.discard(key)
            self._due[key] = monotonic() + pace.retry.next()
            return
        if key in self._state.gang_keys:
            pace.looked(perf_counter() - started, gathering=self._state.gathering(key))
        else:
            pace.rest = 0.0
        self._unplaced.discard(key)
        self._unplaced.update(decision.unplaced)
        if decision.wake is not None:
            self._due[key] = monotonic() + max(0.0, (decision.wake - now).total_seconds())
        if not decision.actions:
            self._forget_gone(key)
            return
        clock, later = monotonic(), pace.retry.until
        if all(isinstance(action, act.Write) and not action.urgent for action in decision.actions):
            later = max(later, pace.written + pacing.QUIET)
        if clock < later:
            self._due[key] = min(later, self._due.get(key, later))
            return
        pace.written = clock
        self._tasks[key] = asyncio.create_task(self._act(key, decision.actions), name=f"gang {key}")

    async def _act(self, key: GangKey, actions: Sequence[act.Action]) -> None:
        try:
            await self._carry_out(key, actions)
        except NotLeading:
            pass
        except ArnoldError as error:
            self._fails(key, error)
        except Exception:
            logger.exception("a bug in Arnold; the gang is tried again", extra={"gang": str(key)})
            self._paces[key].retry.next()
        else:
            self._paces[key].retry.reset()
        finally:
            self._ended(key)

    async def _carry_out(self, key: GangKey, actions: Sequence[act.Action]) -> None:
        """Run all actions in order, and last all writes of pods together, up to the first error."""
        writer, events = self._shared.writer, self._shared.events
        for action in actions:
            match action:
                case act.Write(plan, _, notes, weigh):
                    plan = await self._planning.weighed(plan) if weigh else plan
                    owners = {self._state.fleet.promised_to(name) for name in plan.promised} - {None, key}
                    if owners and self._state.holding_plan(key) is None:
                        return  # another was given its nodes since
                    if plan != self._state.plans.get(key):
                        self._shared.announce(await writer.write(plan), notes)
                case act.RepairAction():
                    await self._planning.repair(action)
                case act.Learn(run):
                    try:
                        await writer.learn(run)
                    except (Refused, InvalidInput) as error:
                        if isinstance(error, Busy | Conflict):
                            raise
                        # the cluster does not let us: no nodes are held for it
                        logger.warning("how long the gang ran is not remembered: %s", error, extra={"gang": str(key)})
                case act.Forget(plan):
                    await writer.forget(plan)
                    logger.info("the gang is gone, its nodes are free", extra={"gang": str(key)})
                case act.Release() | act.NotifyPod() | act.Evict():
                    continue
        # A generator begins no write before its turn comes.
        freed = [action for action in actions if isinstance(action, act.Release)]
        releases = (writer.release(action.pod, action.node, action.mark) for action in freed)
        await self._together(key, "released", releases)
        notices = (writer.tell(action.pod, action.node) for action in actions if isinstance(action, act.NotifyPod))
        await self._together(key, "told", notices)
        evicted = [action for action in actions if isinstance(action, act.Evict)]
        for action in evicted:
            if self._state.member(action.pod.uid) is None:  # a gang is told by its GangPlan
                regarding = Regarding(PODS, action.pod.namespace, action.pod.name, action.pod.uid)
                events.say(regarding, reason="Preempted", note=action.why, action="Preempt", kind="Warning")
        await self._together(key, "evicted", (writer.evict(action.pod, action.why) for action in evicted))

    async def _together(self, key: GangKey, what: str, writes: Iterable[Awaitable[None]]) -> None:
        """Write pods, as many at once as flow control lets through; raise the worst error but that a pod is gone."""
        if not (results := await asyncio.gather(*writes, return_exceptions=True)):
            return
        failed = [result for result in results if result is not None]
        done = plural(len(results) - len(failed), "pod")
        logger.info("%s %s of %d", what, done, len(results), extra={"gang": str(key)})
        serious = [error for error in failed if not isinstance(error, NotFound)]
        for error in sorted(serious, key=lambda error: isinstance(error, Conflict | PatchFailed)):
            raise error

    async def _task_ended(self, key: GangKey) -> bool:
        """Wait for the task of a gang, and return whether it has one."""
        if (task := self._tasks.get(key)) is None:
            return False
        await asyncio.wait([task])
        return True

    def _ended(self, key: GangKey) -> None:
        """End a gang's task, and look what is next."""
        del self._tasks[key]
        self._paces[key].rest = 0.0
        self._forget_gone(key)
        self._state.changed(key)
        self._changed.set()

    def _forget_gone(self, key: GangKey) -> None:
        if key not in self._state.gang_keys:
            self._paces.pop(key, None)

    def _fails(self, key: GangKey, error: ArnoldError) -> None:
        """Let a gang rest."""
        seconds = self._paces[key].retry.next()
        logger.warning("%s; trying again in %.1f s", error, seconds, extra={"gang": str(key)})

    def _start_round(self) -> list[float]:
        """Start a round of planning, if gangs want nodes and something changed since the last one.

        While it is too early for a whole round, a glance at the head of the queue: the gang that has waited longest
        learns at once that nodes are free.

        :returns: when to come back, on the steady clock, if it is not time yet.
        """
        if not self._unplaced or self._round is not None:
            return []
        resting = {key for key in self._unplaced if self._paces[key].retry.resting}
        wakes = [self._paces[key].retry.until for key in resting]
        unplaced = {key: self._state.gang(key) for key in self._unplaced - resting}
        version = self._state.fleet.version
        if not unplaced:
            return wakes
        clock = monotonic()
        whole, glance = self._rounds.due(unplaced, version), self._glances.due(unplaced, version)
        if clock < min(whole, glance):
            return [whole, glance, *wakes]
        glances = clock < whole

        async def run() -> None:
            started, outcomes = monotonic(), frozenset({PlanningOutcome.NOTHING})
            try:
                outcomes = await self._planning.round(claim=self._claim, failed=self._fails, glance=glances)
            except NotLeading:
                pass
            except Exception:
                logger.exception("a bug in Arnold; planning goes on")
            finally:
                placed, again = PlanningOutcome.NODES in outcomes, PlanningOutcome.NOTHING in outcomes
                this = pacing.PlanningPass.after(unplaced, version, started=started, placed=placed, again=again)
                self._glances = this if glances or again else replace(this, patience=0.0)
                if not glances:
                    self._rounds = this
                self._round = None
                self._changed.set()

        self._round = asyncio.create_task(run(), name="planning")
        return []

    @contextmanager
    def _claim(self, key: GangKey) -> Iterator[bool]:
        """Keep other tasks off a gang while the solver is asked about it."""
        if self._draining or not self._shared.leads():
            raise NotLeading("this replica does not lead any more")
        if key in self._tasks or key not in self._unplaced or self._paces[key].retry.resting:
            yield False
            return
        self._tasks[key] = None
        try:
            yield True
        finally:
            self._ended(key)


Claim = Callable[[GangKey], AbstractContextManager[bool]]
"""Take a gang for as long as the block runs; false = another task has it, or it wants no nodes."""


class PlanningOutcome(Enum):
    """What came of a question."""

    NODES = auto()  # the gang has nodes now
    NO_ROOM = auto()  # there are none for it, until something changes
    NOTHING = auto()  # the world moved on, or the answer could not be written: to be asked again


@dataclass(frozen=True)
class Planning:
    """The solver's side of the controller: rounds over the gangs that want nodes, and repairs.

    One question at a time, in a thread; a gang that gets nodes has them in the cache before the next is asked.  An
    answer counts only if the world is still what the solver was told: the gang's pods, its plan's version, the nodes it
    was given.
    """

    shared: Dependencies
    heard: Callable[[GangKey], Awaitable[None]]  # waits until a gang has heard that it is in the queue, if it just does
    awaited: Callable[[GangKey], Awaitable[bool]]  # waits for what another task does about a gang; false = none does
    told: Callable[[GangPlan], GangPlan]  # with what is known of the start of a gang without room
    _told: dict[GangKey, float] = field(default_factory=dict)  # when the plan of each gang that waits was written last

    async def round(
        self, *, claim: Claim, failed: Callable[[GangKey, ArnoldError], None], glance: bool = False
    ) -> frozenset[PlanningOutcome]:
        """Ask about one gang after the other until all were, also those that come meanwhile.

        :param failed: told of what cannot be written.
        :param glance: only until one is met that blocks those behind it.
        """
        for gone in self._told.keys() - self.shared.state.plans.keys():
            del self._told[gone]
        queue, outcomes, blocked = PlanningRound(policy=self.shared.policy), set[PlanningOutcome](), False

        async def settle(case: PlanningCase, answer: Answer) -> None:
            try:
                outcomes.add(await self._settle(case, answer))
            except ArnoldError as error:
                failed(answer.key, error)
                outcomes.add(PlanningOutcome.NOTHING)

        async def settle_aside(case: PlanningCase, answer: Answer, claimed: ExitStack) -> None:
            with claimed:
                await settle(case, answer)

        async with SideWrites() as refusals:
            while (question := queue.next(self.shared.state, self.shared.now())) is not None:
                case, stops = question.case, question.case.stops_others
                if blocked and glance and not stops:
                    break
                await refusals.done(key := case.gang.key)
                with ExitStack() as claimed:
                    if not claimed.enter_context(claim(key)):
                        # what another task writes about it takes a moment; passed over, others would have its nodes
                        if await self.awaited(key):
                            queue.ask_again()
                        continue
                    async with self.shared.solver:
                        answer = await self._ask(question, "stop" if stops else "plan")
                        if answer.placed and not stops:
                            await settle(case, answer)
                        if answer.placed and not case.trial and isinstance(question, Asked) and question.stopping:
                            try:
                                await self._take(answer.plan, question.stopping.holding(answer.plan.node_names))
                            except ArnoldError as error:
                                failed(key, error)
                                outcomes.add(PlanningOutcome.NOTHING)
                    if not answer.placed and not stops:
                        # No gang waits for what it is told: the next is asked about meanwhile.
                        blocked = blocked or answer.usable is not None
                        refusals.start(key, settle_aside(case, answer, claimed.pop_all()))
                    queue.tell(answer)
                await refusals.place()
        return frozenset(outcomes)

    async def _settle(self, case: PlanningCase, answer: Answer) -> PlanningOutcome:
        """Write what came of a question."""
        await self.heard(answer.key)
        stored, now = self.shared.state.plans.get(answer.key), self.shared.now()
        plan = self.shared.state.definitions.kept(answer.plan)
        version = case.before and case.before.resource_version
        if case.before is None and stored is not None and stored.reason == IN_LINE:
            # it has heard meanwhile that it is in the queue
            version, plan = stored.resource_version, plan.replace(uid=stored.uid)
            plan = plan.replace(resource_version=stored.resource_version)
        if (stored and stored.resource_version) != version:
            return PlanningOutcome.NOTHING
        extra = {"gang": str(answer.key)}
        if not answer.placed:
            why, plan = plan.message, self.told(plan)
            if stored is None or _gist(stored) != _gist(plan):
                await self._write(plan, act.EventNote(plan.reason, why, "Warning"))
                logger.info("%s: %s", plan.phase.value, why, extra=extra)
            elif stored.message != plan.message and self._told.get(plan.key, -inf) + pacing.REMIND <= monotonic():
                await self._write(plan)
            return PlanningOutcome.NO_ROOM
        if self._stale(plan):
            return PlanningOutcome.NOTHING
        worth = f"{plural(len(plan.node_names), 'node')} planned"
        if plan.spread is not None and plan.objective is not None:
            proof = "proved best" if not plan.gap else f"at most {plan.gap:.1%} above the least"
            proof += "" if plan.proved_to is None else f", {proof_in_words(plan.proved_to)}"
            worth = f"DP spread {plan.spread[0]}, PP spread {plan.spread[1]}, objective {plan.objective:g}, {proof}"
        note = "; ".join(filter(None, (worth, plan.message)))
        plan = plan.with_condition("Planned", True, "Planned", note, now).replace(expires=now + self.shared.terms.bind)
        plan = plan.with_condition("Valid", True, "Consistent", "", now)
        await self._write(plan, act.EventNote("Planned", note))
        logger.info("%s: %s", plan.phase.value, note, extra=extra)
        return PlanningOutcome.NODES

    async def _take(self, plan: GangPlan, going: Stopping) -> None:
        """Have others stopped for a gang whose reserved zone they use, or raise ``ClusterError``: not now."""
        shared, state = self.shared, self.shared.state
        if "status.victims" in state.definitions.lacking.get(KIND, ()):
            fix = "apply the definitions of this version"
            raise ClusterError("the definition of GangPlan cannot keep whom it stops", where=f"{plan.key}", fix=fix)
        victims = (*going.gangs, *map(state.key_of, going.pods))
        if refused := await shared.writer.refused([*state.pods_on_nodes(victims).values()]):
            raise refused[0][1]
        stored = await shared.writer.write(taking(plan, victims, shared.now(), shared.terms))
        shared.announce(stored, (act.EventNote(PREEMPTING, stored.message),))
        logger.info("takes the nodes of %s", few(map(str, victims)), extra={"gang": str(plan.key)})

    async def repair(self, action: act.RepairAction) -> None:
        """Ask for other nodes and write the plan, or raise ``ClusterError``: there are none, or writing failed."""
        before = action.plan
        async with self.shared.solver:
            question = repair_question(self.shared.state, before, action.lost, self.shared.now(), self.shared.policy)
            answer = await self._ask(question, "repair")
            if answer.placed and self._stale(answer.plan, answer.moved):
                return
            if answer.placed:
                # new nodes, and new time for its pods
                plan, now, gang = answer.plan, self.shared.now(), self.shared.state.gang(before.key)
                if plan.phase is not PlanPhase.BOUND:
                    phase = plan.phase if before.holding else PlanPhase.PLANNED
                    plan = plan.replace(phase=phase, expires=now + self.shared.terms.bind)
                    plan = plan.replace(reason="Repaired", message=action.why)
                if gang is not None and len(gang.members) == len(plan.nodes):
                    plan = plan.replace(pods=uids_of(gang))
                plan = plan.with_condition("Planned", True, "Repaired", action.why, now)
                note = f"{action.why}: {plural(len(answer.moved), 'rank')} moved"
                await self._write(plan, act.EventNote("Repaired", note))
                logger.info("Repaired: %s", note, extra={"gang": str(plan.key)})
                return
        reason = answer.plan.message or "no nodes are left"
        if action.else_keep is not None:
            note = f"{action.why}; other nodes cannot be had ({reason}): the same once more"
            await self._write(action.else_keep, act.EventNote("Expired", note, "Warning"))
            return
        note = f"{action.why}, and no other node can be had: {reason}"
        stored = self.shared.state.plans.get(before.key)
        new = self.shared.state.definitions.kept(without_spare(before, stored, note, self.shared.now()))
        if new != stored:
            await self._write(new, act.EventNote("NoSpare", note, "Warning"))
        raise ClusterError(note, where=f"GangPlan {before.key}", fix="add or free nodes")

    async def weighed(self, plan: GangPlan) -> GangPlan:
        """Return a plan with what its nodes are worth, as far as that can be told."""
        async with self.shared.solver:
            # a repair that need not be, on its nodes and all that are free
            question = repair_question(self.shared.state, plan, plan.node_names[:1], self.shared.now())
            return await self.shared.ask(weigh, question, what="weigh", fits=lambda plan: plan.spread is not None)

    async def _ask(self, question: Question, what: str) -> Answer:
        return await self.shared.ask(answer_to, question, what=what, fits=lambda answer: answer.placed)

    def _stale(self, plan: GangPlan, moved: Iterable[int] | None = None) -> bool:
        """Return whether the gang, or a node of its ranks (or of those that moved), is not what the solver was told."""
        gang = self.shared.state.gang(plan.key)
        if gang is None or (moved is None and (not gang.complete or uids_of(gang) != plan.pods)):
            return True
        nodes = plan.node_names if moved is None else nodes_of(plan, moved)
        obstacles = Obstacles(self.shared.state.fleet, gang, plan, self.shared.now(), lost=timedelta(0))
        return any(obstacles.at(node)[0] for node in nodes)

    async def _write(self, plan: GangPlan, *events: act.EventNote) -> None:
        self._told[plan.key] = monotonic()
        self.shared.announce(await self.shared.writer.write(plan), events)


def without_spare(before: GangPlan, stored: GangPlan | None, why: str, now: datetime) -> GangPlan:
    """Return what is written of a gang that can have no other nodes: it keeps those that it has.

    :param before: the plan that was to be repaired; one that holds no nodes was read off pods.
    :param stored: the plan that is stored; ``None`` = none is.
    """
    if stored is not None and stored.holding and len(before.nodes) > len(stored.nodes):
        # it stays as it is until there is room; what else is wrong with it is told before
        healthy = stored.condition("Healthy")
        ill = healthy is not None and healthy.status != "True" and healthy.reason != GROWING
        return stored if ill else stored.with_condition("Healthy", False, GROWING, why, now)
    new = before.with_condition("Healthy", False, "NoSpare", why, now)
    if before.holding:
        return new
    stored = stored or GangPlan(before.key)
    new = new.replace(phase=PlanPhase.QUEUED, reason="NoSpare", message=why, expires=stored.expires)
    return new.replace(nodes=stored.nodes, pods=stored.pods, pods_per_node=stored.pods_per_node)


def _gist(plan: GangPlan) -> tuple[object, ...]:
    """Return what a plan says, but for words and numbers, which change with every node that is taken or left."""
    doubts = (plan.condition(kind) for kind in (HINTS_READ, CHECKED))
    words = (condition and (condition.status, condition.message) for condition in doubts)
    return plan.phase, plan.reason, plan.would_fit_if_empty, plan.estimate, plan.spec, *words


@dataclass(eq=False)
class Newcomers:
    """Gangs that want nodes, and what they hear before the solver comes to them: that they are in the queue.

    The solver is asked about one gang after the other.  Behind thousands a gang would hear nothing for minutes, and
    its owner could not tell it from one that nobody sees.  So a complete gang that has no GangPlan after a moment gets
    one that says so; namespaces take turns, so that the gangs of one do not keep those of another waiting.
    """

    shared: Dependencies
    busy: Callable[[GangKey], bool]  # whether another task is at a gang: it will hear from that
    _waiting: defaultdict[str, dict[GangKey, None]] = field(default_factory=lambda: defaultdict(dict))
    _seen: set[GangKey] = field(default_factory=set)
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
        for key in sorted(here - self._seen):
            if key not in self.shared.state.plans:
                self._waiting[key.namespace][key] = None
        self._seen = set(here)
        if self._waiting and self._telling is None and not self._draining:
            self._telling = asyncio.create_task(self._tell(), name="newcomers")

    async def heard(self, key: GangKey) -> None:
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
            while self._waiting and self.shared.active:
                # the gang that came first of the namespace whose last turn is longest ago
                namespace = min(self._waiting, key=lambda name: (self._turns.get(name, 0), name))
                self._turns[namespace] = max(self._turns.values(), default=0) + 1
                key = next(iter(self._waiting[namespace]))
                del self._waiting[namespace][key]
                if not self._waiting[namespace]:
                    del self._waiting[namespace]
                gang = self.shared.state.gang(key)
                if gang is None or not gang.complete or key in self.shared.state.plans or self.busy(key):
                    continue
                self._writes.start(key, self._write(gang))
                await self._writes.place()
            self._waiting.clear()
            self._turns.clear()
        finally:
            self._telling = None

    async def _write(self, gang: Gang) -> None:
        now, others = self.shared.now(), plural(len(self._seen) - 1, "other gang")
        message = f"its turn will come: nodes are looked for, for it and {others}, one after the other"
        plan = GangPlan(gang.key, PlanPhase.QUEUED, reason=IN_LINE, message=message, spec=spec_of(gang, PlanSpec()))
        plan = with_doubts(plan.replace(estimate=self.shared.state.prediction(gang)), gang, now)
        plan = plan.with_condition("Complete", True, "Complete", "", now)
        try:
            await self.shared.writer.write(plan.with_condition("Planned", False, IN_LINE, message, now))
        except ArnoldError as error:
            # It is tried by the round, which says more.
            logger.debug("not told yet that it is queued: %s", error, extra={"gang": str(gang.key)})


@dataclass(eq=False)
class SinglePods:
    """The nodes that single pods may not have, and which were given back since: then the pods hear of it.

    kube-scheduler tries a pod again when something happens to pods or nodes.  The end of a promise is none of these: a
    plan goes just after the pods of its gang, when those that wait have been tried once more and refused, and one that
    expires goes with no pod at all.  They would be tried again when something else happens, or after five minutes.  So
    the leader writes the condition ``arnold.dev/Planned``, false, into the status of as many as have room on the nodes
    that were promised or kept in a zone, which makes kube-scheduler try them.
    """

    shared: Dependencies
    _closed: frozenset[str] = frozenset()
    _version: int = -1  # of the fleet when last looked
    _opened: set[str] = field(default_factory=set)
    _telling: asyncio.Task[None] | None = None

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """What is under way."""
        return () if self._telling is None else (self._telling,)

    def look(self) -> None:
        """Take note of the nodes that are promised or reserved now; pods that wait hear of the others in a moment."""
        state = self.shared.state
        if state.fleet.version == self._version:
            return
        self._version = state.fleet.version
        rows, hosts = np.flatnonzero(state.fleet.occupancy.promised), state.fleet.table.hosts
        zones = (reservation.zone for reservation in state.reservations.values() if reservation.held)
        closed = frozenset(hosts[row].name for row in rows).union(*zones)
        self._opened = (self._opened | (self._closed - closed)) - closed
        self._closed = closed
        if self._opened and self._telling is None:
            self._telling = asyncio.create_task(self._tell(), name="single pods")

    async def _tell(self) -> None:
        try:
            while self._opened:
                await asyncio.sleep(SETTLE)
                # as many of the pods that were refused as have room there, by priority and age
                state, fleet = self.shared.state, self.shared.state.fleet
                rows = [row for name in self._opened if (row := fleet.table.index_of.get(name)) is not None]
                free, hears = fleet.occupancy.available[rows], list[Pod]()
                waiting = (pod for uid, pod in state.pods.items() if pod.node is None and state.member(uid) is None)
                refused = [pod for pod in waiting if pod.unschedulable and pod.spec.scheduler_name == SCHEDULER]
                for pod in sorted(refused, key=lambda pod: (-(pod.spec.priority or 0), pod.created, pod.uid)):
                    gpus = pod.readable_gpus
                    if gpus and not pod.leaving and len(free) and free.max() >= gpus:
                        free[free.argmax()] -= gpus
                        hears.append(pod)
                self._opened.clear()
                async with SideWrites() as writes:
                    for pod in hears:
                        writes.start(key_of_pod(pod), self._tell_of_room(pod))
                        await writes.place()
        finally:
            self._telling = None

    async def _tell_of_room(self, pod: Pod) -> None:
        try:
            await self.shared.writer.tell_of_room(pod)
        except ArnoldError as error:
            # It has gone, or is on a node; or it is tried again by itself.
            logger.debug("not told of free nodes: %s", error, extra={"pod": f"{pod.namespace}/{pod.name}"})
