"""A job of the trace as the simulation goes on: what a policy asks about it, and what has happened to it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields
from enum import IntEnum
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

from scheduler.queue.run_times import Prediction
from simulator.job_record import JobRecord

if TYPE_CHECKING:
    from scheduler.queue.dispatch import Allocation

UNITS = 100  # Units of a GPU: GPUs are counted in hundredths, so that shares add up exactly


class JobState(IntEnum):
    """How far a job is."""

    COMING = 0
    WAITING = 1
    RUNNING = 2
    DONE = 3


@dataclass(slots=True, eq=False, kw_only=True)
class JobProgress:
    """What has happened to a job; a checkpoint keeps this."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"ser_json_inf_nan": "strings"}
    """JSON has no word for infinite times."""

    key: int  # its number, in order of submission
    predicted: float  # seconds that its next attempt is expected to take; and that it will hardly exceed
    predicted_high: float
    state: JobState = JobState.COMING
    # seconds of work that are left, at the pace of the trace, when its current or next attempt starts
    left: float = 0.0
    delay: float = 0.0  # seconds that its next attempt takes before it works
    pace: float = 1.0  # relative step time of the current attempt: seconds for a second of work, above 0
    since: float = 0.0  # when left was last brought up to date, in an attempt
    places: Sequence[int] = ()  # its nodes
    started: float = inf
    ends: float = inf  # when the scheduler expects it to end
    first_start: float = inf  # when it started first
    end: float = inf  # when it ended
    version: int = 0  # of its next event; others are void
    runs: list[tuple[float, float]] = field(default_factory=list)  # attempts that were cut short: begin and end
    # DP and PP spread of its last placement; none of a job on one node or without places
    spread: tuple[int, int] | None = None
    leaving: bool = False  # whether it was stopped, works no more, and has not given its nodes back yet
    # how it lies, or is to lie; it changes where a policy in rounds says so
    nodes: int = 0
    gpus: int = 0  # units on each
    gpu_types: tuple[str, ...] | None = None
    mix_types: bool = False
    # under a policy in rounds, seconds by type of GPU: that it was owed, and that it had nodes, up to a moment
    owed: dict[str, float] = field(default_factory=dict)
    had: dict[str, float] = field(default_factory=dict)
    counted: float = 0.0


@dataclass(frozen=True, slots=True)
class Need:
    """What a job asks a pool for."""

    nodes: int  # how many
    gpus: int  # units on each
    units: int  # units in all


@dataclass(slots=True, eq=False, kw_only=True)
class SimJob(JobProgress):
    """A ``Waiting`` and a ``Running`` of ``scheduler.queue``."""

    record: JobRecord
    need: InitVar[Need]
    prediction: Prediction  # of the whole job, when it was submitted
    reservation: str = ""  # name of the reservation that was made for it
    namespace: str = ""  # whose it is, where namespaces share the cluster

    # These follow from what the job is made of.
    predicted: float = field(init=False)
    predicted_high: float = field(init=False)
    units: int = field(init=False)  # units in all
    submitted: float = field(init=False)
    priority: int = field(init=False)
    preemptible: bool = field(init=False)

    def __post_init__(self, need: Need) -> None:
        record, prediction = self.record, self.prediction
        self.predicted, self.predicted_high = prediction.seconds, prediction.high
        self.nodes, self.gpus, self.units = need.nodes, need.gpus, need.units
        self.submitted, self.left = float(record.submit), float(record.duration)
        self.priority, self.preemptible = record.priority, record.preemptible
        self.gpu_types, self.mix_types = record.gpu_types, record.mix_types

    @property
    def progress(self) -> JobProgress:
        """What has happened to it, as a value of its own."""
        return JobProgress(**{kept.name: getattr(self, kept.name) for kept in fields(JobProgress)})

    @progress.setter
    def progress(self, saved: JobProgress) -> None:
        for kept in fields(JobProgress):
            setattr(self, kept.name, getattr(saved, kept.name))

    @property
    def allocation(self) -> Allocation:
        """How it lies."""
        from scheduler.queue.dispatch import Allocation  # not at the top: options of failures come without numpy

        return Allocation(self.gpu_types or (), self.nodes, self.gpus)

    @allocation.setter
    def allocation(self, way: Allocation) -> None:
        self.gpu_types, self.mix_types = way.gpu_types, len(way.gpu_types) > 1
        self.nodes, self.gpus = way.nodes, way.gpus

    @property
    def standing(self) -> Mapping[str, tuple[float, float]]:
        """Seconds on each type of GPU that it was owed, and that it had, up to the beginning of a round."""
        return {name: (self.owed.get(name, 0.0), self.had.get(name, 0.0)) for name in {**self.owed, **self.had}}

    def count_held(self, now: float) -> None:
        """Count the time that it has its nodes as had, up to now; that on several types for the first of them."""
        name = (self.gpu_types or ("",))[0]
        self.had[name] = self.had.get(name, 0.0) + now - max(self.counted, self.started)
        self.counted = now

    def foresee(self, kept: float) -> None:
        """Predict the next attempt, when so many seconds of work are safe."""
        self.predicted = max(0.0, self.prediction.seconds - kept) + self.delay
        self.predicted_high = max(0.0, self.prediction.high - kept) + self.delay


def picky(record: JobRecord, each: int) -> bool:
    """Return whether a gang refuses nodes that are free for others of its size: by a constraint, or as slow ones.

    :param each: units that it holds of each node.
    """
    spans_nodes = record.parallelism is not None and record.parallelism.tp * UNITS > each
    return bool(record.holds) or record.avoid == "strict" or spans_nodes


def kind_of(job: SimJob) -> Hashable:
    """Return what a policy's offers and a pool look at, besides the predicted times."""
    asks = job.record.asks if picky(job.record, job.gpus) else (job.gpu_types, job.mix_types)
    return job.nodes, job.gpus, job.preemptible, job.reservation, asks
