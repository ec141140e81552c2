"""The loop that decides and does: one task for each gang at a time, one question to the solver at a time.

Gangs do not wait for one another: what one gang's task cannot do is tried again after a pause of its own, and the
others go on.  Only the leader decides; it stops by the clock of its Lease, and every write asks that clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from time import monotonic, perf_counter

from scheduler.extender.cluster_api import PODS, EventRecorder, NotFound, PatchFailed, Regarding
from scheduler.extender.cluster_api.backoff import Backoff
from scheduler.extender.controller.actions import Action, Forget, Recreate, Release, Repair, Say, Write, key_of
from scheduler.extender.controller.decide import decide
from scheduler.extender.controller.hands import GANGPLANS, Hands, NotLeading, Telemetry
from scheduler.extender.controller.planning import Planning
from scheduler.extender.controller.terms import Terms
from scheduler.extender.controller.words import counted
from scheduler.extender.gangs import GangKey
from scheduler.extender.plan import Plan, object_name
from scheduler.extender.queue_policy import QueuePolicy
from scheduler.extender.state import State
from scheduler.placement.types import Limits
from topology.errors import ArnoldError

logger = logging.getLogger(__name__)

PAUSE = 0.05
"""Seconds between two decisions at the least, so that a burst of changes is looked at once."""

QUIET = 2.0
"""Seconds between two writes about a gang that only tell people more."""

RETHINK = 30.0
"""Seconds after which gangs that found no room are looked at again, whatever happened."""


class Controller:
    """Plans, releases and mends gangs; :meth:`run` never returns.

    :param changed: set by whoever changes the state or the leadership.
    :param policy: the order of gangs that wait.
    :param ready: whether the cache holds the cluster.
    :param leads: whether this replica leads, at this very moment.
    :param now: the time of day, timezone-aware.
    """

    def __init__(
        self,
        state: State,
        changed: asyncio.Event,
        hands: Hands,
        *,
        events: EventRecorder,
        telemetry: Telemetry,
        leads: Callable[[], bool],
        ready: Callable[[], bool],
        terms: Terms,
        limits: Limits,
        policy: QueuePolicy,
        now: Callable[[], datetime],
    ) -> None:
        self._state = state
        self._changed = changed
        self._hands = hands
        self._events = events
        self._telemetry = telemetry
        self._leads = leads
        self._ready = ready
        self._terms = terms
        self._now = now
        self._planning = Planning(
            state, hands, self._announce, telemetry, terms, limits, policy, now, solver=asyncio.Lock()
        )
        self._tasks: dict[GangKey, asyncio.Task[None] | None] = {}
        self._pauses: dict[GangKey, _Pause] = {}
        self._told: dict[GangKey, float] = {}
        self._round: asyncio.Task[None] | None = None
        self._asked = _Asked(frozenset(), -1, ended=float("-inf"), patience=0.0)

    async def run(self) -> None:
        """Decide and do, for ever."""
        while True:
            wake = self.step() if self._leads() and self._ready() else None
            await asyncio.sleep(PAUSE)
            with suppress(TimeoutError):
                async with asyncio.timeout(RETHINK if wake is None else min(wake, RETHINK)):
                    await self._changed.wait()
            self._changed.clear()

    def step(self) -> float | None:
        """Decide once, and start doing it.

        :returns: seconds after which time alone asks for another decision; ``None`` = never.
        """
        started, now = perf_counter(), self._now()
        decision = decide(self._state, now, self._terms)
        by_gang: dict[GangKey, list[Action]] = {}
        for action in decision.actions:
            by_gang.setdefault(key_of(action), []).append(action)
        waits = [] if decision.wake is None else [max(0.0, (decision.wake - now).total_seconds())]
        for key, actions in by_gang.items():
            if key not in self._tasks:
                waits += self._start(key, actions)
        waits += self._start_round(frozenset(decision.hungry) - self._tasks.keys())
        self._telemetry.decided(perf_counter() - started)
        return min(waits, default=None)

    async def drain(self) -> None:
        """Wait for what is under way."""
        under_way = {task for task in (*self._tasks.values(), self._round) if task is not None}
        if under_way:
            await asyncio.wait(under_way)

    # One task for each gang

    def _start(self, key: GangKey, actions: Sequence[Action]) -> list[float]:
        """Start a gang's task.

        :returns: seconds after which to come back, when it is not time yet.
        """
        clock = monotonic()
        pause = self._pauses.get(key)
        if pause is not None and clock < pause.until:
            return [pause.until - clock]
        if all(isinstance(action, Write) and not action.urgent for action in actions):
            due = self._told.get(key, 0.0) + QUIET
            if clock < due:
                return [due - clock]
        self._told[key] = clock
        self._tasks[key] = asyncio.create_task(self._act(key, actions), name=f"gang {key}")
        return []

    async def _act(self, key: GangKey, actions: Sequence[Action]) -> None:
        """Do what was decided about one gang, in order, releases together."""
        try:
            for action in actions:
                await self._do(action)
            await self._release(key, [action for action in actions if isinstance(action, Release)])
        except NotLeading:
            pass
        except ArnoldError as error:
            self._fails(key, error)
        except Exception:
            logger.exception("a fault of Arnold; the gang is tried again", extra={"gang": str(key)})
            self._pauses.setdefault(key, _Pause()).lengthen()
        else:
            self._pauses.pop(key, None)
        finally:
            del self._tasks[key]
            self._changed.set()

    def _fails(self, key: GangKey, error: ArnoldError) -> None:
        """Let a gang pause, longer each time."""
        seconds = self._pauses.setdefault(key, _Pause()).lengthen()
        logger.warning("%s; trying again in %.1f s", error, seconds, extra={"gang": str(key)})

    async def _do(self, action: Action) -> None:
        match action:
            case Write(plan, _, events):
                self._announce(await self._hands.write(plan), events)
            case Repair():
                await self._planning.repair(action)
            case Recreate():
                await self._recreate(action)
            case Forget(plan):
                await self._hands.forget(plan)
                self._told.pop(plan.key, None)
                logger.info("the gang is gone, its nodes are free", extra={"gang": str(plan.key)})
            case Release():
                pass  # All of them together, after the others.

    async def _release(self, key: GangKey, releases: Sequence[Release]) -> None:
        """Release pods, all at once as far as flow control lets them.

        :raises ArnoldError: the worst of what failed; pods that are gone do not count.
        """
        if not releases:
            return
        writes = (self._hands.release(one.pod, one.node) for one in releases)
        failed = [one for one in await asyncio.gather(*writes, return_exceptions=True) if one is not None]
        done = len(releases) - len(failed)
        logger.info("released %s of %d", counted(done, "pod"), len(releases), extra={"gang": str(key)})
        serious = [error for error in failed if not isinstance(error, NotFound)]
        for error in sorted(serious, key=lambda error: isinstance(error, PatchFailed)):
            raise error

    async def _recreate(self, action: Recreate) -> None:
        pod = action.pod
        regarding = Regarding(PODS, pod.namespace, pod.name, pod.uid)
        if pod.owner is None:
            note = f"pinned to a node that it cannot have ({action.why}). To fix: delete this pod and create it again"
            self._events.say(regarding, reason="CannotBind", note=note, action="Repair", kind="Warning")
            return
        await self._hands.delete_pod(pod)
        note = f"deleted, to be made anew by its {pod.owner.kind}: {action.why}"
        self._events.say(regarding, reason="Recreated", note=note, action="Repair", kind="Warning")
        extra = {"gang": str(action.key), "pod": f"{pod.namespace}/{pod.name}"}
        logger.info("the pod is made anew: %s", action.why, extra=extra)

    # Rounds of planning

    def _start_round(self, hungry: frozenset[GangKey]) -> list[float]:
        """Start a round, if gangs wait for nodes and something changed since the last one.

        :returns: seconds after which to come back, when it is not time yet.
        """
        if not hungry or self._round is not None:
            return []
        asked, version, clock = self._asked, self._state.fleet.version, monotonic()
        due = asked.ended + (RETHINK if (asked.hungry, asked.version) == (hungry, version) else asked.patience)
        if clock < due:
            return [due - clock]
        self._round = asyncio.create_task(self._run_round(hungry, version), name="planning")
        return []

    async def _run_round(self, hungry: frozenset[GangKey], version: int) -> None:
        started, found = monotonic(), False
        try:
            found = await self._planning.round(hungry, claim=self._claim, failed=self._fails)
        except NotLeading:
            pass
        except Exception:
            logger.exception("a fault of Arnold; planning goes on")
        finally:
            ended = monotonic()
            # What finds no room is asked again when something changes, and then in a fifth of the time at most.
            patience = 0.0 if found else min(5.0, 4 * (ended - started))
            self._asked = _Asked(hungry, version, ended, patience)
            self._round = None
            self._changed.set()

    @contextmanager
    def _claim(self, key: GangKey) -> Iterator[bool]:
        """Keep other tasks off a gang while the solver is asked about it."""
        if not self._leads():
            raise NotLeading("this replica does not lead any more")
        if key in self._tasks:
            yield False
            return
        self._tasks[key] = None
        try:
            yield True
        finally:
            del self._tasks[key]
            self._changed.set()

    def _announce(self, plan: Plan, events: Sequence[Say]) -> None:
        regarding = Regarding(GANGPLANS, plan.key.namespace, object_name(plan.key), plan.uid)
        for said in events:
            self._events.say(regarding, reason=said.reason, note=said.note, kind=said.kind)


class _Pause:
    """How long a gang is left alone after failures."""

    def __init__(self) -> None:
        self._backoff = Backoff(first=0.2, longest=30.0)
        self.until = 0.0

    def lengthen(self) -> float:
        """One more failure.

        :returns: seconds of the pause.
        """
        seconds = self._backoff.next()
        self.until = monotonic() + seconds
        return seconds


@dataclass(frozen=True, slots=True)
class _Asked:
    """The last round of planning.

    :param hungry: the gangs that waited for nodes.
    :param version: of the fleet.
    :param ended: when, on the steady clock.
    :param patience: seconds until the next round.
    """

    hungry: frozenset[GangKey]
    version: int
    ended: float
    patience: float
