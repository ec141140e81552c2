"""Where other rooms reach into the engine: paces, incidents, what an interruption costs.

The engine knows these protocols alone; what is behind them is handed to it when a run is put together.  What keeps a
state of its own (:class:`Incidents`, :class:`Pace`) also saves and restores it, for checkpoints.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from simulator.sim_job import SimJob

Why = Literal["failure", "preemption"]  # Why a job lost its nodes


class Kept(Protocol):
    """Something of a run that a checkpoint keeps."""

    def state(self) -> Any:
        """Return what :meth:`restore` needs, as JSON."""

    def restore(self, state: Any) -> None:
        """Go on where :meth:`state` was asked."""


class Pace(Protocol):
    """How fast jobs run: *relative step time*, seconds that a second of work takes, above 0.

    Each method returns the jobs whose pace is another from now on, by key.  A job that starts has the pace 1 unless it
    is among them.
    """

    def started(self, job: SimJob) -> Mapping[int, float]:
        """Return the paces that change when a job has its places."""

    def stopped(self, job: SimJob) -> Mapping[int, float]:
        """Return the paces that change when a job is about to leave its places."""

    def slowed(self, node: int, slowdown: float) -> Mapping[int, float]:
        """Return the paces that change when a node becomes slow by that factor, or healthy again (1.0)."""

    def state(self) -> Any:
        """Return what :meth:`restore` needs besides the jobs that run, as JSON."""

    def restore(self, state: Any, running: Iterable[SimJob]) -> None:
        """Go on where :meth:`state` was asked."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Something happens to a node."""

    time: float
    # down: no job may use it, and those on it are interrupted; up: it is back; slow: it is slow from now on by slowdown
    # (1.0 = healthy again), and the scheduler does not know it; flag: the scheduler knows of a slowdown (1.0 = the flag
    # is lifted); drain: no job may use it from now on, and those on it go on
    kind: Literal["down", "up", "slow", "flag", "drain"]
    node: int
    slowdown: float = 1.0

    @property
    def gives(self) -> bool:
        """Whether room can only grow by it: it comes before those that take room away, at one instant."""
        return self.kind == "up" or (self.kind in ("slow", "flag") and self.slowdown == 1.0)


class FlagSpan(NamedTuple):
    """When a node is flagged while a trace is replayed: seconds on the trace's clock, of a history since the first
    submission.
    """

    node: int  # its index
    begin: float  # -inf = it was flagged before the trace
    end: float
    slowdown: float  # ``FAULTY`` = no job may use the node


class Incidents(Kept, Protocol):
    """What happens to nodes, in order of time."""

    def next(self) -> Incident | None:
        """Return the next one, not before the one before; ``None`` = nothing happens any more.

        Asked once at the start and again whenever one has happened.
        """


class Setback(NamedTuple):
    """What an interruption costs."""

    kept: float  # seconds of work that are safe, of those that the job has done in all
    delay: float  # seconds on its nodes before it works again, when it starts again


class Recovery(Protocol):
    """What a job has left after an interruption."""

    def saved(self, job: SimJob, *, done: float) -> float:
        """Return the seconds of work that are safe, of those that it has done in all."""

    def interrupted(self, job: SimJob, *, done: float, why: Why) -> Setback:
        """A job is stopped.

        :param done: seconds of work that it has done in all, those of earlier attempts included that were kept.
        """


class FromScratch:
    """Jobs keep nothing: no trace says when they wrote checkpoints."""

    def saved(self, job: SimJob, *, done: float) -> float:  # noqa: ARG002
        """Nothing."""
        return 0.0

    def interrupted(self, job: SimJob, *, done: float, why: Why) -> Setback:  # noqa: ARG002
        """All is lost."""
        return Setback(0.0, 0.0)


class SavedByRound:
    """Jobs that a policy stops at the end of a round keep all: they know when it is, and save before.

    :param inner: what else an interruption costs.
    :param delay: seconds on its nodes before a job that was stopped works again.
    """

    def __init__(self, inner: Recovery | None, delay: float) -> None:
        self._inner, self._delay = inner or FromScratch(), delay

    def saved(self, job: SimJob, *, done: float) -> float:
        """What the inner one says."""
        return self._inner.saved(job, done=done)

    def interrupted(self, job: SimJob, *, done: float, why: Why) -> Setback:
        """Nothing is lost of what a policy stops."""
        if why == "preemption":
            return Setback(done, self._delay)
        return self._inner.interrupted(job, done=done, why=why)
