"""Checkpoints make jobs slower: a second of work takes 1 + w/d seconds, whatever else slows the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simulator.engine.hooks import Pace
from simulator.engine.sim_job import SimJob
from simulator.failures.cluster_failures import FailureSettings


class CheckpointPace:
    """The pace of jobs that write checkpoints, over the pace that somebody else gives them.

    :param inner: what communication and slow nodes make of it; ``None`` = nothing slows jobs.
    """

    def __init__(self, settings: FailureSettings, inner: Pace | None = None) -> None:
        self._settings = settings
        self._inner = inner
        self._overhead: dict[int, float] = {}

    def started(self, job: SimJob) -> Mapping[int, float]:
        """Return the job's own overhead, and whatever its start changes for others."""
        self._overhead[job.key] = self._settings.overhead(job)
        return self._with({job.key: 1.0, **(self._inner.started(job) if self._inner else {})})

    def stopped(self, job: SimJob) -> Mapping[int, float]:
        """Return whatever its end changes for others."""
        self._overhead.pop(job.key, None)
        return self._with(self._inner.stopped(job) if self._inner else {})

    def slowed(self, node: int, slowdown: float) -> Mapping[int, float]:
        """As the inner pace says."""
        return self._with(self._inner.slowed(node, slowdown) if self._inner else {})

    def state(self) -> Any:
        """That of the inner pace; overheads follow from the jobs that run."""
        return self._inner.state() if self._inner else None

    def restore(self, state: Any, running: Iterable[SimJob]) -> None:
        """Go on."""
        jobs = list(running)
        self._overhead = {job.key: self._settings.overhead(job) for job in jobs}
        if self._inner:
            self._inner.restore(state, jobs)

    def _with(self, paces: Mapping[int, float]) -> dict[int, float]:
        return {key: pace * self._overhead.get(key, 1.0) for key, pace in paces.items()}
