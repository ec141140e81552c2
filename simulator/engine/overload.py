"""Runs that diverge are ended: what waits grows beyond all reason, or nothing ever ends.

Two rules, both on what happened, not on a forecast:

- *backlog*: the work that waits would keep the whole cluster busy for more than so many years;
- *no progress*: so many events in a row without the end of a job: jobs are stopped again and again before they end, or
  nodes fail and return while the jobs that are left can never start.
"""

from __future__ import annotations

from simulator.engine.job import UNITS
from simulator.engine.loop import Engine
from topology.errors import ArnoldError

YEAR = 365.25 * 86_400.0


class Diverged(ArnoldError):
    """A run that would not come to a useful end."""

    exit_code = 3


class Overload:
    """Watches one run.

    :param years: of backlog; 0 = any.
    :param events: in a row without the end of a job; 0 = any.
    """

    def __init__(self, *, years: float = 100.0, events: int = 1_000_000) -> None:
        self._years, self._events = years, events
        self._completed = -1
        self._since = 0
        self._looked = 0

    def verdict(self, engine: Engine) -> Diverged | None:
        """What to tell the user; ``None`` = the run is sound."""
        if engine.completed != self._completed:
            self._completed, self._since = engine.completed, engine.events
        if self._events and engine.events - self._since > self._events:
            return Diverged(
                f"no job has ended in {self._events:,} events: {len(engine.line):,} wait, {len(engine.live):,} run",
                where="overload",
                fix="make failures rarer or checkpoints more frequent, or give the jobs a cluster that can hold them",
            )
        if self._years and engine.events - self._looked >= 10_000:
            self._looked = engine.events
            return self._backlog(engine)
        return None

    def _backlog(self, engine: Engine) -> Diverged | None:
        waiting = sum(job.units * job.left for job in engine.line)
        years = waiting / max(1, engine.room.capacity) / YEAR
        if years <= self._years:
            return None
        gpus = engine.room.capacity / UNITS
        return Diverged(
            f"{len(engine.line):,} jobs wait with work for {years:,.0f} years of all {gpus:,.0f} GPUs",
            where="overload",
            fix="give a larger cluster, lower --scale-load, or allow more with --max-backlog-years",
        )
