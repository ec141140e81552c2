"""What the tasks of the controller share: the cache, the way to the API server, the solver, and when they may act."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import TypeVar

from extender.cluster_api.events import EventRecorder
from extender.cluster_cache import ClusterCache
from extender.controller.api_writer import Writer
from extender.controller.pacing import Timeouts
from extender.extender_metrics import Metrics
from scheduler.placement.types import Limits
from scheduler.queue.policy import QueuePolicy

Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(frozen=True, kw_only=True)
class Dependencies:
    """What the tasks of the controller share."""

    state: ClusterCache
    writer: Writer
    events: EventRecorder
    metrics: Metrics
    policy: QueuePolicy  # the order of gangs that wait
    limits: Limits
    terms: Timeouts
    leads: Callable[[], bool]  # whether this replica leads, at this very moment
    synced: Callable[[], bool]  # whether the cache holds the cluster
    now: Callable[[], datetime] = field(default=partial(datetime.now, UTC))
    # held while the solver is asked, and until its answer is in the cache: one question at a time
    solver: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def active(self) -> bool:
        """Whether this replica may decide now."""
        return self.leads() and self.synced()

    async def ask(self, solve: Callable[[Q, Limits], A], question: Q, *, what: str, found: Callable[[A], bool]) -> A:
        """Ask the solver, in a thread, and count in metrics whether the answer is what was asked for."""
        started = perf_counter()
        answer = await asyncio.to_thread(solve, question, self.limits)
        outcome = what if found(answer) else f"{what}-no-room"
        self.metrics.plan_seconds.labels(outcome=outcome).observe(perf_counter() - started)
        return answer
