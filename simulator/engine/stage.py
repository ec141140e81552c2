"""What the parts of the engine know of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from scheduler.queue.types import Floor, QueuePolicy
from simulator.engine.job import SimJob
from simulator.engine.line import Line
from simulator.engine.room import Found, Room

Why = Literal["failure", "preemption"]
"""Why a job lost its nodes."""


class Stage(Floor, Protocol):
    """A cluster with the jobs that wait and run, at an instant."""

    @property
    def policy(self) -> QueuePolicy:
        """Who decides."""

    @property
    def room(self) -> Room:
        """The cluster."""

    @property
    def line(self) -> Line:
        """Who waits."""

    @property
    def live(self) -> Mapping[int, SimJob]:
        """Who runs, by key."""

    def start(self, job: SimJob, found: Found) -> None:
        """A job gets its nodes and leaves the queue."""

    def stop(self, job: SimJob, why: Why) -> None:
        """A job loses its nodes and queues again."""
