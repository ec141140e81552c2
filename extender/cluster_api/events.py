"""Events: what happened to an object, as ``kubectl describe`` shows it.

They are a courtesy: posted in the background, dropped when there are too many or the server does not want them, and
never the only place where something is said.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from time import monotonic
from typing import Literal

from extender.cluster_api.client import EVENTS, ClusterApi, ClusterError, Document, Resource
from extender.texts import clip

logger = logging.getLogger(__name__)

CONTROLLER = "arnold.dev/extender"  # reportingController of our events
LONGEST_NOTE = 1024  # bytes of a note that the API takes
WAITING = 1_000  # events that may wait to be posted; further ones are dropped
REPEAT_SECONDS = 300.0  # the same event about the same object is posted once in so many seconds


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about."""

    resource: Resource
    namespace: str
    name: str
    uid: str


class EventRecorder:
    """Takes events at any time and posts them from :meth:`run`, in the name of one replica."""

    def __init__(self, api: ClusterApi, *, instance: str, clock: Callable[[], float] = monotonic) -> None:
        self._api, self._instance, self._clock = api, instance, clock
        self._queue: asyncio.Queue[tuple[str, Document]] = asyncio.Queue(WAITING)
        self._posted: dict[tuple[str, str, str], float] = {}

    def say(
        self,
        regarding: Regarding,
        *,
        reason: str,
        note: str,
        action: str = "Plan",
        kind: Literal["Normal", "Warning"] = "Normal",
    ) -> None:
        """Tell what happened: for machines a reason of one word in CamelCase, for people a note of one sentence."""
        now = self._clock()
        key = (regarding.uid, reason, note)
        if now - self._posted.get(key, float("-inf")) < REPEAT_SECONDS:
            return
        if len(self._posted) > 10 * WAITING:
            self._posted = {key: at for key, at in self._posted.items() if now - at < REPEAT_SECONDS}
        self._posted[key] = now
        namespace, kind_of = regarding.namespace or "default", regarding.resource
        document = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{regarding.name[:200]}.{token_hex(8)}", "namespace": namespace},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance[:128],
            "action": action,
            "reason": reason,
            "type": kind,
            "regarding": {
                "apiVersion": f"{kind_of.group}/{kind_of.version}" if kind_of.group else kind_of.version,
                "kind": kind_of.kind,
                "namespace": regarding.namespace,
                "name": regarding.name,
                "uid": regarding.uid,
            },
            "note": clip(note, LONGEST_NOTE),
        }
        try:
            self._queue.put_nowait((namespace, document))
        except asyncio.QueueFull:
            logger.warning("an event is dropped, too many wait: %s", note)

    async def run(self) -> None:
        """Post events, for ever."""
        while True:
            await self._post(*await self._queue.get())

    async def drain(self) -> None:
        """Post those that wait."""
        while not self._queue.empty():
            await self._post(*self._queue.get_nowait())

    async def _post(self, namespace: str, document: Document) -> None:
        try:
            await self._api.create(EVENTS, document, namespace=namespace)
        except ClusterError as error:
            logger.info("an event was not posted: %s", error)
