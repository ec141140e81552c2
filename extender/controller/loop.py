"""The loop that decides and does: one task for each gang at a time, one question to the solver at a time.

Gangs do not wait for one another: what one gang's task cannot do is tried again after a rest of its own, and the others
go on.  Only the leader decides; it stops by the clock of its Lease, and every write asks that clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from time import monotonic, perf_counter

from extender.cluster_api import EventRecorder
from extender.controller.acting import Actor, announce
from extender.controller.actions import Action, Write
from extender.controller.decide import decide
from extender.controller.pacing import PAUSE, QUIET, RETHINK, SHARE, SLICE, Reminders, Rest, Rounds
from extender.controller.planning import Came, Planning
from extender.controller.terms import Terms
from extender.controller.touched import Touched
from extender.controller.writer import NotLeading, Telemetry, Writer
from extender.gangs import GangKey
from extender.state import State
from scheduler.placement.types import Limits
from scheduler.queue.types import QueuePolicy
from topology.errors import ArnoldError

logger = logging.getLogger(__name__)


class Controller:
    """Plans, releases and mends gangs; :meth:`run` never returns.

    :param touched: what changed; thought about here.
    :param changed: set by whoever changes the state or the leadership.
    :param policy: the order of gangs that wait.
    :param solver: held while the solver is asked, one question at a time.
    :param ready: whether the cache holds the cluster.
    :param leads: whether this replica leads, at this very moment.
    :param now: the time of day, timezone-aware.
    """

    def __init__(
        self,
        state: State,
        touched: Touched,
        changed: asyncio.Event,
        writer: Writer,
        *,
        events: EventRecorder,
        telemetry: Telemetry,
        leads: Callable[[], bool],
        ready: Callable[[], bool],
        terms: Terms,
        limits: Limits,
        policy: QueuePolicy,
        solver: asyncio.Lock,
        now: Callable[[], datetime],
    ) -> None:
        self._state = state
        self._touched = touched
        self._changed = changed
        self._telemetry = telemetry
        self._leads = leads
        self._ready = ready
        self._terms = terms
        self._now = now
        self._planning = Planning(
            state,
            writer,
            partial(announce, events),
            telemetry=telemetry,
            terms=terms,
            limits=limits,
            policy=policy,
            now=now,
            solver=solver,
            reminders=Reminders(),
            stop=self._stop,
        )
        self._actor = Actor(writer, self._planning, events)
        self._tasks: dict[GangKey, asyncio.Task[None] | None] = {}
        self._rests: dict[GangKey, Rest] = {}
        self._told: dict[GangKey, float] = {}
        self._due: dict[GangKey, float] = {}
        self._hungry: set[GangKey] = set()
        self._unwanted: dict[GangKey, str] = {}
        self._rethink = float("-inf")
        self._round: asyncio.Task[None] | None = None
        self._rounds = Rounds()
        self._glances = Rounds()

    async def run(self) -> None:
        """Decide and do, for ever."""
        led = False
        while True:
            pause, wake = PAUSE, RETHINK
            if self._leads() and self._ready():
                if not led or monotonic() >= self._rethink:
                    self._touched.everything()
                    self._rethink = monotonic() + RETHINK
                started = perf_counter()
                wake = await self.step()
                pause = max(PAUSE, (perf_counter() - started) / SHARE)
                led = True
            else:
                led = False
                self._touched.take()
            await asyncio.sleep(pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(wake):
                    await self._changed.wait()
            self._changed.clear()

    async def step(self) -> float:
        """Decide about what was touched and what is due, and start doing it.

        Lets others in between two gangs when thinking takes long.

        :returns: seconds after which time alone asks for another decision.
        """
        clock = monotonic()
        due = {key for key, at in self._due.items() if at <= clock}
        slice_ = perf_counter()
        for key in sorted(due | self._touched.take()):
            self._due.pop(key, None)
            if key in self._tasks:
                self._touched.gang(key)
            else:
                self._consider(key)
            if perf_counter() - slice_ > SLICE:
                self._telemetry.decided(perf_counter() - slice_)
                await asyncio.sleep(0)
                slice_ = perf_counter()
        self._telemetry.decided(perf_counter() - slice_)
        wakes = [*self._due.values(), *self._start_round()]
        return max(0.0, min(wakes, default=float("inf")) - monotonic()) if wakes else RETHINK

    async def drain(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        self._leads = lambda: False
        under_way = {task for task in (*self._tasks.values(), self._round) if task is not None}
        if under_way:
            await asyncio.wait(under_way)

    def _consider(self, key: GangKey) -> None:
        """Decide about one gang, and start its task."""
        now = self._now()
        decision = decide(self._state, now, self._terms, keys=(key,), unwanted=self._unwanted)
        self._unwanted.pop(key, None)
        if decision.hungry:
            self._hungry.add(key)
        else:
            self._hungry.discard(key)
        if decision.wake is not None:
            self._due[key] = monotonic() + max(0.0, (decision.wake - now).total_seconds())
        if decision.actions:
            self._start(key, decision.actions)

    def _stop(self, key: GangKey, why: str) -> None:
        """Have a gang stopped.

        What is lost when this process ends is found out anew, as long as the other gang waits.
        """
        self._unwanted[key] = why
        self._touched.gang(key)
        self._changed.set()

    def _start(self, key: GangKey, actions: Sequence[Action]) -> None:
        """Start a gang's task, or come back when it is time for it."""
        clock = monotonic()
        rest = self._rests.get(key)
        later = 0.0 if rest is None else rest.until
        if all(isinstance(action, Write) and not action.urgent for action in actions):
            later = max(later, self._told.get(key, 0.0) + QUIET)
        if clock < later:
            self._due[key] = min(later, self._due.get(key, later))
            return
        self._told[key] = clock
        self._tasks[key] = asyncio.create_task(self._act(key, actions), name=f"gang {key}")

    async def _act(self, key: GangKey, actions: Sequence[Action]) -> None:
        try:
            await self._actor.act(key, actions)
        except NotLeading:
            pass
        except ArnoldError as error:
            self._fails(key, error)
        except Exception:
            logger.exception("a fault of Arnold; the gang is tried again", extra={"gang": str(key)})
            self._rests.setdefault(key, Rest()).lengthen()
        else:
            self._rests.pop(key, None)
        finally:
            self._ended(key)

    def _ended(self, key: GangKey) -> None:
        """A gang's task is over: look what is next."""
        del self._tasks[key]
        if key not in self._state.gang_keys:
            self._told.pop(key, None)
            self._rests.pop(key, None)
        self._touched.gang(key)
        self._changed.set()

    def _fails(self, key: GangKey, error: ArnoldError) -> None:
        """Let a gang rest."""
        seconds = self._rests.setdefault(key, Rest()).lengthen()
        logger.warning("%s; trying again in %.1f s", error, seconds, extra={"gang": str(key)})

    def _rests_now(self, key: GangKey) -> bool:
        rest = self._rests.get(key)
        return rest is not None and monotonic() < rest.until

    def _start_round(self) -> list[float]:
        """Start a round of planning, if gangs want nodes and something changed since the last one.

        While it is too early for a whole round, a glance at the head of the queue: who has waited longest learns at
        once that nodes are free.

        :returns: when to come back, on the steady clock, if it is not time yet.
        """
        if not self._hungry or self._round is not None:
            return []
        resting = [self._rests[key].until for key in self._hungry if self._rests_now(key)]
        hungry = {key: self._state.gang(key) for key in self._hungry if not self._rests_now(key)}
        version = self._state.fleet.version
        if not hungry:
            return resting
        clock = monotonic()
        whole, glance = self._rounds.due(hungry, version), self._glances.due(hungry, version)
        if clock < min(whole, glance):
            return [whole, glance, *resting]
        glances = clock < whole

        async def run() -> None:
            started, came = monotonic(), frozenset({Came.NOTHING})
            try:
                came = await self._planning.round(claim=self._claim, failed=self._fails, glance=glances)
            except NotLeading:
                pass
            except Exception:
                logger.exception("a fault of Arnold; planning goes on")
            finally:
                found, again = Came.NODES in came, Came.NOTHING in came
                this = Rounds.after(hungry, version, started=started, found=found, again=again)
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
        if not self._leads():
            raise NotLeading("this replica does not lead any more")
        if key in self._tasks or key not in self._hungry or self._rests_now(key):
            yield False
            return
        self._tasks[key] = None
        try:
            yield True
        finally:
            self._ended(key)
