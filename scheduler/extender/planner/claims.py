"""What a queue policy keeps for gangs that wait, in names of nodes.

Policies (``scheduler.queue``) count in numbers: here a unit is a whole node, since a gang takes whole nodes, and the
nodes are those that the blocked gangs could use.  Nobody knows when pods end, so of the nodes none is taken to be free
soon: a policy that needs to know keeps all that a blocked gang could use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from scheduler.extender.gangs import GangKey
from scheduler.queue.types import BoolArray, CapacityReservation, QueuePolicy, Running
from scheduler.queue.types import Waiting as WaitingJob
from topology.cluster import IntArray


@dataclass(frozen=True, slots=True)
class Waiting:
    """A complete gang without nodes, as policies see it.

    :param created: when its oldest pod was.
    :param nodes: nodes that it needs.
    """

    key: GangKey
    priority: int
    created: datetime
    nodes: int
    gpus: int = 1
    predicted: float | None = None
    predicted_high: float | None = None
    preemptible: bool = False
    reservation: str = ""

    @property
    def submitted(self) -> float:
        """Seconds since 1970 UTC."""
        return self.created.timestamp()


@dataclass(frozen=True, slots=True)
class Blocked:
    """A gang that was asked about in this round and has no room.

    :param usable: names of the nodes that it could use if the cluster were empty; none when it would not fit even then.
    """

    waiting: Waiting
    usable: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class _Floor:
    """The nodes that blocked gangs could use, all in use."""

    now: float
    total: IntArray
    free: IntArray
    masks: Mapping[GangKey, BoolArray]
    running: Sequence[Running] = ()
    reservations: Sequence[CapacityReservation] = ()

    def usable(self, job: WaitingJob) -> BoolArray:
        """Those that a gang could use."""
        return self.masks[job.key] if isinstance(job.key, GangKey) else np.zeros_like(self.total, dtype=np.bool_)


class Claims:
    """What is withheld during one round; equal questions are answered once."""

    def __init__(self, policy: QueuePolicy) -> None:
        self._policy = policy
        self._known: dict[frozenset[frozenset[str]], frozenset[str]] = {}

    def withheld(
        self, candidate: Waiting, blocked: Sequence[Blocked], now: datetime, *, nodes: Iterable[str] = ()
    ) -> frozenset[str]:
        """Nodes that a candidate must not take for the sake of those before it that are blocked.

        :param blocked: in rank order, each of which fits if the cluster is empty.
        :param nodes: names of all, which is what a policy under which nobody passes withholds.
        """
        if blocked and not self._policy.passing:
            return frozenset(nodes)
        heads = blocked[: self._policy.claims]
        if not heads:
            return frozenset()
        distinct = frozenset(one.usable for one in heads)
        if distinct not in self._known:
            self._known[distinct] = self._find(candidate, heads, now)
        return self._known[distinct]

    def _find(self, candidate: Waiting, heads: Sequence[Blocked], now: datetime) -> frozenset[str]:
        names = sorted(frozenset[str]().union(*{one.usable for one in heads}))
        number = {name: i for i, name in enumerate(names)}
        floor = _Floor(
            now.timestamp(),
            total=np.ones(len(names), dtype=np.int32),
            free=np.zeros(len(names), dtype=np.int32),
            masks={one.waiting.key: _mask(one.usable, number) for one in heads},
        )
        holds = self._policy.holds([one.waiting for one in heads], floor)
        keep = next(iter(self._policy.offers(candidate, floor, holds)), floor.total)
        return frozenset() if keep is None else frozenset(names[i] for i in np.flatnonzero(keep))


def _mask(usable: frozenset[str], number: Mapping[str, int]) -> BoolArray:
    mask = np.zeros(len(number), dtype=np.bool_)
    mask[[number[name] for name in usable]] = True
    return mask
