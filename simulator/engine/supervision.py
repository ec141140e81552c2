"""What watches a run while it goes on: progress, checkpoints, Ctrl-C, and the end of runs that diverge.

Two rules say that a run diverges, both on what happened, not on a forecast:

- *backlog*: the work that waits would keep the whole cluster busy for more than so many years;
- *no progress*: so many events in a row without the end of a job: jobs are stopped again and again before they end, or
  nodes fail and return while the jobs that are left can never start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.engine.sim_job import UNITS
from topology.errors import ArnoldError

if TYPE_CHECKING:
    from simulator.engine.engine import Engine

YEAR = 365.25 * 86_400.0

LOOK = 10_000
"""Events between two looks at the backlog: adding it up takes as long as some hundred events."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What is to happen while a run goes on.

    :param progress: called about ten times a second.
    :param interrupted: whether the run is to stop now.
    :param save: writes a checkpoint; ``None`` = none is written.
    :param every: seconds of wall time between checkpoints.
    """

    progress: Callable[[Engine], None] | None = None
    interrupted: Callable[[], bool] = bool
    save: Callable[[Engine], None] | None = None
    every: float = 60.0


class Diverged(ArnoldError):
    """A run that would not come to a useful end."""

    exit_code = 3


class Overload:
    """Watches one run for signs that it diverges.

    :param years: of backlog; 0 = any.
    :param events: in a row without the end of a job; 0 = any.
    """

    def __init__(self, *, years: float = 100.0, events: int = 1_000_000) -> None:
        self._years, self._events = years, events
        self._completed = -1
        self._since = 0
        self._looked = 0

    def verdict(self, engine: Engine) -> Diverged | None:
        """Return what to tell the user; ``None`` = the run is sound."""
        if engine.completed != self._completed:
            self._completed, self._since = engine.completed, engine.events
        if self._events and engine.events - self._since > self._events:
            waiting, running = len(engine.backlog), len(engine.active)
            return Diverged(
                f"no job has ended in {self._events:,} events: {waiting:,} wait, {running:,} run",
                where="overload",
                fix="make failures rarer or checkpoints more frequent, or give the jobs a cluster that can hold them",
            )
        if self._years and engine.events - self._looked >= LOOK:
            self._looked = engine.events
            return self._too_much_waits(engine)
        return None

    def _too_much_waits(self, engine: Engine) -> Diverged | None:
        waiting = sum(job.units * job.left for job in engine.backlog)
        years = waiting / max(1, engine.pool.capacity) / YEAR
        if years <= self._years:
            return None
        gpus = engine.pool.capacity / UNITS
        return Diverged(
            f"{len(engine.backlog):,} jobs wait with work for {years:,.0f} years of all {gpus:,.0f} GPUs",
            where="overload",
            fix="give a larger cluster, lower --scale-load, or allow more with --max-backlog-years",
        )
