"""What a run forgets as it goes on: where attempts ran that were cut short, and what happened to nodes.

A job knows its last places alone.  The log stands before what decides about interruptions and before what happens to
nodes, passes everything on unchanged and notes it; it is an observer too, so that checkpoints keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from simulator.engine.engine import Engine
from simulator.engine.hooks import Incident, Incidents, Recovery, Setback, Why
from simulator.engine.sim_job import SimJob
from simulator.engine.simulated_cluster import SimulatedCluster


class CutShort(NamedTuple):
    """An attempt that did not end by itself."""

    key: int  # of the job
    begin: float  # when it got its nodes
    end: float  # when it lost them
    places: tuple[int, ...]  # its nodes
    spread: tuple[int, int] | None  # DP and PP spread; None of a job on one node
    delay: float  # seconds on its nodes before it worked
    before: float  # seconds of work that were safe when it started
    done: float  # seconds of work that it had done in all when it was stopped
    kept: float  # seconds of work that were safe afterwards
    why: Why


class AttemptLog:
    """Attempts that were cut short; and, where anything happens to nodes, a log of it."""

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery
        self.cut_short: list[CutShort] = []
        self.nodes: NodeLog | None = None
        self._kept: dict[int, float] = {}

    @property
    def incidents(self) -> Sequence[Incident]:
        """Return what happened to nodes, and at the end what would have come next."""
        return () if self.nodes is None else self.nodes.seen

    def interrupted(self, job: SimJob, *, done: float, why: Why) -> Setback:
        """Return what the recovery says, and note it."""
        setback = self._recovery.interrupted(job, done=done, why=why)
        begin, end = job.runs[-1]
        before = self._kept.get(job.key, 0.0)
        kept = self._kept[job.key] = min(max(setback.kept, 0.0), job.record.duration)
        self.cut_short.append(
            CutShort(job.key, begin, end, tuple(job.places), job.spread, job.delay, before, done, kept, why)
        )
        return setback

    def kept(self, key: int) -> float:
        """Return the seconds of work of a job that were safe when its last attempt started."""
        return self._kept.get(key, 0.0)

    def elapsed(self, cluster: SimulatedCluster, until: float) -> None:
        """Measure nothing."""

    def state(self) -> Any:
        """Return all that was noted."""
        return [list(one) for one in self.cut_short]

    def restore(self, state: Any) -> None:
        """Go on with that."""
        self.cut_short = [_cut_short(row) for row in state]
        self._kept = {one.key: one.kept for one in self.cut_short}


class NodeLog:
    """Incidents, passed on as they come."""

    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents
        self.seen: list[Incident] = []

    def next(self) -> Incident | None:
        """Return the next one, and note it."""
        incident = self._incidents.next()
        if incident is not None:
            self.seen.append(incident)
        return incident

    def state(self) -> Any:
        """Return what was seen, and the state of what stands behind."""
        seen = [[one.time, one.kind, one.node, one.slowdown] for one in self.seen]
        return {"seen": seen, "behind": self._incidents.state()}

    def restore(self, state: Any) -> None:
        """Go on with those."""
        self.seen = [Incident(*row) for row in state["seen"]]
        self._incidents.restore(state["behind"])


def log_attempts(engine: Engine) -> AttemptLog:
    """Let a log be kept of a run that has not begun."""
    log = AttemptLog(engine.recovery)
    engine.recovery = log
    if engine.incidents is not None:
        log.nodes = engine.incidents = NodeLog(engine.incidents)
    engine.observers = (*engine.observers, log)
    return log


def _cut_short(row: list[Any]) -> CutShort:
    one = CutShort(*row)
    return one._replace(places=tuple(one.places), spread=None if one.spread is None else (one.spread[0], one.spread[1]))
