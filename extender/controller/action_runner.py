"""What was decided about one gang, carried out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass

from extender.cluster_api.api_errors import NotFound, PatchFailed
from extender.cluster_api.events import Regarding
from extender.cluster_api.resource import PODS
from extender.controller.actions import Action, Evict, Forget, NotifyPod, Recreate, Release, RepairAction, Write
from extender.controller.dependencies import Dependencies
from extender.controller.planning import Planning, announce
from extender.gangs.types import GangKey
from extender.texts import clip, counted

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ActionRunner:
    """Carries out what was decided, one gang at a time."""

    shared: Dependencies
    planning: Planning

    async def act(self, key: GangKey, actions: Sequence[Action]) -> None:
        """Run all actions in order, and last all writes of pods together, up to the first error."""
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
        # A generator begins no write before its turn comes.
        await self._together(
            key, "released", (writer.release(a.pod, a.node) for a in actions if isinstance(a, Release))
        )
        await self._together(key, "told", (writer.tell(a.pod, a.node) for a in actions if isinstance(a, NotifyPod)))
        await self._together(key, "evicted", (writer.evict(a.pod, a.why) for a in actions if isinstance(a, Evict)))

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
            self.shared.events.say(regarding, reason="CannotBind", note=note, action="Repair", kind="Warning")
            return
        await self.shared.writer.recreate(pod, action.why)
        note = f"deleted, to be made anew by its {clip(pod.owner.kind)}: {action.why}"
        self.shared.events.say(regarding, reason="Recreated", note=note, action="Repair", kind="Warning")
        extra = {"gang": str(action.key), "pod": f"{pod.namespace}/{pod.name}"}
        logger.info("the pod is made anew: %s", action.why, extra=extra)
