"""Single pods hear when nodes are given back that were promised to gangs, or kept in a zone.

kube-scheduler tries a pod again when something happens to pods or nodes.  The end of a promise is none of these: a plan
goes just after the pods of its gang, when those that wait have been tried once more and refused, and one that expires
goes with no pod at all.  They would be tried again when something else happens, or after five minutes.  So the leader
writes the condition ``arnold.dev/Planned``, false, into the status of as many as have room on these nodes, which makes
kube-scheduler try them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from extender.controller.dependencies import Dependencies
from extender.controller.side_writes import SideWrites
from extender.kubernetes_names import SCHEDULER
from extender.queueing import key_of_pod
from ground.errors import ArnoldError
from topology.kubernetes.pods import Pod

logger = logging.getLogger(__name__)

SETTLE = 1.0  # seconds in which the other replica, which may be asked, hears of it too, and other nodes are given back


@dataclass(eq=False)
class SinglePods:
    """The nodes that single pods may not have, and which were given back since."""

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
        zones = (one.zone for one in state.reservations.values() if one.held)
        closed = frozenset(hosts[row].name for row in rows).union(*zones)
        self._opened = (self._opened | (self._closed - closed)) - closed
        self._closed = closed
        if self._opened and self._telling is None:
            self._telling = asyncio.create_task(self._tell(), name="single pods")

    async def _tell(self) -> None:
        try:
            while self._opened:
                await asyncio.sleep(SETTLE)
                pods = list(self._with_room())
                self._opened.clear()
                async with SideWrites() as writes:
                    for pod in pods:
                        writes.start(key_of_pod(pod), self._write(pod))
                        await writes.place()
        finally:
            self._telling = None

    def _with_room(self) -> Iterator[Pod]:
        """Yield as many of the pods that were refused as have room on the nodes given back, by priority and age."""
        state, fleet = self.shared.state, self.shared.state.fleet
        rows = [row for name in self._opened if (row := fleet.table.index_of.get(name)) is not None]
        free = fleet.occupancy.available[rows]
        waiting = (pod for uid, pod in state.pods.items() if pod.node is None and state.member(uid) is None)
        refused = [pod for pod in waiting if pod.unschedulable and pod.spec.scheduler_name == SCHEDULER]
        for pod in sorted(refused, key=lambda pod: (-(pod.spec.priority or 0), pod.created, pod.uid)):
            gpus = pod.readable_gpus
            if gpus and not pod.leaving and len(free) and free.max() >= gpus:
                free[free.argmax()] -= gpus
                yield pod

    async def _write(self, pod: Pod) -> None:
        try:
            await self.shared.writer.tell_of_room(pod)
        except ArnoldError as error:
            # It has gone, or is on a node; or it is tried again by itself.
            logger.debug("not told of free nodes: %s", error, extra={"pod": f"{pod.namespace}/{pod.name}"})
