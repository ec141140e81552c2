"""What was decided about one gang, carried out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from extender.cluster_api import PODS, NotFound, PatchFailed, Regarding
from extender.controller.actions import Action, Evict, Forget, NotifyPod, Recreate, Release, RepairAction, Write
from extender.controller.dependencies import Dependencies
from extender.controller.event_phrases import counted
from extender.controller.planning import Planning, announce
from extender.gangs import GangKey
from extender.texts import clip

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ActionRunner:
    """Does things, one gang at a time."""

    shared: Dependencies
    planning: Planning

    async def act(self, key: GangKey, actions: Sequence[Action]) -> None:
        """Run all actions in order, and last all releases together.

        :raises ArnoldError: something could not be done; what comes after it is not.
        """
        for action in actions:
            match action:
                case Write(plan, _, said):
                    announce(self.shared.events, await self.shared.writer.write(plan), said)
                case RepairAction():
                    await self.planning.repair(action)
                case Recreate():
                    await self._recreate(action)
                case Forget(plan):
                    await self.shared.writer.forget(plan)
                    logger.info("the gang is gone, its nodes are free", extra={"gang": str(key)})
                case Release() | NotifyPod() | Evict():
                    continue
        writer = self.shared.writer
        if releases := [action for action in actions if isinstance(action, Release)]:
            await self._together(key, "released", [writer.release(one.pod, one.node) for one in releases])
        if notices := [action for action in actions if isinstance(action, NotifyPod)]:
            await self._together(key, "told", [writer.tell(one.pod, one.node) for one in notices])
        if evicted := [action for action in actions if isinstance(action, Evict)]:
            await self._together(key, "evicted", [writer.evict(one.pod, one.why) for one in evicted])

    async def _together(self, key: GangKey, what: str, writes: Sequence[Awaitable[None]]) -> None:
        """Write pods, as many at once as flow control lets through.

        :raises ArnoldError: the worst of what failed; pods that are gone do not count.
        """
        failed = [one for one in await asyncio.gather(*writes, return_exceptions=True) if one is not None]
        done = len(writes) - len(failed)
        logger.info("%s %s of %d", what, counted(done, "pod"), len(writes), extra={"gang": str(key)})
        serious = [error for error in failed if not isinstance(error, NotFound)]
        for error in sorted(serious, key=lambda error: isinstance(error, PatchFailed)):
            raise error

    async def _recreate(self, action: Recreate) -> None:
        pod = action.pod
        regarding = Regarding(PODS, pod.namespace, pod.name, pod.uid)
        if pod.owner is None:
            note = f"pinned to a node that it cannot have ({action.why}). To fix: delete this pod and create it again"
            self.shared.events.say(regarding, reason="CannotBind", note=note, action="Repair", kind="Warning")
            return
        await self.shared.writer.recreate(pod, action.why)
        note = f"deleted, to be made anew by its {clip(pod.owner.kind)}: {action.why}"
        self.shared.events.say(regarding, reason="Recreated", note=note, action="Repair", kind="Warning")
        extra = {"gang": str(action.key), "pod": f"{pod.namespace}/{pod.name}"}
        logger.info("the pod is made anew: %s", action.why, extra=extra)
