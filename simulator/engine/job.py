"""A job of the trace as the simulation goes on: what a policy asks about it, and what has happened to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf

from scheduler.queue.types import Rank
from simulator.job_record import JobRecord
from simulator.prediction.types import Prediction

UNITS = 100
"""Units of a GPU: GPUs are counted in hundredths, so that shares add up exactly."""


class State(IntEnum):
    """How far a job is."""

    COMING = 0
    WAITING = 1
    RUNNING = 2
    DONE = 3


@dataclass(slots=True, eq=False)
class SimJob:
    """It is a ``Waiting`` and a ``Running`` of ``scheduler.queue``.

    :param key: its number, in order of submission.
    :param nodes: nodes that it asks the room for.
    :param gpus: units on each.
    :param units: units in all.
    :param prediction: of the whole job, when it was submitted.
    :param predicted: seconds that its next attempt is expected to take; and that it will hardly exceed.
    :param reservation: name of the reservation that was made for it.
    :param left: seconds of work that are left, at the pace of the trace, when its current or next attempt starts.
    :param delay: seconds that its next attempt takes before it works.
    :param pace: relative step time of the current attempt: seconds for a second of work, at least 1.
    :param since: when ``left`` was last brought up to date, in an attempt.
    :param places: its nodes.
    :param ends: when the scheduler expects it to end.
    :param first_start: when it started first.
    :param end: when it ended.
    :param version: of its entry in the agenda; others are void.
    :param runs: attempts that were cut short: begin and end.
    :param spread: DP and PP spread of its last placement; none of a job on one node or without places.
    """

    record: JobRecord
    key: int
    nodes: int
    gpus: int
    units: int
    submitted: float
    priority: int
    preemptible: bool
    prediction: Prediction
    predicted: float
    predicted_high: float
    reservation: str = ""
    rank: Rank = ()
    state: State = State.COMING
    left: float = 0.0
    delay: float = 0.0
    pace: float = 1.0
    since: float = 0.0
    places: Sequence[int] = ()
    started: float = inf
    ends: float = inf
    first_start: float = inf
    end: float = inf
    version: int = 0
    runs: list[tuple[float, float]] = field(default_factory=list)
    spread: tuple[int, int] | None = None

    def foresee(self, kept: float) -> None:
        """Predict the next attempt, when so many seconds of work are safe."""
        self.predicted = max(0.0, self.prediction.seconds - kept) + self.delay
        self.predicted_high = max(0.0, self.prediction.high - kept) + self.delay
