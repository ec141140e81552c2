"""The loop that decides and does: one task for each gang at a time, one question to the solver at a time.

Gangs do not wait for one another: what one gang's task cannot do is tried again after a rest of its own, and the others
go on.  Only the leader decides; it stops by the clock of its Lease, and every write asks that clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import monotonic, perf_counter

from extender.cluster_api.api_errors import Busy, Conflict, NotFound, PatchFailed, Refused
from extender.cluster_api.client import PODS
from extender.cluster_api.events import Regarding
from extender.controller.actions import Action, Evict, Forget, Learn, NotifyPod, Recreate, Release, RepairAction, Write
from extender.controller.api_writer import NotLeading
from extender.controller.decide_gangs import decide
from extender.controller.dependencies import Dependencies
from extender.controller.newcomers import Newcomers
from extender.controller.pacing import QUIET, RETHINK, SLICE, GangLooks, GangRetries, PlanningPass, pause_after
from extender.controller.planning import Planning, PlanningOutcome, announce
from extender.controller.single_pods import SinglePods
from extender.gangs.types import GangKey
from extender.plans.gang_history import EndedRun
from extender.texts import clip, counted
from ground.errors import ArnoldError, InvalidInput

logger = logging.getLogger(__name__)


class GangController:
    """Plans, releases and mends gangs when the cache or the leadership changed; :meth:`run` never returns."""

    def __init__(self, shared: Dependencies, changed: asyncio.Event) -> None:
        self._shared = shared
        self._state = shared.state
        self._changed = changed
        self._draining = False
        self._singles = SinglePods(shared)
        self._newcomers = Newcomers(shared, busy=lambda key: key in self._tasks)
        self._planning = Planning(shared, stop=self._stop, told=self._newcomers.told)
        self._tasks: dict[GangKey, asyncio.Task[None] | None] = {}
        self._retries = GangRetries()
        self._looks = GangLooks()
        self._written_at: dict[GangKey, float] = {}
        self._due: dict[GangKey, float] = {}
        self._unplaced: set[GangKey] = set()
        self._unwanted: dict[GangKey, str] = {}
        self._rethink = float("-inf")
        self._round: asyncio.Task[None] | None = None
        self._rounds = PlanningPass()
        self._glances = PlanningPass()

    async def run(self) -> None:
        """Decide and do, for ever."""
        led = False
        while True:
            pause, wake = pause_after(0.0), RETHINK
            if self._shared.active:
                if not led or monotonic() >= self._rethink:
                    self._state.changed()
                    self._rethink = monotonic() + RETHINK
                started = perf_counter()
                wake = min(await self.step(), max(0.0, self._rethink - monotonic()))
                pause = pause_after(perf_counter() - started)
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
            elif (later := self._looks.due(key, gathering=self._state.gathering(key))) > clock and key not in due:
                self._due[key] = min(later, self._due.get(key, later))
            else:
                self._consider(key)
            if perf_counter() - slice_ > SLICE:
                self._shared.metrics.decide_seconds.observe(perf_counter() - slice_)
                await asyncio.sleep(0)
                slice_ = perf_counter()
        self._shared.metrics.decide_seconds.observe(perf_counter() - slice_)
        wakes = [*self._due.values(), *self._start_round()]
        self._newcomers.look(self._unplaced)
        self._singles.look()
        return max(0.0, min(wakes, default=float("inf")) - monotonic()) if wakes else RETHINK

    async def drain(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        self._draining = True
        await self._newcomers.drain()
        under_way = {task for task in (*self._tasks.values(), self._round, *self._singles.tasks) if task is not None}
        if under_way:
            await asyncio.wait(under_way)

    def _consider(self, key: GangKey) -> None:
        """Decide about one gang, and start its task."""
        now, started = self._shared.now(), perf_counter()
        decision = decide(self._state, now, self._shared.terms, keys=(key,), unwanted=self._unwanted)
        if key in self._state.gang_keys:
            self._looks.looked(key, perf_counter() - started, gathering=self._state.gathering(key))
        else:
            self._looks.forget(key)
        if not decision.actions:
            # Until then its stop may have to be written once more.
            self._unwanted.pop(key, None)
        self._unplaced.discard(key)
        self._unplaced.update(decision.unplaced)
        if decision.wake is not None:
            self._due[key] = monotonic() + max(0.0, (decision.wake - now).total_seconds())
        if decision.actions:
            self._start(key, decision.actions)

    def _stop(self, key: GangKey, why: str) -> None:
        """Have a gang stopped; when this process ends first, that is found out anew as long as the other gang waits."""
        self._unwanted[key] = why
        self._looks.forget(key)
        self._state.changed(key)
        self._changed.set()

    def _start(self, key: GangKey, actions: Sequence[Action]) -> None:
        """Start a gang's task, or come back when it is time for it."""
        clock = monotonic()
        later = self._retries.until(key)
        if all(isinstance(action, Write) and not action.urgent for action in actions):
            later = max(later, self._written_at.get(key, 0.0) + QUIET)
        if clock < later:
            self._due[key] = min(later, self._due.get(key, later))
            return
        self._written_at[key] = clock
        self._tasks[key] = asyncio.create_task(self._act(key, actions), name=f"gang {key}")

    async def _act(self, key: GangKey, actions: Sequence[Action]) -> None:
        try:
            await self._carry_out(key, actions)
        except NotLeading:
            pass
        except ArnoldError as error:
            self._fails(key, error)
        except Exception:
            logger.exception("a bug in Arnold; the gang is tried again", extra={"gang": str(key)})
            self._retries.failed(key)
        else:
            self._retries.forget(key)
        finally:
            self._ended(key)

    async def _carry_out(self, key: GangKey, actions: Sequence[Action]) -> None:
        """Run all actions in order, and last all writes of pods together, up to the first error."""
        for action in actions:
            match action:
                case Write(plan, _, said, weigh):
                    plan = await self._planning.weighed(plan) if weigh else plan
                    if plan != self._state.plans.get(key):
                        announce(self._shared.events, await self._shared.writer.write(plan), said)
                case RepairAction():
                    await self._planning.repair(action)
                case Recreate():
                    await self._recreate(action)
                case Learn(run):
                    await self._learn(run)
                case Forget(plan):
                    await self._shared.writer.forget(plan)
                    logger.info("the gang is gone, its nodes are free", extra={"gang": str(key)})
                case Release() | NotifyPod() | Evict():
                    continue
        writer = self._shared.writer
        # A generator begins no write before its turn comes.
        releases = (writer.release(one.pod, one.node, one.mark) for one in actions if isinstance(one, Release))
        await self._together(key, "released", releases)
        notices = (writer.tell(one.pod, one.node) for one in actions if isinstance(one, NotifyPod))
        await self._together(key, "told", notices)
        evictions = (writer.stop("evict", one.pod, one.why) for one in actions if isinstance(one, Evict))
        await self._together(key, "evicted", evictions)

    async def _learn(self, run: EndedRun) -> None:
        """Remember how long a gang ran; where the cluster lets us not, go on: no nodes are held for it."""
        try:
            await self._shared.writer.learn(run)
        except (Refused, InvalidInput) as error:
            if isinstance(error, Busy | Conflict):
                raise
            logger.warning("how long the gang ran is not remembered: %s", error, extra={"gang": str(run.key)})

    async def _together(self, key: GangKey, what: str, writes: Iterable[Awaitable[None]]) -> None:
        """Write pods, as many at once as flow control lets through; raise the worst error but that a pod is gone."""
        if not (came := await asyncio.gather(*writes, return_exceptions=True)):
            return
        failed = [one for one in came if one is not None]
        done = counted(len(came) - len(failed), "pod")
        logger.info("%s %s of %d", what, done, len(came), extra={"gang": str(key)})
        serious = [error for error in failed if not isinstance(error, NotFound)]
        for error in sorted(serious, key=lambda error: isinstance(error, PatchFailed)):
            raise error

    async def _recreate(self, action: Recreate) -> None:
        pod = action.pod
        regarding = Regarding(PODS, pod.namespace, pod.name, pod.uid)
        if pod.owner is None:
            note = f"pinned to a node that it cannot have ({action.why}). To fix: delete this pod and create it again"
            self._shared.events.say(regarding, reason="CannotBind", note=note, action="Repair", kind="Warning")
            return
        await self._shared.writer.stop("recreate", pod, action.why)
        note = f"deleted, to be made anew by its {clip(pod.owner.kind)}: {action.why}"
        self._shared.events.say(regarding, reason="Recreated", note=note, action="Repair", kind="Warning")
        extra = {"gang": str(action.key), "pod": f"{pod.namespace}/{pod.name}"}
        logger.info("the pod is made anew: %s", action.why, extra=extra)

    def _ended(self, key: GangKey) -> None:
        """End a gang's task, and look what is next."""
        del self._tasks[key]
        self._looks.forget(key)
        if key not in self._state.gang_keys:
            self._written_at.pop(key, None)
            self._retries.forget(key)
        self._state.changed(key)
        self._changed.set()

    def _fails(self, key: GangKey, error: ArnoldError) -> None:
        """Let a gang rest."""
        seconds = self._retries.failed(key)
        logger.warning("%s; trying again in %.1f s", error, seconds, extra={"gang": str(key)})

    def _start_round(self) -> list[float]:
        """Start a round of planning, if gangs want nodes and something changed since the last one.

        While it is too early for a whole round, a glance at the head of the queue: the gang that has waited longest
        learns at once that nodes are free.

        :returns: when to come back, on the steady clock, if it is not time yet.
        """
        if not self._unplaced or self._round is not None:
            return []
        resting = [self._retries.until(key) for key in self._unplaced if self._retries.resting(key)]
        unplaced = {key: self._state.gang(key) for key in self._unplaced if not self._retries.resting(key)}
        version = self._state.fleet.version
        if not unplaced:
            return resting
        clock = monotonic()
        whole, glance = self._rounds.due(unplaced, version), self._glances.due(unplaced, version)
        if clock < min(whole, glance):
            return [whole, glance, *resting]
        glances = clock < whole

        async def run() -> None:
            started, came = monotonic(), frozenset({PlanningOutcome.NOTHING})
            self._unwanted.clear()  # which gangs have to be stopped is found out anew
            try:
                came = await self._planning.round(claim=self._claim, failed=self._fails, glance=glances)
            except NotLeading:
                pass
            except Exception:
                logger.exception("a bug in Arnold; planning goes on")
            finally:
                found, again = PlanningOutcome.NODES in came, PlanningOutcome.NOTHING in came
                this = PlanningPass.after(unplaced, version, started=started, found=found, again=again)
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
        if key in self._tasks or key not in self._unplaced or self._retries.resting(key):
            yield False
            return
        self._tasks[key] = None
        try:
            yield True
        finally:
            self._ended(key)
